//! Reuse: nobody gets another's sandbox.

use leasehold_core::{Caller, LeaseId, Owner, OwnerField, Refusal, State};
use leasehold_keeper::{AcquireRequest, KeeperError};
use leasehold_testkit::faults::Operation;

use crate::harness::{Setup, key, owner_a, owner_of, play, sandbox_of};

#[test]
fn m1_a_parked_sandbox_is_not_handed_to_another_owner_who_asks_for_the_same() {
    // Another company, or another environment of the same one; with another key, or the same.
    for other in ["company-b/production", "company-a/staging"] {
        for with_same_key in [false, true] {
            play(Setup::default(), move |scene| async move {
                let node = scene.start_node().await;
                let request = AcquireRequest { key: Some(key("run-1")), ..scene.request() };
                let parked = node.acquire(request.clone()).await.unwrap();
                node.park(&parked, &owner_a()).await.unwrap();
                let row = scene.row(&parked.id).await;
                let owner: Owner = other.parse().unwrap();
                let name = if with_same_key { "run-1" } else { "run-2" };

                let request =
                    AcquireRequest { owner: owner.clone(), key: Some(key(name)), ..request };
                let theirs = node.acquire(request).await.unwrap();

                assert_ne!(sandbox_of(&theirs), sandbox_of(&parked));
                assert_eq!(scene.home().sent(Operation::Create), 2);
                let calls = scene.home().sent_at_all();
                let caller = Caller::Owner { owner, grant: None };
                let taken = node.resume(&parked, &caller).await;
                let differs = if other.starts_with("company-a/") {
                    OwnerField::Environment
                } else {
                    OwnerField::Company
                };
                assert!(
                    matches!(
                        &taken,
                        Err(KeeperError::Refused(Refusal::NotOwner { field, .. }))
                            if *field == differs
                    ),
                    "{taken:?}"
                );
                assert_eq!(scene.home().sent_at_all(), calls, "a refusal asks nobody");
                assert_eq!(scene.row(&parked.id).await, row, "a refusal changes nothing");
            });
        }
    }
}

#[test]
fn m1_what_does_not_exist_is_an_error_and_nothing_else_takes_its_place() {
    play(Setup::default(), |scene| async move {
        let node = scene.start_node().await;
        let parked = node.acquire(scene.request()).await.unwrap();
        node.park(&parked, &owner_a()).await.unwrap();
        let missing = LeaseId::from_random([7; 16]);
        let calls = scene.home().sent_at_all();

        let owner = owner_of(&parked);
        let resumed = node.keeper.resume(&missing, &owner, true).await.unwrap_err();
        let destroyed = node.keeper.destroy(&missing, &owner).await.unwrap_err();

        for error in [resumed, destroyed] {
            assert!(matches!(error, KeeperError::NoSuchLease { .. }), "{error:?}");
        }
        assert_eq!(scene.home().sent_at_all(), calls);
        assert_eq!(scene.row(&parked.id).await.state, State::Parked);
    });
}
