//! Why a request is refused. A refusal changes nothing and is never carried out later.

use std::fmt;
use std::time::Duration;

use crate::identifiers::{Grant, LeaseId, NodeId};
use crate::lease::{DestroyReason, State};
use crate::receipt::Ending;
use crate::time::{Timestamp, short_duration};

/// The part of an owner that differs. Its value is never shown: it is another tenant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnerField {
    /// The company.
    Company,
    /// The environment.
    Environment,
}

impl fmt::Display for OwnerField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            OwnerField::Company => "company",
            OwnerField::Environment => "environment",
        })
    }
}

/// A request that is refused, and why. Each has an entry in the [catalogue](crate::catalogue).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The caller is not the owner.
    #[error("lease {lease} does not belong to this {field}")]
    NotOwner {
        /// Which lease.
        lease: LeaseId,
        /// What differs.
        field: OwnerField,
    },
    /// Only an operator may ask for it.
    #[error("only an operator may do this to lease {lease}")]
    OperatorOnly {
        /// Which lease.
        lease: LeaseId,
    },
    /// The caller's grant is not the current one.
    #[error("grant {presented} of lease {lease} is no longer current: another run has resumed it")]
    StaleGrant {
        /// Which lease.
        lease: LeaseId,
        /// What the caller presented.
        presented: Grant,
    },
    /// The lease is not ready for this yet.
    #[error("lease {lease} is {state}: wait until it is active")]
    NotReady {
        /// Which lease.
        lease: LeaseId,
        /// Where it stands.
        state: State,
    },
    /// The lease is parked.
    #[error("lease {lease} is parked: resume it first")]
    ResumeFirst {
        /// Which lease.
        lease: LeaseId,
    },
    /// The lease is in use.
    #[error("lease {lease} is active: park it first")]
    ParkFirst {
        /// Which lease.
        lease: LeaseId,
    },
    /// Another step of the lease is under way.
    #[error("lease {lease} is {state}: try again when that is over")]
    Busy {
        /// Which lease.
        lease: LeaseId,
        /// What is under way.
        state: State,
    },
    /// The lease is being removed.
    #[error("lease {lease} is closing: {reason}")]
    Closing {
        /// Which lease.
        lease: LeaseId,
        /// Why.
        reason: DestroyReason,
    },
    /// A deadline of the lease has passed.
    #[error("lease {lease} has expired")]
    Expired {
        /// Which lease.
        lease: LeaseId,
    },
    /// The lease has ended.
    #[error("lease {lease} has ended: {ending}")]
    Gone {
        /// Which lease.
        lease: LeaseId,
        /// How.
        ending: Ending,
    },
    /// The lease would live longer than it may.
    #[error(
        "lease {lease} may live until {latest} at the most, {} after its acquire",
        short_duration(*longest)
    )]
    BeyondLife {
        /// Which lease.
        lease: LeaseId,
        /// The latest end.
        latest: Timestamp,
        /// The longest life, which makes it the latest.
        longest: Duration,
    },
    /// The key was used for another intent.
    #[error("this acquire key was used with another request (lease {lease})")]
    KeyConflict {
        /// The lease of the first request.
        lease: LeaseId,
    },
    /// The lease of the key has been used or has ended.
    #[error("this acquire key is used up (lease {lease})")]
    KeyUsed {
        /// The lease of the key.
        lease: LeaseId,
    },
    /// The row is a template, or is none where one is needed.
    #[error("{lease} is a template: it is only forked, listed and deleted")]
    Template {
        /// Which row.
        lease: LeaseId,
    },
    /// Another node does the step.
    #[error("lease {lease} is in the hands of {node}")]
    Claimed {
        /// Which lease.
        lease: LeaseId,
        /// Whose hands.
        node: NodeId,
    },
    /// The outcome belongs to a decision that another has replaced. It decides nothing.
    #[error("the outcome for lease {lease} came too late")]
    LateOutcome {
        /// Which lease.
        lease: LeaseId,
    },
    /// Nothing is due.
    #[error("nothing is due for lease {lease}")]
    NotDue {
        /// Which lease.
        lease: LeaseId,
    },
    /// A row that an operator gave up is not opened again.
    #[error("lease {lease} was forgotten by an operator and is left alone")]
    Forgotten {
        /// Which lease.
        lease: LeaseId,
    },
}

impl Refusal {
    /// The lease that it is about.
    #[must_use]
    pub const fn lease(&self) -> &LeaseId {
        match self {
            Refusal::NotOwner { lease, .. }
            | Refusal::OperatorOnly { lease }
            | Refusal::StaleGrant { lease, .. }
            | Refusal::NotReady { lease, .. }
            | Refusal::ResumeFirst { lease }
            | Refusal::ParkFirst { lease }
            | Refusal::Busy { lease, .. }
            | Refusal::Closing { lease, .. }
            | Refusal::Expired { lease }
            | Refusal::Gone { lease, .. }
            | Refusal::BeyondLife { lease, .. }
            | Refusal::KeyConflict { lease }
            | Refusal::KeyUsed { lease }
            | Refusal::Template { lease }
            | Refusal::Claimed { lease, .. }
            | Refusal::LateOutcome { lease }
            | Refusal::NotDue { lease }
            | Refusal::Forgotten { lease } => lease,
        }
    }

    /// Its code in the catalogue.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Refusal::NotOwner { .. } => "not-owner",
            Refusal::OperatorOnly { .. } => "operator-only",
            Refusal::StaleGrant { .. } => "stale-grant",
            Refusal::NotReady { .. } => "not-ready",
            Refusal::ResumeFirst { .. } => "resume-first",
            Refusal::ParkFirst { .. } => "park-first",
            Refusal::Busy { .. } => "lease-busy",
            Refusal::Closing { .. } => "lease-closing",
            Refusal::Expired { .. } => "lease-expired",
            Refusal::Gone { .. } => "lease-gone",
            Refusal::BeyondLife { .. } => "beyond-life",
            Refusal::KeyConflict { .. } => "key-conflict",
            Refusal::KeyUsed { .. } => "key-used",
            Refusal::Template { .. } => "is-template",
            Refusal::Claimed { .. } => "lease-claimed",
            Refusal::LateOutcome { .. } => "late-outcome",
            Refusal::NotDue { .. } => "not-due",
            Refusal::Forgotten { .. } => "lease-forgotten",
        }
    }
}
