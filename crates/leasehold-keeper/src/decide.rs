//! From a request to a written decision: read, ask the core, compare-and-set, until it holds.

use std::sync::Arc;

use leasehold_core::{
    Caller, Change, Context, Decision, EventKind, Input, Lease, LeaseId, Refusal, catalogue,
    decide_with,
};
use leasehold_ports::{LedgerError, Write};

use crate::{Keeper, KeeperError};

/// How often a compare-and-set is tried before the row counts as too busy.
pub(crate) const TRIES: u32 = 100;

/// A row as it stands after a decision.
pub(crate) struct Decided {
    /// The row.
    pub(crate) lease: Arc<Lease>,
    /// Whether this decision wrote it; if not, it was so already.
    pub(crate) wrote: bool,
}

impl Keeper {
    /// Reads the row.
    pub(crate) async fn read(&self, lease: &LeaseId) -> Result<Arc<Lease>, KeeperError> {
        self.inner
            .ledger
            .get(lease)
            .await?
            .ok_or_else(|| KeeperError::NoSuchLease { lease: lease.clone() })
    }

    /// Decides about the row as it is now, and writes the decision. When somebody else was faster,
    /// the row is read again and the question is asked anew: the answer may be another one.
    pub(crate) async fn decide(
        &self,
        lease: &LeaseId,
        input: &Input,
        caller: &Caller,
    ) -> Result<Decided, KeeperError> {
        for _ in 0..TRIES {
            let row = self.read(lease).await?;
            match self.decide_once(row, input, caller).await? {
                Some(decided) => return Ok(decided),
                None => continue,
            }
        }
        Err(LedgerError::Conflict { lease: lease.clone() }.into())
    }

    /// The circumstances of a decision that is made here and now.
    pub(crate) fn context<'a>(&'a self, caller: &'a Caller) -> Context<'a> {
        Context {
            now: self.now(),
            node: &self.inner.node,
            caller,
            claim_for: self.inner.settings.claim,
            calm: !self.is_in_jump_grace(),
        }
    }

    /// One round of [`Keeper::decide`] about a row that was read. None: it has changed since.
    pub(crate) async fn decide_once(
        &self,
        row: Arc<Lease>,
        input: &Input,
        caller: &Caller,
    ) -> Result<Option<Decided>, KeeperError> {
        let decision = decide_with(self.inner.seeded.guards(), &row, input, self.context(caller));
        let change = match decision {
            Ok(Decision::AlreadySo) => return Ok(Some(Decided { lease: row, wrote: false })),
            Ok(Decision::Write(change)) => change,
            Err(refusal) => {
                log_refusal(&refusal, &row.id, caller);
                return Err(refusal.into());
            }
        };
        let Change { lease, events, debt } = *change;
        let lease = Arc::new(lease);
        let writes = writes(Arc::clone(&lease), events, debt, caller);
        match self.inner.ledger.commit(writes).await {
            Ok(()) => Ok(Some(Decided { lease, wrote: true })),
            Err(LedgerError::Conflict { .. }) => Ok(None),
            // The write may have happened all the same; the row tells.
            Err(error @ LedgerError::Unavailable { .. }) => match self.read(&lease.id).await {
                Ok(row) if row == lease => Ok(Some(Decided { lease, wrote: true })),
                _ => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }
}

fn writes(
    lease: Arc<Lease>,
    events: Vec<EventKind>,
    debt: Option<Box<Lease>>,
    caller: &Caller,
) -> Vec<Write> {
    let actor = caller.actor();
    let update = Write::Update { lease, events, actor: actor.clone() };
    match debt {
        None => vec![update],
        Some(debt) => vec![update, Write::InsertDebt { lease: Arc::from(debt), actor }],
    }
}

/// Whoever asked is told by their front end; this line is for whoever runs this installation.
fn log_refusal(refusal: &Refusal, lease: &LeaseId, caller: &Caller) {
    let code = refusal.code();
    // The keeper's own questions are refused all the time: somebody else was faster, or nothing was
    // to be done.
    if *caller == Caller::Keeper {
        tracing::debug!(code, %lease, "{refusal}");
    } else {
        let next = catalogue::find(code).map(catalogue::Entry::next_step);
        tracing::info!(code, %lease, next, "{refusal}");
    }
}
