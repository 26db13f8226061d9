//! Stopping one call at a chosen moment.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Semaphore;

/// A call that is stopped when it gets to its moment, and goes on when it is let go. If its caller
/// gives up or crashes meanwhile it never goes on.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    reached: Arc<Semaphore>,
    let_go: Arc<Semaphore>,
}

impl Hold {
    pub(crate) fn new() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), let_go: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until the call is at its moment.
    pub(crate) async fn reached(&self) {
        self.reached.acquire().await.expect("an open semaphore").forget();
    }

    /// Lets the call go on.
    pub(crate) fn let_go(&self) {
        self.let_go.add_permits(1);
    }

    pub(super) async fn stop_here(&self) {
        self.reached.add_permits(1);
        self.let_go.acquire().await.expect("an open semaphore").forget();
    }
}

/// Polls `future` so many times, then drops it, as a caller does that goes away. None: it was
/// dropped.
pub(crate) async fn dropped_after<T>(polls: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
