//! Pause and resume.

use std::time::Duration;

use futures_util::future::join;
use leasehold_core::{Clocks, DestroyReason, Ending, Refusal, State, Step};
use leasehold_keeper::{AcquireRequest, KeeperError, Settings};
use leasehold_ports::ProcessEnd;
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;

use crate::harness::{Moment, Setup, interrupted_by, key, owner_a, owner_of, play, sandbox_of};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn h1_parking_twice_is_parking_once_and_a_park_during_a_resume_is_a_conflict() {
    play(Setup::default(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();

        let parked = node.park(&lease, &owner_a()).await.unwrap();
        let again = node.park(&lease, &owner_a()).await.unwrap();
        assert_eq!(again, parked);
        assert_eq!(home.sent(Operation::Clean), 1);

        let under_way = home.hold(Operation::Identify, Moment::Request);
        let resume = {
            let (node, parked) = (node.clone(), parked.clone());
            scene.spawn(&node.clone(), async move { node.resume(&parked, &owner_a()).await })
        };
        under_way.reached().await;
        let before = scene.row(&lease.id).await;
        let conflict = node.park(&lease, &owner_a()).await;
        assert!(
            matches!(
                conflict,
                Err(KeeperError::Refused(Refusal::Busy { state: State::Resuming, .. }))
            ),
            "{conflict:?}"
        );
        assert_eq!(scene.row(&lease.id).await, before, "a refusal changes nothing");
        under_way.let_go();

        let resumed = resume.await.unwrap().unwrap();
        assert_eq!(sandbox_of(&resumed), sandbox_of(&lease));
        node.park(&resumed, &owner_a()).await.unwrap();
        assert_eq!(home.sent(Operation::Clean), 2);
    });
}

#[test]
fn h1_a_resume_during_a_park_is_a_conflict() {
    play(Setup::default(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        let owner = owner_a();
        let under_way = home.hold(Operation::Clean, Moment::Request);

        let resume = async {
            under_way.reached().await;
            for conflict in [
                node.keeper.resume(&lease.id, &owner, true).await.unwrap_err(),
                node.keeper.park(&lease.id, &owner).await.unwrap_err(),
            ] {
                assert!(
                    matches!(
                        conflict,
                        KeeperError::Refused(Refusal::Busy { state: State::Parking, .. })
                    ),
                    "{conflict:?}"
                );
            }
            under_way.let_go();
        };
        let (parked, ()) = join(node.park(&lease, &owner), resume).await;

        assert_eq!(parked.unwrap().state, State::Parked);
        assert_eq!(home.sent(Operation::Clean), 1);
        assert_eq!(home.sent(Operation::Identify), 0);
    });
}

#[test]
fn h2_a_delete_that_is_refused_as_busy_five_times_is_tried_until_it_is_done() {
    let settings = Settings { proof: 2 * MINUTE, ..Settings::default() };
    play(Setup { settings, ..Setup::default() }, |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        home.fail_next(Operation::Destroy, 5, Fault::Busy);

        let receipt = node.destroy(&lease.id, &owner_a()).await.unwrap();

        assert_eq!(receipt.ending, Ending::Destroyed);
        assert_eq!(home.sent(Operation::Destroy), 6);
        assert!(home.alive().is_empty());
    });
}

#[test]
fn h2_a_caller_that_is_cancelled_while_it_waits_returns_at_once_and_the_delete_goes_on() {
    let settings = Settings { proof: 2 * MINUTE, ..Settings::default() };
    play(Setup { settings, ..Setup::default() }, |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        home.fail_next(Operation::Destroy, 5, Fault::Busy);
        let began = scene.elapsed();

        let owner = owner_a();
        let (destroy, later) = (node.destroy(&lease.id, &owner), Duration::from_secs(5));
        let cancelled = interrupted_by(scene.pass(later), destroy).await;
        assert!(cancelled.is_none(), "it did not wait");
        assert_eq!(scene.elapsed() - began, later, "at once");
        assert_eq!(scene.row(&lease.id).await.state, State::Destroying);
        assert!(home.sent(Operation::Destroy) < 6);

        scene.start_work(&node);
        scene.pass(5 * MINUTE).await;
        assert_eq!(home.sent(Operation::Destroy), 6);
        let receipt = scene.row(&lease.id).await.receipt.unwrap();
        assert_eq!((receipt.ending, receipt.actor.as_str()), (Ending::Destroyed, "owner"));
    });
}

