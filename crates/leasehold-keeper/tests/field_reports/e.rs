//! Edits of the configuration, and the deletion of environments and owners.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::{Attention, Caller, Clocks, Ending, EventKind, Lease, Refusal, Spec, State};
use leasehold_keeper::{AcquireRequest, KeeperError, RecoveryScope, Settings};
use leasehold_ports::{Ledger as _, LedgerMode, Limits};
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;

use crate::harness::{
    DAY, HOUR, MINUTE, Moment, Setup, assert_refused, key, lease_in, owner_of, play, sandbox_of,
    spec_of_image,
};

#[test]
fn e1_a_parked_lease_whose_environment_was_deleted_is_still_destroyed() {
    // By whoever deletes the environment, or at its deadline should nobody ask.
    for asked in [true, false] {
        play(Setup::default(), move |scene| async move {
            let node = scene.start_node().await;
            let request = AcquireRequest { lifetime: 20 * DAY, ..scene.request() };
            let lease = node.acquire(request).await.unwrap();
            node.park(&lease, &owner_of(&lease)).await.unwrap();
            scene.kill(&node).await;

            // The environment exists nowhere any more but in the lease's own row.
            let next = scene.start_node().await;
            let _stop = scene.start_work(&next);
            if asked {
                let operator = Caller::Operator("ops".into());
                next.destroy(&lease.id, &operator).await.unwrap();
            } else {
                scene.pass(lease.clocks.idle_parked + MINUTE).await;
            }

            let receipt = scene.row(&lease.id).await.receipt.unwrap();
            assert_eq!(receipt.ending, Ending::Destroyed);
            assert_eq!(receipt.actor, if asked { "operator ops" } else { "keeper" });
            assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
        });
    }
}

/// The endpoint of yesterday, and the one that the configuration names today.
fn moved_endpoint() -> Setup {
    let mut world = WorldSettings::plain();
    world.needs_key = true;
    Setup { world, more_endpoints: vec!["simulated:new"], judged: false, ..Setup::default() }
}

#[test]
fn e2_a_release_goes_to_the_endpoint_of_the_acquire_whatever_is_configured_now() {
    play(moved_endpoint(), |scene| async move {
        let first = scene.start_node().await;
        let lease = first.acquire(scene.request()).await.unwrap();
        let today = AcquireRequest { home: scene.other_home(1).place(), ..scene.request() };
        let other = first.acquire(today).await.unwrap();

        let second = scene.start_node().await;
        let sent_to_the_new = scene.other_home(1).sent_at_all();
        let receipt = second.destroy(&lease.id, &owner_of(&lease)).await.unwrap();

        assert_eq!(receipt.ending, Ending::Destroyed);
        assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
        assert_eq!(scene.other_home(1).sent_at_all(), sent_to_the_new);
        assert_eq!(scene.other_home(1).alive(), [sandbox_of(&other)]);
    });
}

#[test]
fn e2_without_a_key_for_the_endpoint_of_the_acquire_the_cleanup_waits_and_is_not_abandoned() {
    play(moved_endpoint(), |scene| async move {
        let first = scene.start_node().await;
        let lease = first.acquire(scene.request()).await.unwrap();
        scene.kill(&first).await;
        scene.keys().take_away(&lease.home.endpoint);
        let second = scene.start_node().await;
        let _stop = scene.start_work(&second);
        let sent = scene.home().sent(Operation::Destroy);

        let pending = second.destroy(&lease.id, &owner_of(&lease)).await;
        // Far more tries than any cap would allow.
        scene.pass(3 * DAY).await;

        assert!(matches!(pending, Err(KeeperError::CleanupUnconfirmed { .. })), "{pending:?}");
        let row = scene.row(&lease.id).await;
        assert!(row.is_quarantined() && row.attention.contains(&Attention::WaitingForKey));
        assert!(row.cleanup.as_ref().unwrap().tries > 20);
        assert_eq!(scene.home().sent(Operation::Destroy), sent);
        assert_eq!(scene.other_home(1).sent_at_all(), 0, "nobody asks elsewhere");

        scene.keys().give(&lease.home.endpoint, "key-1");
        scene.pass(2 * HOUR).await;
        assert_eq!(scene.row(&lease.id).await.receipt.unwrap().ending, Ending::Destroyed);
        assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
    });
}

