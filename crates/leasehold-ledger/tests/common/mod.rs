//! What the tests of the SQLite ledger share.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::path::Path;
use std::sync::Arc;

use leasehold_ledger::SqliteLedger;
use leasehold_ledger::suite::TestClock;
use leasehold_ledger::suite::samples::NOW;
use leasehold_ports::{Clock, LedgerError, Random};

/// The system's randomness.
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).unwrap();
    }
}

/// Opens the ledger in `directory` by `clock`.
pub fn open(directory: &Path, clock: Arc<dyn Clock>) -> Result<SqliteLedger, LedgerError> {
    SqliteLedger::open(directory, clock, Arc::new(SystemRandom))
}

/// Opens the ledger in `directory` at [`NOW`].
pub fn open_now(directory: &Path) -> Result<SqliteLedger, LedgerError> {
    open(directory, TestClock::at(NOW))
}
