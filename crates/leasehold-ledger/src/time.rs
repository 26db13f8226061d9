//! The ledger's time: the wall clock, made to never run backwards and never stand still.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::Timestamp;
use leasehold_ports::Clock;

/// How far wall clock and monotonic clock may part between two looks before it counts as a jump.
const JUMP: Duration = Duration::from_secs(30);

/// Both clocks at one moment, and when they were last seen to part. Kept in the ledger, so that a
/// process that starts after a jump knows of it. Means something only on the boot that made it: the
/// monotonic clock starts anew with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockNote {
    pub(crate) wall: Timestamp,
    pub(crate) monotonic: Duration,
    pub(crate) jumped_at: Option<Duration>,
}

/// A clock with a floor under it. The floor is kept in the ledger and rises with each commit, so
/// that time does not run backwards across restarts and between processes either. Where the wall
/// clock is behind the floor, time goes on from there at the monotonic clock's pace.
pub(crate) struct LedgerTime {
    clock: Arc<dyn Clock>,
    reading: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    /// The last answer, or a later floor, since the Unix epoch. Finer than a [`Timestamp`]: of many
    /// looks within one millisecond none may be lost.
    told: Duration,
    note: ClockNote,
}

impl LedgerTime {
    /// Goes on from `floor`. `note` is what an earlier process of this boot saw when it wrote that:
    /// the time since then has passed for the others too, whatever the wall clock says.
    pub(crate) fn new(clock: Arc<dyn Clock>, floor: Timestamp, note: Option<ClockNote>) -> Self {
        let present =
            ClockNote { wall: clock.now(), monotonic: clock.monotonic(), jumped_at: None };
        let note = note.unwrap_or(present);
        let passed = present.monotonic.saturating_sub(note.monotonic);
        let mut reading = Reading { told: since_epoch(floor).saturating_add(passed), note };
        reading.notice(present);
        Self { clock, reading: Mutex::new(reading) }
    }

    /// Never earlier than any answer before it, or than any floor that it was given.
    pub(crate) fn now(&self) -> Timestamp {
        let told = self.look().told.as_millis();
        Timestamp::from_millis(u64::try_from(told).unwrap_or(u64::MAX))
    }

    /// Raises the floor to what another process has written.
    pub(crate) fn raise(&self, floor: Timestamp) {
        let mut reading = self.look();
        reading.told = reading.told.max(since_epoch(floor));
    }

    /// Goes on from another ledger: what a restart on a restored copy does.
    pub(crate) fn reset(&self, floor: Timestamp, note: Option<ClockNote>) {
        *self.lock() = Self::new(Arc::clone(&self.clock), floor, note).into_reading();
    }

    /// What to keep in the ledger.
    pub(crate) fn note(&self) -> ClockNote {
        self.look().note
    }

    fn look(&self) -> MutexGuard<'_, Reading> {
        let (wall, monotonic) = (self.clock.now(), self.clock.monotonic());
        let mut reading = self.lock();
        let passed = monotonic.saturating_sub(reading.note.monotonic);
        reading.told = since_epoch(wall).max(reading.told.saturating_add(passed));
        reading.notice(ClockNote { wall, monotonic, jumped_at: None });
        reading
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_reading(self) -> Reading {
        self.reading.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_millis(at.as_millis())
}

impl Reading {
    /// Compares both clocks with what they said before.
    fn notice(&mut self, present: ClockNote) {
        let before = self.note;
        // Another thread may have looked a little later, and written first.
        let monotonic = present.monotonic.max(before.monotonic);
        let passed = monotonic - before.monotonic;
        let forwards = present.wall.since(before.wall);
        let backwards = before.wall.since(present.wall);
        let parted = forwards.abs_diff(passed) > JUMP || backwards > JUMP;
        let jumped_at = if parted { Some(monotonic) } else { before.jumped_at };
        self.note = ClockNote { wall: present.wall, monotonic, jumped_at };
    }
}

impl fmt::Debug for LedgerTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LedgerTime").field("reading", &self.reading).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Hands {
        wall: AtomicU64,
        monotonic: AtomicU64,
    }

    impl Hands {
        fn set(&self, wall: u64, monotonic: u64) {
            self.wall.store(wall * 1_000, Ordering::Relaxed);
            self.monotonic.store(monotonic * 1_000_000, Ordering::Relaxed);
        }
    }

    #[async_trait::async_trait]
    impl Clock for Hands {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.wall.load(Ordering::Relaxed))
        }
        fn monotonic(&self) -> Duration {
            Duration::from_micros(self.monotonic.load(Ordering::Relaxed))
        }
        async fn sleep(&self, _: Duration) {
            std::future::pending().await
        }
    }

    fn seconds(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn hands(wall: u64, monotonic: u64) -> Arc<Hands> {
        let hands = Arc::new(Hands::default());
        hands.set(wall, monotonic);
        hands
    }

    #[test]
    fn a_clock_that_is_set_back_makes_time_neither_run_backwards_nor_stand_still() {
        let clock = hands(1_000, 10);
        let time = LedgerTime::new(clock.clone(), Timestamp::default(), None);
        assert_eq!(time.now(), seconds(1_000));
        clock.set(400, 11);
        assert_eq!(time.now(), seconds(1_001));
        clock.set(420, 31);
        assert_eq!(time.now(), seconds(1_021));
        assert_eq!(time.note().jumped_at, Some(Duration::from_secs(11)));
    }

    #[test]
    fn however_often_one_looks_time_goes_on() {
        let clock = hands(1_000, 10);
        let time = LedgerTime::new(clock.clone(), seconds(5_000), None);
        for tenth in 1..=10_000_u64 {
            clock.monotonic.store(10_000_000 + tenth * 100, Ordering::Relaxed);
            time.now();
        }
        assert_eq!(time.now(), seconds(5_001));
    }

    #[test]
    fn a_process_that_starts_after_a_jump_knows_of_it() {
        let clock = hands(1_000, 10);
        let note = LedgerTime::new(clock.clone(), Timestamp::default(), None).note();
        clock.set(1_130, 20);
        let time = LedgerTime::new(clock.clone(), seconds(1_000), Some(note));
        assert_eq!(time.note().jumped_at, Some(Duration::from_secs(20)));
        clock.set(1_131, 21);
        assert_eq!(time.note().jumped_at, Some(Duration::from_secs(20)), "it is not forgotten");
    }

    #[test]
    fn a_process_that_starts_after_the_clock_was_set_back_is_as_late_as_the_others() {
        let clock = hands(5_000, 10);
        let older = LedgerTime::new(clock.clone(), Timestamp::default(), None);
        clock.set(1_400, 20);
        let (floor, note) = (older.now(), older.note());
        // Nobody writes for a while.
        clock.set(1_680, 300);
        let younger = LedgerTime::new(clock.clone(), floor, Some(note));
        assert_eq!(younger.now(), older.now());
    }

    #[test]
    fn clocks_that_go_together_have_not_jumped() {
        let clock = hands(1_000, 10);
        let time = LedgerTime::new(clock.clone(), Timestamp::default(), None);
        clock.set(90_000, 89_010);
        assert_eq!(time.now(), seconds(90_000));
        assert_eq!(time.note().jumped_at, None);
    }
}
