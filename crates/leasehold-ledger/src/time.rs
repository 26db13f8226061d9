//! The ledger's time: the wall clock, made to never run backwards.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_core::Timestamp;
use leasehold_ports::Clock;

/// A clock with a floor under it. The floor is kept in the ledger and rises with each commit, so
/// that time does not run backwards across restarts and between processes either.
pub(crate) struct LedgerTime {
    clock: Arc<dyn Clock>,
    floor: AtomicU64,
}

impl LedgerTime {
    pub(crate) fn new(clock: Arc<dyn Clock>, floor: Timestamp) -> Self {
        Self { clock, floor: AtomicU64::new(floor.as_millis()) }
    }

    /// Never earlier than any answer before it, or than any floor that it was given.
    pub(crate) fn now(&self) -> Timestamp {
        let wall = self.clock.now().as_millis();
        let floor = self.floor.fetch_max(wall, Ordering::AcqRel);
        Timestamp::from_millis(wall.max(floor))
    }

    /// Raises the floor to what another process has written.
    pub(crate) fn raise(&self, floor: Timestamp) {
        self.floor.fetch_max(floor.as_millis(), Ordering::AcqRel);
    }

    /// Sets the floor to that of another ledger: what a restart on a restored copy does.
    pub(crate) fn reset(&self, floor: Timestamp) {
        self.floor.store(floor.as_millis(), Ordering::Release);
    }
}

impl fmt::Debug for LedgerTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LedgerTime").field("floor", &self.floor).finish_non_exhaustive()
    }
}