#[test]
fn h3_a_sandbox_that_could_not_be_parked_is_handed_to_nobody() {
    play(Setup::default(), |scene| async move {
        let (node, other, home) =
            (scene.start_node().await, scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        home.fail_next(Operation::Clean, 3, Fault::Unconfirmed);
        home.fail_next(Operation::Destroy, 100, Fault::Unreachable);
        let owner = owner_a();

        let others = async {
            let mut acquired = Vec::new();
            for _ in 0..10 {
                scene.pass(Duration::from_secs(5)).await;
                let state = scene.row(&lease.id).await.state;
                assert!(matches!(state, State::Parking | State::Destroying), "{state}");
                acquired.push(sandbox_of(&other.acquire(scene.request()).await.unwrap()));
                other.resume(&lease, &owner).await.unwrap_err();
                other.run(&lease, &owner, &["true"]).await.unwrap_err();
            }
            acquired
        };
        let (parked, acquired) = join(node.keeper.park(&lease.id, &owner), others).await;

        assert!(matches!(parked, Err(KeeperError::CleanupUnconfirmed { .. })), "{parked:?}");
        assert!(!acquired.contains(&sandbox_of(&lease)));
        let row = scene.row(&lease.id).await;
        assert!(row.is_quarantined());
        assert_eq!(row.cleanup.unwrap().reason, DestroyReason::StopUnconfirmed);
        assert_eq!(home.sent(Operation::Start), 0);

        home.faults().quiet();
        scene.settle().await;
        assert_eq!(home.destroyed(), [sandbox_of(&lease)]);
        assert_eq!(home.alive(), acquired);
    });
}

#[test]
fn h3_a_long_command_is_use_although_nobody_calls() {
    play(Setup::default(), |scene| async move {
        let (node, sweeper) = (scene.start_node().await, scene.start_node().await);
        let clocks = Clocks { idle_active: MINUTE, ..Clocks::default() };
        let request = AcquireRequest { clocks: Some(clocks), ..scene.request() };
        let lease = node.acquire(request).await.unwrap();
        scene.start_work(&node);
        scene.start_work(&sweeper);

        let end = node.run(&lease, &owner_of(&lease), &["sleep", "600"]).await.unwrap();

        assert_eq!(end, ProcessEnd::Exited(0));
        let row = scene.row(&lease.id).await;
        assert_eq!((row.state, row.grant), (State::Active, lease.grant));
        assert_eq!(scene.home().sent(Operation::Clean), 0);
        // Without the command it is idle after a minute.
        scene.pass(2 * MINUTE).await;
        assert_eq!(scene.row(&lease.id).await.state, State::Closed);
    });
}

#[test]
fn h4_a_resume_that_fails_for_a_moment_keeps_the_sandbox_and_what_is_in_it() {
    let faults = [
        (Operation::Status, Fault::Unreachable),
        (Operation::Status, Fault::LostRequest),
        (Operation::Status, Fault::Unauthorized),
        (Operation::Identify, Fault::Unreachable),
        (Operation::Identify, Fault::LostRequest),
        (Operation::Identify, Fault::Unauthorized),
        (Operation::RaiseFence, Fault::Unreachable),
        (Operation::RaiseFence, Fault::Busy),
        (Operation::RaiseFence, Fault::LostRequest),
        (Operation::RaiseFence, Fault::LostAnswer),
        (Operation::RaiseFence, Fault::Late),
    ];
    for (operation, fault) in faults {
        play(Setup { seeds: 4, ..Setup::default() }, move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            node.park(&lease, &owner_a()).await.unwrap();
            home.fail_next(operation, 1, fault);

            let failed = node.resume(&lease, &owner_a()).await;

            assert!(
                matches!(failed, Err(KeeperError::Step { step: Step::Verify, .. })),
                "{failed:?}"
            );
            let row = scene.row(&lease.id).await;
            assert_eq!((row.state, row.pin), (State::Parked, lease.pin.clone()));
            assert!(home.destroyed().is_empty());

            let resumed = node.resume(&lease, &owner_a()).await.unwrap();
            assert_eq!(resumed.pin, lease.pin);
            node.run(&resumed, &owner_of(&resumed), &["true"]).await.unwrap();
            scene.settle().await;
            assert_eq!(home.alive(), [sandbox_of(&lease)]);
        });
    }
}

