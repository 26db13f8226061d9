//! The columns of a row: what is taken from a lease, and how a stored row becomes a lease again.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Kind, Lease, State, Timestamp};
use leasehold_ports::LedgerError;
use rusqlite::Row;

/// What [`read`] needs of `leases`, in this order.
pub(super) const READ: &str = "leases.id, leases.version, leases.state, leases.body";

/// A row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) lease: String,
    pub(super) problem: String,
}

impl From<Damage> for LedgerError {
    fn from(damage: Damage) -> Self {
        LedgerError::Damaged { lease: damage.lease, problem: damage.problem }
    }
}

/// The lease of a row, or what is wrong with the row. The outer error is SQLite's.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Result<Arc<Lease>, Damage>> {
    let id = row.get_ref(0)?.as_str().unwrap_or("(an id that is no text)");
    let version = row.get_ref(1)?.as_i64().unwrap_or(-1);
    let stated = row.get_ref(2)?.as_str().unwrap_or_default();
    let damage = |problem: String| Ok(Err(Damage { lease: id.to_owned(), problem }));
    let Ok(body) = row.get_ref(3)?.as_str() else {
        return damage("its body is no text".to_owned());
    };
    let lease: Lease = match serde_json::from_str(body) {
        Ok(lease) => lease,
        // The position is enough to look at it; the text of the error may quote the body.
        Err(error) => {
            return damage(format!("its body cannot be read at column {}", error.column()));
        }
    };
    if lease.id.as_str() != id || integer(lease.version) != version || lease.state.name() != stated
    {
        return damage("its body and its columns differ".to_owned());
    }
    if let Err(inconsistency) = lease.check() {
        return damage(inconsistency.rule.to_owned());
    }
    Ok(Ok(Arc::new(lease)))
}

/// The nodes of an open row, each once, in order: compared to see whether they have changed.
pub(super) fn nodes(lease: &Lease) -> Vec<&str> {
    if !lease.is_open() {
        return Vec::new();
    }
    let mut nodes: Vec<&str> = lease.nodes().map(|node| node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// SQLite's integers are signed. No counter of ours gets that far.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count or a counter that was stored by [`integer`].
pub(super) fn number(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or(0)
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn time(at: Timestamp) -> i64 {
    integer(at.as_millis())
}

pub(super) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(number(millis))
}

pub(super) fn state_named(text: &str) -> Option<State> {
    State::ALL.into_iter().find(|candidate| candidate.name() == text)
}

pub(super) const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Lease => "lease",
        Kind::Template => "template",
        Kind::Debt => "debt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_spelt_as_everywhere() {
        for each in State::ALL {
            assert_eq!(each.name(), each.to_string());
            assert_eq!(state_named(each.name()), Some(each));
        }
    }
}
