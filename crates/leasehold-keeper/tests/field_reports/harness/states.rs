//! A lease in any state, stopped there by holds.

use leasehold_core::{Lease, State};
use leasehold_testkit::faults::Operation;

use super::callers::owner_of;
use super::home::Moment;
use super::node::TestNode;
use super::scene::Scene;

/// Owner A's lease in `state`, and there at rest for as long as the provider's time limit for one
/// call: the call that would lead on is stopped. `node` has the claim.
pub(crate) async fn lease_in(state: State, scene: &Scene, node: &TestNode) -> Lease {
    let home = scene.home();
    let acquire = {
        let (node, request) = (node.clone(), scene.request());
        async move { node.acquire(request).await }
    };
    let before_active = match state {
        State::Requested => Some(node.hold_commit(State::Creating)),
        State::Creating => Some(home.hold(Operation::Create, Moment::Request)),
        State::Preparing => Some(home.hold(Operation::Prepare, Moment::Request)),
        _ => None,
    };
    if let Some(hold) = before_active {
        drop(scene.spawn(node, acquire));
        hold.reached().await;
        let row = scene.open_rows().await.into_iter().find(|row| row.state == state);
        return row.expect("the row of the acquire");
    }
    let active = acquire.await.expect("a lease");
    let owner = owner_of(&active);
    let (stopped_at, lease, worker) = (&active, active.clone(), node.clone());
    match state {
        State::Parked => {
            node.park(stopped_at, &owner).await.expect("a park");
        }
        State::Closed => {
            node.destroy(&stopped_at.id, &owner).await.expect("a receipt");
        }
        State::Parking => {
            let hold = home.hold(Operation::Clean, Moment::Request);
            drop(scene.spawn(node, async move { worker.park(&lease, &owner).await }));
            hold.reached().await;
        }
        State::Resuming => {
            node.park(stopped_at, &owner).await.expect("a park");
            let hold = home.hold(Operation::Identify, Moment::Request);
            drop(scene.spawn(node, async move { worker.resume(&lease, &owner).await }));
            hold.reached().await;
        }
        State::Destroying => {
            let hold = home.hold(Operation::Destroy, Moment::Request);
            drop(scene.spawn(node, async move { worker.destroy(&lease.id, &owner).await }));
            hold.reached().await;
        }
        _ => {}
    }
    let row = scene.row(&stopped_at.id).await;
    assert_eq!(row.state, state);
    row
}
