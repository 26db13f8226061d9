//! Sweeps that kill the living, or never see the dead.

use std::time::Duration;

use leasehold_core::{
    Attention, Caller, Clocks, DestroyReason, Ending, Lease, Refusal, SandboxId, SandboxName, State,
};
use leasehold_keeper::{AcquireRequest, KeeperError, Parked, RecoveryScope, Settings};
use leasehold_ports::{LedgerMode, ProcessEnd};
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::world::WorldSettings;

use crate::harness::{
    DAY, HOUR, MINUTE, Moment, Scene, Setup, TestNode, assert_refused, only, owner_of, play,
    sandbox_of,
};

#[test]
fn c1_an_id_in_a_live_lease_wins_whatever_its_labels_say_and_what_is_unknown_is_reported() {
    play(Setup { seeds: 4, ..Setup::default() }, |scene| async move {
        let (user, sweeper) = (scene.start_node().await, scene.start_node().await);
        let _stop = scene.start_work(&sweeper);
        let lease = user.acquire(scene.request()).await.unwrap();
        scene.home().rename(&sandbox_of(&lease), &SandboxName::new("unlabelled").unwrap());
        let unknown = scene.home().world().stranger_creates();

        // Creation + 30 minutes, and long after.
        for _ in 0..60 {
            scene.pass(10 * MINUTE).await;
            let report = sweeper.keeper.sweep(&[]).await.unwrap();
            assert_eq!(report.seen, 2);
            assert_eq!(report.reopened, []);
            let reported = only(report.orphans);
            assert_eq!((reported.entry.sandbox, reported.known_as), (unknown.clone(), None));
            let end = user.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();
            assert_eq!(end, ProcessEnd::Exited(0));
        }

        assert_eq!(scene.home().sent(Operation::Destroy), 0);
    });
}

#[test]
fn c3_a_second_manager_does_not_end_what_the_first_is_using() {
    play(Setup { seeds: 4, ..Setup::default() }, |scene| async move {
        let first = scene.start_node().await;
        let lease = first.acquire(scene.request()).await.unwrap();
        let (node, held) = (first.clone(), lease.clone());
        let command = scene.spawn(&first, async move {
            node.run(&held, &owner_of(&held), &["sleep", "3600"]).await
        });
        scene.pass(Duration::from_secs(1)).await;

        let second = scene.start_node().await;
        let _stop = scene.start_work(&second);

        assert_eq!(command.await.unwrap().unwrap(), ProcessEnd::Exited(0));
        assert!(scene.elapsed() > 2 * second.keeper.settings().clocks.idle_active);
        assert_eq!(scene.row(&lease.id).await.state, State::Active);
        assert_eq!(scene.home().sent(Operation::Destroy), 0);
        assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
    });
}

/// What comes upon a recorded id that a stranger has now.
#[derive(Clone, Copy, Debug)]
enum ComesUpon {
    SweepOfAClosedRow,
    OwnersDestroy,
    OperatorsDestroy,
    OwnersPark,
    OwnersResume,
    Deadline,
}

#[test]
fn c5_a_recycled_id_is_left_alone_by_every_way_to_a_removal() {
    for way in [
        ComesUpon::SweepOfAClosedRow,
        ComesUpon::OwnersDestroy,
        ComesUpon::OperatorsDestroy,
        ComesUpon::OwnersPark,
        ComesUpon::OwnersResume,
        ComesUpon::Deadline,
    ] {
        let mut world = WorldSettings::plain();
        world.facts.recycles_ids = true;
        let clocks = Clocks { idle_active: 12 * HOUR, ..Clocks::default() };
        let settings = Settings { clocks, ..Settings::default() };
        play(Setup { world, settings, ..Setup::default() }, move |scene| async move {
            let node = scene.start_node().await;
            let lease = node.acquire(scene.request()).await.unwrap();
            let stranger = recycle(&scene, &node, &lease, way).await;

            let attention = come_upon(way, &scene, &node, &lease).await;

            assert!(scene.home().exists(&stranger), "{way:?}");
            let ending = scene.row(&lease.id).await.receipt.unwrap().ending;
            let expected = match way {
                ComesUpon::SweepOfAClosedRow => Ending::Destroyed,
                ComesUpon::OwnersResume => Ending::Lost,
                _ => Ending::AlreadyAbsent,
            };
            assert_eq!(ending, expected, "{way:?}");
            assert_eq!(attention, [], "a closed row asks for nobody");
        });
    }
}

