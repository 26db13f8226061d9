//! Crash, restart, rolling deploy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Cleanliness, Clocks, DestroyReason, Ending, SandboxId, State};
use leasehold_keeper::{
    AcquireRequest, ExecuteRequest, KeeperError, Parked, RecoveryScope, Settings,
};
use leasehold_ports::{Ledger as _, Limits, ProcessEnd, Work};
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;
use secrecy::SecretString;

use crate::harness::{
    DAY, HOUR, MINUTE, Moment, Setup, dropped_after, only, owner_b, owner_of, play, sandbox_of,
};

/// The longest that a node takes to notice that something is due.
const NOTICED: Duration = Duration::from_secs(20);

#[test]
fn b1_an_active_lease_of_a_dead_holder_is_stopped_by_the_first_pass_of_recovery() {
    for scope in [RecoveryScope::Everything, RecoveryScope::DeadHolders] {
        play(Setup::default(), move |scene| async move {
            let holder = scene.start_node().await;
            let request = AcquireRequest { tethered: true, ..scene.request() };
            let lease = holder.acquire(request).await.unwrap();
            holder.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();
            scene.kill(&holder).await;

            let next = scene.start_node().await;
            let report = next.keeper.recover(scope).await.unwrap();

            assert_eq!(report.ended, [lease.id.clone()]);
            assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
            let row = scene.row(&lease.id).await;
            assert_eq!(row.cleanup.unwrap().reason, DestroyReason::HolderDied);
            assert_eq!(row.receipt.unwrap().ending, Ending::Destroyed);
        });
    }
}

#[test]
fn b1_an_active_lease_that_nobody_released_ends_at_its_recorded_deadline() {
    play(Setup::default(), |scene| async move {
        let holder = scene.start_node().await;
        let lease = holder.acquire(scene.request()).await.unwrap();
        holder.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();
        let due = scene.row(&lease.id).await.expires_at();
        scene.kill(&holder).await;

        let next = scene.start_node().await;
        let _stop = scene.start_work(&next);
        scene.pass(due.since(scene.now()) - Duration::from_secs(1)).await;
        assert_eq!(scene.home().destroyed(), [], "it is its owner's until then");
        scene.pass(NOTICED).await;
        assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
    });
}

#[test]
fn b2_a_lease_that_its_holder_renews_is_left_alone_by_every_other_node() {
    play(Setup::default(), |scene| async move {
        let (here, there) = (scene.start_node().await, scene.start_node().await);
        let _stop = scene.start_work(&here);
        let lease = there.acquire(scene.request()).await.unwrap();

        for _ in 0..12 {
            scene.pass(10 * MINUTE).await;
            here.keeper.sweep(&[]).await.unwrap();
            here.keeper.recover(RecoveryScope::DeadHolders).await.unwrap();
            let until = scene.now() + HOUR;
            there.keeper.renew(&lease.id, until, &owner_of(&lease)).await.unwrap();
        }

        assert_eq!(scene.row(&lease.id).await.state, State::Active);
        assert_eq!(scene.home().sent(Operation::Destroy), 0);
    });
}

#[test]
fn b2_an_expiry_that_was_read_before_a_renewal_and_written_after_it_writes_nothing() {
    play(Setup::default(), |scene| async move {
        let (sweeper, holder) = (scene.start_node().await, scene.start_node().await);
        let request = AcquireRequest { lifetime: 10 * MINUTE, ..scene.request() };
        let lease = holder.acquire(request).await.unwrap();
        // The sweeper's clock is a little ahead: to it the lease is over.
        sweeper.jump_clock(20_000);
        scene.pass(lease.life_until.since(scene.now()) - Duration::from_secs(10)).await;
        let hold = sweeper.hold_commit(State::Destroying);
        let pass = {
            let keeper = sweeper.keeper.clone();
            scene.spawn(&sweeper, async move { keeper.recover(RecoveryScope::Everything).await })
        };
        hold.reached().await;

        let until = lease.life_until + HOUR;
        let renewed = holder.keeper.renew(&lease.id, until, &owner_of(&lease)).await.unwrap();
        hold.let_go();
        let report = pass.await.unwrap().unwrap();

        assert_eq!(report.worked_on, []);
        assert_eq!(scene.row(&lease.id).await, *renewed);
        assert_eq!(scene.home().sent(Operation::Destroy), 0);
    });
}

