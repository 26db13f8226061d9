//! Timers, by time and by the order in which they were set.

use std::collections::BTreeMap;
use std::task::Waker;

/// When, and the how-manieth timer: two timers of one time fire together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    time: u64,
    sequence: u64,
}

#[derive(Default)]
pub(super) struct Timers {
    waiting: BTreeMap<TimerKey, Waker>,
    sequence: u64,
}

impl Timers {
    pub(super) fn set(&mut self, time: u64, waker: Waker) -> TimerKey {
        self.sequence += 1;
        let key = TimerKey { time, sequence: self.sequence };
        self.waiting.insert(key, waker);
        key
    }

    pub(super) fn is_waiting(&self, key: TimerKey) -> bool {
        self.waiting.contains_key(&key)
    }

    /// Replaces the waker of a timer that has not fired.
    pub(super) fn rearm(&mut self, key: TimerKey, waker: &Waker) {
        if let Some(old) = self.waiting.get_mut(&key) {
            old.clone_from(waker);
        }
    }

    pub(super) fn cancel(&mut self, key: TimerKey) -> Option<Waker> {
        self.waiting.remove(&key)
    }

    /// Takes all timers of the earliest time out, and tells that time.
    pub(super) fn fire_earliest(&mut self, fired: &mut Vec<Waker>) -> Option<u64> {
        let (TimerKey { time, .. }, waker) = self.waiting.pop_first()?;
        fired.push(waker);
        while let Some(entry) = self.waiting.first_entry() {
            if entry.key().time != time {
                break;
            }
            fired.push(entry.remove());
        }
        Some(time)
    }
}
