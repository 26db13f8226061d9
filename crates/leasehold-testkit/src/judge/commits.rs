//! What becomes durable, held against the truth of that instant.

use std::sync::Arc;

use leasehold_core::{
    Attention, DestroyReason, Ending, Kind, Lease, State as LeaseState, Timestamp,
};

use super::executions::describe;
use super::{Invariant, Judge, State, is_pinned_to, pin};
use crate::world::{GroundTruth, Origin, micros};

impl Judge {
    /// Rows were written at `now`, by the ledger's time.
    pub fn committed(&self, truth: &GroundTruth, rows: Vec<Arc<Lease>>, now: Timestamp) {
        let mut state = self.lock();
        state.note_time(truth, now);
        for row in rows {
            self.row_written(&mut state, truth, row, now);
        }
    }

    fn row_written(&self, state: &mut State, truth: &GroundTruth, row: Arc<Lease>, now: Timestamp) {
        if self.journal.is_kept() {
            self.journal.note(format_args!("ledger {}", describe(&row)));
        }
        let before = state.rows.remove(&row.id);
        let before = before.as_deref();
        let was = before.map(|before| before.state);
        if row.state == LeaseState::Closed && was != Some(LeaseState::Closed) {
            self.closed(state, truth, &row);
        }
        if row.state == LeaseState::Destroying && was != Some(LeaseState::Destroying) {
            self.condemned(state, truth, before, &row, now);
        }
        // A removal may also be decided before the sandbox is known.
        if row.state == LeaseState::Destroying {
            state.condemned.extend(pin(&row));
        }
        if was == Some(LeaseState::Destroying)
            && !matches!(row.state, LeaseState::Destroying | LeaseState::Closed)
        {
            let report = format!("a removal was undone: {}", describe(&row));
            self.violated(state, Invariant::Living, report);
        }
        let granted = before.map_or(row.grant.0 > 0, |before| row.grant > before.grant);
        if granted {
            self.granted(state, truth, &row);
        }
        if row.is_open() && before.map(|before| &before.pin) != Some(&row.pin) {
            self.pinned(state, truth, &row);
        }
        promise(state, truth, &row, now);
        state.rows.insert(row.id.clone(), row);
    }

    /// Truthful ends.
    fn closed(&self, state: &mut State, truth: &GroundTruth, row: &Lease) {
        let ending = row.receipt.as_ref().map(|receipt| receipt.ending);
        if ending == Some(Ending::Forgotten) {
            if !state.end_asked.contains(&row.id) {
                let report = format!("{} was forgotten, and nobody asked", row.id);
                self.violated(state, Invariant::Living, report);
            }
            return;
        }
        let exists = truth.existing().any(|sandbox| is_pinned_to(row, sandbox));
        if exists {
            let report = format!("it exists, and its row ended as {ending:?}: {}", describe(row));
            self.violated(state, Invariant::TruthfulEnds, report);
        }
        let Some(attempt) = &row.attempt else { return };
        if row.pin.is_some() {
            return;
        }
        let made = truth
            .existing()
            .any(|sandbox| sandbox.name == attempt.name && sandbox.account == self.home.account);
        if made || truth.may_still_create(&attempt.name) {
            let how = if made { "made a sandbox" } else { "can still make a sandbox" };
            let report = format!("its attempt {how}, and it ended: {}", describe(row));
            self.violated(state, Invariant::TruthfulEnds, report);
        }
    }