#[test]
fn b4_deadlines_live_in_the_ledger_and_are_kept_across_a_restart() {
    // Whether it is parked meanwhile, and how long it may then be idle.
    for (parked, idle) in [(false, 15 * MINUTE), (true, 7 * DAY)] {
        play(Setup::default(), move |scene| async move {
            let first = scene.start_node().await;
            let request = AcquireRequest { lifetime: 20 * DAY, ..scene.request() };
            let lease = first.acquire(request).await.unwrap();
            if parked {
                first.park(&lease, &owner_of(&lease)).await.unwrap();
            }
            let since = scene.now();
            scene.pass(5 * MINUTE).await;
            scene.kill(&first).await;

            let second = scene.start_node().await;
            let _stop = scene.start_work(&second);
            scene.pass(idle - scene.now().since(since) - Duration::from_secs(2)).await;
            assert_eq!(scene.home().destroyed(), [], "not before its time");
            scene.pass(NOTICED).await;

            assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)], "on time");
            let row = scene.row(&lease.id).await;
            assert_eq!(row.cleanup.unwrap().reason, DestroyReason::Deadline);
        });
    }
}

#[test]
fn b4_an_orderly_stop_ends_its_commands_and_destroys_nothing() {
    play(Setup::default(), |scene| async move {
        let (stopping, other) = (scene.start_node().await, scene.start_node().await);
        let lease = stopping.acquire(scene.request()).await.unwrap();
        let owner = owner_of(&lease);
        let command = stopping.start(&lease, &owner, &["sleep", "7200"]).await.unwrap();

        stopping.keeper.drain().await;

        assert_eq!(scene.home().running_commands(&sandbox_of(&lease)), 0);
        let row = scene.row(&lease.id).await;
        assert_eq!((row.state, row.cleanliness), (State::Active, Cleanliness::Dirty));
        assert!(row.busy_nodes.is_empty());
        for refused in [
            stopping.acquire(scene.request()).await.map(drop),
            stopping.start(&lease, &owner, &["true"]).await.map(drop),
            stopping.resume(&lease, &owner).await.map(drop),
        ] {
            assert!(matches!(refused, Err(KeeperError::Draining)), "{refused:?}");
        }
        drop(command);
        // Nothing is in doubt: another node takes it up, clean.
        other.park(&lease, &owner).await.unwrap();
        other.resume(&lease, &owner).await.unwrap();
        assert_eq!(scene.home().destroyed(), []);
    });
}

#[test]
fn b5_a_lease_in_use_outlives_three_idle_times_and_ends_one_after_its_node() {
    play(Setup { seeds: 4, ..Setup::default() }, |scene| async move {
        let (holder, other) = (scene.start_node().await, scene.start_node().await);
        let (_here, _there) = (scene.start_work(&holder), scene.start_work(&other));
        let lease = holder.acquire(scene.request()).await.unwrap();
        let idle = lease.clocks.idle_active;
        let (node, held) = (holder.clone(), lease.clone());
        let command = scene.spawn(&holder, async move {
            node.run(&held, &owner_of(&held), &["sleep", "86000"]).await
        });

        scene.pass(3 * idle).await;
        assert_eq!(scene.home().running_commands(&sandbox_of(&lease)), 1);
        assert_eq!(scene.row(&lease.id).await.state, State::Active);

        scene.kill(&holder).await;
        assert!(command.await.is_err());
        scene.pass(idle / 2).await;
        assert_eq!(scene.home().destroyed(), [], "its owner may still come back");
        scene.pass(idle / 2 + NOTICED).await;
        assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
    });
}

