//! Cleanup: confirmation, states that are stuck, retries.

mod failed_acquires;

use std::time::Duration;

use futures_util::future::join;
use leasehold_core::{Caller, Ending, LeaseId, Receipt, Refusal, State};
use leasehold_keeper::{AcquireRequest, KeeperError, RecoveryScope, Settings};
use leasehold_ports::Limits;
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;

use crate::harness::{
    CommitFault, Moment, Scene, Setup, TestNode, key, owner_a, owner_of, play, sandbox_of,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn capped(cap: u32) -> Setup {
    let limits = Limits { per_owner: cap, per_home: 1_000 };
    Setup { settings: Settings { limits, ..Settings::default() }, ..Setup::default() }
}

fn operator() -> Caller {
    Caller::Operator("ada".to_owned())
}

/// Waits until the removal of the lease was tried in vain so often.
async fn tried(scene: &Scene, lease: &LeaseId, tries: u32) {
    for _ in 0..10_000 {
        let row = scene.row(lease).await;
        if row.cleanup.is_some_and(|cleanup| cleanup.tries >= tries) {
            return;
        }
        scene.pass(SECOND).await;
    }
    panic!("{lease} was not tried {tries} times");
}

#[test]
fn j1_commands_that_cannot_be_stopped_hold_up_a_stop_for_a_bounded_time() {
    for fault in [Fault::Unconfirmed, Fault::LostRequest, Fault::Unreachable] {
        play(Setup::default(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            for released in [true, false] {
                let lease = node.acquire(scene.request()).await.unwrap();
                let owner = owner_of(&lease);
                home.fail_next(Operation::Start, 1, Fault::Stubborn);
                let _hangs = node.start(&lease, &owner, &["sleep", "9999999"]).await.unwrap();
                home.fail_next(Operation::Terminate, 1, fault);
                let began = scene.elapsed();

                let receipt = if released {
                    let parked = node.keeper.park(&lease.id, &owner).await.unwrap();
                    let leasehold_keeper::Parked::Removed(receipt) = parked else {
                        panic!("it was kept: {parked:?}");
                    };
                    receipt
                } else {
                    node.destroy(&lease.id, &owner).await.unwrap()
                };

                assert_eq!(receipt.ending, Ending::Destroyed);
                // The drain and three cleans of ten seconds each; a destroy waits for none of them.
                let bound = if released { 45 * SECOND } else { SECOND };
                assert!(scene.elapsed() - began < bound, "{:?}", scene.elapsed() - began);
                assert!(home.alive().is_empty());
                home.faults().quiet();
            }
        });
    }
}

#[test]
fn j1_a_provider_that_is_down_for_six_attempts_and_two_restarts_removes_it_in_the_end() {
    play(Setup::default(), |scene| async move {
        let home = scene.home();
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        home.fail_next(Operation::Destroy, 6, Fault::Unreachable);
        let destroy = {
            let (node, id) = (node.clone(), lease.id.clone());
            scene.spawn(&node.clone(), async move { node.destroy(&id, &owner_a()).await })
        };
        tried(&scene, &lease.id, 2).await;
        let since = scene.row(&lease.id).await.cleanup.unwrap().since;

        // Two restarts, the second in the middle of the outage too.
        scene.kill(&node).await;
        destroy.await.unwrap_err();
        let second = scene.start_node().await;
        scene.start_work(&second);
        tried(&scene, &lease.id, 4).await;
        scene.kill(&second).await;
        let third = scene.start_node().await;
        scene.start_work(&third);
        tried(&scene, &lease.id, 6).await;
        let row = scene.row(&lease.id).await;
        assert_eq!(row.cleanup.unwrap().since, since, "a restart makes it no younger");
        scene.pass(5 * MINUTE).await;

        let receipt = scene.row(&lease.id).await.receipt.unwrap();
        assert_eq!((receipt.ending, receipt.actor.as_str()), (Ending::Destroyed, "owner"));
        assert_eq!(home.sent(Operation::Destroy), 7);
        assert!(home.alive().is_empty());
    });
}

/// The ways into a removal.
#[derive(Clone, Copy, Debug)]
enum Way {
    Owner,
    Operator,
    Deadline,
    Undelivered,
    HolderDied,
    StopUnconfirmed,
    PreparationFailed,
}

/// Brings a lease into the removal, whose first try fails; the row is in `Destroying` then.
async fn begin_removal(way: Way, scene: &Scene, node: &TestNode) -> LeaseId {
    let home = scene.home();
    let dying = scene.start_node().await;
    let request = AcquireRequest {
        lifetime: if matches!(way, Way::Deadline) { MINUTE } else { 24 * HOUR },
        delivered: !matches!(way, Way::Undelivered),
        tethered: matches!(way, Way::HolderDied),
        ..scene.request()
    };
    home.fail_next(Operation::Destroy, 1, Fault::Unreachable);
    if matches!(way, Way::PreparationFailed) {
        home.fail_next(Operation::Prepare, 1, Fault::Refused);
    }
    let acquired = dying.acquire(request).await;
    let id = scene.open_rows().await[0].id.clone();
    match way {
        Way::Owner | Way::Operator => {
            let caller = if matches!(way, Way::Owner) { owner_a() } else { operator() };
            let (node, id) = (node.clone(), id.clone());
            drop(scene.spawn(&node.clone(), async move { node.destroy(&id, &caller).await }));
        }
        Way::StopUnconfirmed => {
            home.fail_next(Operation::Clean, 3, Fault::Unconfirmed);
            let (node, id) = (node.clone(), id.clone());
            let park = async move { node.keeper.park(&id, &owner_a()).await.map(drop) };
            drop(scene.spawn(&dying, park));
        }
        Way::HolderDied => scene.kill(&dying).await,
        Way::PreparationFailed => assert!(acquired.is_err(), "{acquired:?}"),
        Way::Deadline | Way::Undelivered => {}
    }
    scene.start_work(node);
    tried(scene, &id, 1).await;
    id
}

#[test]
fn j2_whatever_led_to_a_removal_its_retry_leaves_the_receipt_and_wakes_who_waits() {
    let ways = [
        Way::Owner,
        Way::Operator,
        Way::Deadline,
        Way::Undelivered,
        Way::HolderDied,
        Way::StopUnconfirmed,
        Way::PreparationFailed,
    ];
    for way in ways {
        play(Setup::default(), move |scene| async move {
            let node = scene.start_node().await;
            let id = begin_removal(way, &scene, &node).await;
            let other = scene.start_node().await;

            let owner = owner_a();
            let waits = join(node.destroy(&id, &owner), other.destroy(&id, &owner)).await;

            let receipt: Receipt = scene.row(&id).await.receipt.unwrap();
            assert_eq!(receipt.ending, Ending::Destroyed);
            assert!(!receipt.evidence.proof.is_empty());
            assert_eq!((waits.0.unwrap(), waits.1.unwrap()), (receipt.clone(), receipt));
            assert_eq!(scene.home().destroyed().len(), 1);
            assert!(scene.home().alive().is_empty());
        });
    }
}

#[test]
fn j5_a_delete_that_is_refused_and_then_hangs_for_an_hour_ages_visibly_and_is_confirmed() {
    let world = WorldSettings {
        always_slow_destroy: true,
        slow_destroy: HOUR,
        ended_readable: 3 * HOUR,
        ..WorldSettings::plain()
    };
    play(Setup { world, ..Setup::default() }, |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        home.fail_next(Operation::Destroy, 5, Fault::Busy);
        scene.start_work(&node);
        let began = scene.now();
        let asked = node.destroy(&lease.id, &owner_a()).await;
        assert!(matches!(asked, Err(KeeperError::CleanupUnconfirmed { .. })), "{asked:?}");

        let mut age = Duration::ZERO;
        let mut tries = 0;
        while home.exists(&sandbox_of(&lease)) {
            let row = scene.row(&lease.id).await;
            assert_eq!(row.state, State::Destroying);
            let cleanup = row.cleanup.clone().unwrap();
            let problem = cleanup.problem.unwrap_or_default();
            assert!(problem.contains("busy") || problem.contains("still at it"), "{problem}");
            assert!(scene.now().since(cleanup.since) >= age && cleanup.tries >= tries);
            let goes_on = row.claim.is_some() || row.retry_at + MINUTE >= scene.now();
            assert!(goes_on, "nobody goes on: {row:?}");
            age = scene.now().since(cleanup.since);
            tries = cleanup.tries;
            scene.pass(MINUTE).await;
        }
        assert!(age >= HOUR - MINUTE && tries > 5, "{age:?} {tries}");
        assert!(scene.now().since(began) >= HOUR);
        scene.pass(HOUR + MINUTE).await;

        assert_eq!(scene.row(&lease.id).await.receipt.unwrap().ending, Ending::Destroyed);
        assert_eq!(home.destroyed(), [sandbox_of(&lease)], "one removal");
    });
}

