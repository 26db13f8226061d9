//! Ownership and the authority to destroy.

use leasehold_core::{
    AcquireKey, Caller, Ending, Grant, Lease, LeaseId, Owner, OwnerField, Refusal, SandboxName,
    State, Timestamp,
};
use leasehold_keeper::{AcquireRequest, KeeperError, RecoveryScope};
use leasehold_testkit::faults::Operation;
use leasehold_testkit::world::WorldSettings;

use crate::harness::{
    HOUR, MINUTE, Scene, Setup, TestNode, assert_refused, lease_in, owner_a, owner_b, owner_of,
    play, sandbox_of,
};

/// Everything that a caller can ask of a lease.
const VERBS: [&str; 8] =
    ["execute", "acknowledge", "renew", "park", "resume", "promote", "destroy", "forget"];

async fn ask(
    verb: &str,
    node: &TestNode,
    lease: &LeaseId,
    caller: &Caller,
    until: Timestamp,
) -> Result<(), KeeperError> {
    let keeper = &node.keeper;
    match verb {
        "execute" => {
            let request = leasehold_keeper::ExecuteRequest {
                work: leasehold_ports::Work::Program(vec!["true".into()]),
                directory: None,
                environment: std::collections::BTreeMap::new(),
                input: false,
            };
            keeper.execute(lease, caller, request).await.map(drop)
        }
        "acknowledge" => keeper.acknowledge(lease, caller).await.map(drop),
        "renew" => keeper.renew(lease, until, caller).await.map(drop),
        "park" => keeper.park(lease, caller).await.map(drop),
        "resume" => keeper.resume(lease, caller, true).await.map(drop),
        "promote" => keeper.promote(lease, caller).await.map(drop),
        "destroy" => keeper.destroy(lease, caller).await.map(drop),
        "forget" => keeper.forget(lease, "I say so", caller).await.map(drop),
        other => panic!("no such verb: {other}"),
    }
}

#[test]
fn d1_an_id_or_a_name_at_the_provider_is_no_authority_and_is_not_even_read() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        let lease = node.acquire(scene.request()).await.unwrap();
        let sent = scene.home().sent_at_all();
        let raw = [
            sandbox_of(&lease).as_str().to_owned(),
            lease.attempt.as_ref().unwrap().name.as_str().to_owned(),
            lease.pin.as_ref().unwrap().birth.as_str().to_owned(),
            // Nor is part of a lease's id.
            lease.id.as_str()[..10].to_owned(),
        ];
        for text in raw {
            let id = LeaseId::new(text).unwrap();
            for caller in [owner_of(&lease), Caller::Operator("ops".into())] {
                for verb in VERBS {
                    let refused = ask(verb, &node, &id, &caller, scene.now() + HOUR).await;
                    let unknown = matches!(refused, Err(KeeperError::NoSuchLease { .. }));
                    assert!(unknown, "{verb} {id}: {refused:?}");
                }
            }
        }
        assert_eq!(scene.home().sent_at_all(), sent);
        assert_eq!(scene.row(&lease.id).await, lease);
    });
}

/// Asks every verb under a claim that is not the lease's, and holds that nothing comes of it.
async fn assert_no_authority(
    scene: &Scene,
    node: &TestNode,
    lease: &Lease,
    caller: &Caller,
    verbs: &[&str],
    expected: &Refusal,
) {
    let (sent, row) = (scene.home().sent_at_all(), scene.row(&lease.id).await);
    for verb in verbs {
        let refused = ask(verb, node, &lease.id, caller, scene.now() + HOUR).await;
        assert_refused(refused, expected);
    }
    assert_eq!(scene.home().sent_at_all(), sent, "zero provider calls");
    assert_eq!(scene.row(&lease.id).await, row, "nothing is carried out later");
}