#[test]
fn c5_an_id_that_is_recycled_while_its_removal_is_on_the_way_is_left_alone() {
    let mut world = WorldSettings::plain();
    world.facts.recycles_ids = true;
    world.capabilities.compares_births = true;
    world.recycles_after = Duration::ZERO;
    play(Setup { world, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        // Whatever the keeper reads before, it has read.
        let hold = scene.home().hold(Operation::Destroy, Moment::Request);
        let (asking, id, owner) = (node.clone(), lease.id.clone(), owner_of(&lease));
        let destroy = scene.spawn(&node, async move { asking.destroy(&id, &owner).await });
        hold.reached().await;
        scene.home().world().one_vanishes();
        let stranger = scene.home().world().stranger_creates();
        assert_eq!(stranger, sandbox_of(&lease), "the provider gives the id again");
        hold.let_go();

        let receipt = destroy.await.unwrap().unwrap();

        assert_eq!(receipt.ending, Ending::AlreadyAbsent);
        assert!(scene.home().exists(&stranger));
        assert_eq!(scene.home().destroyed(), []);
    });
}

/// Ends the lease's sandbox, one way or another, and lets a stranger have its id.
async fn recycle(scene: &Scene, node: &TestNode, lease: &Lease, way: ComesUpon) -> SandboxId {
    match way {
        ComesUpon::SweepOfAClosedRow => {
            node.destroy(&lease.id, &owner_of(lease)).await.unwrap();
        }
        ComesUpon::OwnersResume => {
            node.park(lease, &owner_of(lease)).await.unwrap();
            scene.home().world().one_vanishes();
        }
        _ => scene.home().world().one_vanishes(),
    }
    scene.pass(2 * HOUR).await;
    let stranger = scene.home().world().stranger_creates();
    assert_eq!(stranger, sandbox_of(lease), "the provider gives the id again");
    stranger
}

async fn come_upon(
    way: ComesUpon,
    scene: &Scene,
    node: &TestNode,
    lease: &Lease,
) -> Vec<Attention> {
    let owner = owner_of(lease);
    match way {
        ComesUpon::SweepOfAClosedRow => {
            let report = node.keeper.sweep(&[lease.home.clone()]).await.unwrap();
            assert_eq!(report.reopened, []);
            assert_eq!(only(report.orphans).known_as, None);
            node.keeper.recover(RecoveryScope::Everything).await.unwrap();
        }
        ComesUpon::OwnersDestroy => {
            node.destroy(&lease.id, &owner).await.unwrap();
        }
        ComesUpon::OperatorsDestroy => {
            node.destroy(&lease.id, &Caller::Operator("ops".into())).await.unwrap();
        }
        ComesUpon::OwnersPark => {
            let parked = node.keeper.park(&lease.id, &owner).await.unwrap();
            assert!(matches!(parked, Parked::Removed(_)), "{parked:?}");
            assert_eq!(scene.home().sent(Operation::Clean), 0, "nothing is done inside");
        }
        ComesUpon::OwnersResume => {
            let gone = Refusal::Gone { lease: lease.id.clone(), ending: Ending::Lost };
            assert_refused(node.resume(lease, &owner).await, &gone);
        }
        ComesUpon::Deadline => {
            scene.pass(12 * HOUR).await;
            node.keeper.recover(RecoveryScope::Everything).await.unwrap();
        }
    }
    scene.row(&lease.id).await.attention.into_iter().collect()
}