#[test]
fn j6_a_lease_whose_host_was_away_recovers_and_one_that_failed_can_be_destroyed() {
    for fault in [Fault::Unreachable, Fault::Failed, Fault::Vanished] {
        for ended_readable in [Duration::ZERO, HOUR] {
            let world = WorldSettings { ended_readable, ..WorldSettings::plain() };
            play(Setup { world, ..Setup::default() }, move |scene| async move {
                let (node, home) = (scene.start_node().await, scene.home());
                let lease = node.acquire(scene.request()).await.unwrap();
                let owner = owner_of(&lease);
                home.fail_next(Operation::Start, 1, fault);
                node.run(&lease, &owner, &["true"]).await.unwrap_err();
                scene.start_work(&node);
                scene.pass(5 * MINUTE).await;
                // What is away may come back; what two looks did not find is lost, and its row says so.
                let row = scene.row(&lease.id).await;
                if fault == Fault::Vanished {
                    assert_eq!(
                        row.receipt.as_ref().map(|receipt| receipt.ending),
                        Some(Ending::Lost)
                    );
                } else {
                    assert_eq!(row.state, State::Active);
                }

                let again = node.run(&lease, &owner, &["true"]).await;
                assert_eq!(again.is_ok(), fault == Fault::Unreachable, "{again:?}");
                let receipt = node.destroy(&lease.id, &owner).await.unwrap();

                let expected = match fault {
                    Fault::Vanished => Ending::Lost,
                    _ => Ending::Destroyed,
                };
                assert_eq!(receipt.ending, expected);
                assert!(home.alive().is_empty());
                assert!(scene.open_rows().await.is_empty());
            });
        }
    }
}

