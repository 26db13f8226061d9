//! What a decision can be about: something asked, learnt or due.

use std::time::Duration;

use crate::identifiers::{BirthFingerprint, Epoch, Grant, LeaseId, NodeId, SandboxId, SandboxName};
use crate::lease::{Attention, DestroyReason};
use crate::receipt::Evidence;
use crate::time::Timestamp;

/// What a create call came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CreateOutcome {
    /// It made a sandbox.
    Made {
        /// The provider's id.
        sandbox: SandboxId,
        /// What tells it apart.
        birth: BirthFingerprint,
    },
    /// It definitely made none. `again` if another attempt under another name may do better.
    Refused {
        /// What the provider said.
        problem: String,
        /// Whether another name may help.
        again: bool,
    },
    /// Nobody knows.
    Lost {
        /// What went wrong.
        problem: String,
        /// When to look for it first.
        look_at: Timestamp,
    },
}

/// What a search for an attempt's sandbox came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Looked {
    /// Exactly one is it.
    Found {
        /// The provider's id.
        sandbox: SandboxId,
        /// What tells it apart.
        birth: BirthFingerprint,
    },
    /// A full listing does not hold it.
    Absent {
        /// When the listing was asked for. What it lacks may have been made after that.
        asked_at: Timestamp,
        /// How far apart two looks must be: the provider's list lag.
        lag: Duration,
    },
    /// Several could be it.
    Ambiguous {
        /// Which.
        candidates: Vec<SandboxId>,
        /// When to look again.
        retry_at: Timestamp,
    },
    /// The provider did not say.
    Unprovable {
        /// Why.
        problem: String,
        /// When to look again.
        retry_at: Timestamp,
    },
}

/// What a preparation came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PrepareOutcome {
    /// Workspace, marker and fence are made. `delivered` if the front end hands the answer over
    /// itself.
    Ready {
        /// The first grant: above every one that the sandbox has seen.
        grant: Grant,
        /// Whether the caller has it already.
        delivered: bool,
    },
    /// They could not be made.
    Failed,
}

/// What making a sandbox clean came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CleanOutcome {
    /// Two looks agree: nothing but the baseline runs, and nothing old can start.
    Clean,
    /// It could not be confirmed.
    Unconfirmed,
}

/// What taking a sandbox up again came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResumeOutcome {
    /// It is ours, its marker is right, and its fence stands at the new grant.
    Ready {
        /// The new grant: above the last one.
        grant: Grant,
        /// Whether the caller has the answer already.
        delivered: bool,
    },
    /// It could not be told, or not be done, this time.
    Transient {
        /// Why.
        problem: String,
    },
    /// Another sandbox stands under its id.
    Stranger {
        /// What shows it.
        evidence: Evidence,
    },
    /// It is ours, but its marker is not.
    WrongMarker,
}

/// What a removal came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DestroyOutcome {
    /// The provider removed it, or says that it is destroyed.
    Proved(Evidence),
    /// The provider does not find it. Two of these, further apart than its read lag, are a proof.
    Absent {
        /// What it said.
        evidence: Evidence,
        /// When it was asked.
        asked_at: Timestamp,
        /// How far apart two looks must be.
        lag: Duration,
    },
    /// Another sandbox stands under its id; it was left alone.
    Stranger(Evidence),
    /// It could not be proved.
    Unproved {
        /// Why.
        problem: String,
        /// When to try again.
        retry_at: Timestamp,
        /// What a person should look at.
        attention: Option<Attention>,
    },
}

/// What an owner who is done wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseGoal {
    /// Keep the sandbox for the next use.
    Park,
    /// Remove it.
    Destroy,
}

/// Something asked, learnt or due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The keeper is about to send a create.
    SendCreate {
        /// The attempt's name.
        name: SandboxName,
        /// From when on its absence means something.
        horizon: Timestamp,
        /// The id of the row that an older attempt in doubt moves to, should there be one.
        debt: LeaseId,
    },
    /// A create came to an end.
    CreateEnded {
        /// Which attempt.
        attempt: u32,
        /// How.
        outcome: CreateOutcome,
        /// The id of the row to make, should it be a debt.
        debt: LeaseId,
    },
    /// An attempt's sandbox was looked for.
    AttemptLooked {
        /// Which attempt.
        attempt: u32,
        /// What was found.
        looked: Looked,
    },
    /// A preparation came to an end.
    PrepareEnded {
        /// Of which decision.
        epoch: Epoch,
        /// How.
        outcome: PrepareOutcome,
    },
    /// The caller shows that it knows its grant.
    Acknowledge,
    /// The caller moves the lease's end.
    Renew {
        /// To when.
        life_until: Timestamp,
    },
    /// The lease is in use: its idle clock starts again.
    Touch,
    /// A node is about to start commands.
    BeginCommands,
    /// Every command of this node has ended; `definite` if that is certain.
    CommandsEnded {
        /// Whether the end of each is certain.
        definite: bool,
    },
    /// The owner is done.
    Release {
        /// What shall become of the sandbox.
        goal: ReleaseGoal,
    },
    /// A clean came to an end.
    CleanEnded {
        /// Of which decision.
        epoch: Epoch,
        /// How.
        outcome: CleanOutcome,
    },
    /// The owner takes it up again.
    Resume {
        /// The least life that must be left.
        least_life: Duration,
    },
    /// A resume came to an end.
    ResumeEnded {
        /// Of which decision.
        epoch: Epoch,
        /// How.
        outcome: ResumeOutcome,
    },
    /// The sandbox shall be removed. An owner's reason is [`DestroyReason::OwnerAsked`].
    Destroy {
        /// Why.
        reason: DestroyReason,
    },
    /// A removal came to an end.
    DestroyEnded {
        /// Of which decision.
        epoch: Epoch,
        /// How.
        outcome: DestroyOutcome,
    },
    /// A by-id read did not find the sandbox of a lease in use.
    SandboxAbsent {
        /// What was seen.
        evidence: Evidence,
        /// When it was asked for.
        asked_at: Timestamp,
        /// How far apart two looks must be: the provider's read lag.
        lag: Duration,
    },
    /// A by-id read found the sandbox.
    SandboxPresent,
    /// A deadline may have passed.
    Expire,
    /// A grant may have stayed unacknowledged for too long.
    TakeBack,
    /// A node is proved to be dead.
    NodeDied {
        /// Which.
        node: NodeId,
    },
    /// This node takes over unfinished work whose claim is free.
    TakeOver,
    /// This node goes on with its step.
    RenewClaim,
    /// The parked lease becomes a template.
    Promote,
    /// An operator gives the lease up.
    Forget {
        /// Why, for the record.
        why: String,
    },
    /// The sandbox of a closed row was found.
    Reopen {
        /// Which sandbox.
        sandbox: SandboxId,
        /// What tells it apart.
        birth: BirthFingerprint,
        /// How it was found.
        proof: String,
    },
    /// A person should look, or need not any more.
    Attend {
        /// At what.
        attention: Attention,
        /// Whether it still stands.
        stands: bool,
    },
}