/// Claims of three seconds, and cleaning that takes three times as long.
fn slow_cleaning() -> Setup {
    let mut world = WorldSettings::plain();
    world.slow_destroy = Duration::from_secs(9);
    world.always_slow_destroy = true;
    let settings = Settings {
        claim: Duration::from_secs(3),
        drain: Duration::from_secs(30),
        ..Settings::default()
    };
    Setup { world, settings, ..Setup::default() }
}

#[test]
fn c6_a_clean_that_takes_three_claims_has_exactly_one_cleaner() {
    play(slow_cleaning(), |scene| async move {
        let (cleaner, reaper) = (scene.start_node().await, scene.start_node().await);
        let _stop = scene.start_work(&reaper);
        scene.home().slow_clean(Duration::from_secs(9));
        let lease = cleaner.acquire(scene.request()).await.unwrap();
        cleaner.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();

        cleaner.park(&lease, &owner_of(&lease)).await.unwrap();
        scene.pass(MINUTE).await;

        assert_eq!(scene.home().sent(Operation::Clean), 1);
        assert_eq!(scene.row(&lease.id).await.state, State::Parked);
    });
}

#[test]
fn c6_a_removal_that_takes_three_claims_has_exactly_one_remover() {
    play(slow_cleaning(), |scene| async move {
        let (remover, reaper) = (scene.start_node().await, scene.start_node().await);
        let _stop = scene.start_work(&reaper);
        let lease = remover.acquire(scene.request()).await.unwrap();

        let receipt = remover.destroy(&lease.id, &owner_of(&lease)).await.unwrap();
        scene.pass(MINUTE).await;

        assert_eq!(receipt.ending, Ending::Destroyed);
        assert_eq!(scene.home().sent(Operation::Destroy), 1);
    });
}

#[test]
fn c7_what_is_swept_follows_from_the_rows_not_from_a_list_of_kinds() {
    let setup = Setup { more_endpoints: vec!["simulated:new"], judged: false, ..Setup::default() };
    play(setup, |scene| async move {
        let settings = Settings::default();
        // This one was set up before the new endpoint was.
        let old = scene.start_node_with(settings, &[1]).await;
        let new = scene.start_node().await;
        let home = scene.other_home(1);
        let request = AcquireRequest { home: home.place(), tethered: true, ..scene.request() };
        let lease = new.acquire(request).await.unwrap();
        scene.kill(&new).await;

        let reaper = scene.start_node().await;
        let report = reaper.keeper.sweep(&[]).await.unwrap();
        assert_eq!(report.seen, 1, "the new endpoint's inventory was read");
        let report = old.keeper.sweep(&[]).await.unwrap();
        assert!(matches!(only(report.incomplete).1, KeeperError::NoProvider { .. }));
        old.keeper.recover(RecoveryScope::Everything).await.unwrap();
        assert!(scene.row(&lease.id).await.is_quarantined(), "it waits for who can reach it");

        let _stop = scene.start_work(&reaper);
        scene.pass(HOUR).await;
        assert_eq!(home.destroyed(), [sandbox_of(&lease)]);
        assert_eq!(scene.row(&lease.id).await.receipt.unwrap().ending, Ending::Destroyed);
    });
}

fn listings_lag() -> Setup {
    let mut world = WorldSettings::plain();
    world.facts.list_lag = Duration::from_secs(2);
    Setup { world, ..Setup::default() }
}

#[test]
fn c9_a_lagging_list_brings_no_destroyed_sandbox_back() {
    play(listings_lag(), |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        scene.pass(MINUTE).await;
        node.destroy(&lease.id, &owner_of(&lease)).await.unwrap();
        let closed = scene.row(&lease.id).await;
        scene.home().fail_next(Operation::List, 1, Fault::ListLag);

        let report = node.keeper.sweep(&[lease.home]).await.unwrap();

        assert_eq!(report.seen, 1, "the list still shows it");
        assert_eq!(report.reopened, []);
        assert_eq!(scene.row(&lease.id).await, closed);
        assert_eq!(scene.home().sent(Operation::Destroy), 1);
    });
}

