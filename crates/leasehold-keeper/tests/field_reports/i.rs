//! Expiry and timers.

use std::time::Duration;

use futures_util::future::join;
use leasehold_core::{Clocks, DestroyReason, Ending, Refusal, State, due_at};
use leasehold_keeper::{AcquireRequest, KeeperError, RecoveryScope};
use leasehold_ports::{Ledger as _, ProcessEnd};
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;

use crate::harness::{Hold, Setup, key, owner_a, owner_of, play, sandbox_of, stopped_after};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn i1_ten_thousand_renewals_at_the_very_expiry_leave_no_lease_without_an_owner_or_an_end() {
    play(Setup { seeds: 1, steps: 50_000_000, ..Setup::default() }, |scene| async move {
        let (holder, sweeper) = (scene.start_node().await, scene.start_node().await);
        let owner = owner_a();
        let clocks = Clocks { idle_active: DAY, ..Clocks::default() };
        let request = AcquireRequest { clocks: Some(clocks), lifetime: MINUTE, ..scene.request() };
        let mut lease = holder.acquire(request.clone()).await.unwrap();
        let (mut renewed, mut ended) = (0, 0);
        for round in 0..10_000_u64 {
            // The renewal sets out up to three milliseconds before the sweep; a write takes as long.
            let lead = Duration::from_millis(round % 4);
            scene.pass(lease.expires_at().since(scene.now()).saturating_sub(lead)).await;
            let renew = holder.keeper.renew(&lease.id, lease.life_until + MINUTE, &owner);
            let sweep = async {
                scene.pass(lead).await;
                sweeper.keeper.recover(RecoveryScope::Everything).await.unwrap();
            };

            let (answer, ()) = join(renew, sweep).await;

            let row = scene.row(&lease.id).await;
            match answer {
                Ok(told) => {
                    renewed += 1;
                    assert!(!lead.is_zero(), "it was renewed at its expiry");
                    assert_eq!((row.state, row.life_until), (State::Active, told.life_until));
                    assert!(row.expires_at() > scene.now(), "it runs past its end");
                    let armed = scene.ledger().next_due().await.unwrap();
                    assert_eq!(armed, Some(row.expires_at()), "nobody will end it");
                    lease = row;
                }
                Err(refused) => {
                    ended += 1;
                    assert!(
                        matches!(
                            refused,
                            KeeperError::Refused(Refusal::Expired { .. } | Refusal::Gone { .. })
                        ),
                        "{refused:?}"
                    );
                    assert_eq!(row.state, State::Closed, "it was refused, and lives on");
                    assert!(!scene.home().exists(&sandbox_of(&lease)));
                    lease = holder.acquire(request.clone()).await.unwrap();
                }
            }
        }
        assert!(renewed > 1_000 && ended > 1_000, "{renewed} renewed, {ended} ended");
        assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
    });
}

#[test]
fn i2_a_lease_that_is_asked_for_without_an_end_has_one_and_is_not_renewed_for_ever() {
    play(Setup { seeds: 2, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let clocks = Clocks { longest_life: DAY, ..Clocks::default() };
        let request =
            AcquireRequest { clocks: Some(clocks), lifetime: Duration::MAX, ..scene.request() };
        let lease = node.acquire(request).await.unwrap();
        assert!(lease.expires_at() <= lease.created_at + DAY);
        let owner = owner_of(&lease);
        let stop = scene.start_work(&node);

        // Its holder keeps it busy and renews it as far as it can, for as long as it can.
        let mut refused = None;
        while refused.is_none() {
            assert!(scene.now() < lease.created_at + DAY + HOUR, "it is immortal");
            scene.pass(10 * MINUTE).await;
            refused = node.run(&lease, &owner, &["true"]).await.err();
            let beyond = node.keeper.renew(&lease.id, scene.now() + 2 * DAY, &owner).await;
            assert!(beyond.is_err(), "{beyond:?}");
        }

        scene.pass(MINUTE).await;
        assert!(scene.now() >= lease.created_at + DAY, "it ended too early");
        let row = scene.row(&lease.id).await;
        assert_eq!(row.cleanup.unwrap().reason, DestroyReason::Deadline);
        assert_eq!(row.state, State::Closed);
        assert!(scene.home().alive().is_empty());
        stop.cancel();
    });
}

#[test]
fn i4_no_deadline_in_the_schema_may_be_null() {
    let schema = include_str!("../../../leasehold-ledger/migrations/0001_leases.sql");
    let is_deadline = |column: &&str| {
        let name = column.split_whitespace().next().unwrap_or_default();
        (name.ends_with("_at") || name == "at") && column.contains("INTEGER")
    };
    let deadlines: Vec<&str> = schema.lines().map(str::trim).filter(is_deadline).collect();
    for wanted in ["due_at", "expires_at"] {
        assert!(deadlines.iter().any(|column| column.starts_with(wanted)), "{wanted} is missing");
    }
    for column in deadlines {
        assert!(column.contains("NOT NULL"), "{column}");
    }
}

