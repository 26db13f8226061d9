//! Credentials: rotation, the wrong account, 401 and 404.

use std::collections::BTreeMap;

use leasehold_core::{AccountId, Attention, Caller, Ending, State};
use leasehold_keeper::{CommandEvent, ExecuteRequest, KeeperError, RecoveryScope};
use leasehold_ports::{Ledger as _, ProcessEnd, Work};
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;
use secrecy::SecretString;

use crate::harness::{Scene, Setup, TestNode, owner_a, owner_of, play, sandbox_of};

/// A provider that wants a key. The scene has `key-1` of the account in which everything is made.
fn with_keys() -> Setup {
    let world = WorldSettings { needs_key: true, ..WorldSettings::plain() };
    Setup { world, ..Setup::default() }
}

/// From now on `key` is the only one at hand; at the provider it belongs to `account`.
fn rotate(scene: &Scene, key: &str, account: &AccountId) {
    let home = scene.home();
    home.world().add_key(key, account);
    scene.keys().take_away(&home.place().endpoint);
    scene.keys().give(&home.place().endpoint, key);
}

fn other_account() -> AccountId {
    AccountId::new("account-b").expect("an account")
}

fn is_waiting_for_a_key(released: &Result<leasehold_core::Receipt, KeeperError>) {
    match released {
        Err(KeeperError::CleanupUnconfirmed { problem, .. }) => {
            assert!(problem.contains("key"), "{problem}");
        }
        other => panic!("it is not told what is missing: {other:?}"),
    }
}

#[test]
fn f1_an_attestation_that_is_refused_leaves_a_precise_state_that_is_retried() {
    play(with_keys(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        // A node that has never asked whose key it has asks, and gets 401 again and again.
        let fresh = scene.start_node().await;
        home.fail_next(Operation::Account, 6, Fault::Unauthorized);

        is_waiting_for_a_key(&fresh.destroy(&lease.id, &owner_a()).await);

        let row = scene.row(&lease.id).await;
        assert!(row.is_quarantined());
        assert!(row.attention.contains(&Attention::WaitingForKey));
        assert_eq!(home.sent(Operation::Destroy), 0);
        assert_eq!(home.alive(), [sandbox_of(&lease)]);

        // It goes on by itself as soon as the account is told.
        scene.settle().await;
        assert_eq!(scene.row(&lease.id).await.receipt.unwrap().ending, Ending::Destroyed);
        assert!(home.alive().is_empty());
    });
}

#[test]
fn f2_cleanup_survives_the_rotation_of_a_key_of_the_same_account() {
    for same_node in [true, false] {
        play(with_keys(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            rotate(&scene, "key-2", &home.place().account);
            home.world().set_key_valid("key-1", false);
            let node = if same_node { node } else { scene.start_node().await };

            let receipt = node.destroy(&lease.id, &owner_a()).await.unwrap();

            assert_eq!(receipt.ending, Ending::Destroyed);
            assert!(home.alive().is_empty());
        });
    }
}

#[test]
fn f2_a_key_of_another_account_releases_nothing_and_the_claim_is_kept() {
    for same_node in [true, false] {
        play(with_keys(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            rotate(&scene, "key-2", &other_account());
            let node = if same_node { node } else { scene.start_node().await };

            is_waiting_for_a_key(&node.destroy(&lease.id, &owner_a()).await);

            let row = scene.row(&lease.id).await;
            assert!(row.is_open() && row.pin == lease.pin);
            assert_eq!(home.sent(Operation::Destroy), 0);
            assert_eq!(home.alive(), [sandbox_of(&lease)]);

            // The right key comes back beside the wrong one.
            scene.keys().give(&home.place().endpoint, "key-1");
            scene.settle().await;
            assert_eq!(scene.row(&lease.id).await.receipt.unwrap().ending, Ending::Destroyed);
        });
    }
}

/// What could take the 404 of another account for an end.
#[derive(Clone, Copy, Debug)]
enum Look {
    Destroy,
    Expiry,
    Resume,
    Execute,
    Sweep,
}

