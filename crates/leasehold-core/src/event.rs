//! What happened in the life of a lease, one event for each fact.

use serde::{Deserialize, Serialize};

use crate::identifiers::{Epoch, Grant, LeaseId, NodeId, SandboxId, SandboxName};
use crate::lease::DestroyReason;
use crate::receipt::Ending;
use crate::time::Timestamp;

/// One entry of a lease's history. The ledger adds its sequence number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Whose history.
    pub lease: LeaseId,
    /// When, by the ledger's time.
    pub at: Timestamp,
    /// The epoch after it.
    pub epoch: Epoch,
    /// Who: `owner`, `keeper`, `operator NAME`.
    pub actor: String,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields carry the names of the types that document them")]
pub enum EventKind {
    /// The acquire was recorded.
    Requested,
    /// A create is about to be sent.
    CreateSent { attempt: u32, name: SandboxName },
    /// The provider definitely refused an attempt.
    CreateRefused { attempt: u32, problem: String },
    /// No answer came to an attempt.
    CreateLost { attempt: u32, problem: String },
    /// An attempt was looked for, and not found.
    AttemptAbsent { attempt: u32 },
    /// More than one sandbox could be the attempt's.
    AttemptAmbiguous { attempt: u32, candidates: Vec<SandboxId> },
    /// The row was bound to a sandbox.
    Pinned { sandbox: SandboxId },
    /// A grant was given.
    Granted { grant: Grant },
    /// The caller showed that it knows the grant.
    Acknowledged { grant: Grant },
    /// The end was moved.
    Renewed { life_until: Timestamp },
    /// A node is about to start its first command under the grant.
    CommandsBegan { node: NodeId },
    /// Every command of a node has come to an end; `definite` says whether that is proved.
    CommandsEnded { node: NodeId, definite: bool },
    /// The gate was closed and parking began.
    ParkBegan,
    /// The sandbox is clean and kept.
    Parked,
    /// A resume began.
    ResumeBegan,
    /// A resume failed in a way that may pass; the sandbox is still parked.
    ResumeFailed { problem: String },
    /// The lease became a template.
    Promoted,
    /// The removal was decided.
    DestroyBegan { reason: DestroyReason },
    /// A removal could not be proved.
    DestroyUnproved { problem: String, retry_at: Timestamp },
    /// A read did not find the sandbox.
    SandboxAbsent { proof: String },
    /// A node was proved to be dead, and its rights ended.
    NodeDied { node: NodeId },
    /// A node took over unfinished work.
    TakenOver { node: NodeId },
    /// A debt was recorded for a sandbox of this lease's attempt.
    DebtRecorded { debt: LeaseId },
    /// The row could not be read, and was written anew from what was still known of it.
    Salvaged { problem: String },
    /// A closed row was opened again, since its sandbox was found.
    Reopened { proof: String },
    /// The lease ended.
    Closed { ending: Ending, proof: String },
}
