//! The durable record.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::catalogue::codes;
use leasehold_core::{
    AcquireKey, Event, EventKind, Home, Lease, LeaseId, NodeId, Owner, Salvage, SandboxId, State,
    Timestamp,
};

/// One row of a write. All rows of one [`Ledger::commit`] are written, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A new lease. Refused if its key is taken, its sandbox is pinned, or a limit is reached.
    Insert {
        /// The row; its version is 1.
        lease: Arc<Lease>,
        /// What happened.
        events: Vec<EventKind>,
        /// Who did it.
        actor: String,
        /// The limits that it must fit in. None for a debt, which is owed whatever the limits say.
        limits: Option<Limits>,
    },
    /// The next version of a row. Refused if the stored version is not the one before it.
    Update {
        /// The row; its version is one above the stored one.
        lease: Arc<Lease>,
        /// What happened.
        events: Vec<EventKind>,
        /// Who did it.
        actor: String,
    },
    /// A debt, left out if another open row pins its sandbox already: that row answers for it.
    InsertDebt {
        /// The row; its version is 1.
        lease: Arc<Lease>,
        /// Who did it.
        actor: String,
    },
}

/// How many open rows there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one owner, over all homes.
    pub per_owner: u32,
    /// For one home, over all owners.
    pub per_home: u32,
}

/// Why the ledger did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The row has changed since it was read. Nothing was written: read it again.
    #[error("lease {lease} was changed by somebody else")]
    Conflict {
        /// Which row.
        lease: LeaseId,
    },
    /// The owner has used this key for this home before.
    #[error("the acquire key was used before (lease {lease})")]
    KeyTaken {
        /// The row that has it.
        lease: LeaseId,
    },
    /// Another open row pins the sandbox. The message does not say which: it may be another owner's.
    #[error("the sandbox belongs to another lease")]
    PinTaken {
        /// The row that pins it, for the keeper and for operators.
        lease: LeaseId,
    },
    /// The row to be written breaks a rule that holds of every row. Nothing was written.
    #[error("lease {lease} cannot be written: {problem}")]
    Invalid {
        /// Which row.
        lease: LeaseId,
        /// Which rule.
        problem: String,
    },
    /// The owner, or the home, has as many open leases as it may. Leases whose end is not proved
    /// count.
    #[error("{whose} has {open} open leases, and may have {limit}")]
    LimitReached {
        /// `this owner` or `this home`.
        whose: &'static str,
        /// How many are open.
        open: u32,
        /// How many there may be.
        limit: u32,
    },
    /// Too many removals that nobody asked for in a short time. Nothing was written.
    #[error(
        "the brake is on: {recent} leases were about to be removed that neither an owner nor a \
         deadline ended; look at `leasehold ls --attention`, then run `leasehold ledger unbrake`"
    )]
    Braked {
        /// How many in the brake's window.
        recent: u32,
    },
    /// The ledger is behind, copied or from another machine: only owners' calls work.
    #[error(
        "this ledger is in restored mode ({why}): nothing is removed on its word until \
         `leasehold ledger accept`"
    )]
    Restored {
        /// What does not fit.
        why: String,
    },
    /// The row cannot be read. The others can.
    #[error("row {lease} of the ledger is damaged: {problem}")]
    Damaged {
        /// Which row.
        lease: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The ledger was written by a newer Leasehold.
    #[error("this ledger has format {found}; this Leasehold reads up to {known}: upgrade it")]
    TooNew {
        /// The ledger's format.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// The file system cannot keep a ledger.
    #[error("{path} cannot keep a ledger: {problem}")]
    Unsuitable {
        /// Where.
        path: String,
        /// Why.
        problem: String,
    },
    /// It could not be written or read. Whether what was being written is on disk is not known: the
    /// row tells, once it can be read again.
    #[error("the ledger cannot be used: {problem}")]
    Unavailable {
        /// What went wrong.
        problem: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl LedgerError {
    /// The lease that it is about, if it is about one that the caller may know of.
    #[must_use]
    pub fn lease(&self) -> Option<&str> {
        match self {
            LedgerError::Conflict { lease }
            | LedgerError::KeyTaken { lease }
            | LedgerError::Invalid { lease, .. } => Some(lease.as_str()),
            LedgerError::Damaged { lease, .. } => Some(lease),
            LedgerError::PinTaken { .. }
            | LedgerError::LimitReached { .. }
            | LedgerError::Braked { .. }
            | LedgerError::Restored { .. }
            | LedgerError::TooNew { .. }
            | LedgerError::Unsuitable { .. }
            | LedgerError::Unavailable { .. } => None,
        }
    }

    /// Its code in the catalogue.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            LedgerError::Conflict { .. } => codes::LEDGER_CONFLICT,
            LedgerError::KeyTaken { .. } => codes::KEY_TAKEN,
            LedgerError::PinTaken { .. } => codes::PIN_TAKEN,
            LedgerError::Invalid { .. } => codes::LEDGER_INVALID_WRITE,
            LedgerError::LimitReached { .. } => codes::LIMIT_REACHED,
            LedgerError::Braked { .. } => codes::BRAKE_ON,
            LedgerError::Restored { .. } => codes::LEDGER_RESTORED,
            LedgerError::Damaged { .. } => codes::LEDGER_DAMAGED_ROW,
            LedgerError::TooNew { .. } => codes::LEDGER_TOO_NEW,
            LedgerError::Unsuitable { .. } => codes::LEDGER_UNSUITABLE,
            LedgerError::Unavailable { .. } => codes::LEDGER_UNAVAILABLE,
        }
    }
}

/// Whether the ledger's word is enough to remove something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerMode {
    /// It is the one that was written here last.
    Current,
    /// It is behind, copied, or from another machine.
    Restored {
        /// What does not fit.
        why: String,
    },
}