#[test]
fn h7_a_command_whose_sandbox_stops_is_unknown_and_not_repeated() {
    play(Setup::default(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        node.park(&lease, &owner_a()).await.unwrap();
        let resumed = node.resume(&lease, &owner_a()).await.unwrap();
        home.fail_next(Operation::Wait, 1, Fault::ConnectionLost);

        let half_run = node.run(&resumed, &owner_of(&resumed), &["sleep", "600"]).await;

        assert!(matches!(half_run, Err(KeeperError::OutcomeUnknown { .. })), "{half_run:?}");
        scene.start_work(&node);
        scene.pass(5 * MINUTE).await;
        assert_eq!(home.sent(Operation::Start), 1);
        assert_eq!(home.running_commands(&sandbox_of(&lease)), 1, "the one, and no second");
        // Nobody gets a sandbox in which it may still run.
        node.keeper.park(&lease.id, &owner_a()).await.unwrap();
        assert!(home.alive().is_empty());
        assert_eq!(home.sent(Operation::Start), 1);
    });
}

#[test]
fn h7_a_command_whose_sandbox_vanishes_is_not_run_in_another() {
    play(Setup::default(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        let (owner, command) = (owner_of(&lease), ["sleep", "600"]);
        let vanish = async {
            scene.pass(MINUTE).await;
            home.world().one_vanishes();
        };

        let (half_run, ()) = join(node.run(&lease, &owner, &command), vanish).await;

        assert!(!matches!(half_run, Ok(ProcessEnd::Exited(_))), "{half_run:?}");
        node.run(&lease, &owner, &command).await.unwrap_err();
        assert_eq!(home.ever_made(), 1);
        assert_eq!(home.sent(Operation::Start), 2, "each was asked for once");
    });
}

#[test]
fn h7_a_command_that_finds_no_sandbox_begins_the_proof_that_it_is_lost() {
    play(Setup::default(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        home.world().one_vanishes();
        node.run(&lease, &owner_of(&lease), &["true"]).await.unwrap_err();
        assert!(scene.row(&lease.id).await.is_open(), "one look proves nothing");

        let _stop = scene.start_work(&node);
        scene.pass(5 * MINUTE).await;

        let row = scene.row(&lease.id).await;
        assert_eq!(row.receipt.map(|receipt| receipt.ending), Some(Ending::Lost));
    });
}

#[test]
fn h8_a_parked_sandbox_that_is_gone_is_lost_and_the_next_acquire_makes_another() {
    // How long the provider remembers an end, and how far its reads may lag behind.
    let memories = [Duration::ZERO, MINUTE, 40 * DAY];
    let lags = [Duration::ZERO, Duration::from_secs(2), 2 * MINUTE];
    for (ended_readable, read_lag) in memories.into_iter().zip(lags) {
        let mut world = WorldSettings { ended_readable, ..WorldSettings::plain() };
        world.facts.read_lag = read_lag;
        play(Setup { world, ..Setup::default() }, move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let clocks =
                Clocks { idle_parked: 60 * DAY, longest_life: 90 * DAY, ..Clocks::default() };
            let request = AcquireRequest {
                clocks: Some(clocks),
                lifetime: 90 * DAY,
                key: Some(key("run-1")),
                ..scene.request()
            };
            let lease = node.acquire(request.clone()).await.unwrap();
            node.park(&lease, &owner_a()).await.unwrap();
            // The provider deletes what was paused for 30 days.
            scene.pass(30 * DAY).await;
            home.world().one_vanishes();

            node.resume(&lease, &owner_a()).await.unwrap_err();
            scene.start_work(&node);
            scene.pass(10 * MINUTE).await;

            let row = scene.row(&lease.id).await;
            assert_eq!(row.receipt.map(|receipt| receipt.ending), Some(Ending::Lost));
            let gone = node.resume(&lease, &owner_a()).await;
            assert!(
                matches!(
                    gone,
                    Err(KeeperError::Refused(Refusal::Gone { ending: Ending::Lost, .. }))
                ),
                "{gone:?}"
            );
            let next = AcquireRequest { key: Some(key("run-2")), ..request };
            let next = node.acquire(next).await.unwrap();
            assert_eq!(home.alive(), [sandbox_of(&next)]);
            assert_ne!(sandbox_of(&next), sandbox_of(&lease));
        });
    }
}

