//! Real time and real randomness: the only place of the program that asks the system for either.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use leasehold_core::Timestamp;
use leasehold_ports::{Clock, Random};

/// The machine's clocks, and tokio's timer.
pub(crate) struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the real clock behind the port")]
    fn now(&self) -> Timestamp {
        // A clock that stands before 1970 counts as 1970; the ledger's time never runs backwards.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(millis) + ahead()
    }

    fn monotonic(&self) -> Duration {
        // Since boot, so that processes can compare; `Instant` does not show the number.
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        Duration::new(seconds, nanoseconds) + ahead()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the real clock behind the port")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// How far ahead of the machine's clock this process lives. Only the crash tests move it: they look
/// at what a lease comes to after its deadlines without waiting for them.
fn ahead() -> Duration {
    #[cfg(feature = "crash-points")]
    if let Ok(text) = std::env::var("LEASEHOLD_CLOCK_AHEAD_SECONDS")
        && let Ok(seconds) = text.parse()
    {
        return Duration::from_secs(seconds);
    }
    Duration::ZERO
}

/// The kernel's randomness.
pub(crate) struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::panic, reason = "without randomness every name could be guessed")]
    fn fill(&self, bytes: &mut [u8]) {
        // Linux blocks until its pool is ready and then never fails (getrandom(2)), unless a filter
        // forbids the call; going on with predictable names would be worse than to stop.
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the kernel gives no randomness: {error}");
        }
    }
}
