//! Commands and their output.

use std::time::Duration;

use leasehold_core::{Ending, State};
use leasehold_keeper::{KeeperError, Parked};
use leasehold_ports::ProcessEnd;
use leasehold_testkit::faults::{Fault, Operation};

use crate::harness::{Setup, owner_a, owner_of, play, sandbox_of};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn k1_a_command_whose_start_got_no_usable_answer_is_one_process_and_its_outcome_is_unknown() {
    // It started and the answer was lost; it starts after its caller gave up; it never arrives.
    let faults = [(Fault::LostAnswer, 1), (Fault::Late, 1), (Fault::LostRequest, 0)];
    for (fault, processes) in faults {
        play(Setup::default(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            let owner = owner_of(&lease);
            home.fail_next(Operation::Start, 1, fault);

            let unknown = node.run(&lease, &owner, &["sleep", "3600"]).await;

            assert!(matches!(unknown, Err(KeeperError::OutcomeUnknown { .. })), "{unknown:?}");
            scene.start_work(&node);
            scene.pass(11 * MINUTE).await;
            assert_eq!(home.sent(Operation::Start), 1);
            assert_eq!(home.running_commands(&sandbox_of(&lease)), processes);

            // The lease can still be used, but nobody is handed what might still run in it.
            node.run(&lease, &owner, &["true"]).await.unwrap();
            let parked = node.keeper.park(&lease.id, &owner).await.unwrap();
            assert!(
                matches!(&parked, Parked::Removed(receipt) if receipt.ending == Ending::Destroyed),
                "{parked:?}"
            );
            assert!(home.alive().is_empty());
        });
    }
}

#[test]
fn k1_a_start_that_certainly_did_not_happen_is_told_so_and_may_be_repeated_by_the_caller() {
    for fault in [Fault::Unreachable, Fault::Busy, Fault::Unauthorized, Fault::Refused] {
        play(Setup::default(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            let owner = owner_of(&lease);
            home.fail_next(Operation::Start, 1, fault);

            let failed = node.run(&lease, &owner, &["true"]).await;

            assert!(matches!(failed, Err(KeeperError::Step { .. })), "{failed:?}");
            assert_eq!(home.sent(Operation::Start), 1);
            node.run(&lease, &owner, &["true"]).await.unwrap();
            // No doubt is left: it can be kept.
            assert_eq!(node.park(&lease, &owner).await.unwrap().state, State::Parked);
        });
    }
}

#[test]
fn k3_a_stream_that_closes_before_its_first_frame_is_unknown_and_not_repeated() {
    play(Setup::default(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        home.fail_next(Operation::Wait, 1, Fault::ConnectionLost);

        let mut execution =
            node.start(&lease, &owner_of(&lease), &["sleep", "3600"]).await.unwrap();
        let unknown = execution.next().await;

        assert!(matches!(unknown, Err(KeeperError::OutcomeUnknown { .. })), "{unknown:?}");
        assert_eq!(home.sent(Operation::Start), 1);
        assert_eq!(home.running_commands(&sandbox_of(&lease)), 1);
        let parked = node.keeper.park(&lease.id, &owner_a()).await.unwrap();
        assert!(matches!(parked, Parked::Removed(_)), "{parked:?}");
        assert!(home.alive().is_empty());
    });
}

#[test]
fn k4_a_child_that_left_its_session_is_gone_after_the_release() {
    for script in ["setsid sleep 1000 & exit 0", "trap '' TERM; sleep 1000 & exit 0"] {
        play(Setup::default(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            let owner = owner_of(&lease);

            let end = node.run(&lease, &owner, &["sh", "-c", script]).await.unwrap();
            assert_eq!(end, ProcessEnd::Exited(0));
            assert_eq!(home.running_commands(&sandbox_of(&lease)), 1, "it lives on until release");
            node.park(&lease, &owner).await.unwrap();

            assert_eq!(home.running_commands(&sandbox_of(&lease)), 0);
            assert_eq!(home.alive(), [sandbox_of(&lease)], "kept, and clean");
        });
    }
}