#[test]
fn h8_an_error_is_no_absence() {
    for fault in [Fault::Unreachable, Fault::LostRequest, Fault::Unauthorized] {
        play(Setup::default(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            node.park(&lease, &owner_a()).await.unwrap();
            scene.start_work(&node);
            home.fail_next(Operation::Status, 10, fault);

            for _ in 0..10 {
                node.resume(&lease, &owner_a()).await.unwrap_err();
                let row = scene.row(&lease.id).await;
                assert_eq!((row.state, row.pin), (State::Parked, lease.pin.clone()));
                scene.pass(MINUTE).await;
            }

            let resumed = node.resume(&lease, &owner_a()).await.unwrap();
            assert_eq!(resumed.pin, lease.pin);
            assert_eq!(home.ever_made(), 1);
        });
    }
}

#[test]
fn h9_what_is_closed_and_opened_again_within_the_cool_down_is_the_same_sandbox() {
    play(Setup::default(), |scene| async move {
        let (node, sweeper) = (scene.start_node().await, scene.start_node().await);
        scene.start_work(&node);
        scene.start_work(&sweeper);
        let cool_down = 60 * MINUTE;
        let clocks = Clocks { idle_parked: cool_down, ..Clocks::default() };
        let request = AcquireRequest { clocks: Some(clocks), ..scene.request() };
        let lease = node.acquire(request).await.unwrap();

        for _ in 0..3 {
            node.park(&lease, &owner_a()).await.unwrap();
            scene.pass(cool_down - MINUTE).await;
            let opened = node.resume(&lease, &owner_a()).await.unwrap();
            assert_eq!(opened.pin, lease.pin);
        }
        assert_eq!(scene.home().sent(Operation::Create), 1);
        assert_eq!(scene.home().sent(Operation::Destroy), 0);

        node.park(&lease, &owner_a()).await.unwrap();
        scene.pass(cool_down + MINUTE).await;
        assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)], "once, by its one owner");
        let row = scene.row(&lease.id).await;
        assert_eq!(row.cleanup.unwrap().reason, DestroyReason::Deadline);
    });
}

#[test]
fn h10_an_attempt_that_leaked_is_found_and_destroyed_and_blocks_nobody() {
    // The provider keeps what nobody came for: it runs on, or it stands still as failed.
    for stands_still in [false, true] {
        play(Setup::default(), move |scene| async move {
            let (node, other, home) =
                (scene.start_node().await, scene.start_node().await, scene.home());
            let stalls = home.hold(Operation::Create, Moment::Answer);
            let stalled = {
                let node = node.clone();
                let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
                scene.spawn(&node.clone(), async move { node.acquire(request).await })
            };
            stalls.reached().await;
            scene.kill(&node).await;
            stalled.await.unwrap_err();
            let leaked = home.alive();
            assert_eq!(leaked.len(), 1);

            // The session is not blocked meanwhile.
            let before = scene.elapsed();
            let lease = other.acquire(scene.request()).await.unwrap();
            assert!(scene.elapsed() - before < Duration::from_secs(5));

            if stands_still {
                home.fail_next(Operation::Prepare, 1, Fault::Failed);
            }
            scene.start_work(&other);
            let owner = owner_of(&lease);
            for _ in 0..6 {
                scene.pass(5 * MINUTE).await;
                other.run(&lease, &owner, &["true"]).await.unwrap();
            }
            assert_eq!(home.alive(), [sandbox_of(&lease)]);
            assert!(home.destroyed().contains(&leaked[0]));
            assert_eq!(scene.open_rows().await.len(), 1);
        });
    }
}