#[test]
fn d2_a_wrong_owner_gets_nothing_done_in_any_state() {
    for state in State::ALL {
        play(Setup { seeds: 2, ..Setup::default() }, move |scene| async move {
            let (node, other) = (scene.start_node().await, scene.start_node().await);
            let lease = lease_in(state, &scene, &node).await;
            for (owner, field) in [
                ("company-b/production", OwnerField::Company),
                ("company-a/staging", OwnerField::Environment),
                ("company-a/production/", OwnerField::Environment),
                ("Company-A/production", OwnerField::Company),
            ] {
                let owner: Owner = owner.parse().unwrap();
                for grant in [None, Some(lease.grant), Some(lease.grant.next())] {
                    let caller = Caller::Owner { owner: owner.clone(), grant };
                    let expected = Refusal::NotOwner { lease: lease.id.clone(), field };
                    for node in [&node, &other] {
                        let all = &VERBS;
                        assert_no_authority(&scene, node, &lease, &caller, all, &expected).await;
                    }
                }
            }
        });
    }
}

#[test]
fn d2_a_claim_that_has_changed_hands_gets_nothing_done() {
    for state in [State::Active, State::Parked, State::Parking, State::Destroying] {
        play(Setup { seeds: 2, ..Setup::default() }, move |scene| async move {
            let node = scene.start_node().await;
            let lease = lease_in(state, &scene, &node).await;
            // A grant that was never given, for every verb; one that was replaced, below.
            for presented in [lease.grant.next(), Grant(u64::MAX)] {
                let caller = Caller::Owner { owner: lease.owner.clone(), grant: Some(presented) };
                let expected = Refusal::StaleGrant { lease: lease.id.clone(), presented };
                let verbs = &VERBS[..7];
                assert_no_authority(&scene, &node, &lease, &caller, verbs, &expected).await;
            }
        });
    }
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        let first = node.acquire(scene.request()).await.unwrap();
        node.park(&first, &owner_of(&first)).await.unwrap();
        let second = node.resume(&first, &owner_of(&first)).await.unwrap();
        assert_eq!(second.grant, first.grant.next());
        let expected = Refusal::StaleGrant { lease: first.id.clone(), presented: first.grant };
        let verbs = ["execute", "acknowledge", "renew", "park", "promote", "destroy"];
        let stale = owner_of(&first);
        assert_no_authority(&scene, &node, &second, &stale, &verbs, &expected).await;
        node.run(&second, &owner_of(&second), &["true"]).await.unwrap();
    });
}

#[test]
fn d3_a_stranger_that_bears_our_name_is_not_removed_with_ours() {
    for before_the_release in [true, false] {
        play(Setup::default(), move |scene| async move {
            let node = scene.start_node().await;
            let lease = node.acquire(scene.request()).await.unwrap();
            let name = lease.attempt.as_ref().unwrap().name.clone();
            let plant = || {
                let stranger = scene.home().world().stranger_creates();
                scene.home().rename(&stranger, &name);
                stranger
            };
            let early = before_the_release.then(plant);
            node.destroy(&lease.id, &owner_of(&lease)).await.unwrap();
            let stranger = early.unwrap_or_else(plant);

            let report = node.keeper.sweep(&[lease.home.clone()]).await.unwrap();
            node.keeper.recover(RecoveryScope::Everything).await.unwrap();

            assert_eq!(report.reopened, [], "its attempt made one sandbox, and that was another");
            assert_eq!(report.orphans.len(), 1);
            assert!(scene.home().exists(&stranger));
            assert_eq!(scene.home().destroyed(), [sandbox_of(&lease)]);
        });
    }
}

