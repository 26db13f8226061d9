//! Concurrency: acquire, release and heartbeat race.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join;
use leasehold_core::{Clocks, Ending, Refusal, State};
use leasehold_keeper::{AcquireRequest, KeeperError, RecoveryScope, Settings};
use leasehold_ports::{LedgerError, Limits, ProcessEnd};
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;

use crate::harness::{Moment, Setup, interrupted_by, key, owner_a, owner_of, play, sandbox_of};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn limited(per_owner: u32, per_home: u32) -> Setup {
    let limits = Limits { per_owner, per_home };
    Setup { settings: Settings { limits, ..Settings::default() }, ..Setup::default() }
}

#[test]
fn g1_fifty_parallel_acquires_with_one_key_have_one_creator() {
    for nodes in [1, 2, 5] {
        play(Setup::default(), move |scene| async move {
            let mut all = Vec::new();
            for _ in 0..nodes {
                all.push(scene.start_node().await);
            }
            let acquires: Vec<_> = (0..50)
                .map(|caller| {
                    let node = all[caller % nodes].clone();
                    let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
                    scene.spawn(&all[caller % nodes], async move { node.acquire(request).await })
                })
                .collect();

            let mut answers = BTreeSet::new();
            for acquire in acquires {
                let lease = acquire.await.unwrap().unwrap();
                assert_eq!(lease.state, State::Active);
                answers.insert((lease.id.clone(), lease.grant, sandbox_of(&lease)));
            }

            assert_eq!(answers.len(), 1, "{answers:?}");
            assert_eq!(scene.home().sent(Operation::Create), 1);
            assert_eq!(scene.home().sent(Operation::Prepare), 1);
            assert_eq!(scene.home().ever_made(), 1);
            assert_eq!(scene.all_rows().await.len(), 1);
        });
    }
}

#[test]
fn g3_two_managers_that_want_the_last_place_get_it_once() {
    for setup in [limited(1, 100), limited(100, 1)] {
        play(setup, |scene| async move {
            let (first, second) = (scene.start_node().await, scene.start_node().await);

            let (one, other) =
                join(first.acquire(scene.request()), second.acquire(scene.request())).await;

            let refused = match (one, other) {
                (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
                both => panic!("not exactly one has it: {both:?}"),
            };
            assert!(
                matches!(refused, KeeperError::Ledger(LedgerError::LimitReached { open: 1, .. })),
                "{refused:?}"
            );
            assert_eq!(scene.home().ever_made(), 1);
            assert_eq!(scene.open_rows().await.len(), 1);
        });
    }
}

#[test]
fn g3_two_managers_that_resume_one_parked_lease_do_not_both_hold_it() {
    play(Setup { seeds: 32, ..Setup::default() }, |scene| async move {
        let (first, second) = (scene.start_node().await, scene.start_node().await);
        let lease = first.acquire(scene.request()).await.unwrap();
        let holder = owner_of(&lease);
        first.park(&lease, &holder).await.unwrap();

        let (one, other) =
            join(first.resume(&lease, &holder), second.resume(&lease, &holder)).await;

        let (won, refused) = match (one, other) {
            (Ok(won), Err(refused)) | (Err(refused), Ok(won)) => (won, refused),
            both => panic!("not exactly one has it: {both:?}"),
        };
        assert!(
            matches!(
                refused,
                KeeperError::Refused(Refusal::Busy { .. } | Refusal::StaleGrant { .. })
            ),
            "{refused:?}"
        );
        assert_eq!(scene.row(&lease.id).await.grant, won.grant);
        let stale = second.run(&lease, &holder, &["true"]).await;
        assert!(matches!(stale, Err(KeeperError::Refused(Refusal::StaleGrant { .. }))));
        second.run(&lease, &owner_of(&won), &["true"]).await.unwrap();
        assert_eq!(scene.home().ever_made(), 1);
    });
}

#[test]
fn g4_a_hundred_stale_reads_never_give_a_lease_two_sandboxes() {
    let mut world = WorldSettings::plain();
    world.facts.list_lag = Duration::from_secs(30);
    play(Setup { world, ..Setup::default() }, |scene| async move {
        let (first, second) = (scene.start_node().await, scene.start_node().await);
        first.fall_behind(100);
        second.fall_behind(100);
        // Half of the answers to a create are lost, and no listing knows of it at first.
        for _ in 0..12 {
            scene.home().faults().script(Operation::Create, 1, Fault::LostAnswer);
        }
        scene.home().fail_next(Operation::FindByName, 100, Fault::ListLag);

        let mut leases = BTreeSet::new();
        for run in 0..25 {
            let name = format!("run-{run}");
            let request = AcquireRequest { key: Some(key(&name)), ..scene.request() };
            let acquires = [
                first.acquire(request.clone()),
                second.acquire(request.clone()),
                first.acquire(request.clone()),
                second.acquire(request.clone()),
            ];
            for acquired in futures_util::future::join_all(acquires).await {
                leases.insert(sandbox_of(&acquired.unwrap()));
            }
        }

        assert_eq!(leases.len(), 25);
        assert_eq!(scene.home().ever_made(), 25);
        assert_eq!(scene.home().sent(Operation::Create), 25);
        assert_eq!(scene.all_rows().await.len(), 25);
    });
}

#[test]
fn g6_a_stop_that_failed_once_is_sent_again_by_the_next_delete() {
    let faults =
        [Fault::Unreachable, Fault::Busy, Fault::Unauthorized, Fault::Refused, Fault::LostRequest];
    for fault in faults {
        // The caller does not wait for a second try.
        let settings = Settings { proof: Duration::from_millis(200), ..Settings::default() };
        let mut world = WorldSettings::plain();
        world.longest_latency = Duration::from_millis(10);
        play(Setup { settings, world, ..Setup::default() }, move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let lease = node.acquire(scene.request()).await.unwrap();
            home.fail_next(Operation::Destroy, 1, fault);

            let first = node.destroy(&lease.id, &owner_a()).await;

            assert!(matches!(first, Err(KeeperError::CleanupUnconfirmed { .. })), "{first:?}");
            assert_eq!(home.sent(Operation::Destroy), 1);
            assert_eq!(home.alive(), [sandbox_of(&lease)]);
            assert!(scene.row(&lease.id).await.is_quarantined(), "the record was given up");

            scene.pass(Duration::from_secs(1)).await;
            let second = node.destroy(&lease.id, &owner_a()).await.unwrap();

            assert_eq!(second.ending, Ending::Destroyed);
            assert_eq!(home.sent(Operation::Destroy), 2);
            assert!(home.alive().is_empty());
            assert_eq!(node.destroy(&lease.id, &owner_a()).await.unwrap(), second);
            assert_eq!(home.sent(Operation::Destroy), 2);
        });
    }
}

