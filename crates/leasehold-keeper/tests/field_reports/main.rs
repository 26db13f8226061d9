//! Field reports: how sandbox leases fail in practice, as public reports tell it. Each test is named
//! after a row of `docs/FIELD-REPORTS.md` and plays that row's scenario on the real keeper, over the
//! simulated provider and a virtual clock.
//!
//! [`harness`] sets the scene. Every scenario is played under several seeds, each of which chooses
//! another order among what happens at once, and is watched by the judge of the simulation.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of tests fail like tests"
)]
#![expect(
    clippy::cloned_ref_to_slice_refs,
    reason = "`[lease.clone()]` reads as the whole list that is expected"
)]

mod harness;

mod a;
mod b;
mod c;
mod d;
mod e;
mod f;
mod g;
mod h;
mod i;
mod j;
mod k;
mod lost_record;
mod m;
