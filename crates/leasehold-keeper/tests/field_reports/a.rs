//! Creation: lost answers, partial creation, names that collide.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::{
    Attention, Clocks, DestroyReason, Ending, EventKind, Kind, Lease, Refusal, SandboxId,
    SandboxName, Spec, State, Step,
};
use leasehold_keeper::{AcquireRequest, KeeperError, RecoveryScope, Settings};
use leasehold_ports::{LedgerError, Limits, ProviderError};
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;

use crate::harness::{
    CommitFault, DAY, HOUR, MINUTE, Moment, Scene, Setup, TestNode, assert_refused, key, only,
    owner_a, owner_of, play, sandbox_of, spec_of_image, spec_of_shape,
};

#[test]
fn a1_a_lost_answer_and_a_retry_with_the_same_key_make_one_sandbox() {
    for fault in [Fault::LostAnswer, Fault::Late] {
        play(Setup::default(), move |scene| async move {
            let node = scene.start_node().await;
            scene.home().faults().script(Operation::Create, 0, fault);
            let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };

            let first = node.acquire(request.clone()).await.unwrap();
            let again = node.acquire(request).await.unwrap();

            assert_eq!(again, first);
            assert_eq!(scene.home().sent(Operation::Create), 1);
            assert_eq!(scene.home().alive(), [sandbox_of(&first)]);
        });
    }
}

#[test]
fn a1_a_restart_before_the_answer_and_a_retry_with_the_same_key_make_one_sandbox() {
    play(Setup::default(), |scene| async move {
        let first = scene.start_node().await;
        let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
        let hold = scene.home().hold(Operation::Create, Moment::Answer);
        let (node, asked) = (first.clone(), request.clone());
        let acquire = scene.spawn(&first, async move { node.acquire(asked).await });
        hold.reached().await;
        scene.kill(&first).await;
        assert!(acquire.await.is_err(), "the gateway was restarted before the answer");

        let second = scene.start_node().await;
        let lease = second.acquire(request).await.unwrap();

        assert_eq!(scene.home().sent(Operation::Create), 1);
        assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
        assert_eq!(scene.all_rows().await, [lease]);
    });
}

#[test]
fn a2_a_key_with_another_intent_is_a_conflict_without_effect() {
    let others = [
        spec_of_shape("large"),
        Spec { shape: Some("small".into()), ..spec_of_image("debian") },
        Spec { egress: Some(BTreeSet::new()), ..spec_of_shape("small") },
        Spec { egress: Some(BTreeSet::from(["example.com".into()])), ..spec_of_shape("small") },
        Spec { environment_names: BTreeSet::from(["TOKEN".into()]), ..spec_of_shape("small") },
    ];
    for other in others {
        play(Setup::default(), move |scene| {
            let other = other.clone();
            async move {
                let node = scene.start_node().await;
                let small = AcquireRequest {
                    key: Some(key("K")),
                    spec: spec_of_shape("small"),
                    ..scene.request()
                };
                let changed = AcquireRequest { spec: other, ..small.clone() };
                let lease = node.acquire(small.clone()).await.unwrap();
                let sent = scene.home().sent_at_all();

                let conflict = node.acquire(changed.clone()).await;

                let expected = Refusal::KeyConflict { lease: lease.id.clone() };
                assert_refused(conflict, &expected);
                assert_eq!(scene.home().sent_at_all(), sent);
                assert_eq!(scene.home().sent(Operation::Create), 1);
                assert_eq!(scene.all_rows().await, [lease.clone()]);

                node.destroy(&lease.id, &owner_of(&lease)).await.unwrap();
                let sent = scene.home().sent_at_all();
                let used = Refusal::KeyUsed { lease: lease.id.clone() };
                assert_refused(node.acquire(small).await, &used);
                assert_refused(node.acquire(changed).await, &expected);
                assert_eq!(scene.home().sent_at_all(), sent);
            }
        });
    }
}

