//! Acquires that fail half way: what they made is removed, and the place that they held comes back.

use leasehold_core::{Clocks, DestroyReason, Ending, EventKind, State, Step};
use leasehold_keeper::{AcquireRequest, KeeperError};
use leasehold_ports::{Ledger as _, LedgerError};
use leasehold_testkit::faults::{Fault, Operation};

use super::{HOUR, MINUTE, SECOND, capped};
use crate::harness::{Moment, Setup, dropped_after, owner_a, play, sandbox_of};

#[test]
fn j3_an_acquire_that_is_cancelled_at_any_step_gives_its_place_back_without_a_quarantine() {
    for polls in 1..=40 {
        play(Setup { seeds: 3, ..capped(1) }, move |scene| async move {
            let (node, owner) = (scene.start_node().await, owner_a());
            if dropped_after(polls, node.acquire(scene.request())).await.is_some() {
                return;
            }
            scene.start_work(&node);
            let cancelled = scene.all_rows().await;
            let began = scene.elapsed();
            for row in &cancelled {
                let _ = node.destroy(&row.id, &owner).await;
            }

            // What was not on record as sent is gone at once; of what may have been made, the
            // provider's horizon decides.
            let facts = scene.home().world().settings().facts;
            let horizon = facts.call_limit + facts.create_horizon;
            let sent = cancelled.iter().any(|row| row.attempt.is_some());
            let bound = if sent { horizon + 10 * SECOND } else { SECOND };
            while !scene.open_rows().await.is_empty() {
                assert!(scene.elapsed() - began < bound, "{:?}", scene.open_rows().await);
                scene.pass(SECOND).await;
            }
            assert!(scene.home().alive().is_empty());
            for row in &cancelled {
                let history = scene.ledger().events(&row.id, 0, 1_000).await.unwrap().events;
                let quarantined = history
                    .iter()
                    .any(|entry| matches!(entry.event.kind, EventKind::DestroyUnproved { .. }));
                assert!(!quarantined, "{history:?}");
            }
            node.acquire(scene.request()).await.unwrap();
        });
    }
}

#[test]
fn j10_eight_creations_that_failed_hold_no_place_of_eight() {
    let faults = [
        (Operation::Create, Fault::Refused),
        (Operation::Create, Fault::Unreachable),
        (Operation::Create, Fault::Busy),
        (Operation::Prepare, Fault::Refused),
        (Operation::Prepare, Fault::Failed),
        (Operation::Prepare, Fault::Vanished),
    ];
    for (operation, fault) in faults.into_iter().filter(|(of, fault)| fault.applies_to(*of)) {
        play(capped(8), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            home.fail_next(operation, 8, fault);
            for _ in 0..8 {
                let failed = node.acquire(scene.request()).await;
                assert!(matches!(failed, Err(KeeperError::Step { .. })), "{failed:?}");
            }

            let ninth = node.acquire(scene.request()).await.unwrap();

            assert_eq!(home.alive(), [sandbox_of(&ninth)]);
            assert_eq!(scene.open_rows().await.len(), 1);
        });
    }
}

#[test]
fn j10_creations_whose_answer_was_lost_hold_their_place_until_that_is_settled() {
    for fault in [Fault::LostAnswer, Fault::LostRequest, Fault::Late] {
        play(capped(8), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            home.fail_next(Operation::Create, 8, fault);
            for _ in 0..8 {
                let request = AcquireRequest { delivered: false, ..scene.request() };
                let node = node.clone();
                drop(scene.spawn(&node.clone(), async move { node.acquire(request).await }));
            }
            scene.pass(SECOND / 2).await;
            let ninth = node.acquire(scene.request()).await;
            assert!(
                matches!(
                    ninth,
                    Err(KeeperError::Ledger(LedgerError::LimitReached { open: 8, .. }))
                ),
                "{ninth:?}"
            );

            scene.start_work(&node);
            scene.pass(HOUR).await;

            let ninth = node.acquire(scene.request()).await.unwrap();
            assert_eq!(home.alive(), [sandbox_of(&ninth)]);
        });
    }
}

#[test]
fn j11_a_start_that_failed_half_way_is_removed_although_nobody_comes_back() {
    for fault in [Fault::Refused, Fault::Failed, Fault::LostRequest, Fault::LostAnswer] {
        for node_dies in [false, true] {
            play(capped(1), move |scene| async move {
                let (node, other, home) =
                    (scene.start_node().await, scene.start_node().await, scene.home());
                home.fail_next(Operation::Prepare, 1, fault);
                home.fail_next(Operation::Destroy, 3, Fault::Unreachable);

                let failed = node.acquire(scene.request()).await;
                // The first error is told, not that of the removal.
                assert!(
                    matches!(failed, Err(KeeperError::Step { step: Step::Prepare, .. })),
                    "{failed:?}"
                );
                if node_dies {
                    scene.kill(&node).await;
                }
                scene.start_work(&other);
                scene.pass(MINUTE).await;

                assert!(home.alive().is_empty());
                let [row] = &scene.all_rows().await[..] else { panic!("one row") };
                assert_eq!(row.state, State::Closed);
                other.acquire(scene.request()).await.unwrap();
            });
        }
    }
}

#[test]
fn j14_a_lease_that_does_not_become_ready_in_time_is_stopped_by_its_id() {
    play(Setup::default(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let stranger = home.world().stranger_creates();
        let clocks = Clocks { provisioning: 20 * SECOND, ..Clocks::default() };
        // It never answers, and is never let go.
        let _connecting = home.hold(Operation::Prepare, Moment::Request);

        let request = AcquireRequest { clocks: Some(clocks), ..scene.request() };
        let timed_out = node.acquire(request).await;

        assert!(
            matches!(timed_out, Err(KeeperError::Step { step: Step::Prepare, .. })),
            "{timed_out:?}"
        );
        assert!(scene.elapsed() < MINUTE);
        let [row] = &scene.all_rows().await[..] else { panic!("one row") };
        assert_eq!(home.destroyed(), [sandbox_of(row)]);
        assert_eq!(home.sent(Operation::Destroy), 1);
        assert!(home.alive().is_empty() && home.exists(&stranger));
        let cleanup = row.cleanup.as_ref().unwrap();
        assert_eq!(cleanup.reason, DestroyReason::PreparationFailed);
        assert_eq!(row.receipt.as_ref().unwrap().ending, Ending::Destroyed);
    });
}