#[test]
fn e4_no_edit_of_times_and_limits_stands_in_the_way_of_a_release() {
    let acquired_under = Settings::default();
    let second = Duration::from_secs(1);
    let edits = [
        Settings {
            clocks: Clocks {
                provisioning: second,
                idle_active: second,
                idle_parked: second,
                longest_life: second,
            },
            ..acquired_under
        },
        Settings { limits: Limits { per_owner: 0, per_home: 0 }, ..acquired_under },
        Settings { claim: 5 * second, drain: second, grace: second, ..acquired_under },
        Settings { least_life: DAY, longest_retry: second, page: 1, ..acquired_under },
    ];
    for edited in edits {
        for state in [State::Active, State::Parked] {
            play(Setup { seeds: 2, ..Setup::default() }, move |scene| async move {
                let before = scene.start_node().await;
                let lease = lease_in(state, &scene, &before).await;
                scene.kill(&before).await;
                let after = scene.start_node_with(edited, &[]).await;

                let receipt = after.destroy(&lease.id, &owner_of(&lease)).await.unwrap();

                assert_eq!(receipt.ending, Ending::Destroyed);
                assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
            });
        }
    }
}

#[test]
fn e5_a_changed_image_never_attaches_to_the_sandbox_of_the_old_one() {
    for state in [State::Active, State::Parked, State::Destroying, State::Closed] {
        play(Setup { seeds: 2, ..Setup::default() }, move |scene| async move {
            let node = scene.start_node().await;
            let old = AcquireRequest {
                key: Some(key("run-1")),
                spec: spec_of_image("debian-12"),
                ..scene.request()
            };
            let lease = node.acquire(old.clone()).await.unwrap();
            let owner = owner_of(&lease);
            let slow = scene.home().hold(Operation::Destroy, Moment::Request);
            if state != State::Destroying {
                slow.let_go();
            }
            match state {
                State::Parked => drop(node.park(&lease, &owner).await.unwrap()),
                State::Destroying => {
                    let (node, id, owner) = (node.clone(), lease.id.clone(), owner.clone());
                    drop(
                        scene.spawn(&node.clone(), async move { node.destroy(&id, &owner).await }),
                    );
                    slow.reached().await;
                }
                State::Closed => drop(node.destroy(&lease.id, &owner).await.unwrap()),
                _ => {}
            }
            let row = scene.row(&lease.id).await;

            let changed = AcquireRequest { spec: spec_of_image("debian-13"), ..old };
            let conflict = node.acquire(changed.clone()).await;

            assert_refused(conflict, &Refusal::KeyConflict { lease: lease.id.clone() });
            assert_eq!(scene.row(&lease.id).await, row);
            assert_eq!(row.spec, spec_of_image("debian-12"), "drift can be seen in the record");
            slow.let_go();
            // What its front end does then: the old one is released, a new one acquired.
            node.destroy(&lease.id, &owner).await.unwrap();
            let new = AcquireRequest { key: Some(key("run-2")), ..changed };
            let new = node.acquire(new).await.unwrap();
            assert_eq!(new.spec, spec_of_image("debian-13"));
            assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
            assert_eq!(scene.home().alive(), [sandbox_of(&new)]);
        });
    }
}

#[test]
fn e5_a_resume_changes_nothing_of_what_was_asked_for() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        let spec = Spec { shape: Some("small".into()), ..spec_of_image("debian-12") };
        let request = AcquireRequest { spec: spec.clone(), ..scene.request() };
        let lease = node.acquire(request).await.unwrap();
        node.park(&lease, &owner_of(&lease)).await.unwrap();

        let resumed = node.resume(&lease, &owner_of(&lease)).await.unwrap();

        assert_eq!(
            (&resumed.spec, &resumed.home, &resumed.owner),
            (&spec, &lease.home, &lease.owner)
        );
        assert_eq!(resumed.pin, lease.pin);
    });
}

#[test]
fn e6_of_two_holders_the_older_cannot_end_what_the_newer_uses() {
    play(Setup::default(), |scene| async move {
        let (one, two) = (scene.start_node().await, scene.start_node().await);
        let older = one.acquire(scene.request()).await.unwrap();
        let newer = two.resume(&older, &owner_of(&older)).await.unwrap();
        let sent = scene.home().sent_at_all();

        let conflict = one.destroy(&older.id, &owner_of(&older)).await;

        let presented = older.grant;
        assert_refused(conflict, &Refusal::StaleGrant { lease: older.id.clone(), presented });
        assert_eq!(scene.home().sent_at_all(), sent);
        assert_eq!(scene.row(&older.id).await, newer);
    });
}

