//! What happened in a run, one line each, with the virtual time: byte for byte the same whenever
//! the same seed is run.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::executor::VirtualTime;

/// The journal of one run.
pub struct Journal {
    time: VirtualTime,
    kept: bool,
    text: Mutex<String>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Journal({} bytes)", self.lock().len())
    }
}

impl Journal {
    /// A journal that is kept.
    #[must_use]
    pub fn kept(time: VirtualTime) -> Self {
        Self { time, kept: true, text: Mutex::default() }
    }

    /// A journal that forgets at once: long suites run without, and replay a failing seed with one.
    #[must_use]
    pub fn forgetful(time: VirtualTime) -> Self {
        Self { time, kept: false, text: Mutex::default() }
    }

    /// Whether lines are kept: what is dear to format can be left out otherwise.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.kept
    }

    /// Writes a line.
    pub fn note(&self, line: fmt::Arguments<'_>) {
        if !self.kept {
            return;
        }
        let micros = self.time.micros();
        let mut text = self.lock();
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{seconds:>8}.{rest:06} {line}");
    }

    /// All lines.
    #[must_use]
    pub fn text(&self) -> String {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