#[test]
fn a3_a_sandbox_made_just_before_kill_9_is_adopted_by_its_recorded_name_and_pinned() {
    for unique_names in [true, false] {
        let mut world = WorldSettings::plain();
        world.capabilities.unique_names = unique_names;
        play(Setup { world, ..Setup::default() }, |scene| async move {
            let first = scene.start_node().await;
            let request = AcquireRequest { key: Some(key("K")), ..scene.request() };
            let hold = scene.home().hold(Operation::Create, Moment::Answer);
            let (node, asked) = (first.clone(), request.clone());
            drop(scene.spawn(&first, async move { node.acquire(asked).await }));
            hold.reached().await;
            let intent = only(scene.open_rows().await);
            let name = intent.attempt.as_ref().unwrap().name.clone();
            assert_eq!(intent.pin, None, "the id is not written yet");
            scene.kill(&first).await;
            // Another one under another name is no temptation.
            let stranger = scene.home().world().stranger_creates();

            let second = scene.start_node().await;
            second.keeper.recover(RecoveryScope::Everything).await.unwrap();

            let row = scene.row(&intent.id).await;
            let sandbox = sandbox_of(&row);
            assert_eq!(scene.home().look(&sandbox, |sandbox| sandbox.name.clone()), name);
            assert_ne!(sandbox, stranger);
            let lease = second.acquire(request).await.unwrap();
            assert_eq!(sandbox_of(&lease), sandbox);
            assert_eq!(scene.home().sent(Operation::Create), 1);
        });
    }
}

#[test]
fn a3_a_lost_answer_is_found_although_the_providers_clock_is_an_hour_from_ours() {
    for off in [-3_600_000, 3_600_000] {
        play(Setup::default(), |scene| async move {
            let first = scene.start_node().await;
            first.jump_clock(off);
            let request = AcquireRequest { key: Some(key("K")), ..scene.request() };
            let hold = scene.home().hold(Operation::Create, Moment::Answer);
            let (node, asked) = (first.clone(), request.clone());
            drop(scene.spawn(&first, async move { node.acquire(asked).await }));
            hold.reached().await;
            scene.kill(&first).await;

            let second = scene.start_node().await;
            second.jump_clock(off);
            let lease = second.acquire(request).await.unwrap();
            assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
            assert_eq!(scene.home().sent(Operation::Create), 1);
        });
    }
}

#[test]
fn a4_a_foreign_sandbox_under_the_name_of_ours_is_not_touched() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        let (ours, name) = (sandbox_of(&lease), lease.attempt.as_ref().unwrap().name.clone());
        scene.home().rename(&ours, &SandboxName::new("renamed").unwrap());
        let foreign = scene.home().world().stranger_creates();
        scene.home().rename(&foreign, &name);

        node.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();
        let receipt = node.destroy(&lease.id, &owner_of(&lease)).await.unwrap();
        node.keeper.sweep(&[]).await.unwrap();
        node.keeper.sweep(&[lease.home]).await.unwrap();
        scene.settle().await;

        assert_eq!(receipt.ending, Ending::Destroyed);
        assert_eq!(scene.home().destroyed(), [ours]);
        assert!(scene.home().exists(&foreign));
    });
}

#[test]
fn a4_a_foreign_sandbox_under_the_id_of_ours_is_neither_used_nor_removed() {
    let mut world = WorldSettings::plain();
    world.facts.recycles_ids = true;
    let clocks = Clocks { idle_active: DAY, ..Clocks::default() };
    let settings = Settings { clocks, ..Settings::default() };
    play(Setup { world, settings, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        scene.home().world().one_vanishes();
        scene.pass(2 * HOUR).await;
        let foreign = scene.home().world().stranger_creates();
        assert_eq!(foreign, sandbox_of(&lease), "the provider gives the id again");

        let run = node.run(&lease, &owner_of(&lease), &["sleep", "600"]).await;
        let receipt = node.destroy(&lease.id, &owner_of(&lease)).await.unwrap();

        assert!(run.is_err(), "{run:?}");
        assert_eq!(scene.home().sent(Operation::Start), 0);
        assert_eq!(receipt.ending, Ending::AlreadyAbsent);
        assert!(scene.home().exists(&foreign));
        assert_eq!(scene.home().destroyed(), []);
    });
}

