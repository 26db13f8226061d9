//! What a [`LeaseFilter`] and a search mean, the same for every store.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{Lease, SandboxName, State};
use leasehold_ports::LeaseFilter;

/// The page size of a filter that names none.
const PAGE: u32 = 100;

/// The states that the filter asks for.
pub(crate) fn states(filter: &LeaseFilter) -> BTreeSet<State> {
    let mut states: BTreeSet<State> = if filter.states.is_empty() {
        State::ALL.into_iter().filter(|state| *state != State::Closed).collect()
    } else {
        filter.states.iter().copied().collect()
    };
    if filter.closed {
        states.insert(State::Closed);
    }
    states
}

/// The most rows of a page.
pub(crate) fn page_size(filter: &LeaseFilter) -> usize {
    let limit = if filter.limit == 0 { PAGE } else { filter.limit };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Of the rows that ever made an attempt of this name, the one that answers for it: the row whose
/// attempt it is now (an attempt in doubt moves to a debt), an open one first.
pub(crate) fn answers_for_attempt(rows: Vec<Arc<Lease>>, name: &SandboxName) -> Option<Arc<Lease>> {
    rows.into_iter().max_by_key(|row| {
        (row.attempt.as_ref().is_some_and(|attempt| &attempt.name == name), row.is_open())
    })
}