#[test]
fn i4_every_open_row_is_due_at_some_time() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        // Each commit of a life is stopped, so that the row before it can be looked at.
        let life = [
            (State::Requested, State::Creating),
            (State::Creating, State::Preparing),
            (State::Preparing, State::Active),
            (State::Active, State::Parking),
            (State::Parking, State::Parked),
            (State::Parked, State::Resuming),
            (State::Resuming, State::Active),
            (State::Active, State::Destroying),
            (State::Destroying, State::Closed),
        ];
        let stops = life.map(|(before, after)| (before, node.hold_commit(after)));
        let lived = {
            let (node, request) = (node.clone(), scene.request());
            scene.spawn(&node.clone(), async move {
                let lease = node.acquire(request).await.unwrap();
                node.park(&lease, &owner_a()).await.unwrap();
                node.resume(&lease, &owner_a()).await.unwrap();
                node.destroy(&lease.id, &owner_a()).await.unwrap();
            })
        };
        for (state, stop) in stops {
            stop.reached().await;
            let [row] = &scene.open_rows().await[..] else { panic!("one open row") };
            assert_eq!(row.state, state);
            let due = due_at(row).expect("a time at which it is due");
            assert!(due <= row.life_until, "{row:?}");
            stop.let_go();
        }
        lived.await.unwrap();
    });
}

#[test]
fn i5_a_sweeper_that_was_stopped_and_goes_on_after_another_took_over_changes_nothing() {
    // Stopped at each of its steps in turn.
    for polls in 1..=40 {
        play(Setup { seeds: 2, ..Setup::default() }, move |scene| async move {
            let (stopped, elected) = (scene.start_node().await, scene.start_node().await);
            let request = AcquireRequest { lifetime: MINUTE, ..scene.request() };
            let lease = stopped.acquire(request).await.unwrap();
            scene.pass(MINUTE).await;
            let stop = Hold::new();
            let sweep = {
                let (node, stop) = (stopped.clone(), stop.clone());
                scene.spawn(&stopped, async move {
                    let sweep = node.keeper.recover(RecoveryScope::Everything);
                    stopped_after(polls, &stop, sweep).await
                })
            };

            // The other is elected when the claim of the stopped one has run out at the latest.
            scene.pass(2 * MINUTE).await;
            scene.start_work(&elected);
            scene.pass(MINUTE).await;
            let ended = scene.row(&lease.id).await;
            assert_eq!(ended.state, State::Closed);
            let next = elected.acquire(scene.request()).await.unwrap();
            let before = scene.row(&next.id).await;

            stop.let_go();
            sweep.await.unwrap().unwrap();
            scene.pass(MINUTE).await;

            assert_eq!(scene.row(&lease.id).await, ended, "its action affected a row");
            assert_eq!(scene.row(&next.id).await, before, "its action affected a row");
            assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
            assert_eq!(scene.home().alive(), [sandbox_of(&next)]);
        });
    }
}

#[test]
fn i5_a_node_that_was_stopped_in_a_park_and_goes_on_under_the_next_grant_changes_nothing() {
    for polls in 1..=40 {
        play(Setup { seeds: 2, ..Setup::default() }, move |scene| async move {
            let (stopped, elected) = (scene.start_node().await, scene.start_node().await);
            let lease = elected.acquire(scene.request()).await.unwrap();
            let holder = owner_of(&lease);
            let stop = Hold::new();
            let park = {
                let (node, stop, lease) = (stopped.clone(), stop.clone(), lease.clone());
                let holder = holder.clone();
                scene.spawn(&stopped, async move {
                    stopped_after(polls, &stop, node.keeper.park(&lease.id, &holder)).await
                })
            };
            scene.pass(2 * MINUTE).await;
            scene.start_work(&elected);
            scene.pass(MINUTE).await;
            // The next grant is given, and used.
            let next = elected.resume(&lease, &holder).await.unwrap();
            let run = {
                let (node, next) = (elected.clone(), next.clone());
                let owner = owner_of(&next);
                scene
                    .spawn(&elected, async move { node.run(&next, &owner, &["sleep", "60"]).await })
            };
            scene.pass(Duration::from_secs(5)).await;
            let before = scene.row(&lease.id).await;

            stop.let_go();
            let _ = park.await.unwrap();

            let after = scene.row(&lease.id).await;
            assert_eq!(after, before, "its action affected the row");
            // A request that was on its way may still end the command; nobody is told otherwise.
            run.await.unwrap().unwrap();
            assert_eq!(scene.row(&lease.id).await.grant, next.grant);
            assert!(scene.home().destroyed().is_empty());
        });
    }
}