#[test]
fn b5_a_command_that_runs_longer_than_the_idle_time_ends_by_itself() {
    play(Setup { seeds: 2, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let _stop = scene.start_work(&node);
        let lease = node.acquire(scene.request()).await.unwrap();
        let three_idle_times = (3 * lease.clocks.idle_active).as_secs().to_string();

        let end = node.run(&lease, &owner_of(&lease), &["sleep", &three_idle_times]).await;

        assert_eq!(end.unwrap(), ProcessEnd::Exited(0));
        assert_eq!(scene.row(&lease.id).await.state, State::Active);
    });
}

/// A provider whose sandboxes end by themselves.
fn with_timer() -> Setup {
    let mut setup = Setup { seeds: 4, ..Setup::default() };
    setup.world.capabilities.timer = true;
    setup
}

#[test]
fn b5_a_sandbox_whose_nodes_never_come_back_is_ended_by_its_own_timer() {
    play(with_timer(), |scene| async move {
        let holder = scene.start_node().await;
        let request = AcquireRequest { lifetime: 10 * MINUTE, ..scene.request() };
        let lease = holder.acquire(request).await.unwrap();
        let until = scene.now() + HOUR;
        let lease = holder.keeper.renew(&lease.id, until, &owner_of(&lease)).await.unwrap();
        let (node, held) = (holder.clone(), lease.clone());
        let command = scene.spawn(&holder, async move {
            node.run(&held, &owner_of(&held), &["sleep", "86000"]).await
        });
        scene.pass(MINUTE).await;
        scene.kill(&holder).await;
        assert!(command.await.is_err());

        scene.pass(lease.life_until.since(scene.now())).await;
        assert_eq!(scene.home().running_commands(&sandbox_of(&lease)), 1, "not before its time");
        scene.pass(holder.keeper.settings().timer_margin + Duration::from_secs(1)).await;
        assert_eq!(scene.home().running_commands(&sandbox_of(&lease)), 0);
        assert_eq!(scene.home().sent(Operation::Destroy), 0, "no node was there to do it");
    });
}

#[test]
fn b5_a_renewal_is_promised_only_once_the_timer_allows_it() {
    play(with_timer(), |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        let until = lease.life_until + HOUR;
        let owner = owner_of(&lease);
        scene.home().faults().script(Operation::ExtendTimer, 0, Fault::Unreachable);
        let failed = node.keeper.renew(&lease.id, until, &owner).await;
        assert!(matches!(failed, Err(KeeperError::TimerNotSet { .. })), "{failed:?}");
        assert_eq!(scene.row(&lease.id).await.life_until, lease.life_until);

        let sent = scene.home().sent(Operation::ExtendTimer);
        let stranger = node.keeper.renew(&lease.id, until, &owner_b()).await;
        assert!(matches!(stranger, Err(KeeperError::Refused(_))), "{stranger:?}");
        assert_eq!(scene.home().sent(Operation::ExtendTimer), sent, "a stranger moves no timer");

        let hold = scene.home().hold(Operation::ExtendTimer, Moment::Request);
        let (keeper, id) = (node.keeper.clone(), lease.id.clone());
        let renewal = scene.spawn(&node, async move { keeper.renew(&id, until, &owner).await });
        hold.reached().await;
        assert_eq!(scene.row(&lease.id).await.life_until, lease.life_until, "not promised yet");
        hold.let_go();
        assert_eq!(renewal.await.unwrap().unwrap().life_until, until);
    });
}