#[test]
fn c9_a_living_sandbox_that_a_list_lacks_is_not_lost() {
    play(listings_lag(), |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        scene.home().fail_next(Operation::List, 2, Fault::ListLag);

        for _ in 0..2 {
            let report = node.keeper.sweep(&[]).await.unwrap();
            assert_eq!(report.seen, 0, "the list does not show it yet");
        }

        assert_eq!(scene.row(&lease.id).await, lease);
        node.run(&lease, &owner_of(&lease), &["true"]).await.unwrap();
    });
}

#[test]
fn c9_a_living_sandbox_that_one_lagging_read_lacks_is_not_lost() {
    let mut world = WorldSettings::plain();
    world.facts.read_lag = Duration::from_secs(10);
    play(Setup { world, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        node.park(&lease, &owner_of(&lease)).await.unwrap();
        scene.home().fail_next(Operation::Status, 1, Fault::ReadLag);

        let unsure = node.resume(&lease, &owner_of(&lease)).await;
        assert!(matches!(unsure, Err(KeeperError::Step { .. })), "{unsure:?}");
        assert_eq!(scene.row(&lease.id).await.state, State::Parked);

        let resumed = node.resume(&lease, &owner_of(&lease)).await.unwrap();
        assert_eq!(resumed.pin, lease.pin);
        assert_eq!(scene.home().destroyed(), []);
    });
}

#[test]
fn c9_an_attempt_that_lagging_lists_lack_is_not_given_up() {
    play(listings_lag(), |scene| async move {
        let node = scene.start_node().await;
        scene.home().fail_next(Operation::Create, 1, Fault::LostAnswer);
        scene.home().fail_next(Operation::FindByName, 2, Fault::ListLag);

        let lease = node.acquire(scene.request()).await.unwrap();

        assert_eq!(scene.home().sent(Operation::Create), 1);
        assert_eq!(scene.home().alive(), [sandbox_of(&lease)]);
    });
}

#[test]
fn c10_a_reaper_that_read_before_a_resume_and_writes_after_it_reaps_nothing() {
    let clocks = Clocks { idle_parked: HOUR, ..Clocks::default() };
    let settings = Settings { clocks, ..Settings::default() };
    play(Setup { settings, ..Setup::default() }, |scene| async move {
        let (reaper, holder) = (scene.start_node().await, scene.start_node().await);
        let lease = holder.acquire(scene.request()).await.unwrap();
        let parked = holder.park(&lease, &owner_of(&lease)).await.unwrap();
        // The reaper's clock is a little ahead: to it nobody has come in time.
        reaper.jump_clock(20_000);
        scene.pass(parked.expires_at().since(scene.now()) - Duration::from_secs(10)).await;
        let hold = reaper.hold_commit(State::Destroying);
        let pass = {
            let keeper = reaper.keeper.clone();
            scene.spawn(&reaper, async move { keeper.recover(RecoveryScope::Everything).await })
        };
        hold.reached().await;

        let resumed = holder.resume(&lease, &owner_of(&lease)).await.unwrap();
        hold.let_go();
        let report = pass.await.unwrap().unwrap();

        assert_eq!(report.worked_on, []);
        assert_eq!(scene.row(&lease.id).await, resumed);
        assert_eq!(resumed.state, State::Active);
        assert_eq!(scene.home().sent(Operation::Destroy), 0);
    });
}