    /// A removal is decided for a reason that is so.
    fn condemned(
        &self,
        state: &mut State,
        truth: &GroundTruth,
        before: Option<&Lease>,
        row: &Lease,
        now: Timestamp,
    ) {
        let Some(cleanup) = &row.cleanup else { return };
        let lawful = match (cleanup.reason, before) {
            (DestroyReason::OwnerAsked | DestroyReason::OperatorAsked, _) => {
                state.end_asked.contains(&row.id)
            }
            (DestroyReason::Deadline, Some(before)) => now >= before.expires_at(),
            (DestroyReason::Undelivered, Some(before)) => {
                before.acknowledged < before.grant
                    && before.deliver_by.is_some_and(|limit| limit <= now)
            }
            (DestroyReason::PreparationFailed, Some(before)) => {
                before.state == LeaseState::Preparing
            }
            (DestroyReason::StopUnconfirmed, Some(before)) => {
                matches!(before.state, LeaseState::Active | LeaseState::Parking)
            }
            (DestroyReason::HolderDied, Some(before)) => {
                before.tether.as_ref().is_some_and(|node| state.dead.contains(node))
            }
            (DestroyReason::WrongMarker, Some(before)) => {
                before.attention.contains(&Attention::FalseFence)
                    || truth.existing().filter(|sandbox| is_pinned_to(row, sandbox)).any(
                        |sandbox| {
                            sandbox.marker.as_ref() != Some(&row.marker)
                                || sandbox.fence.as_ref().is_some_and(|fence| {
                                    fence.grant.0 >= crate::world::HOSTILE_GRANT
                                })
                        },
                    )
                    || !truth.existing().any(|sandbox| is_pinned_to(row, sandbox))
            }
            (DestroyReason::LateCreate, None) => true,
            (DestroyReason::Reappeared, Some(before)) => before.state == LeaseState::Closed,
            _ => false,
        };
        if !lawful {
            let was = before.map_or_else(|| "nothing".to_owned(), describe);
            let report = format!(
                "a removal was decided because {}, which is not so: {} (before: {was})",
                cleanup.reason,
                describe(row)
            );
            self.violated(state, Invariant::Living, report);
        }
    }

    /// Clean hand-on.
    fn granted(&self, state: &mut State, truth: &GroundTruth, row: &Lease) {
        let Some(pin) = pin(row) else { return };
        if state.condemned.contains(&pin) {
            let report = format!("a grant was given for a condemned sandbox: {}", describe(row));
            self.violated(state, Invariant::Living, report);
        }
        for sandbox in truth.existing().filter(|sandbox| is_pinned_to(row, sandbox)) {
            if sandbox.marker.as_ref() != Some(&row.marker) {
                let report = format!("its marker is not the recorded one: {}", describe(row));
                self.violated(state, Invariant::CleanHandOn, report);
            }
            let running: Vec<String> =
                sandbox.running_commands(truth.now()).map(ToString::to_string).collect();
            if !running.is_empty() {
                let report = format!("{running:?} still runs in it: {}", describe(row));
                self.violated(state, Invariant::CleanHandOn, report);
            }
        }
        state.grants.insert(pin, row.grant);
    }

    /// One open row for each sandbox, and only sandboxes that keepers made.
    fn pinned(&self, state: &mut State, truth: &GroundTruth, row: &Lease) {
        let Some(pin) = &row.pin else { return };
        let other = state.leases().find(|other| {
            other.is_open() && other.pin.as_ref().is_some_and(|other| other.sandbox == pin.sandbox)
        });
        if let Some(other) = other {
            let report = format!("two open rows: {}; {}", describe(row), describe(other));
            self.violated(state, Invariant::Conservation, report);
        }
        let stranger = truth
            .existing()
            .any(|sandbox| is_pinned_to(row, sandbox) && sandbox.origin == Origin::Stranger);
        if stranger {
            let report = format!("a stranger's sandbox was pinned: {}", describe(row));
            self.violated(state, Invariant::Ownership, report);
        }
    }
}

/// Notes until when the row lets its lease live. Counted in the true time from when it was first said:
/// the ledger's time may be ahead, and go faster, but is never slower.
fn promise(state: &mut State, truth: &GroundTruth, row: &Lease, now: Timestamp) {
    let until = if row.kind == Kind::Template { Timestamp::NEVER } else { row.life_until };
    let known = state.promised.get(&row.id).is_some_and(|(known, _)| *known == until);
    if !known {
        let end = truth.now().saturating_add(micros(until.since(now)));
        state.promised.insert(row.id.clone(), (until, end));
    }
}
