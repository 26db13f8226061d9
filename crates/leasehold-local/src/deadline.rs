//! Deadlines of blocking work: the clock of the caller, turned into real time once.

use leasehold_core::Timestamp;
use leasehold_ports::Clock;
use rustix::event::Timespec;
use std::time::{Duration, Instant};

/// A moment at which blocking work gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// The moment that the caller's clock will call `deadline`.
    pub(crate) fn at(deadline: Timestamp, clock: &dyn Clock) -> Self {
        // No blocking call of ours takes longer than minutes; an hour keeps the sum in range.
        Self(now() + deadline.since(clock.now()).min(Duration::from_secs(3600)))
    }

    /// What is left, zero once it is over.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(now())
    }

    /// Whether nothing is left.
    pub(crate) fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// What is left, as the kernel wants it.
    pub(crate) fn timeout(self) -> Timespec {
        let left = self.left();
        Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        }
    }
}

/// Waits a moment in a blocking thread, before something that no event announces is tried again.
#[expect(
    clippy::disallowed_methods,
    reason = "a thread of the blocking pool waits for a file lock, which has no event"
)]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the kernel's own timeouts run in real time; deadlines come from the Clock port and are converted here"
)]
fn now() -> Instant {
    Instant::now()
}
