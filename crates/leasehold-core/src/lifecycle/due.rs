//! What a row asks for next, and when.

use std::fmt;

use crate::lease::{Lease, State};
use crate::time::Timestamp;

/// A step at the provider that a row in its state asks for. Derived, never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Send a create. Asked for by a caller only, never by a row.
    Create,
    /// Look for the sandbox that an attempt may have made.
    FindAttempt,
    /// Make workspace, marker and fence.
    Prepare,
    /// Start a command. Asked for by a caller only.
    Start,
    /// End everything of the last grant.
    Clean,
    /// Check that it is our sandbox, and raise its fence to the next grant.
    Verify,
    /// Remove the sandbox.
    Destroy,
}

impl Step {
    /// Every step. Crash points and fault coverage are generated from this list.
    pub const ALL: [Step; 7] = [
        Step::Create,
        Step::FindAttempt,
        Step::Prepare,
        Step::Start,
        Step::Clean,
        Step::Verify,
        Step::Destroy,
    ];

    /// Its name, as events, logs and crash points spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Step::Create => "create",
            Step::FindAttempt => "find_attempt",
            Step::Prepare => "prepare",
            Step::Start => "start",
            Step::Clean => "clean",
            Step::Verify => "verify",
            Step::Destroy => "destroy",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The step that the row asks for. It never asks for a create: recovery reads, pins or removes.
#[must_use]
pub fn next_step(lease: &Lease) -> Option<Step> {
    match lease.state {
        State::Creating if lease.has_attempt_in_doubt() => Some(Step::FindAttempt),
        State::Preparing => Some(Step::Prepare),
        State::Parking => Some(Step::Clean),
        State::Resuming => Some(Step::Verify),
        State::Destroying if lease.pin.is_some() => Some(Step::Destroy),
        State::Destroying => Some(Step::FindAttempt),
        State::Requested | State::Creating | State::Active | State::Parked | State::Closed => None,
    }
}

/// When the row next needs somebody: a step whose claim has run out or whose retry has come, a
/// deadline, a grant that nobody acknowledged. None for a closed row.
#[must_use]
pub fn due_at(lease: &Lease) -> Option<Timestamp> {
    if !lease.is_open() {
        return None;
    }
    let step = next_step(lease).map(|_| match &lease.claim {
        Some(claim) => claim.until.max(lease.retry_at),
        None => lease.retry_at,
    });
    // A first look that did not find the sandbox of a lease in use asks for the second. Where there
    // is a step, the step looks: a row whose step is claimed is nobody else's to do.
    let second_look = lease.absent_since.filter(|_| step.is_none()).map(|_| lease.retry_at);
    [step, second_look, lease.deliver_by, Some(lease.expires_at())].into_iter().flatten().min()
}