#[test]
fn c11_a_foreign_sandbox_survives_every_way_to_sweep() {
    play(Setup { seeds: 4, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let foreign = scene.home().world().stranger_creates();
        let kept = node.acquire(scene.request()).await.unwrap();
        let released = node.acquire(scene.request()).await.unwrap();
        node.destroy(&released.id, &owner_of(&released)).await.unwrap();

        for restored in [false, true] {
            let why = "another machine".to_owned();
            let mode = if restored { LedgerMode::Restored { why } } else { LedgerMode::Current };
            scene.ledger().set_mode(mode);
            for more in [vec![], vec![kept.home.clone()]] {
                let report = node.keeper.sweep(&more).await.unwrap();
                let orphan = only(report.orphans);
                assert_eq!((orphan.entry.sandbox, orphan.known_as), (foreign.clone(), None));
            }
            for scope in [RecoveryScope::DeadHolders, RecoveryScope::Everything] {
                node.keeper.recover(scope).await.unwrap();
            }
        }
        scene.ledger().set_mode(LedgerMode::Current);
        let _stop = scene.start_work(&node);
        scene.pass(2 * DAY).await;
        node.keeper.sweep(&[kept.home.clone()]).await.unwrap();

        assert_eq!(scene.open_rows().await, []);
        assert!(scene.home().exists(&foreign));
        assert_eq!(scene.home().destroyed(), [sandbox_of(&released), sandbox_of(&kept)]);
    });
}

#[test]
fn c12_a_sandbox_that_an_attempt_of_ours_made_after_its_end_is_swept() {
    // This provider promises that nothing comes of a create after a second, and breaks its word.
    let mut world = WorldSettings::plain();
    world.facts.create_horizon = 4 * HOUR;
    let mut told = world.facts;
    told.create_horizon = Duration::from_secs(1);
    play(Setup { world, judged: false, ..Setup::default() }, move |scene| async move {
        let node = scene.start_node().await;
        scene.home().tell_facts(told);
        scene.home().fail_next(Operation::Create, 1, Fault::Late);
        let failed = node.acquire(scene.request()).await;
        assert!(failed.is_err());
        let row = only(scene.all_rows().await);
        assert_eq!(row.receipt.unwrap().ending, Ending::NeverCreated);
        scene.pass(5 * HOUR).await;
        let orphan = only(scene.home().alive());

        let report = node.keeper.sweep(&[scene.home().place()]).await.unwrap();

        assert_eq!(report.reopened, [row.id.clone()]);
        let reopened = scene.row(&row.id).await;
        assert_eq!(sandbox_of(&reopened), orphan);
        assert_eq!(reopened.cleanup.unwrap().reason, DestroyReason::Reappeared);
        node.keeper.recover(RecoveryScope::Everything).await.unwrap();
        assert_eq!(scene.row(&row.id).await.receipt.unwrap().ending, Ending::Destroyed);
        assert_eq!(scene.home().destroyed(), [orphan]);
    });
}

#[test]
fn c12_a_sandbox_that_no_row_knows_is_reported_and_removed_only_at_an_operators_word() {
    play(Setup { judged: false, ..Setup::default() }, |scene| async move {
        let node = scene.start_node().await;
        let before = scene.ledger().snapshot();
        let lost = node.acquire(scene.request()).await.unwrap();
        let home = lost.home.clone();
        scene.ledger().restore(&before);
        let _stop = scene.start_work(&node);
        scene.pass(DAY).await;

        let report = node.keeper.sweep(std::slice::from_ref(&home)).await.unwrap();

        let orphan = only(report.orphans);
        assert_eq!((&orphan.entry.sandbox, orphan.known_as), (&sandbox_of(&lost), None));
        assert_eq!(scene.home().destroyed(), []);
        let receipt =
            node.keeper.destroy_orphan(&home, &orphan.entry.sandbox, "ops").await.unwrap();
        assert_eq!((receipt.ending, receipt.actor.as_str()), (Ending::Destroyed, "operator ops"));
        assert!(scene.home().alive().is_empty());
    });
}
