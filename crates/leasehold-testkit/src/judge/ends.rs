//! What must hold once nothing goes wrong any more and everybody is done.

use leasehold_core::{Ending, Kind, Lease, State as LeaseState};

use super::executions::describe;
use super::{Invariant, Judge, State, is_pinned_to};
use crate::world::{GroundTruth, Origin};

impl Judge {
    /// Whether every open row is at rest: active or parked.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.lock().leases().all(is_at_rest)
    }

    /// After quiet: what exists is what active, parked and template rows name, and nothing else.
    pub fn final_check(&self, truth: &GroundTruth) {
        let mut state = self.lock();
        let state = &mut *state;
        let restless: Vec<String> =
            state.leases().filter(|row| !is_at_rest(row)).map(describe).collect();
        for row in restless {
            self.violated(state, Invariant::WayOut, format!("it never settles: {row}"));
        }
        for sandbox in truth.existing().filter(|sandbox| sandbox.origin == Origin::Keeper) {
            let open =
                state.leases().filter(|row| row.is_open() && is_pinned_to(row, sandbox)).count();
            if open == 1 || (open == 0 && is_excused(state, sandbox)) {
                continue;
            }
            let report =
                format!("{} ({}) exists, and {open} rows name it", sandbox.id, sandbox.name);
            self.violated(state, Invariant::Conservation, report);
        }
        let gone: Vec<String> = state
            .leases()
            .filter(|row| row.is_open() && row.pin.is_some())
            .filter(|row| !truth.existing().any(|sandbox| is_pinned_to(row, sandbox)))
            // Nobody has looked yet: the next use, or its deadline, will tell.
            .filter(|row| !matches!(row.state, LeaseState::Active | LeaseState::Parked))
            .map(describe)
            .collect();
        for row in gone {
            self.violated(state, Invariant::WayOut, format!("its sandbox is long gone: {row}"));
        }
    }
}

impl Judge {
    /// After the last deadline: only templates are left.
    pub fn final_check_of_expiry(&self, truth: &GroundTruth) {
        self.final_check(truth);
        let mut state = self.lock();
        let state = &mut *state;
        let left: Vec<String> = state
            .leases()
            .filter(|row| row.is_open() && row.kind != Kind::Template)
            .map(describe)
            .collect();
        for row in left {
            self.violated(state, Invariant::WayOut, format!("it outlived its deadline: {row}"));
        }
    }
}

fn is_at_rest(row: &Lease) -> bool {
    matches!(row.state, LeaseState::Active | LeaseState::Parked | LeaseState::Closed)
}

/// Sandboxes that no open row need name: an operator gave them up, or a restore made the ledger
/// forget them.
fn is_excused(state: &State, sandbox: &crate::world::SimulatedSandbox) -> bool {
    let forgotten = state.leases().any(|row| {
        let named = is_pinned_to(row, sandbox)
            || row.attempt.as_ref().is_some_and(|attempt| attempt.name == sandbox.name);
        let ending = row.receipt.as_ref().map(|receipt| receipt.ending);
        named && ending == Some(Ending::Forgotten)
    });
    forgotten || state.names_before_restore.contains(&sandbox.name)
}
