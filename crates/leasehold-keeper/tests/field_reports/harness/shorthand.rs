//! Words that scenarios say often.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::future::{Either, select};
use leasehold_core::{Lease, SandboxId};
use leasehold_testkit::faults::{Fault, Operation};

use super::home::Home;
use super::stop::Hold;

/// The sandbox that the lease is pinned to.
///
/// # Panics
/// If it is pinned to none.
pub(crate) fn sandbox_of(lease: &Lease) -> SandboxId {
    lease.pin.as_ref().expect("a lease that is pinned").sandbox.clone()
}

impl Home {
    /// The next so many calls of `operation` go wrong like this.
    pub(crate) fn fail_next(&self, operation: Operation, calls: usize, fault: Fault) {
        for _ in 0..calls {
            self.faults().script(operation, 0, fault);
        }
    }
}

/// Does `work` in a process that gets SIGSTOP when it has run so many times, and SIGCONT when the
/// hold is let go. Time, timers and everybody else go on meanwhile.
pub(crate) async fn stopped_after<T>(polls: u32, stop: &Hold, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut left = polls;
    let before_the_stop = poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        work.as_mut().poll(context).map(Some)
    });
    match before_the_stop.await {
        Some(ended) => ended,
        None => {
            stop.stop_here().await;
            work.await
        }
    }
}

/// Does `work` until `interrupt` has come, and drops it then: Ctrl-C. None: it was dropped.
pub(crate) async fn interrupted_by<T>(
    interrupt: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (work, interrupt) = (pin!(work), pin!(interrupt));
    match select(work, interrupt).await {
        Either::Left((ended, _)) => Some(ended),
        Either::Right(_) => None,
    }
}
