//! Waiting for a task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The task was dropped before it ended: its node crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

struct JoinState<T> {
    ended: Option<Result<T, Dropped>>,
    waker: Option<Waker>,
}

/// The end of a task, to be awaited. Dropping it does not end the task.
pub struct Join<T> {
    state: Arc<Mutex<JoinState<T>>>,
}

impl<T> fmt::Debug for Join<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Join({})", if self.is_ended() { "ended" } else { "running" })
    }
}

impl<T> Join<T> {
    fn lock(&self) -> MutexGuard<'_, JoinState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the task has ended, or was dropped, and its answer is still here.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    /// Takes the answer, if the task has ended.
    #[must_use]
    pub fn take(&self) -> Option<Result<T, Dropped>> {
        self.lock().ended.take()
    }
}

impl<T> Future for Join<T> {
    type Output = Result<T, Dropped>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.lock();
        match state.ended.take() {
            Some(ended) => Poll::Ready(ended),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Tells the [`Join`] how the task ended, also when it is dropped.
struct Teller<T>(Arc<Mutex<JoinState<T>>>);

impl<T> Teller<T> {
    fn tell(&self, ended: Result<T, Dropped>) {
        let waker = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.ended.is_none() {
                state.ended = Some(ended);
            }
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct TellDropped<T>(Option<Teller<T>>);

impl<T> Drop for TellDropped<T> {
    fn drop(&mut self) {
        if let Some(teller) = self.0.take() {
            teller.tell(Err(Dropped));
        }
    }
}

/// `future` as a task, and what waits for it.
pub(super) fn joined<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> (Join<T>, impl Future<Output = ()> + Send + 'static) {
    let state = Arc::new(Mutex::new(JoinState { ended: None, waker: None }));
    let join = Join { state: state.clone() };
    let mut tell_dropped = TellDropped(Some(Teller(state)));
    let task = async move {
        let value = future.await;
        if let Some(teller) = tell_dropped.0.take() {
            teller.tell(Ok(value));
        }
    };
    (join, task)
}