/// The state of the destroy brake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrakeState {
    /// Whether it is on.
    pub on: bool,
    /// How many removals it has counted in its window.
    pub recent: u32,
    /// How many it lets pass in its window.
    pub limit: u32,
    /// How long its window is.
    pub window: Duration,
}

/// Which leases to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFilter {
    /// Only this owner's.
    pub owner: Option<Owner>,
    /// Only those in one of these states; empty means every open state.
    pub states: Vec<State>,
    /// Closed ones too.
    pub closed: bool,
    /// Only ids that begin like this.
    pub id_prefix: Option<String>,
    /// Only ids after this one: the last of the page before.
    pub after: Option<LeaseId>,
    /// At most so many; 0 means 100.
    pub limit: u32,
}

/// A home and a sandbox there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HomeAndSandbox {
    /// The home.
    pub home: Home,
    /// The sandbox.
    pub sandbox: SandboxId,
}

/// An event with its place in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// Rises with every event of the ledger.
    pub sequence: u64,
    /// The event.
    pub event: Event,
}

/// A page of a history.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EventPage {
    /// Oldest first.
    pub events: Vec<RecordedEvent>,
    /// Whether older events of the lease were removed by retention.
    pub older_removed: bool,
}

/// A node that has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its id.
    pub node: NodeId,
    /// When it registered.
    pub started_at: Timestamp,
    /// Whether it is proved to be dead. False means: it lives, or nobody knows.
    pub proved_dead: bool,
}

/// The durable record of leases and of every event in their lives.
///
/// A write that returned is on disk. Writes are conditional; whoever loses reads again. A future
/// that is dropped may still have written.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The ledger's time: the wall clock, made to never run backwards, across restarts too, and to
    /// go on where the wall clock was set back.
    fn now(&self) -> Timestamp;

    /// When wall clock and monotonic clock were last seen to part: the clock was set, or the machine
    /// slept. By [`Clock::monotonic`](crate::Clock::monotonic); none if not on this boot. Known
    /// across restarts.
    fn last_jump(&self) -> Option<Duration>;

    /// When it was found to be behind, copied or from another machine, by its own time; also after
    /// [`Ledger::accept`]. What is older may have gone on elsewhere.
    fn restored_at(&self) -> Option<Timestamp>;

    /// Whether its word is enough to remove something.
    async fn mode(&self) -> Result<LedgerMode, LedgerError>;

    /// Writes all or nothing, and returns when it is on disk.
    ///
    /// A row whose removal was decided for a [braked](leasehold_core::DestroyReason::is_braked)
    /// reason is counted by the brake, and refused in restored mode.
    async fn commit(&self, writes: Vec<Write>) -> Result<(), LedgerError>;

    /// The row, if there is one.
    async fn get(&self, lease: &LeaseId) -> Result<Option<Arc<Lease>>, LedgerError>;

    /// The row that has the key, open or closed.
    async fn find_key(
        &self,
        owner: &Owner,
        home: &Home,
        key: &AcquireKey,
    ) -> Result<Option<Arc<Lease>>, LedgerError>;

    /// Every row, open or closed, that is or was pinned to the sandbox; an open one first.
    async fn find_pinned(&self, place: &HomeAndSandbox) -> Result<Vec<Arc<Lease>>, LedgerError>;

    /// Every row, open or closed, one of whose attempts has the name.
    async fn find_attempt(
        &self,
        home: &Home,
        name: &leasehold_core::SandboxName,
    ) -> Result<Option<Arc<Lease>>, LedgerError>;

    /// A page of rows, by id. Damaged rows are left out; [`Ledger::damaged`] lists them.
    async fn list(&self, filter: &LeaseFilter) -> Result<Vec<Arc<Lease>>, LedgerError>;

    /// The homes of all open rows: what a sweep must look at.
    async fn homes(&self) -> Result<Vec<Home>, LedgerError>;

    /// Open rows that are due at `now`, the longest overdue first, at most `limit`.
    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Arc<Lease>>, LedgerError>;

    /// When the next row is due, if one is.
    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError>;

    /// Rows that cannot be read: their ids and what is wrong with them.
    async fn damaged(&self) -> Result<Vec<(String, String)>, LedgerError>;

    /// What is still known of a row that cannot be read. None if it can be, or is not there.
    async fn salvage(&self, lease: &LeaseId) -> Result<Option<Salvage>, LedgerError>;

    /// The history of a lease, events after `after`, at most `limit`.
    async fn events(
        &self,
        lease: &LeaseId,
        after: u64,
        limit: u32,
    ) -> Result<EventPage, LedgerError>;

    /// Registers a node that has just started. It is alive for as long as the ledger is open in its
    /// process.
    async fn register_node(&self, node: &NodeId) -> Result<(), LedgerError>;

    /// Every registered node.
    async fn nodes(&self) -> Result<Vec<NodeRecord>, LedgerError>;

    /// Open rows that name the node: its claims, its commands, what is tied to it.
    async fn rows_of_node(&self, node: &NodeId) -> Result<Vec<Arc<Lease>>, LedgerError>;

    /// Takes a node that no open row names off the list.
    async fn remove_node(&self, node: &NodeId) -> Result<(), LedgerError>;

    /// The brake.
    async fn brake(&self) -> Result<BrakeState, LedgerError>;

    /// Takes the brake off, by an operator.
    async fn release_brake(&self) -> Result<(), LedgerError>;

    /// Ends restored mode, by an operator.
    async fn accept(&self) -> Result<(), LedgerError>;
}
