//! What a write must fulfil, written once for every store.
//!
//! A store ([`Rows`]) finds and keeps rows; the rules here decide whether a row may be kept. They
//! look before they write: a write that is refused has changed nothing by itself. A commit of
//! several writes is undone by its store when a later one is refused.

use std::sync::Arc;

use leasehold_core::Timestamp;
use leasehold_core::{DestroyReason, EventKind, Lease, LeaseId, SandboxId, State};
use leasehold_ports::{LedgerError, LedgerMode, Limits, Write};

use crate::brake::{self, Window};

/// A row as it is stored before a write.
pub(crate) struct Stored<Extra> {
    pub(crate) version: u64,
    pub(crate) state: State,
    /// The sandbox that it is pinned to, open or closed.
    pub(crate) sandbox: Option<SandboxId>,
    /// Whether owner, home and key are those of the row to be written: they are fixed for good.
    pub(crate) same_identity: bool,
    /// What the store needs to replace the row.
    pub(crate) extra: Extra,
}

/// One write of a commit, as the stores take it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) lease: Arc<Lease>,
    pub(crate) manner: Manner,
    pub(crate) events: Vec<EventKind>,
    pub(crate) actor: String,
}

/// How a row is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    Insert(Option<Limits>),
    Update,
    Debt,
}

impl From<Write> for Entry {
    fn from(write: Write) -> Self {
        match write {
            Write::Insert { lease, events, actor, limits } => {
                Self { lease, manner: Manner::Insert(limits), events, actor }
            }
            Write::Update { lease, events, actor } => {
                Self { lease, manner: Manner::Update, events, actor }
            }
            Write::InsertDebt { lease, actor } => {
                let reason = lease.cleanup.as_ref().map(|cleanup| cleanup.reason);
                let events =
                    reason.map(|reason| EventKind::DestroyBegan { reason }).into_iter().collect();
                Self { lease, manner: Manner::Debt, events, actor }
            }
        }
    }
}

impl AsRef<Entry> for Entry {
    fn as_ref(&self) -> &Entry {
        self
    }
}

/// A store in the middle of a transaction.
pub(crate) trait Rows {
    /// A write, with what the store has made ready for it.
    type Entry: AsRef<Entry>;

    /// What the store wants to know of a row that it replaces.
    type Extra;

    /// The stored row with the id of the entry's.
    fn stored(&mut self, entry: &Self::Entry) -> Result<Option<Stored<Self::Extra>>, LedgerError>;

    /// The row, open or closed, with the owner, home and key of the entry's.
    fn key_holder(&mut self, entry: &Self::Entry) -> Result<Option<LeaseId>, LedgerError>;

    /// The open row that pins the sandbox of the entry's row.
    fn pin_holder(
        &mut self,
        entry: &Self::Entry,
        sandbox: &SandboxId,
    ) -> Result<Option<LeaseId>, LedgerError>;

    /// How many open rows the owner of the entry's row has.
    fn open_of_owner(&mut self, entry: &Self::Entry) -> Result<u32, LedgerError>;

    /// How many open rows the home of the entry's row has.
    fn open_of_home(&mut self, entry: &Self::Entry) -> Result<u32, LedgerError>;

    /// How many open rows there are.
    fn open(&mut self) -> Result<u32, LedgerError>;

    /// The brake, with what it has counted after `from`.
    fn brake(&mut self, from: Timestamp) -> Result<Window, LedgerError>;

    /// Counts a removal.
    fn count_removal(&mut self, lease: &LeaseId, at: Timestamp) -> Result<(), LedgerError>;

    /// Keeps the row and what happened to it.
    fn keep(
        &mut self,
        entry: &Self::Entry,
        before: Option<Stored<Self::Extra>>,
        at: Timestamp,
    ) -> Result<(), LedgerError>;
}

/// The circumstances of a commit.
#[derive(Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    pub(crate) now: Timestamp,
    pub(crate) mode: &'a LedgerMode,
}

/// Does one write of a commit, or refuses it.
///
/// Nothing is written before everything is checked: stores rely on a refusal having changed nothing.
pub(crate) fn apply<R: Rows>(
    rows: &mut R,
    entry: &R::Entry,
    circumstances: Circumstances<'_>,
) -> Result<(), LedgerError> {
    let lease = entry.as_ref().lease.as_ref();
    lease.check().map_err(|inconsistency| invalid(lease, inconsistency.rule))?;
    let before = match entry.as_ref().manner {
        Manner::Insert(limits) => {
            check_new(rows, entry)?;
            if let Some(holder) = holder_of_pin(rows, entry)? {
                return Err(LedgerError::PinTaken { lease: holder });
            }
            if let Some(limits) = limits {
                check_limits(rows, entry, limits)?;
            }
            None
        }
        Manner::Update => Some(check_next(rows, entry)?),
        Manner::Debt => {
            check_new(rows, entry)?;
            if holder_of_pin(rows, entry)?.is_some() {
                // That row answers for the sandbox.
                return Ok(());
            }
            None
        }
    };
    check_removal(rows, lease, before.as_ref().map(|before| before.state), circumstances)?;
    rows.keep(entry, before, circumstances.now)
}

