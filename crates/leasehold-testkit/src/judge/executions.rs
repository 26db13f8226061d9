//! What a provider carries out, held against the record of that instant.

use leasehold_core::{AttemptState, Ending, Lease, State as LeaseState};

use super::{Invariant, Judge, State, is_pinned_to, pin_of};
use crate::world::{GroundTruth, Mutation, Origin, SimulatedSandbox};

impl Judge {
    pub(super) fn executed(&self, truth: &GroundTruth, mutation: &Mutation<'_>) {
        let mut state = self.lock();
        let state = &mut *state;
        match *mutation {
            Mutation::Created { sandbox } => self.created(state, sandbox),
            Mutation::Prepared { sandbox } => self.touched(state, sandbox, "prepared"),
            Mutation::FenceRaised { sandbox } => self.touched(state, sandbox, "fenced"),
            Mutation::Cleaned { sandbox, ended } => {
                self.touched(state, sandbox, "cleaned");
                self.cleaned(state, sandbox, ended);
            }
            Mutation::Started { sandbox, grant, label, .. } => {
                self.touched(state, sandbox, "given a command");
                self.started(state, sandbox, grant, label);
            }
            Mutation::Destroyed { sandbox } => self.destroyed(state, truth, sandbox),
            Mutation::TimerEnded { sandbox, at } => self.timer_ended(state, truth, sandbox, at),
            Mutation::KeyStrayed => {
                let report = "a key was sent to an endpoint that it was not given for".to_owned();
                self.violated(state, Invariant::Secrets, report);
            }
        }
    }

    fn created(&self, state: &mut State, sandbox: &SimulatedSandbox) {
        let name = &sandbox.name;
        if sandbox.account != self.home.account {
            let report = format!("{} was made in account {}", sandbox.id, sandbox.account);
            self.violated(state, Invariant::Conservation, report);
            return;
        }
        if !state.made.insert(name.clone()) {
            let report = format!("a second sandbox was made under the name {name}");
            self.violated(state, Invariant::Once, report);
        }
        if state.names_before_restore.contains(name) {
            return;
        }
        let is_named =
            |row: &&Lease| row.attempt.as_ref().is_some_and(|attempt| &attempt.name == name);
        let named: Vec<&Lease> = state.leases().filter(is_named).collect();
        if named.is_empty() {
            let report = format!("{} was made without a record of its name {name}", sandbox.id);
            self.violated(state, Invariant::Conservation, report);
            return;
        }
        let forgotten = named.iter().any(|row| {
            row.receipt.as_ref().is_some_and(|receipt| receipt.ending == Ending::Forgotten)
        });
        let awaited = named.iter().any(|row| row.has_attempt_in_doubt() && row.is_open());
        if !awaited && !forgotten {
            let rows: Vec<String> = named.iter().map(|row| describe(row)).collect();
            let report = format!("{} was made after its attempt was over: {rows:?}", sandbox.id);
            self.violated(state, Invariant::TruthfulEnds, report);
        }
    }

    /// Whatever is done in a sandbox is done in one of ours.
    fn touched(&self, state: &mut State, sandbox: &SimulatedSandbox, how: &str) {
        if sandbox.origin == Origin::Stranger {
            let report = format!("a stranger's sandbox {} was {how}", sandbox.id);
            self.violated(state, Invariant::Ownership, report);
        }
    }

    /// A clean ends only commands of grants that are over. After a restore nobody knows which are.
    fn cleaned(
        &self,
        state: &mut State,
        sandbox: &SimulatedSandbox,
        ended: Option<leasehold_core::Grant>,
    ) {
        let in_use = state.rows.values().find(|row| {
            row.state == LeaseState::Active
                && is_pinned_to(row, sandbox)
                && ended == Some(row.grant)
        });
        if let Some(row) = in_use
            && !state.restored
        {
            let report = format!("a clean ended commands of a grant in use: {}", describe(row));
            self.violated(state, Invariant::Living, report);
        }
    }