#[test]
fn g7_an_expired_lease_counts_until_it_is_proved_gone_and_is_not_revived() {
    let idle = Clocks { idle_active: MINUTE, ..Clocks::default() };
    // Its life ends, or it idles; and the owner, or the home, has a cap of one.
    for (clocks, lifetime) in [(None, MINUTE), (Some(idle), HOUR)] {
        for setup in [limited(1, 100), limited(100, 1)] {
            play(setup, move |scene| async move {
                let (node, home) = (scene.start_node().await, scene.home());
                let request = AcquireRequest { clocks, lifetime, ..scene.request() };
                let lease = node.acquire(request).await.unwrap();
                let renewal = scene.now() + HOUR;
                let cannot_be_used = async || {
                    let next = node.acquire(scene.request()).await;
                    assert!(
                        matches!(next, Err(KeeperError::Ledger(LedgerError::LimitReached { .. }))),
                        "{next:?}"
                    );
                    let heartbeat = node.keeper.renew(&lease.id, renewal, &owner_a()).await;
                    assert!(
                        matches!(heartbeat, Err(KeeperError::Refused(Refusal::Expired { .. }))),
                        "{heartbeat:?}"
                    );
                };

                // Nobody has cleaned it up yet.
                scene.pass(MINUTE).await;
                cannot_be_used().await;

                // The cleanup is pending.
                home.fail_next(Operation::Destroy, 100, Fault::Unreachable);
                let stop = scene.start_work(&node);
                scene.pass(10 * MINUTE).await;
                assert!(scene.row(&lease.id).await.is_quarantined());
                cannot_be_used().await;

                // It is proved to be gone.
                home.faults().quiet();
                scene.pass(2 * HOUR).await;
                assert_eq!(scene.row(&lease.id).await.state, State::Closed);
                assert!(home.alive().is_empty());
                node.acquire(scene.request()).await.unwrap();
                stop.cancel();
            });
        }
    }
}

