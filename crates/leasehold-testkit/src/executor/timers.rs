//! Timers, by time and by the order in which they were set.
//!
//! Most timers are limits that are taken out long before they fire. So each has a slot, and taking
//! it out empties the slot; its place in the queue is skipped when its time has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

/// A slot, and the how-manieth timer has it: the slot of one that is over goes to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimerKey {
    slot: usize,
    sequence: u64,
}

struct Timer {
    sequence: u64,
    waker: Waker,
}

/// Where a timer stands in the queue: two timers of one time fire together, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    time: u64,
    sequence: u64,
    slot: usize,
}

#[derive(Default)]
pub(super) struct Timers {
    queue: BinaryHeap<Reverse<Place>>,
    slots: Vec<Option<Timer>>,
    free: Vec<usize>,
    sequence: u64,
}

impl Timers {
    pub(super) fn set(&mut self, time: u64, waker: Waker) -> TimerKey {
        self.sequence += 1;
        let sequence = self.sequence;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(Timer { sequence, waker });
        self.queue.push(Reverse(Place { time, sequence, slot }));
        TimerKey { slot, sequence }
    }

    /// Gives a timer that has not fired another waker. False if it has fired.
    pub(super) fn rearm(&mut self, key: TimerKey, waker: &Waker) -> bool {
        match &mut self.slots[key.slot] {
            Some(timer) if timer.sequence == key.sequence => {
                timer.waker.clone_from(waker);
                true
            }
            _ => false,
        }
    }

    pub(super) fn cancel(&mut self, key: TimerKey) -> Option<Waker> {
        let timer = self.slots[key.slot].take_if(|timer| timer.sequence == key.sequence)?;
        self.free.push(key.slot);
        Some(timer.waker)
    }

    /// Takes all timers of the earliest time out, and tells that time.
    pub(super) fn fire_earliest(&mut self, fired: &mut Vec<Waker>) -> Option<u64> {
        let mut earliest = None;
        while let Some(&Reverse(Place { time, sequence, slot })) = self.queue.peek() {
            if earliest.is_some_and(|earliest| earliest != time) {
                break;
            }
            self.queue.pop();
            if let Some(waker) = self.cancel(TimerKey { slot, sequence }) {
                fired.push(waker);
                earliest = Some(time);
            }
        }
        earliest
    }
}
