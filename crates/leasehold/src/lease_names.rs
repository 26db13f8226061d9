//! From what a person writes to the lease that is meant: an id, or the beginning of exactly one.

use std::sync::Arc;

use leasehold_core::{Lease, LeaseId};
use leasehold_ports::{LeaseFilter, Ledger, LedgerError};

use crate::failure::{self, Failure};

/// What every lease id begins with.
const BEGINNING: &str = "ls_";

/// How many candidates an error lists.
const CANDIDATES: usize = 8;

/// Finds the lease that `text` names as [`find`] does, but also one whose row cannot be read, if its
/// id is written in full: its history can be, and an operator can end it.
pub(crate) async fn find_id(ledger: &dyn Ledger, text: &str) -> Result<LeaseId, Failure> {
    if let Ok(id) = LeaseId::new(text)
        && let Err(LedgerError::Damaged { .. }) = ledger.get(&id).await
    {
        return Ok(id);
    }
    Ok(find(ledger, text).await?.id.clone())
}

/// Finds the lease, open or closed, that `text` names. An id in full is never a prefix of another.
pub(crate) async fn find(ledger: &dyn Ledger, text: &str) -> Result<Arc<Lease>, Failure> {
    if let Ok(id) = LeaseId::new(text)
        && let Some(lease) = ledger.get(&id).await?
    {
        return Ok(lease);
    }
    let prefix =
        if text.starts_with(BEGINNING) { text.to_owned() } else { format!("{BEGINNING}{text}") };
    if prefix == BEGINNING {
        return Err(Failure::bad_argument("an empty lease id", "give some of its characters"));
    }
    let filter = LeaseFilter {
        closed: true,
        id_prefix: Some(prefix),
        limit: u32::try_from(CANDIDATES).unwrap_or(u32::MAX) + 1,
        ..LeaseFilter::default()
    };
    let mut found = ledger.list(&filter).await?;
    match found.len() {
        0 => Err(Failure::no_such_lease(text)),
        1 => Ok(found.remove(0)),
        count => {
            let candidates: Vec<(LeaseId, String)> = found
                .into_iter()
                .take(CANDIDATES)
                .map(|lease| (lease.id.clone(), lease.state.to_string()))
                .collect();
            Err(failure::ambiguous(text, &candidates, count > CANDIDATES))
        }
    }
}
