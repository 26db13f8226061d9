//! The arithmetic of the destroy brake.
//!
//! A ledger that is mistaken (a clock gone wrong, a bad restore, a bug) would decide many removals
//! at once that neither an owner nor a deadline asked for. The brake lets a few of them pass, then
//! stops them all until an operator has looked.

use std::time::Duration;

use leasehold_core::Timestamp;
use leasehold_ports::BrakeState;

/// The time over which removals are counted.
pub(crate) const WINDOW: Duration = Duration::from_secs(10 * 60);

/// What always passes, however few leases are open.
const LEAST: u32 = 5;

/// One removal in so many open rows passes.
const SHARE: u32 = 10;

/// The brake, with what it has counted in its window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) on: bool,
    pub(crate) recent: u32,
}

impl Window {
    /// Whether one more removal may pass.
    pub(crate) fn lets_pass(self, open: u32) -> bool {
        !self.on && self.recent < limit(open)
    }

    /// As it is shown to people.
    pub(crate) fn state(self, open: u32) -> BrakeState {
        BrakeState { on: self.on, recent: self.recent, limit: limit(open), window: WINDOW }
    }
}

/// How many removals pass in a window while so many rows are open.
fn limit(open: u32) -> u32 {
    LEAST.max(open / SHARE)
}

/// Removals after this point count.
pub(crate) fn window_start(now: Timestamp) -> Timestamp {
    let window = u64::try_from(WINDOW.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_pass_among_few_and_a_tenth_among_many() {
        for (open, limit) in [(0, 5), (6, 5), (59, 5), (60, 6), (1_000, 100)] {
            assert!(Window { on: false, recent: limit - 1 }.lets_pass(open), "{open}");
            assert!(!Window { on: false, recent: limit }.lets_pass(open), "{open}");
        }
    }

    #[test]
    fn nothing_passes_while_it_is_on() {
        assert!(!Window { on: true, recent: 0 }.lets_pass(1_000));
    }
}