async fn look(how: Look, scene: &Scene, node: &TestNode, lease: &leasehold_core::Lease) {
    match how {
        Look::Destroy => {
            node.destroy(&lease.id, &owner_a()).await.expect_err("no proof");
        }
        Look::Expiry => {
            scene.pass(lease.life_until.since(scene.now())).await;
            node.keeper.recover(RecoveryScope::Everything).await.expect("a report");
        }
        Look::Resume => {
            node.resume(lease, &owner_a()).await.expect_err("no access");
        }
        Look::Execute => {
            node.run(lease, &owner_a(), &["true"]).await.expect_err("no access");
        }
        Look::Sweep => {
            let swept = node.keeper.sweep(&[]).await.expect("a report");
            assert_eq!((swept.seen, swept.incomplete.len()), (0, 1));
        }
    }
}

#[test]
fn f3_what_another_account_does_not_see_is_not_gone() {
    for how in [Look::Destroy, Look::Expiry, Look::Resume, Look::Execute, Look::Sweep] {
        play(with_keys(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            if matches!(how, Look::Resume) {
                node.park(&lease, &owner_a()).await.unwrap();
            }
            let before = scene.row(&lease.id).await;
            let calls = home.sent_at_all();
            rotate(&scene, "key-b", &other_account());

            for node in [node.clone(), scene.start_node().await] {
                look(how, &scene, &node, &lease).await;
            }

            // Account B was asked who it is, and nothing else.
            assert_eq!(home.sent_at_all() - calls, home.sent(Operation::Account) - 1);
            let row = scene.row(&lease.id).await;
            assert!(row.is_open() && row.pin == lease.pin && row.receipt.is_none());
            match how {
                Look::Destroy | Look::Expiry => assert!(row.is_quarantined()),
                _ => assert_eq!(row.state, before.state),
            }
            assert_eq!(home.alive(), [sandbox_of(&lease)]);
        });
    }
}

#[test]
fn f5_a_rotated_key_reaches_what_is_active_and_what_is_parked_at_once() {
    play(with_keys(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let active = node.acquire(scene.request()).await.unwrap();
        let parked = node.acquire(scene.request()).await.unwrap();
        node.park(&parked, &owner_a()).await.unwrap();

        rotate(&scene, "key-2", &home.place().account);
        home.world().set_key_valid("key-1", false);

        node.run(&active, &owner_of(&active), &["true"]).await.unwrap();
        let resumed = node.resume(&parked, &owner_a()).await.unwrap();
        node.run(&resumed, &owner_of(&resumed), &["true"]).await.unwrap();
        assert_eq!(home.ever_made(), 2);
        assert_eq!(resumed.pin, parked.pin);
    });
}

#[test]
fn f9_a_secret_in_the_environment_of_a_command_is_on_no_record() {
    const CANARY: &str = "canary-2f0c9a7d";
    play(with_keys(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        let secret = || SecretString::from(CANARY.to_owned());
        let request = |program: &str| ExecuteRequest {
            work: Work::Program(vec![program.to_owned()]),
            directory: None,
            environment: BTreeMap::from([("TOKEN".to_owned(), secret())]),
            input: false,
        };
        let owner: Caller = owner_of(&lease);
        let mut told = vec![format!("{:?}", request("true"))];

        let mut execution = node.keeper.execute(&lease.id, &owner, request("true")).await.unwrap();
        loop {
            let event = execution.next().await.unwrap();
            told.push(format!("{event:?}"));
            if event == CommandEvent::Ended(ProcessEnd::Exited(0)) {
                break;
            }
        }
        // Failures tell what they were asked for, too.
        for fault in [Fault::LostAnswer, Fault::Unreachable, Fault::Refused] {
            home.fail_next(Operation::Start, 1, fault);
            let failed = node.keeper.execute(&lease.id, &owner, request("true")).await;
            let error = failed.err().unwrap();
            told.push(format!("{error} {error:?}"));
        }
        let missing = node.keeper.execute(&lease.id, &owner, request("no-such-program")).await;
        told.push(format!("{:?}", missing.err().unwrap()));
        node.destroy(&lease.id, &owner).await.unwrap();

        for row in scene.all_rows().await {
            told.push(format!("{row:?}"));
            let history = scene.ledger().events(&row.id, 0, 1_000).await.unwrap();
            assert!(!history.events.is_empty());
            told.push(format!("{:?}", history.events));
        }
        told.push(scene.journal());
        for text in told {
            assert!(!text.contains(CANARY), "{text}");
        }
        assert_eq!(scene.row(&lease.id).await.state, State::Closed);
    });
}
