//! What every group asserts.

use std::fmt::Debug;
use std::time::Duration;

use leasehold_core::Refusal;
use leasehold_keeper::KeeperError;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The one element that there is.
///
/// # Panics
/// If there are none or several.
pub(crate) fn only<T: Debug>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1, "exactly one of {all:?}");
    all.remove(0)
}

/// It was refused, for this reason.
///
/// # Panics
/// If it was not.
pub(crate) fn assert_refused<T: Debug>(result: Result<T, KeeperError>, expected: &Refusal) {
    match result {
        Err(KeeperError::Refused(refusal)) => assert_eq!(&refusal, expected),
        other => panic!("refused with \"{expected}\", not {other:?}"),
    }
}
