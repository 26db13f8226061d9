//! Going through the leases of a ledger a page at a time, however many there are.

use leasehold_core::Lease;
use leasehold_ports::{LeaseFilter, Ledger};

use crate::failure::Failure;

/// How many rows are read at once.
const PAGE: u32 = 1_000;

/// Shows each lease of the filter to `take`, by its id. Only a page of them is in memory.
pub(crate) async fn each(
    ledger: &dyn Ledger,
    mut filter: LeaseFilter,
    mut take: impl FnMut(&Lease),
) -> Result<(), Failure> {
    filter.limit = PAGE;
    loop {
        let page = ledger.list(&filter).await?;
        for lease in &page {
            take(lease);
        }
        match page.last() {
            Some(last) if page.len() == PAGE as usize => filter.after = Some(last.id.clone()),
            _ => return Ok(()),
        }
    }
}