#[test]
fn j7_a_removal_that_is_refused_for_ever_is_tried_hourly_hogs_nothing_and_can_be_forgotten() {
    play(Setup { seeds: 4, ..Setup::default() }, |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let hopeless = node.acquire(scene.request()).await.unwrap();
        home.fail_next(Operation::Destroy, 1_000, Fault::Refused);
        node.destroy(&hopeless.id, &owner_a()).await.unwrap_err();
        scene.start_work(&node);
        scene.pass(3 * HOUR).await;

        for _ in 0..6 {
            let before = home.sent(Operation::Destroy);
            scene.pass(HOUR).await;
            let tries = home.sent(Operation::Destroy) - before;
            assert!((1..=2).contains(&tries), "{tries} tries in an hour");
        }
        // It is listed, with its reason and its next attempt.
        let row = scene.row(&hopeless.id).await;
        assert!(row.is_quarantined());
        assert!(row.cleanup.as_ref().unwrap().problem.is_some());
        assert!(row.retry_at <= scene.now() + HOUR);

        // Between two of its attempts others are removed at once.
        while scene.row(&hopeless.id).await.retry_at < scene.now() + 10 * MINUTE {
            scene.pass(MINUTE).await;
        }
        let other = node.acquire(scene.request()).await.unwrap();
        home.faults().quiet();
        let began = scene.elapsed();
        node.destroy(&other.id, &owner_a()).await.unwrap();
        assert!(scene.elapsed() - began < SECOND);
        home.fail_next(Operation::Destroy, 1_000, Fault::Refused);

        // Only an operator gives it up, on the record; what is left at the provider is reported.
        let refused = node.forget(&hopeless.id, "a mistake", &owner_a()).await;
        assert!(
            matches!(refused, Err(KeeperError::Refused(Refusal::OperatorOnly { .. }))),
            "{refused:?}"
        );
        let why = "the provider does not know its own id";
        let receipt = node.forget(&hopeless.id, why, &operator()).await.unwrap();
        assert_eq!((receipt.ending, &*receipt.evidence.proof), (Ending::Forgotten, why));
        let swept = node.keeper.sweep(&[home.place()]).await.unwrap();
        assert_eq!(swept.orphans.len(), 1);
        assert_eq!(swept.orphans[0].known_as.as_ref(), Some(&hopeless.id));
        let before = home.sent(Operation::Destroy);
        scene.pass(3 * HOUR).await;
        assert_eq!(home.sent(Operation::Destroy), before);
    });
}

