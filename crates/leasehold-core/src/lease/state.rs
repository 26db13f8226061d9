//! Where a lease stands, and what is known of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The intent is recorded; no create was sent.
    Requested,
    /// A create was sent, or may have been.
    Creating,
    /// The sandbox is pinned; workspace, marker and fence are being made.
    Preparing,
    /// The owner may use it.
    Active,
    /// The gate is closed; commands are stopped and the sandbox is made clean.
    Parking,
    /// Clean, and kept for the owner's next use.
    Parked,
    /// Being taken up again: identity and fence are checked.
    Resuming,
    /// Decided, never undone: it is removed, with proof.
    Destroying,
    /// Ended; the row stays as a tombstone.
    Closed,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [State; 9] = [
        State::Requested,
        State::Creating,
        State::Preparing,
        State::Active,
        State::Parking,
        State::Parked,
        State::Resuming,
        State::Destroying,
        State::Closed,
    ];

    /// As rows, events and people spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            State::Requested => "requested",
            State::Creating => "creating",
            State::Preparing => "preparing",
            State::Active => "active",
            State::Parking => "parking",
            State::Parked => "parked",
            State::Resuming => "resuming",
            State::Destroying => "destroying",
            State::Closed => "closed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A right to use a sandbox.
    Lease,
    /// A golden sandbox that others are forked from: parked, without a deadline.
    Template,
    /// A sandbox that may exist without a lease; cleanup pays it.
    Debt,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 3] = [Kind::Lease, Kind::Template, Kind::Debt];

    /// As rows and people spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Lease => "lease",
            Kind::Template => "template",
            Kind::Debt => "debt",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why a sandbox is being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestroyReason {
    /// Its owner released or destroyed it.
    OwnerAsked,
    /// An operator destroyed it.
    OperatorAsked,
    /// A recorded deadline passed.
    Deadline,
    /// The caller of the acquire never showed that it knew the lease.
    Undelivered,
    /// Workspace or marker could not be made.
    PreparationFailed,
    /// The commands of the last grant could not be proved to be over.
    StopUnconfirmed,
    /// The process that the lease was tied to died.
    HolderDied,
    /// It is the sandbox that we made, but its marker is not the one that we wrote.
    WrongMarker,
    /// A create answered after its attempt had been given up.
    LateCreate,
    /// A sandbox that a closed row or an attempt of this ledger names was found again.
    Reappeared,
}

impl DestroyReason {
    /// Whether the decision came from neither an owner, an operator nor a recorded deadline: those
    /// are counted by the brake, since a mistaken ledger would make many of them at once.
    #[must_use]
    pub const fn is_braked(self) -> bool {
        match self {
            DestroyReason::OwnerAsked
            | DestroyReason::OperatorAsked
            | DestroyReason::Deadline
            | DestroyReason::PreparationFailed
            | DestroyReason::StopUnconfirmed
            | DestroyReason::LateCreate
            // As much on record as a deadline: the owner tied the lease to the process.
            | DestroyReason::HolderDied => false,
            DestroyReason::Undelivered
            | DestroyReason::WrongMarker
            | DestroyReason::Reappeared => true,
        }
    }
}

impl fmt::Display for DestroyReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            DestroyReason::OwnerAsked => "its owner asked",
            DestroyReason::OperatorAsked => "an operator asked",
            DestroyReason::Deadline => "its deadline passed",
            DestroyReason::Undelivered => "its acquire was never acknowledged",
            DestroyReason::PreparationFailed => "its preparation failed",
            DestroyReason::StopUnconfirmed => "the stop of its commands is unconfirmed",
            DestroyReason::HolderDied => "the process that held it died",
            DestroyReason::WrongMarker => "its marker is wrong",
            DestroyReason::LateCreate => "its create answered too late",
            DestroyReason::Reappeared => "it was found again after its end",
        })
    }
}

/// What a person should look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// More than one sandbox could be the one that an attempt made.
    AmbiguousAttempt,
    /// The fence inside the sandbox is not one that we wrote: its code is hostile.
    FalseFence,
    /// Another sandbox stands under the recorded id; it was left alone.
    Stranger,
    /// No usable credential for its home.
    WaitingForKey,
}

impl Attention {
    /// Every reason.
    pub const ALL: [Attention; 4] = [
        Attention::AmbiguousAttempt,
        Attention::FalseFence,
        Attention::Stranger,
        Attention::WaitingForKey,
    ];

    /// As rows and people spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Attention::AmbiguousAttempt => "ambiguous_attempt",
            Attention::FalseFence => "false_fence",
            Attention::Stranger => "stranger",
            Attention::WaitingForKey => "waiting_for_key",
        }
    }
}

/// How far it is known that nothing of an earlier use runs, or can start.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Cleanliness {
    /// Nothing but the baseline runs.
    #[default]
    Clean,
    /// Commands may run; a clean can end them.
    Dirty,
    /// A command might still start, or its end was never learnt: only a destroy ends this.
    Doubtful,
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    fn stored(value: impl Serialize) -> String {
        serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn states_kinds_and_reasons_are_spelt_for_people_as_they_are_stored() {
        for state in State::ALL {
            assert_eq!(state.name(), stored(state));
        }
        for kind in Kind::ALL {
            assert_eq!(kind.name(), stored(kind));
        }
        for attention in Attention::ALL {
            assert_eq!(attention.name(), stored(attention));
        }
    }
}