#[test]
fn g9_a_driver_that_hangs_keeps_no_lease_beyond_its_end() {
    play(Setup::default(), |scene| async move {
        let (holder, sweeper) = (scene.start_node().await, scene.start_node().await);
        let request = AcquireRequest { lifetime: HOUR, ..scene.request() };
        let lease = holder.acquire(request).await.unwrap();
        let driver = {
            let (node, lease) = (holder.clone(), lease.clone());
            scene.spawn(&holder, async move {
                node.run(&lease, &owner_a(), &["sleep", "9999999"]).await
            })
        };
        scene.start_work(&sweeper);

        scene.pass(HOUR - MINUTE).await;
        assert_eq!(scene.row(&lease.id).await.state, State::Active, "a running command is use");
        scene.pass(2 * MINUTE).await;

        assert_eq!(scene.row(&lease.id).await.state, State::Closed);
        assert!(scene.home().alive().is_empty());
        let driver = driver.await.unwrap();
        assert!(
            matches!(
                driver,
                Err(KeeperError::Refused(Refusal::Expired { .. } | Refusal::Gone { .. }))
            ),
            "{driver:?}"
        );
    });
}

#[test]
fn g9_the_heartbeat_of_a_closed_attempt_keeps_nobody_alive() {
    // The old driver still polls its command, or hangs for good.
    for polls in [true, false] {
        play(Setup::default(), move |scene| async move {
            let (old, new) = (scene.start_node().await, scene.start_node().await);
            let lease = old.acquire(scene.request()).await.unwrap();
            let mut execution = old.start(&lease, &owner_a(), &["sleep", "9999999"]).await.unwrap();
            let driver = scene.spawn(&old, async move {
                if !polls {
                    std::future::pending::<()>().await;
                }
                execution.next().await
            });
            scene.start_work(&old);

            // The attempt is closed: its owner takes the lease up again elsewhere, and goes silent.
            let resumed = new.resume(&lease, &owner_a()).await.unwrap();
            assert!(resumed.grant > lease.grant);
            assert_eq!(scene.home().running_commands(&sandbox_of(&lease)), 0);
            scene.pass(16 * MINUTE).await;

            assert_eq!(scene.row(&lease.id).await.state, State::Closed);
            assert!(scene.home().alive().is_empty());
            if polls {
                let told = driver.await.unwrap();
                assert!(matches!(told, Err(KeeperError::Refused(_))), "{told:?}");
            }
        });
    }
}

#[test]
fn g10_an_acquire_that_is_repeated_asks_the_provider_once() {
    for by_another_node in [false, true] {
        play(Setup::default(), move |scene| async move {
            let node = scene.start_node().await;
            let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
            let first = node.acquire(request.clone()).await.unwrap();
            let again = if by_another_node { scene.start_node().await } else { node.clone() };
            let sent = |operation| scene.home().sent(operation);
            let before = scene.home().sent_at_all() - sent(Operation::Account);

            let second = again.acquire(request).await.unwrap();

            assert_eq!(second, first);
            assert_eq!(sent(Operation::Create), 1);
            // A new node asks whose key it has; that is all.
            assert_eq!(scene.home().sent_at_all() - sent(Operation::Account), before);
        });
    }
}

#[test]
fn g12_what_was_acquired_before_a_failure_is_given_back() {
    // The caller's process ends with the failure, or it just forgets what it had.
    for ends in [true, false] {
        play(Setup::default(), move |scene| async move {
            let (node, home) = (scene.start_node().await, scene.home());
            let other = scene.start_node().await;
            let request = AcquireRequest { tethered: ends, delivered: false, ..scene.request() };
            home.faults().script(Operation::Create, 2, Fault::Refused);

            node.acquire(request.clone()).await.unwrap();
            node.acquire(request.clone()).await.unwrap();
            node.acquire(request).await.unwrap_err();
            assert_eq!(home.alive().len(), 2);
            if ends {
                scene.kill(&node).await;
                other.keeper.recover(RecoveryScope::DeadHolders).await.unwrap();
            } else {
                scene.start_work(&other);
                scene.pass(6 * MINUTE).await;
            }

            assert!(home.alive().is_empty());
            assert_eq!(home.destroyed().len(), 2);
            assert!(scene.open_rows().await.is_empty());
        });
    }
}