#[test]
fn e6_an_old_id_is_removed_exactly_once_however_many_ask_for_it() {
    play(Setup::default(), |scene| async move {
        let nodes = [scene.start_node().await, scene.start_node().await];
        let lease = nodes[0].acquire(scene.request()).await.unwrap();
        let asked: Vec<_> = (0..6)
            .map(|number| {
                let (node, lease) = (nodes[number % 2].clone(), lease.clone());
                let by = owner_of(&lease);
                scene.spawn(&node.clone(), async move { node.destroy(&lease.id, &by).await })
            })
            .collect();

        let mut receipts = Vec::new();
        for one in asked {
            receipts.push(one.await.unwrap().unwrap());
        }

        receipts.dedup();
        assert_eq!(receipts.len(), 1, "all hold the same receipt");
        assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
        let events = scene.ledger().events(&lease.id, 0, 1_000).await.unwrap().events;
        let decided = |kind: &EventKind| matches!(kind, EventKind::DestroyBegan { .. });
        assert_eq!(events.iter().filter(|one| decided(&one.event.kind)).count(), 1);
    });
}

#[test]
fn e7_rows_of_another_installation_are_listed_and_never_purged() {
    // What makes a row due: each of these would be removed at once by the installation that wrote it.
    play(Setup { seeds: 4, ..Setup::default() }, |scene| async move {
        let old = scene.start_node().await;
        let mut rows: Vec<Lease> = Vec::new();
        for state in [State::Active, State::Parked, State::Creating, State::Preparing] {
            rows.push(lease_in(state, &scene, &old).await);
        }
        let tethered = AcquireRequest { tethered: true, ..scene.request() };
        rows.push(old.acquire(tethered).await.unwrap());
        let undelivered = AcquireRequest { delivered: false, ..scene.request() };
        rows.push(old.acquire(undelivered).await.unwrap());
        scene.kill(&old).await;
        scene.ledger().set_mode(LedgerMode::Restored { why: "another machine".into() });

        let new = scene.start_node().await;
        let _stop = scene.start_work(&new);
        scene.pass(3 * DAY).await;
        let report = new.keeper.recover(RecoveryScope::Everything).await.unwrap();
        new.keeper.sweep(&[]).await.unwrap();

        assert_eq!(report.restored.as_deref(), Some("another machine"));
        assert_eq!(scene.home().destroyed(), []);
        let listed: BTreeSet<_> = scene.open_rows().await.into_iter().map(|row| row.id).collect();
        assert_eq!(listed, rows.iter().map(|row| row.id.clone()).collect());

        // Owners' calls work; everything else waits until a person has looked.
        let active = &rows[0];
        new.destroy(&active.id, &owner_of(active)).await.unwrap();
        assert_eq!(scene.home().destroyed(), [sandbox_of(active)]);
        new.keeper.ledger().accept().await.unwrap();
        scene.pass(DAY).await;
        assert_eq!(scene.open_rows().await, []);
        assert!(scene.home().alive().is_empty());
    });
}

#[test]
fn e9_a_removal_that_could_not_be_asked_for_is_pending_and_is_done_when_the_driver_is_back() {
    #[derive(Clone, Copy, Debug)]
    enum Down {
        /// The endpoint refuses connections.
        Unreachable,
        /// This process has no such driver.
        Missing,
        /// No key for it is at hand.
        WithoutKey,
    }
    for down in [Down::Unreachable, Down::Missing, Down::WithoutKey] {
        let mut world = WorldSettings::plain();
        world.needs_key = true;
        play(Setup { world, ..Setup::default() }, move |scene| async move {
            let first = scene.start_node().await;
            let lease = first.acquire(scene.request()).await.unwrap();
            scene.kill(&first).await;
            let settings = Settings::default();
            let node = match down {
                Down::Missing => scene.start_node_with(settings, &[0]).await,
                _ => scene.start_node().await,
            };
            match down {
                Down::Unreachable => {
                    scene.home().fail_next(Operation::Destroy, 100, Fault::Unreachable);
                }
                Down::WithoutKey => scene.keys().take_away(&lease.home.endpoint),
                Down::Missing => {}
            }

            let pending = node.destroy(&lease.id, &owner_of(&lease)).await;

            assert!(matches!(pending, Err(KeeperError::CleanupUnconfirmed { .. })), "{down:?}");
            let stop = scene.start_work(&node);
            scene.pass(6 * HOUR).await;
            stop.cancel();
            let row = scene.row(&lease.id).await;
            assert!(row.is_quarantined(), "neither failed nor forgotten: {row:?}");
            assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);

            scene.home().faults().quiet();
            scene.keys().give(&lease.home.endpoint, "key-1");
            let back = scene.start_node().await;
            let _stop = scene.start_work(&back);
            scene.pass(2 * HOUR).await;
            assert_eq!(scene.row(&lease.id).await.receipt.unwrap().ending, Ending::Destroyed);
            assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
        });
    }
}