#[test]
fn a5_a_creator_that_died_after_the_id_was_written_leaves_the_id_to_be_removed() {
    for moment in [Moment::Request, Moment::Answer] {
        play(Setup::default(), move |scene| async move {
            let first = scene.start_node().await;
            let hold = scene.home().hold(Operation::Prepare, moment);
            let (node, request) = (first.clone(), scene.request());
            drop(scene.spawn(&first, async move { node.acquire(request).await }));
            hold.reached().await;
            let row = only(scene.open_rows().await);
            assert_eq!(row.state, State::Preparing);
            scene.kill(&first).await;

            let second = scene.start_node().await;
            let _stop = scene.start_work(&second);
            for _ in 0..30 {
                scene.pass(MINUTE).await;
                assert_eq!(scene.row(&row.id).await.pin, row.pin, "the pointer is never blanked");
            }

            let ended = scene.row(&row.id).await;
            assert_eq!(ended.receipt.unwrap().ending, Ending::Destroyed);
            assert_eq!(scene.home().destroyed(), [sandbox_of(&row)]);
            assert!(scene.home().alive().is_empty());
        });
    }
}

/// Creates may still be done an hour after they were given up, and callers wait for a minute.
fn late_creates() -> Setup {
    let mut world = WorldSettings::plain();
    world.facts.create_horizon = HOUR;
    let clocks = Clocks { provisioning: MINUTE, idle_active: DAY, ..Clocks::default() };
    let settings = Settings { clocks, ..Settings::default() };
    Setup { world, settings, ..Setup::default() }
}

/// A lease whose first attempt is still in doubt, and whose second made its sandbox: with the row
/// that owes the first.
async fn lease_with_a_first_attempt_in_doubt(scene: &Scene, node: &TestNode) -> (Lease, Lease) {
    scene.home().faults().script(Operation::Create, 0, Fault::Late);
    let request = AcquireRequest { key: Some(key("K")), ..scene.request() };
    let first = node.acquire(request.clone()).await;
    assert!(matches!(first, Err(KeeperError::Unsettled { .. })), "{first:?}");
    let lease = node.acquire(request).await.unwrap();
    let debt = scene.open_rows().await.into_iter().find(|row| row.kind == Kind::Debt).unwrap();
    assert!(debt.has_attempt_in_doubt());
    (lease, debt)
}

#[test]
fn a6_a_create_that_outlived_its_timeout_is_removed_by_its_own_id_and_spares_its_successor() {
    play(late_creates(), |scene| async move {
        let node = scene.start_node().await;
        let _stop = scene.start_work(&node);
        let (lease, debt) = lease_with_a_first_attempt_in_doubt(&scene, &node).await;
        assert_eq!(scene.home().ever_made(), 1, "the first create is still on its way");

        scene.pass(3 * HOUR).await;

        assert_eq!(scene.home().ever_made(), 2);
        assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
        let paid = scene.row(&debt.id).await;
        assert_eq!(scene.home().destroyed(), [sandbox_of(&paid)]);
        assert_eq!(paid.receipt.unwrap().ending, Ending::Destroyed);
        assert_eq!(scene.row(&lease.id).await.state, State::Active);
        node.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();
    });
}

#[test]
fn a6_a_record_written_too_late_is_only_an_observation() {
    play(Setup::default(), |scene| async move {
        let slow = scene.start_node().await;
        let request = AcquireRequest { key: Some(key("K")), ..scene.request() };
        let hold = slow.hold_commit(State::Preparing);
        let (node, asked) = (slow.clone(), request.clone());
        let late = scene.spawn(&slow, async move { node.acquire(asked).await });
        hold.reached().await;
        // Its claim runs out, and another node does the work.
        let quick = scene.start_node().await;
        let lease = quick.acquire(request).await.unwrap();

        hold.let_go();
        let late = late.await.unwrap().unwrap();

        assert_eq!(late, lease);
        assert_eq!(scene.row(&lease.id).await, lease);
        assert_eq!(scene.all_rows().await.len(), 1, "no debt for what is in use");
        assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
        assert_eq!(scene.home().sent(Operation::Create), 1);
        assert_eq!(scene.home().sent(Operation::Destroy), 0);
    });
}