#[test]
fn g12_an_acquire_that_is_interrupted_holds_nothing() {
    let moments = [
        (Operation::Account, Moment::Request),
        (Operation::Create, Moment::Request),
        (Operation::Create, Moment::Answer),
        (Operation::Prepare, Moment::Request),
        (Operation::Prepare, Moment::Answer),
    ];
    // Ctrl-C: the wait ends and the process goes on, or the process ends too.
    for (operation, moment) in moments {
        for process_ends in [false, true] {
            play(limited(1, 1), move |scene| async move {
                let (node, other) = (scene.start_node().await, scene.start_node().await);
                let waits = scene.home().hold(operation, moment);
                let interrupted =
                    interrupted_by(waits.reached(), node.acquire(scene.request())).await;
                assert!(interrupted.is_none(), "it did not wait");
                if process_ends {
                    scene.kill(&node).await;
                }

                let stop = scene.start_work(&other);
                scene.pass(HOUR).await;

                assert!(scene.home().alive().is_empty());
                assert!(scene.open_rows().await.is_empty());
                other.acquire(scene.request()).await.unwrap();
                stop.cancel();
            });
        }
    }
}

#[test]
fn g13_nodes_whose_clocks_are_ten_minutes_apart_do_not_reap_a_lease_in_use() {
    const FIVE_MINUTES: i64 = 5 * 60 * 1_000;
    for ahead in [FIVE_MINUTES, -FIVE_MINUTES] {
        play(Setup { seeds: 2, ..limited(1, 1) }, move |scene| async move {
            let (holder, sweeper) = (scene.start_node().await, scene.start_node().await);
            holder.jump_clock(-ahead);
            sweeper.jump_clock(ahead);
            scene.start_work(&holder);
            scene.start_work(&sweeper);
            let lease = holder.acquire(scene.request()).await.unwrap();

            let owner = owner_of(&lease);
            let run = holder.run(&lease, &owner, &["sleep", "7200"]);
            let watch = async {
                for _ in 0..100 {
                    scene.pass(MINUTE).await;
                    let second = sweeper.acquire(scene.request()).await;
                    assert!(second.is_err(), "there is a second holder: {second:?}");
                }
            };
            let (end, ()) = join(run, watch).await;

            assert_eq!(end.unwrap(), ProcessEnd::Exited(0));
            assert!(scene.home().destroyed().is_empty());
            let row = scene.row(&lease.id).await;
            assert_eq!((row.state, row.grant), (State::Active, lease.grant));
        });
    }
}

#[test]
fn g13_a_clock_that_is_set_again_and_again_reaps_no_holder_who_shows_itself() {
    const FIVE_MINUTES: i64 = 5 * 60 * 1_000;
    for jumps in [[FIVE_MINUTES, FIVE_MINUTES], [-FIVE_MINUTES; 2], [FIVE_MINUTES, -FIVE_MINUTES]] {
        play(limited(1, 1), move |scene| async move {
            // Two processes on one machine: they have one clock.
            let nodes = [scene.start_node().await, scene.start_node().await];
            for node in &nodes {
                scene.start_work(node);
            }
            let lease = nodes[0].acquire(scene.request()).await.unwrap();
            let holder = owner_of(&lease);

            for round in 0..12 {
                // The longest silence of a host is 5.5 minutes; the clock is set in the middle.
                scene.pass(Duration::from_secs(165)).await;
                for node in &nodes {
                    node.jump_clock(jumps[round % 2]);
                }
                scene.pass(Duration::from_secs(165)).await;
                nodes[0].run(&lease, &holder, &["true"]).await.unwrap();
                let second = nodes[1].acquire(scene.request()).await;
                assert!(second.is_err(), "there is a second holder: {second:?}");
            }

            assert!(scene.home().destroyed().is_empty());
            assert_eq!(scene.home().ever_made(), 1);
        });
    }
}

#[test]
fn g13_a_clock_that_jumps_over_a_deadline_reaps_nobody_within_the_grace() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        scene.start_work(&node);
        let grace = node.keeper.settings().jump_grace;
        let lease = node.acquire(scene.request()).await.unwrap();
        scene.pass(12 * MINUTE).await;

        // Twelve of fifteen idle minutes, and five that did not pass.
        node.jump_clock(5 * 60 * 1_000);
        scene.pass(grace - Duration::from_secs(15)).await;

        assert_eq!(scene.row(&lease.id).await.state, State::Active);
        assert!(scene.home().destroyed().is_empty());
    });
}
