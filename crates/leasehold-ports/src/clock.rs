use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::Timestamp;

/// Time. The keeper knows no other.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The wall clock, which may jump. The ledger makes of it a time that never runs backwards.
    fn now(&self) -> Timestamp;

    /// Time since some fixed point, which never jumps, but stands still while the machine sleeps.
    fn monotonic(&self) -> Duration;

    /// Waits. May be dropped at any time.
    async fn sleep(&self, duration: Duration);
}
