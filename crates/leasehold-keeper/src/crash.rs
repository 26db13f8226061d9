//! Places between two steps where the process can be made to die, to show that nothing is lost.
//!
//! Without the feature `crash-points` [`point`] is empty.

/// Where in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edge {
    /// The intent is on disk; the provider was not called.
    Planned,
    /// The provider has answered; nothing of it is on disk.
    Done,
    /// The outcome is on disk; nothing else has happened.
    Recorded,
}

#[cfg(feature = "crash-points")]
impl Edge {
    const ALL: [Edge; 3] = [Edge::Planned, Edge::Done, Edge::Recorded];

    const fn name(self) -> &'static str {
        match self {
            Edge::Planned => "planned",
            Edge::Done => "done",
            Edge::Recorded => "recorded",
        }
    }
}

/// Every crash point: each step of the lifecycle at each edge.
#[cfg(feature = "crash-points")]
#[must_use]
pub fn crash_points() -> Vec<String> {
    leasehold_core::Step::ALL
        .iter()
        .flat_map(|step| Edge::ALL.map(|edge| format!("{step}:{}", edge.name())))
        .collect()
}

/// Dies here, without cleaning up, if `LEASEHOLD_CRASH_POINT` names this point.
#[cfg(feature = "crash-points")]
pub(crate) fn point(step: leasehold_core::Step, edge: Edge) {
    let name = format!("{step}:{}", edge.name());
    if std::env::var("LEASEHOLD_CRASH_POINT").is_ok_and(|wanted| wanted == name) {
        // As kill -9 would: no destructor runs, no buffer is written.
        std::process::abort();
    }
}

#[cfg(not(feature = "crash-points"))]
pub(crate) const fn point(_step: leasehold_core::Step, _edge: Edge) {}