#[test]
fn a7_a_name_that_our_own_create_has_taken_is_adopted() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        scene.home().repeat_next_create();

        let lease = node.acquire(scene.request()).await.unwrap();

        assert_eq!(lease.attempt.as_ref().unwrap().number, 1);
        assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
    });
}

#[test]
fn a7_a_name_that_a_stranger_has_taken_is_given_up_for_another() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        let hold = scene.home().hold(Operation::Create, Moment::Request);
        let (asking, request) = (node.clone(), scene.request());
        let acquire = scene.spawn(&node, async move { asking.acquire(request).await });
        hold.reached().await;
        let name = only(scene.open_rows().await).attempt.unwrap().name;
        let stranger = stranger_under(&scene, &name);
        hold.let_go();

        let lease = acquire.await.unwrap().unwrap();

        assert_eq!(lease.attempt.as_ref().unwrap().number, 2);
        assert_ne!(sandbox_of(&lease), stranger);
        assert_eq!(scene.home().look(&stranger, |sandbox| sandbox.marker.clone()), None);
        node.destroy(&lease.id, &owner_of(&lease)).await.unwrap();
        assert!(scene.home().exists(&stranger));
    });
}

#[test]
fn a7_when_strangers_have_every_name_the_acquire_fails_and_owes_nothing() {
    let setup = Setup { judged: false, ..Setup::default() };
    play(setup, |scene| async move {
        let node = scene.start_node().await;
        let name = SandboxName::new("collision").unwrap();
        let stranger = stranger_under(&scene, &name);
        scene.home().let_names_collide(&name);

        let refused = node.acquire(scene.request()).await;

        let conflict = matches!(
            refused,
            Err(KeeperError::Step { step: Step::Create, source: ProviderError::NameTaken, .. })
        );
        assert!(conflict, "{refused:?}");
        let row = only(scene.all_rows().await);
        assert_eq!(row.receipt.unwrap().ending, Ending::NeverCreated);
        assert_eq!(scene.home().ever_made(), 0);
        assert!(scene.home().exists(&stranger));
    });
}

#[test]
fn a10_when_preparation_fails_and_so_does_the_removal_it_goes_on_and_the_first_error_is_told() {
    let preparations = [Fault::Refused, Fault::Busy, Fault::LostRequest, Fault::LostAnswer];
    let removals = [Fault::Refused, Fault::Busy, Fault::Unreachable, Fault::LostRequest];
    for (first, second) in preparations.into_iter().flat_map(|p| removals.map(|r| (p, r))) {
        let setup = Setup { seeds: 2, ..Setup::default() };
        play(setup, move |scene| async move {
            let node = scene.start_node().await;
            scene.home().fail_next(Operation::Prepare, 1, first);
            scene.home().fail_next(Operation::Destroy, 3, second);

            let failed = node.acquire(scene.request()).await;

            let told = matches!(failed, Err(KeeperError::Step { step: Step::Prepare, .. }));
            assert!(told, "{failed:?}");
            let debt = only(scene.open_rows().await);
            assert!(debt.is_quarantined());
            let cleanup = debt.cleanup.as_ref().unwrap();
            assert_eq!(cleanup.reason, DestroyReason::PreparationFailed);
            assert!(cleanup.problem.is_some() && debt.retry_at > scene.now());

            scene.settle().await;
            let paid = scene.row(&debt.id).await;
            assert_eq!(paid.receipt.unwrap().ending, Ending::Destroyed);
            assert_eq!(scene.home().destroyed(), [sandbox_of(&debt)]);
            assert_eq!(scene.home().sent(Operation::Destroy), 4);
        });
    }
}