fn invalid(lease: &Lease, rule: &str) -> LedgerError {
    LedgerError::Invalid { lease: lease.id.clone(), problem: rule.to_owned() }
}

/// A new row is a first version of an unused id, under an unused key.
fn check_new<R: Rows>(rows: &mut R, entry: &R::Entry) -> Result<(), LedgerError> {
    let lease = &entry.as_ref().lease;
    if lease.version != 1 {
        return Err(invalid(lease, "the version of a new row is 1"));
    }
    if rows.stored(entry)?.is_some() {
        return Err(LedgerError::Conflict { lease: lease.id.clone() });
    }
    match rows.key_holder(entry)? {
        Some(holder) => Err(LedgerError::KeyTaken { lease: holder }),
        None => Ok(()),
    }
}

/// The next version follows the stored one, stays who it is, and pins what nobody else pins.
fn check_next<R: Rows>(rows: &mut R, entry: &R::Entry) -> Result<Stored<R::Extra>, LedgerError> {
    let lease = &entry.as_ref().lease;
    let before = match rows.stored(entry)? {
        Some(before) if before.version.checked_add(1) == Some(lease.version) => before,
        _ => return Err(LedgerError::Conflict { lease: lease.id.clone() }),
    };
    if !before.same_identity {
        return Err(invalid(lease, "owner, home and key of a row never change"));
    }
    let sandbox = lease.pin.as_ref().map(|pin| &pin.sandbox);
    if before.state == State::Closed || sandbox != before.sandbox.as_ref() {
        match holder_of_pin(rows, entry)? {
            Some(holder) if holder != lease.id => {
                return Err(LedgerError::PinTaken { lease: holder });
            }
            _ => {}
        }
    }
    Ok(before)
}

/// The open row that pins the sandbox of the entry's row, if that is open and pinned.
fn holder_of_pin<R: Rows>(rows: &mut R, entry: &R::Entry) -> Result<Option<LeaseId>, LedgerError> {
    let lease = &entry.as_ref().lease;
    match &lease.pin {
        Some(pin) if lease.is_open() => rows.pin_holder(entry, &pin.sandbox),
        _ => Ok(None),
    }
}

/// Open rows count until their end is proved: a quarantined one still costs money.
fn check_limits<R: Rows>(
    rows: &mut R,
    entry: &R::Entry,
    limits: Limits,
) -> Result<(), LedgerError> {
    let Limits { per_owner, per_home } = limits;
    let open = rows.open_of_owner(entry)?;
    if open >= per_owner {
        return Err(LedgerError::LimitReached { whose: "this owner", open, limit: per_owner });
    }
    let open = rows.open_of_home(entry)?;
    if open >= per_home {
        return Err(LedgerError::LimitReached { whose: "this home", open, limit: per_home });
    }
    Ok(())
}

/// Whether the row may be given up to removal now.
fn check_removal<R: Rows>(
    rows: &mut R,
    lease: &Lease,
    before: Option<State>,
    circumstances: Circumstances<'_>,
) -> Result<(), LedgerError> {
    if lease.state != State::Destroying || before == Some(State::Destroying) {
        return Ok(());
    }
    let Some(cleanup) = &lease.cleanup else {
        // `Lease::check` has refused such a row.
        return Ok(());
    };
    if let LedgerMode::Restored { why } = circumstances.mode
        && !stands_in_restored_mode(lease, cleanup.reason, before)
    {
        return Err(LedgerError::Restored { why: why.clone() });
    }
    if cleanup.reason.is_braked() {
        let window = rows.brake(brake::window_start(circumstances.now))?;
        let open = rows.open()?;
        if !window.lets_pass(open) {
            return Err(LedgerError::Braked { recent: window.recent });
        }
        rows.count_removal(&lease.id, circumstances.now)?;
    }
    Ok(())
}

/// In restored mode the ledger's own word removes nothing: its sandboxes may be in use under the
/// ledger that it was copied from. An owner's and an operator's word still counts, and so does what
/// a create just answered to this process: nobody else can know that sandbox.
fn stands_in_restored_mode(lease: &Lease, reason: DestroyReason, before: Option<State>) -> bool {
    match reason {
        DestroyReason::OwnerAsked | DestroyReason::OperatorAsked => true,
        DestroyReason::LateCreate => before.is_none() && lease.pin.is_some(),
        DestroyReason::Deadline
        | DestroyReason::Undelivered
        | DestroyReason::PreparationFailed
        | DestroyReason::StopUnconfirmed
        | DestroyReason::HolderDied
        | DestroyReason::WrongMarker
        | DestroyReason::Reappeared => false,
    }
}