#[test]
fn i6_a_command_runs_far_beyond_any_default() {
    play(Setup { seeds: 1, ..Setup::default() }, |scene| async move {
        let (node, sweeper) = (scene.start_node().await, scene.start_node().await);
        scene.start_work(&sweeper);
        let lease = node.acquire(scene.request()).await.unwrap();

        let end = node.run(&lease, &owner_of(&lease), &["sleep", "36000"]).await.unwrap();

        assert_eq!(end, ProcessEnd::Exited(0));
        assert!(scene.elapsed() >= 10 * HOUR);
        let row = scene.row(&lease.id).await;
        assert_eq!((row.state, row.grant), (State::Active, lease.grant));
        assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
    });
}

#[test]
fn i6_a_removal_that_takes_longer_than_the_lease_lived_is_watched_until_it_is_confirmed() {
    let world = WorldSettings {
        always_slow_destroy: true,
        slow_destroy: 3 * HOUR,
        ended_readable: 3 * HOUR,
        ..WorldSettings::plain()
    };
    play(Setup { world, ..Setup::default() }, |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let request = AcquireRequest { lifetime: HOUR, ..scene.request() };
        let lease = node.acquire(request).await.unwrap();
        node.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();
        scene.start_work(&node);
        let row = async || scene.row(&lease.id).await;

        scene.pass(HOUR + MINUTE).await;
        for _ in 0..5 {
            assert_eq!(row().await.state, State::Destroying);
            assert_eq!(home.alive(), [sandbox_of(&lease)]);
            scene.pass(30 * MINUTE).await;
        }
        scene.pass(2 * HOUR).await;

        assert_eq!(row().await.receipt.unwrap().ending, Ending::Destroyed);
        assert!(home.alive().is_empty());
        assert_eq!(home.destroyed(), [sandbox_of(&lease)], "asked for once");
    });
}

#[test]
fn i8_an_original_that_returns_after_its_replacement_is_removed_once_and_the_replacement_stays() {
    // For a while the provider does not see its own sandbox, which the judge would not believe.
    let world = WorldSettings { needs_key: true, ..WorldSettings::plain() };
    play(Setup { world, judged: false, ..Setup::default() }, |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let place = home.place();
        let elsewhere = leasehold_core::AccountId::new("partitioned").unwrap();
        let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
        let original = node.acquire(request.clone()).await.unwrap();
        node.park(&original, &owner_a()).await.unwrap();

        home.world().add_key("key-1", &elsewhere);
        let gone = node.resume(&original, &owner_a()).await;
        assert!(matches!(gone, Err(KeeperError::Refused(Refusal::Gone { .. }))), "{gone:?}");
        assert_eq!(scene.row(&original.id).await.receipt.unwrap().ending, Ending::Lost);

        home.world().add_key("key-1", &place.account);
        let request = AcquireRequest { key: Some(key("run-2")), ..request };
        let replacement = node.acquire(request).await.unwrap();
        assert_eq!(home.alive(), [sandbox_of(&original), sandbox_of(&replacement)]);

        let swept = node.keeper.sweep(&[]).await.unwrap();
        assert_eq!(swept.reopened, std::slice::from_ref(&original.id));
        node.keeper.recover(RecoveryScope::Everything).await.unwrap();
        for _ in 0..3 {
            let swept = node.keeper.sweep(&[]).await.unwrap();
            assert!(swept.reopened.is_empty() && swept.orphans.is_empty(), "{swept:?}");
            node.keeper.recover(RecoveryScope::Everything).await.unwrap();
        }

        assert_eq!(home.destroyed(), [sandbox_of(&original)]);
        assert_eq!(home.alive(), [sandbox_of(&replacement)]);
        let row = scene.row(&original.id).await;
        assert_eq!(row.receipt.unwrap().ending, Ending::Destroyed);
        assert_eq!(row.cleanup.unwrap().reason, DestroyReason::Reappeared);
        node.run(&replacement, &owner_of(&replacement), &["true"]).await.unwrap();
    });
}

#[test]
fn i8_a_partition_alone_replaces_nobody() {
    play(Setup::default(), |scene| async move {
        let (node, home) = (scene.start_node().await, scene.home());
        let lease = node.acquire(scene.request()).await.unwrap();
        scene.start_work(&node);
        for operation in [Operation::Start, Operation::Status, Operation::List] {
            home.fail_next(operation, 2, Fault::Unreachable);
        }

        for _ in 0..2 {
            node.run(&lease, &owner_of(&lease), &["true"]).await.unwrap_err();
            let swept = node.keeper.sweep(&[]).await.unwrap();
            assert_eq!(swept.incomplete.len(), 1);
            scene.pass(MINUTE).await;
        }

        node.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();
        let row = scene.row(&lease.id).await;
        assert_eq!((row.state, row.pin), (State::Active, lease.pin));
        assert_eq!(home.ever_made(), 1);
    });
}
