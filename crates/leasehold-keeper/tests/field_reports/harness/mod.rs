//! Sets the scene of a field report: nodes over one ledger and one provider (or several homes), all
//! on a virtual clock.
//!
//! ```ignore
//! play(Setup::default(), |scene| async move {
//!     let node = scene.start_node().await;                    // a keeper; its tasks can crash
//!     let home = scene.home();                                // its provider, with faults and holds
//!     home.faults().script(Operation::Create, 0, Fault::LostAnswer);
//!     let lease = node.acquire(scene.request()).await.unwrap();
//!     node.destroy(&lease.id, &owner_a()).await.unwrap();
//!     assert_eq!(home.sent(Operation::Create), 1);            // what keepers sent
//!     assert!(home.alive().is_empty());                       // what is true
//! });
//! ```
//!
//! * Time passes only while everybody waits: [`Scene::pass`].
//! * `node.keeper` is the keeper itself. A call that a crash of the node shall interrupt is made
//!   with [`Scene::spawn`].
//! * [`Scene::kill`] is a crash that the ledger can prove; [`Scene::lose`] is one that nobody can.
//! * [`Home::hold`] and [`TestNode::hold_commit`] stop one call at a chosen moment.
//! * When the scenario has ended, the judge must have found nothing (with one home only: it knows
//!   no other), and [`Scene::settle`] holds what is left against the truth.

mod assertions;
mod behind;
mod between;
mod callers;
mod home;
mod keys;
mod ledger;
mod node;
mod scene;
mod shorthand;
mod states;
mod stop;

pub(crate) use assertions::{DAY, HOUR, MINUTE, assert_refused, only};
pub(crate) use callers::{key, owner_a, owner_b, owner_of, spec_of_image, spec_of_shape};
pub(crate) use home::Moment;
pub(crate) use ledger::CommitFault;
pub(crate) use node::TestNode;
pub(crate) use scene::{Scene, Setup, play};
pub(crate) use shorthand::{interrupted_by, sandbox_of, stopped_after};
pub(crate) use states::lease_in;
pub(crate) use stop::{Hold, dropped_after};