#[test]
fn b6_secrets_of_a_killed_run_end_with_their_sandbox_and_were_never_on_record() {
    const CANARY: &str = "canary-5c0ffee";
    play(Setup::default(), |scene| async move {
        let holder = scene.start_node().await;
        let request = AcquireRequest { tethered: true, ..scene.request() };
        let lease = holder.acquire(request).await.unwrap();
        let command = ExecuteRequest {
            work: Work::Program(vec!["sleep".into(), "3600".into()]),
            directory: None,
            environment: BTreeMap::from([("TOKEN".into(), SecretString::from(CANARY))]),
            input: false,
        };
        let running = holder.keeper.execute(&lease.id, &owner_of(&lease), command).await.unwrap();
        drop(running);
        scene.kill(&holder).await;

        let next = scene.start_node().await;
        let report = next.keeper.recover(RecoveryScope::Everything).await.unwrap();

        assert_eq!(report.ended, [lease.id.clone()]);
        assert!(scene.home().alive().is_empty(), "what held the secret is gone");
        let history = scene.ledger().events(&lease.id, 0, 1_000).await.unwrap();
        let record =
            format!("{:?}{history:?}{report:?}{}", scene.all_rows().await, scene.journal());
        assert!(!record.contains(CANARY));
    });
}

#[test]
fn b7_an_abandoned_start_is_given_up_only_when_its_node_is_proved_dead_or_its_claim_is_over() {
    for proved_dead in [true, false] {
        play(Setup::default(), move |scene| async move {
            let launcher = scene.start_node().await;
            let hold = scene.home().hold(Operation::Create, Moment::Request);
            let (node, request) = (launcher.clone(), scene.request());
            drop(scene.spawn(&launcher, async move { node.acquire(request).await }));
            hold.reached().await;
            let row = only(scene.open_rows().await);
            scene.lose(&launcher).await;

            let next = scene.start_node().await;
            let report = next.keeper.recover(RecoveryScope::Everything).await.unwrap();
            assert_eq!(report.worked_on, [], "absence of news is no news");
            assert_eq!(scene.row(&row.id).await, row);

            if proved_dead {
                scene.prove_dead(&launcher);
            } else {
                scene.pass(next.keeper.settings().claim).await;
            }
            let report = next.keeper.recover(RecoveryScope::Everything).await.unwrap();
            assert_eq!(report.worked_on, [row.id.clone()]);
            let looked_for = scene.row(&row.id).await;
            let horizon = row.attempt.unwrap().horizon;
            assert!(scene.now() >= horizon || looked_for.state == State::Creating);

            let _stop = scene.start_work(&next);
            scene.pass(HOUR).await;
            let receipt = scene.row(&row.id).await.receipt.unwrap();
            assert_eq!(receipt.ending, Ending::NeverCreated);
            assert!(receipt.at >= horizon, "not before nothing can come of it any more");
            assert_eq!(scene.home().ever_made(), 0);
        });
    }
}

#[test]
fn b8_a_destroy_that_is_cancelled_at_any_await_is_completed_by_the_next_one() {
    for (slow, restart) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = WorldSettings::plain();
        world.always_slow_destroy = slow;
        let was_completed = Arc::new(AtomicBool::new(false));
        let mut polls = 0;
        while !was_completed.load(Ordering::Relaxed) {
            polls += 1;
            assert!(polls < 500, "it never ends by itself");
            let was_completed = Arc::clone(&was_completed);
            let setup = Setup { world: world.clone(), seeds: 1, ..Setup::default() };
            play(setup, move |scene| {
                let was_completed = Arc::clone(&was_completed);
                async move {
                    let node = scene.start_node().await;
                    let lease = node.acquire(scene.request()).await.unwrap();
                    let owner = owner_of(&lease);
                    let first = dropped_after(polls, node.destroy(&lease.id, &owner)).await;
                    was_completed.store(first.is_some(), Ordering::Relaxed);
                    let node = if restart {
                        scene.kill(&node).await;
                        scene.start_node().await
                    } else {
                        node
                    };

                    let receipt = node.destroy(&lease.id, &owner).await.unwrap();

                    assert!(matches!(receipt.ending, Ending::Destroyed | Ending::AlreadyAbsent));
                    assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
                    assert_eq!(scene.row(&lease.id).await.receipt, Some(receipt));
                    assert!(scene.home().alive().is_empty());
                }
            });
        }
    }
}