#[test]
fn j8_what_may_exist_is_not_unwound_by_a_retry_that_fails_for_a_moment() {
    // The create was done; its node died, or the write of it failed, before that was on record.
    for loss in [None, Some(CommitFault::Unavailable), Some(CommitFault::LostAnswer)] {
        play(Setup::default(), move |scene| async move {
            let (node, other, home) =
                (scene.start_node().await, scene.start_node().await, scene.home());
            let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
            let answer = home.hold(Operation::Create, Moment::Answer);
            let first = {
                let (node, request) = (node.clone(), request.clone());
                scene.spawn(&node.clone(), async move { node.acquire(request).await })
            };
            answer.reached().await;
            if let Some(fault) = loss {
                node.fail_commit(State::Preparing, fault);
                answer.let_go();
                let _ = first.await.unwrap();
            }
            scene.kill(&node).await;
            let made = home.alive();
            assert_eq!(made.len(), 1);

            // Three looks in a row fail, and each time the row stands as it was.
            home.fail_next(Operation::FindByName, 3, Fault::Unreachable);
            for _ in 0..3 {
                other.keeper.recover(RecoveryScope::Everything).await.unwrap();
                let [row] = &scene.open_rows().await[..] else { panic!("the row was unwound") };
                assert!(!matches!(row.state, State::Destroying | State::Closed), "{row:?}");
                scene.pass(2 * SECOND).await;
            }
            home.faults().quiet();

            let lease = other.acquire(request).await.unwrap();
            assert_eq!([sandbox_of(&lease)], made[..]);
            assert_eq!(home.ever_made(), 1);
            assert!(home.destroyed().is_empty());
        });
    }
}

#[test]
fn j11_a_park_whose_node_is_gone_does_not_stay_half_done() {
    for moment in [Moment::Request, Moment::Answer] {
        play(Setup::default(), move |scene| async move {
            let (node, other, home) =
                (scene.start_node().await, scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            let cleaning = home.hold(Operation::Clean, moment);
            let park = {
                let (node, id) = (node.clone(), lease.id.clone());
                scene.spawn(&node.clone(), async move { node.keeper.park(&id, &owner_a()).await })
            };
            cleaning.reached().await;
            // Nobody can tell that it died: its claim runs out.
            scene.lose(&node).await;
            park.await.unwrap_err();
            assert_eq!(scene.row(&lease.id).await.state, State::Parking);

            scene.start_work(&other);
            scene.pass(2 * MINUTE).await;

            assert_eq!(scene.row(&lease.id).await.state, State::Parked);
            let resumed = other.resume(&lease, &owner_a()).await.unwrap();
            assert_eq!(resumed.pin, lease.pin);
        });
    }
}

#[test]
fn j12_a_sandbox_with_a_process_that_lives_on_is_not_reused_and_keeps_its_place() {
    play(capped(1), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        let owner = owner_of(&lease);
        home.fail_next(Operation::Start, 1, Fault::Stubborn);
        let _lives_on = node.start(&lease, &owner, &["sleep", "9999999"]).await.unwrap();
        home.fail_next(Operation::Destroy, 100, Fault::Busy);

        let parked = node.keeper.park(&lease.id, &owner).await;

        assert!(matches!(parked, Err(KeeperError::CleanupUnconfirmed { .. })), "{parked:?}");
        assert_eq!(home.running_commands(&sandbox_of(&lease)), 1);
        node.resume(&lease, &owner).await.unwrap_err();
        // To be full is a typed answer, not an internal error.
        let full = node.acquire(scene.request()).await.unwrap_err();
        assert_eq!(full.code(), "limit-reached");

        home.faults().quiet();
        scene.settle().await;
        let next = node.acquire(scene.request()).await.unwrap();
        assert_ne!(sandbox_of(&next), sandbox_of(&lease));
        assert_eq!(home.alive(), [sandbox_of(&next)]);
    });
}

#[test]
fn j13_only_a_typed_not_found_is_gone() {
    let faults =
        [Fault::Unreachable, Fault::Unauthorized, Fault::LostRequest, Fault::Busy, Fault::Refused];
    for fault in faults {
        // Where ids are given again, the sandbox is read before its removal.
        for recycles_ids in [false, true] {
            let mut world = WorldSettings::plain();
            world.facts.recycles_ids = recycles_ids;
            play(Setup { world, seeds: 4, ..Setup::default() }, move |scene| async move {
                let (node, home) = (scene.start_node().await, scene.home());
                let lease = node.acquire(scene.request()).await.unwrap();
                // The daemon is stopped; also for a node that asks whose key it has.
                for operation in [Operation::Account, Operation::Status, Operation::Destroy] {
                    home.fail_next(operation, 1_000, fault);
                }
                let fresh = scene.start_node().await;

                for node in [&node, &fresh] {
                    let released = node.destroy(&lease.id, &owner_a()).await;
                    assert!(
                        matches!(released, Err(KeeperError::CleanupUnconfirmed { .. })),
                        "{released:?}"
                    );
                    let row = scene.row(&lease.id).await;
                    assert!(row.is_quarantined() && row.receipt.is_none());
                    assert_eq!(home.alive(), [sandbox_of(&lease)]);
                }

                home.faults().quiet();
                scene.settle().await;
                let receipt = scene.row(&lease.id).await.receipt.unwrap();
                assert_eq!(receipt.ending, Ending::Destroyed);
            });
        }
    }
}