#[test]
fn a11_a_row_that_the_ledger_refuses_means_that_nothing_is_asked_of_the_provider() {
    let limits = Limits { per_owner: 1, per_home: 1_000 };
    let settings = Settings { limits, ..Settings::default() };
    play(Setup { settings, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();

        let over_the_limit = node.acquire(scene.request()).await;
        node.fail_commit(State::Requested, CommitFault::Unavailable);
        let unwritten = node.acquire(scene.request()).await;

        let limit = matches!(
            over_the_limit,
            Err(KeeperError::Ledger(LedgerError::LimitReached { open: 1, limit: 1, .. }))
        );
        assert!(limit, "{over_the_limit:?}");
        assert!(matches!(unwritten, Err(KeeperError::Ledger(LedgerError::Unavailable { .. }))));
        assert_eq!(scene.home().sent(Operation::Create), 1);
        assert_eq!(scene.all_rows().await, [lease]);
    });
}

#[test]
fn a11_an_id_that_cannot_be_written_is_owed_and_the_first_error_is_told() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        node.fail_commit(State::Preparing, CommitFault::Unavailable);
        scene.home().fail_next(Operation::Destroy, 3, Fault::Busy);

        let failed = node.acquire(scene.request()).await;

        let told = matches!(failed, Err(KeeperError::Ledger(LedgerError::Unavailable { .. })));
        assert!(told, "{failed:?}");
        let row = only(scene.open_rows().await);
        assert!(row.has_attempt_in_doubt());
        let _stop = scene.start_work(&node);
        scene.pass(3 * HOUR).await;
        assert_eq!(scene.row(&row.id).await.receipt.unwrap().ending, Ending::Destroyed);
        assert_eq!(scene.home().sent(Operation::Create), 1);
        assert_eq!(scene.home().sent(Operation::Destroy), 4);
        assert!(scene.home().alive().is_empty());
    });
}

#[test]
fn a12_fifty_parallel_creates_of_which_three_in_ten_fail_after_creating_leave_no_orphan() {
    for crash in [false, true] {
        let setup = Setup { seeds: 4, ..Setup::default() };
        play(setup, move |scene| async move {
            let node = scene.start_node().await;
            for unlucky in (0..50).filter(|number| number % 10 < 3) {
                scene.home().faults().script(Operation::Create, unlucky, Fault::LostAnswer);
            }
            let acquires: Vec<_> = (0..50)
                .map(|_| {
                    let (node, request) = (node.clone(), scene.request());
                    scene.spawn(&node.clone(), async move { node.acquire(request).await })
                })
                .collect();
            if crash {
                scene.pass(Duration::from_millis(60)).await;
                assert!(scene.home().ever_made() > 0 && scene.home().ever_made() <= 50);
                scene.kill(&node).await;
            } else {
                for acquire in acquires {
                    acquire.await.unwrap().unwrap();
                }
            }

            let next = scene.start_node().await;
            let _stop = scene.start_work(&next);
            scene.pass(Duration::from_secs(14 * 60)).await;
            if crash {
                // Nobody holds these; they end at their idle deadline at the latest.
                scene.pass(HOUR).await;
            }

            let leases = scene.open_rows().await;
            let named: BTreeSet<SandboxId> = leases.iter().map(sandbox_of).collect();
            let living: BTreeSet<SandboxId> = scene.home().alive().into_iter().collect();
            assert_eq!(living, named);
            assert_eq!(leases.len(), if crash { 0 } else { 50 });
            assert!(leases.iter().all(|lease| lease.state == State::Active));
        });
    }
}

