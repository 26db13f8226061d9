//! Places in a step where the process can be made to die, and where tests can look or wait, to show
//! that nothing is lost.
//!
//! Without the feature `crash-points` nothing dies here; without an observer nobody looks.

use async_trait::async_trait;
use leasehold_core::{LeaseId, Step};

use crate::Keeper;

/// Where in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// The intent is on disk; the provider was not called.
    Planned,
    /// The provider has answered; nothing of it is on disk.
    Done,
    /// The outcome is on disk; nothing else has happened.
    Recorded,
}

impl Edge {
    /// Every edge of a step, in the order in which they are reached.
    pub const ALL: [Edge; 3] = [Edge::Planned, Edge::Done, Edge::Recorded];

    /// Its name, as crash points spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Edge::Planned => "planned",
            Edge::Done => "done",
            Edge::Recorded => "recorded",
        }
    }
}

/// Somebody who is told of each step, for tests that count, stop or fail them.
#[async_trait]
pub trait StepObserver: Send + Sync {
    /// A step of a lease is at one of its edges. It goes on when this returns.
    async fn step(&self, lease: &LeaseId, step: Step, edge: Edge);
}

/// Every crash point: each step of the lifecycle at each edge.
#[cfg(feature = "crash-points")]
#[must_use]
pub fn crash_points() -> Vec<String> {
    Step::ALL.iter().flat_map(|step| Edge::ALL.map(|edge| point_name(*step, edge))).collect()
}

#[cfg(feature = "crash-points")]
fn point_name(step: Step, edge: Edge) -> String {
    format!("{step}:{}", edge.name())
}

impl Keeper {
    /// Each step comes through here at each of its edges. With the feature `crash-points` the
    /// process dies here, without cleaning up, if `LEASEHOLD_CRASH_POINT` names this point.
    pub(crate) async fn point(&self, lease: &LeaseId, step: Step, edge: Edge) {
        #[cfg(feature = "crash-points")]
        if std::env::var("LEASEHOLD_CRASH_POINT").is_ok_and(|it| it == point_name(step, edge)) {
            // As kill -9 would: no destructor runs, no buffer is written.
            std::process::abort();
        }
        if let Some(observer) = &self.inner.observer {
            observer.step(lease, step, edge).await;
        }
    }
}