#[test]
fn b10_after_kill_9_of_the_manager_each_sandbox_is_adopted_or_gone() {
    play(Setup::default(), |scene| async move {
        let manager = scene.start_node().await;
        let tethered = AcquireRequest { tethered: true, ..scene.request() };
        let warm = manager.acquire(scene.request()).await.unwrap();
        manager.park(&warm, &owner_of(&warm)).await.unwrap();
        let bound = manager.acquire(tethered).await.unwrap();
        let busy = manager.acquire(scene.request()).await.unwrap();
        let command = manager.start(&busy, &owner_of(&busy), &["sleep", "7200"]).await.unwrap();
        drop(command);
        scene.kill(&manager).await;

        let next = scene.start_node().await;
        let report = next.keeper.recover(RecoveryScope::Everything).await.unwrap();

        assert_eq!(report.dead_nodes, [manager.keeper.node().clone()]);
        assert_eq!(scene.home().destroyed(), [sandbox_of(&bound)]);
        let again = next.resume(&warm, &owner_of(&warm)).await.unwrap();
        assert_eq!(again.pin, warm.pin, "the warm one is adopted");
        // Whether the command of the dead manager still runs nobody can tell: its owner may use
        // the sandbox to the end, and it is not kept.
        assert_eq!(scene.row(&busy.id).await.cleanliness, Cleanliness::Doubtful);
        let parked = next.keeper.park(&busy.id, &owner_of(&busy)).await.unwrap();
        assert!(matches!(parked, Parked::Removed(_)), "{parked:?}");
        assert_eq!(scene.home().alive(), [sandbox_of(&warm)]);
    });
}

#[test]
fn b11_five_thousand_due_leases_at_boot_are_paged_and_a_second_kill_loses_none() {
    const LEASES: usize = 5_000;
    const AT_ONCE: usize = 8;
    let settings = Settings {
        clocks: Clocks { idle_active: 2 * DAY, ..Clocks::default() },
        limits: Limits { per_owner: 10_000, per_home: 10_000 },
        ..Settings::default()
    };
    let page = usize::try_from(settings.page).unwrap();
    let setup = Setup { settings, seeds: 1, steps: 20_000_000, ..Setup::default() };
    play(setup, move |scene| async move {
        let first = scene.start_node().await;
        let deadline = scene.now() + DAY;
        for _ in 0..LEASES {
            let lifetime = deadline.since(scene.now());
            first.acquire(AcquireRequest { lifetime, ..scene.request() }).await.unwrap();
        }
        scene.kill(&first).await;
        scene.pass(deadline.since(scene.now())).await;

        let second = scene.start_node().await;
        let _stop = scene.start_work(&second);
        let mut removed = 0;
        let mut left_behind = 0;
        let mut killed = false;
        let mut workers = Vec::new();
        for _ in 0..10 * 60 {
            scene.pass(Duration::from_secs(1)).await;
            let now = scene.home().destroyed().len();
            assert!(now - removed <= page + left_behind, "{} in one second", now - removed);
            left_behind = 0;
            if now > LEASES / 2 && !killed {
                killed = true;
                // What the killed node had asked for still happens, beside the next one's page.
                left_behind = AT_ONCE;
                scene.kill(&second).await;
                let third = scene.start_node().await;
                workers.push(scene.start_work(&third));
            }
            removed = now;
        }

        assert!(killed);
        assert!(scene.home().most_at_once(Operation::Destroy) <= AT_ONCE, "a few at a time");
        let distinct: BTreeSet<SandboxId> = scene.home().destroyed().into_iter().collect();
        assert_eq!(distinct.len(), LEASES);
        let open: Vec<_> = scene.open_rows().await.into_iter().map(|row| row.id).collect();
        assert_eq!(open, [], "none is lost");
        assert!(scene.home().alive().is_empty());
    });
}
