//! The init's only clock: monotonic time for the grace of a termination.

use std::time::Instant;

/// The present instant.
#[expect(
    clippy::disallowed_methods,
    reason = "the init is a process of its own inside the sandbox: no simulation runs it, and a grace period needs real time"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
