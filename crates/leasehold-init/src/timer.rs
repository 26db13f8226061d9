//! The dead-man timer: the moment at which the sandbox ends though no manager lives.
//!
//! It only ever moves later. A manager extends it before it promises a later end, so that one that dies
//! between the two leaves a sandbox that lives too long rather than a lease that ends too early; and a
//! request that was long on its way takes back nothing that was promised after it. The clock is the boot's,
//! which nobody sets and which runs on while the machine sleeps.

use crate::protocol::{Refusal, TIMER_FILE, TimerEnd};
use rustix::fs::{Mode, OFlags, openat, renameat};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// When the sandbox ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// Nobody has said so yet: it does not.
    Unset,
    /// At this many milliseconds since boot.
    At(u64),
    /// Never, and that stays so.
    Never,
}

/// The timer of one sandbox.
pub(crate) struct Timer {
    descriptor: OwnedFd,
    end: End,
}

impl Timer {
    /// One that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { descriptor: timerfd_create(TimerfdClockId::Boottime, flags)?, end: End::Unset })
    }

    /// What becomes readable when the moment has come.
    pub(crate) fn watched(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Moves the end to `at` milliseconds since boot, or to never, unless it is later already.
    pub(crate) fn extend(&mut self, at: Option<u64>) -> Result<(), Refusal> {
        let wanted = at.map_or(End::Never, End::At);
        if wanted <= self.end {
            return Ok(());
        }
        let value = match wanted {
            End::At(millis) => Timespec {
                tv_sec: i64::try_from(millis / 1000).unwrap_or(i64::MAX),
                // Never zero, which would disarm it.
                tv_nsec: i64::try_from(millis % 1000 * 1_000_000).unwrap_or(0).max(1),
            },
            End::Unset | End::Never => Timespec { tv_sec: 0, tv_nsec: 0 },
        };
        let setting =
            Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::ABSTIME, &setting)
            .map_err(|errno| Refusal::Kernel { errno: errno.raw_os_error() })?;
        self.end = wanted;
        Ok(())
    }

    /// Whether the sandbox's time is over.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.end, End::At(at) if at <= boot_millis())
    }

    /// Writes down, for whoever reads the directory next, that the timer ends the sandbox.
    pub(crate) fn leave_trace(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        const DRAFT: &str = "timer.json.new";
        let End::At(due) = self.end else { return Ok(()) };
        let end = TimerEnd { due_boot_ms: due, ended_boot_ms: boot_millis() };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let mut file = File::from(openat(directory, DRAFT, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&serde_json::to_vec(&end)?)?;
        file.sync_all()?;
        renameat(directory, DRAFT, directory, TIMER_FILE)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::fsync(openat(directory, ".", flags, Mode::empty())?)?)
    }
}

/// Milliseconds since boot, time asleep included.
fn boot_millis() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.cast_unsigned() * 1000 + now.tv_nsec.cast_unsigned() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_only_moves_later() {
        let mut timer = Timer::new().unwrap();
        let now = boot_millis();
        timer.extend(Some(now + 3_600_000)).unwrap();
        timer.extend(Some(now)).unwrap();
        assert!(!timer.is_over(), "a request that comes late shortens nothing");
        timer.extend(None).unwrap();
        timer.extend(Some(now)).unwrap();
        assert!(!timer.is_over(), "what shall never end is given no end again");
    }

    #[test]
    fn an_end_in_the_past_has_come() {
        let mut timer = Timer::new().unwrap();
        assert!(!timer.is_over(), "what was never set does not end");
        timer.extend(Some(0)).unwrap();
        assert!(timer.is_over());
        let mut watched = [rustix::event::PollFd::from_borrowed_fd(
            timer.watched(),
            rustix::event::PollFlags::IN,
        )];
        assert_eq!(rustix::event::poll(&mut watched, None), Ok(1));
    }
}
