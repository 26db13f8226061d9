//! Virtual time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::Timestamp;
use leasehold_ports::Clock;

use super::Shared;
use super::timers::TimerKey;

/// Where every run begins: 2027-01-15, a round number of milliseconds.
const EPOCH_MILLIS: u64 = 1_800_000_000_000;

/// The true time of a run. It passes only when everybody waits, and never jumps.
#[derive(Clone)]
pub struct VirtualTime {
    shared: Arc<Shared>,
}

impl fmt::Debug for VirtualTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.elapsed())
    }
}

impl VirtualTime {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Microseconds since the run began.
    #[must_use]
    pub fn micros(&self) -> u64 {
        self.shared.now()
    }

    /// The time since the run began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(self.micros())
    }

    /// The true wall-clock time.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(EPOCH_MILLIS + self.micros() / 1_000)
    }

    /// Waits, without an allocation.
    #[must_use]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(self.shared.clone(), duration)
    }

    /// Waits until `micros` since the run began.
    #[must_use]
    pub fn sleep_until(&self, micros: u64) -> Sleep {
        Sleep { shared: self.shared.clone(), deadline: micros, timer: None }
    }

    /// Lets other ready tasks go first, or not: the seed chooses.
    #[must_use]
    pub fn yield_now(&self) -> YieldNow {
        YieldNow { yielded: false }
    }
}

/// The clock of one machine. Its wall clock may jump; its monotonic time never does.
pub struct SimulatedClock {
    time: VirtualTime,
    offset_millis: AtomicI64,
}

impl fmt::Debug for SimulatedClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SimulatedClock({:?})", self.now())
    }
}

impl SimulatedClock {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { time: VirtualTime { shared }, offset_millis: AtomicI64::new(0) }
    }

    /// Moves the wall clock by so many milliseconds, forwards or backwards: an operator sets it, or
    /// the machine wakes up after a sleep.
    pub fn jump(&self, millis: i64) {
        self.offset_millis.fetch_add(millis, Ordering::Relaxed);
    }

    /// How far the wall clock is from the true time, in milliseconds.
    #[must_use]
    pub fn offset_millis(&self) -> i64 {
        self.offset_millis.load(Ordering::Relaxed)
    }

    /// The true time, which tests may know and the keeper may not.
    #[must_use]
    pub const fn time(&self) -> &VirtualTime {
        &self.time
    }
}

#[async_trait]
impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let true_millis = self.time.timestamp().as_millis();
        Timestamp::from_millis(true_millis.saturating_add_signed(self.offset_millis()))
    }

    fn monotonic(&self) -> Duration {
        self.time.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        self.time.sleep(duration).await;
    }
}

/// A wait in virtual time. Dropping it takes its timer out.
pub struct Sleep {
    shared: Arc<Shared>,
    deadline: u64,
    timer: Option<TimerKey>,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sleep until {}us", self.deadline)
    }
}

impl Sleep {
    fn new(shared: Arc<Shared>, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let deadline = shared.now().saturating_add(micros);
        Self { shared, deadline, timer: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut shared = this.shared.lock();
        match this.timer {
            // A wait of no time is a wait for everybody who is ready now.
            None => {
                let deadline = this.deadline.max(this.shared.now());
                this.timer = Some(shared.timers.set(deadline, context.waker().clone()));
                Poll::Pending
            }
            Some(key) if shared.timers.rearm(key, context.waker()) => Poll::Pending,
            Some(_) => Poll::Ready(()),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(key) = self.timer else { return };
        let waker = self.shared.lock().timers.cancel(key);
        // Outside of the lock: the last waker of a task may own more than it seems to.
        drop(waker);
    }
}

/// Pending once, ready at once: a point at which the seed may choose another task.
#[derive(Debug)]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