#[test]
fn a14_an_attempt_that_two_sandboxes_could_be_stays_ambiguous_and_is_not_repeated() {
    let mut world = WorldSettings::plain();
    world.capabilities.unique_names = false;
    play(Setup { world, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        scene.home().fail_next(Operation::Create, 1, Fault::LostAnswer);
        let hold = scene.home().hold(Operation::FindByName, Moment::Request);
        let request = AcquireRequest { key: Some(key("K")), ..scene.request() };
        let (asking, asked) = (node.clone(), request.clone());
        let acquire = scene.spawn(&node, async move { asking.acquire(asked).await });
        hold.reached().await;
        let row = only(scene.open_rows().await);
        let name = row.attempt.unwrap().name;
        let stranger = scene.home().world().stranger_creates();
        scene.home().rename(&stranger, &name);
        hold.let_go();

        let unsettled = acquire.await.unwrap();

        assert!(matches!(unsettled, Err(KeeperError::Unsettled { .. })), "{unsettled:?}");
        let ours = only(scene.home().alive());
        let row = scene.row(&row.id).await;
        assert!(row.attention.contains(&Attention::AmbiguousAttempt));
        let history = node.keeper.ledger().events(&row.id, 0, 1_000).await.unwrap().events;
        let listed = history.into_iter().find_map(|recorded| match recorded.event.kind {
            EventKind::AttemptAmbiguous { candidates, .. } => Some(candidates),
            _ => None,
        });
        assert_eq!(listed.unwrap(), [ours.clone(), stranger.clone()]);

        // Not even when its deadline has passed.
        let _stop = scene.start_work(&node);
        scene.pass(6 * HOUR).await;
        let row = scene.row(&row.id).await;
        assert!(row.is_quarantined() && row.attention.contains(&Attention::AmbiguousAttempt));
        assert_eq!(scene.home().sent(Operation::Create), 1);
        assert_eq!(scene.home().destroyed(), []);

        // When one candidate is left it is known.
        scene.home().rename(&stranger, &SandboxName::new("renamed").unwrap());
        scene.pass(2 * HOUR).await;
        assert_eq!(scene.row(&row.id).await.receipt.unwrap().ending, Ending::Destroyed);
        assert_eq!(scene.home().destroyed(), [ours]);
        assert!(scene.home().exists(&stranger));
    });
}

#[test]
fn a14_an_attempt_that_nobody_can_look_for_stays_in_doubt_and_counts_against_the_limit() {
    let limits = Limits { per_owner: 1, per_home: 1_000 };
    let settings = Settings { limits, ..Settings::default() };
    play(Setup { settings, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let _stop = scene.start_work(&node);
        scene.home().fail_next(Operation::Create, 1, Fault::LostAnswer);
        scene.home().fail_next(Operation::FindByName, 10_000, Fault::Unreachable);

        let unsettled = node.acquire(scene.request()).await;
        scene.pass(6 * HOUR).await;

        assert!(matches!(unsettled, Err(KeeperError::Unsettled { .. })), "{unsettled:?}");
        let row = only(scene.open_rows().await);
        assert!(row.is_quarantined() && row.has_attempt_in_doubt());
        assert!(row.cleanup.as_ref().unwrap().problem.is_some());
        assert_eq!((row.home, row.owner), (scene.home().place(), scene.request().owner));
        let full = node.acquire(scene.request()).await;
        let full = matches!(full, Err(KeeperError::Ledger(LedgerError::LimitReached { .. })));
        assert!(full, "what may exist counts");
        assert_eq!(scene.home().sent(Operation::Create), 1);

        scene.home().faults().quiet();
        scene.pass(2 * HOUR).await;
        assert_eq!(scene.row(&row.id).await.receipt.unwrap().ending, Ending::Destroyed);
        assert!(scene.home().alive().is_empty());
        node.acquire(scene.request()).await.unwrap();
    });
}

#[test]
fn a15_releasing_the_second_attempt_leaves_the_first_in_doubt_until_it_is_known() {
    play(late_creates(), |scene| async move {
        let node = scene.start_node().await;
        let (lease, debt) = lease_with_a_first_attempt_in_doubt(&scene, &node).await;

        node.destroy(&lease.id, &owner_a()).await.unwrap();

        assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
        assert_eq!(scene.row(&debt.id).await, debt, "nothing was concluded about the first");
        let _stop = scene.start_work(&node);
        scene.pass(3 * HOUR).await;
        let paid = scene.row(&debt.id).await;
        assert_eq!(scene.home().destroyed(), [sandbox_of(&lease), sandbox_of(&paid)]);
        assert_eq!(paid.receipt.unwrap().ending, Ending::Destroyed);
        assert!(scene.home().alive().is_empty());
    });
}

/// A sandbox that was there long before anything of ours, under this name.
fn stranger_under(scene: &Scene, name: &SandboxName) -> SandboxId {
    let stranger = scene.home().world().stranger_creates();
    scene.home().rename(&stranger, name);
    scene.home().tell_age(&stranger, HOUR);
    stranger
}