#[test]
fn d5_the_same_id_at_another_endpoint_is_another_sandbox() {
    let mut world = WorldSettings::plain();
    world.needs_key = true;
    let setup =
        Setup { world, more_endpoints: vec!["simulated:two"], judged: false, ..Setup::default() };
    play(setup, |scene| async move {
        let node = scene.start_node().await;
        let (here, there) = (scene.home(), scene.other_home(1));
        let at_a = node.acquire(scene.request()).await.unwrap();
        let elsewhere = AcquireRequest { home: there.place(), ..scene.request() };
        let at_b = node.acquire(elsewhere).await.unwrap();
        assert_eq!(sandbox_of(&at_a), sandbox_of(&at_b));
        let sent = here.sent_at_all();

        node.destroy(&at_b.id, &owner_of(&at_b)).await.unwrap();

        assert_eq!(there.destroyed(), [sandbox_of(&at_b)]);
        assert_eq!(here.sent_at_all(), sent);
        assert_eq!(here.alive(), [sandbox_of(&at_a)]);
        node.run(&at_a, &owner_of(&at_a), &["true"]).await.unwrap();
    });
}

#[test]
fn d7_a_collision_of_names_never_hands_one_tenants_sandbox_to_another() {
    // Young enough to be taken for the other's by its age, and too old for that.
    for age in [MINUTE, HOUR] {
        play(Setup { judged: false, ..Setup::default() }, move |scene| async move {
            let node = scene.start_node().await;
            scene.home().let_names_collide(&SandboxName::new("collision").unwrap());
            let lifetime = 2 * HOUR;
            let request = AcquireRequest { lifetime, ..scene.request() };
            let a = node.acquire(request.clone()).await.unwrap();
            let _stop = scene.start_work(&node);
            let mut held = scene.elapsed() + age;
            while scene.elapsed() < held {
                scene.pass(MINUTE).await;
                node.run(&a, &owner_a(), &["true"]).await.unwrap();
            }

            let Caller::Owner { owner, .. } = owner_b() else { unreachable!() };
            let refused = node.acquire(AcquireRequest { owner: owner.clone(), ..request }).await;

            assert!(refused.is_err(), "{refused:?}");
            held += 20 * MINUTE;
            while scene.elapsed() < held {
                scene.pass(MINUTE).await;
                node.run(&a, &owner_a(), &["true"]).await.unwrap();
            }
            let rows = scene.all_rows().await;
            let b = rows.iter().find(|row| row.owner == owner).unwrap();
            assert_eq!(b.pin, None, "it was never bound to the other's sandbox");
            assert!(b.is_quarantined() || !b.is_open(), "and says what stands in its way: {b:?}");
            assert_eq!(scene.home().alive(), [sandbox_of(&a)]);
            assert_eq!(scene.home().destroyed(), []);

            // When A is done, B's row is done too.
            node.destroy(&a.id, &owner_a()).await.unwrap();
            scene.pass(HOUR).await;
            let b = scene.row(&b.id).await;
            assert_eq!(b.receipt.unwrap().ending, Ending::NeverCreated);
            assert_eq!(scene.home().destroyed(), [sandbox_of(&a)]);
        });
    }
}

#[test]
fn d9_a_key_and_a_lease_are_bound_to_their_home() {
    let setup = Setup { more_endpoints: vec!["simulated:two"], judged: false, ..Setup::default() };
    play(setup, |scene| async move {
        let node = scene.start_node().await;
        let key = Some(AcquireKey::new("K").unwrap());
        let here = AcquireRequest { key: key.clone(), ..scene.request() };
        let there = AcquireRequest { home: scene.other_home(1).place(), ..here.clone() };
        let at_a = node.acquire(here).await.unwrap();

        let at_b = node.acquire(there).await.unwrap();

        assert_ne!(at_b.id, at_a.id, "an acquire elsewhere attaches to nothing here");
        let until = scene.now() + HOUR;
        node.keeper.renew(&at_b.id, until, &owner_of(&at_b)).await.unwrap();
        assert_eq!(scene.row(&at_a.id).await, at_a);
        assert_eq!(scene.home().sent(Operation::Create), 1);
        assert_eq!(scene.other_home(1).sent(Operation::Create), 1);
    });
}
