//! Copies of a ledger, and clocks that jump: what the simulation found, as scenarios of their own.

use std::time::Duration;

use leasehold_core::{Grant, State};
use leasehold_keeper::{AcquireRequest, KeeperError, RecoveryScope};
use leasehold_ports::{Ledger as _, LedgerMode};
use leasehold_testkit::faults::{Fault, Operation};

use crate::harness::{Scene, Setup, key, owner_a, play, sandbox_of};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The judge knows one record only, and these scenarios have two.
fn two_records() -> Setup {
    Setup { judged: false, ..Setup::default() }
}

/// The state directory is put back as it was; an operator looks at it, and accepts.
async fn put_back(scene: &Scene, copy: &leasehold_ledger::MemorySnapshot) {
    scene.ledger().restore(copy);
    scene.ledger().set_mode(LedgerMode::Restored { why: "it is an older copy".to_owned() });
    scene.ledger().accept().await.unwrap();
}

#[test]
fn a_copy_hands_on_nothing_that_runs_since_the_lost_record_resumed_it() {
    play(two_records(), |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        node.park(&lease, &owner_a()).await.unwrap();
        let copy = scene.ledger().snapshot();
        scene.pass(HOUR).await;
        let resumed = node.resume(&lease, &owner_a()).await.unwrap();
        node.start(&resumed, &owner_a(), &["sleep", "100000"]).await.unwrap();
        scene.kill(&node).await;
        assert_eq!(scene.home().running_commands(&sandbox_of(&lease)), 1);

        put_back(&scene, &copy).await;
        let node = scene.start_node().await;
        let handed_on = node.resume(&lease, &owner_a()).await.unwrap();

        assert_eq!(scene.home().running_commands(&sandbox_of(&lease)), 0);
        assert!(handed_on.grant > resumed.grant, "a grant that the lost record never gave");
    });
}

#[test]
fn a_sandbox_that_was_parked_after_the_copy_was_found_out_is_resumed_as_ever() {
    play(two_records(), |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        put_back(&scene, &scene.ledger().snapshot()).await;
        scene.pass(Duration::from_secs(1)).await;
        node.park(&lease, &owner_a()).await.unwrap();
        let cleans = scene.home().sent(Operation::Clean);

        let resumed = node.resume(&lease, &owner_a()).await.unwrap();

        assert_eq!((resumed.state, resumed.grant), (State::Active, Grant(2)));
        assert_eq!(scene.home().sent(Operation::Clean), cleans, "it is known to be clean");
    });
}

#[test]
fn a_copy_uses_no_name_that_the_lost_record_used() {
    play(two_records(), |scene| async move {
        let node = scene.start_node().await;
        let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
        // The copy is made between the record of the intent and that of its create.
        let create_recorded = node.hold_commit(State::Creating);
        let acquiring = {
            let (node, request) = (node.clone(), request.clone());
            scene.spawn(&node.clone(), async move { node.acquire(request).await })
        };
        create_recorded.reached().await;
        let copy = scene.ledger().snapshot();
        create_recorded.let_go();
        let lost = acquiring.await.unwrap().unwrap();
        scene.kill(&node).await;

        put_back(&scene, &copy).await;
        let node = scene.start_node().await;
        let again = node.acquire(request).await.unwrap();

        assert_eq!(again.id, lost.id);
        let first = lost.attempt.unwrap().name;
        assert_ne!(again.attempt.unwrap().name, first);
    });
}

#[test]
fn a_process_that_starts_after_a_jump_gives_no_create_up_for_it() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        scene.home().fail_next(Operation::Create, 1, Fault::Late);
        let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
        let acquiring = {
            let (node, request) = (node.clone(), request.clone());
            scene.spawn(&node.clone(), async move { node.acquire(request).await })
        };
        scene.pass(Duration::from_secs(31)).await;
        scene.kill(&node).await;
        drop(acquiring);

        let node = scene.start_node().await;
        node.jump_clock(10 * 60 * 1_000);
        for _ in 0..3 {
            node.keeper.recover(RecoveryScope::Everything).await.unwrap();
            scene.pass(Duration::from_secs(2)).await;
        }

        let row = scene.all_rows().await.remove(0);
        assert!(row.is_open(), "what may still come is not given up: {:?}", row.receipt);
    });
}

#[test]
fn a_clock_that_was_set_back_makes_nobody_hammer_the_provider() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        node.jump_clock(-60 * 60 * 1_000);
        scene.home().fail_next(Operation::Destroy, 50, Fault::Unreachable);

        let failed = node.destroy(&lease.id, &owner_a()).await;

        assert!(matches!(failed, Err(KeeperError::CleanupUnconfirmed { .. })), "{failed:?}");
        let sent = scene.home().sent(Operation::Destroy);
        assert!(sent <= 10, "{sent} calls in half a minute");
        assert!(
            scene.elapsed() < Duration::from_secs(60),
            "the wait ends, whatever the clock says"
        );
    });
}