    fn started(
        &self,
        state: &mut State,
        sandbox: &SimulatedSandbox,
        grant: leasehold_core::Grant,
        label: &str,
    ) {
        state.started.insert(label.to_owned());
        if state.said_not_started.contains(label) {
            let report = format!("a command that was said not to have started did: {label}");
            self.violated(state, Invariant::Once, report);
        }
        let newest = state.grants.get(&pin_of(sandbox)).copied().unwrap_or_default();
        if grant < newest {
            let report = format!(
                "a command of grant {grant} started in {} after grant {newest} was given: {label}",
                sandbox.id
            );
            self.violated(state, Invariant::CleanHandOn, report);
        }
        let parked =
            state.leases().any(|row| is_pinned_to(row, sandbox) && row.state == LeaseState::Parked);
        if parked && !state.restored {
            let report = format!("a command started in {}, which is parked: {label}", sandbox.id);
            self.violated(state, Invariant::CleanHandOn, report);
        }
        let recorded = state.leases().any(|row| {
            is_pinned_to(row, sandbox)
                && (row.cleanliness != leasehold_core::Cleanliness::Clean || !row.is_open())
        });
        if !recorded && !state.restored {
            let report = format!("a command started in {}, recorded as clean: {label}", sandbox.id);
            self.violated(state, Invariant::CleanHandOn, report);
        }
    }

    /// A sandbox's timer never ends a lease before the end that it was promised.
    fn timer_ended(
        &self,
        state: &mut State,
        truth: &GroundTruth,
        sandbox: &SimulatedSandbox,
        at: u64,
    ) {
        let living = state.leases().find(|row| {
            is_pinned_to(row, sandbox)
                && !matches!(row.state, LeaseState::Destroying | LeaseState::Closed)
        });
        let Some(row) = living else { return };
        let promised = state.promised.get(&row.id).map_or(0, |(_, until)| *until);
        if promised > at && !state.had_passed(row.life_until, truth, at) {
            let row = describe(row);
            let report = format!(
                "its timer ended {} at {at}, and it was promised until {promised}: {row}",
                sandbox.id
            );
            self.violated(state, Invariant::Living, report);
        }
    }

    fn destroyed(&self, state: &mut State, truth: &GroundTruth, sandbox: &SimulatedSandbox) {
        if sandbox.origin == Origin::Stranger {
            let report = format!("a stranger's sandbox {} was destroyed", sandbox.id);
            self.violated(state, Invariant::Living, report);
            return;
        }
        let pin = pin_of(sandbox);
        let in_use = state
            .leases()
            .find(|row| {
                is_pinned_to(row, sandbox)
                    && !matches!(row.state, LeaseState::Destroying | LeaseState::Closed)
            })
            .map(describe);
        let condemned = state.condemned.contains(&pin);
        let condemned_before = state.condemned_before_restore.contains(&pin);
        if let Some(row) = in_use.filter(|_| !condemned_before) {
            let report = format!("{} was destroyed at {} while {row}", sandbox.id, truth.now());
            self.violated(state, Invariant::Living, report);
        } else if !condemned && !condemned_before {
            let report = format!("{} was destroyed, and no row had decided it", sandbox.id);
            self.violated(state, Invariant::Living, report);
        }
    }
}

/// A row in few words.
pub(super) fn describe(row: &Lease) -> String {
    let attempt = match &row.attempt {
        Some(attempt) => match attempt.state {
            AttemptState::InDoubt => " in doubt",
            AttemptState::Refused => " refused",
            AttemptState::Made => " made",
        },
        None => "",
    };
    let pin = row.pin.as_ref().map_or("nothing", |pin| pin.sandbox.as_str());
    format!("{} is {} on {pin}{attempt} (grant {}, {:?})", row.id, row.state, row.grant, row.kind)
}
