//! Progress and cancellation.

use crate::error::ArchiveError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far a call has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Entries begun so far.
    pub entries: u64,
    /// Bytes of file contents so far.
    pub bytes: u64,
}

/// What looks on while a call works: a progress bar, and a flag that stops it.
///
/// Both are looked at once for each entry and once for each buffer of 256 KiB at most, so that a call
/// ends with [`ArchiveError::Cancelled`] soon after the flag is set. A read or write of the caller's
/// stream that blocks is not interrupted: close the stream for that. Removing a temporary tree after a
/// cancellation is not cancelled.
#[derive(Default)]
pub struct Watch<'a> {
    cancelled: Option<&'a AtomicBool>,
    report: Option<&'a mut dyn FnMut(Progress)>,
    progress: Progress,
}

impl<'a> Watch<'a> {
    /// Neither progress nor cancellation.
    pub fn none() -> Self {
        Self::default()
    }

    /// Stops once `flag` is true.
    #[must_use]
    pub fn cancelled_by(mut self, flag: &'a AtomicBool) -> Self {
        self.cancelled = Some(flag);
        self
    }

    /// Calls `report` with the sums so far. It is called often (once for each entry at least), and
    /// should return at once.
    #[must_use]
    pub fn reporting_to(mut self, report: &'a mut dyn FnMut(Progress)) -> Self {
        self.report = Some(report);
        self
    }

    /// The sums so far, over all calls that were given this watch.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// An entry begins.
    pub(crate) fn entry(&mut self) -> Result<(), ArchiveError> {
        self.progress.entries += 1;
        self.look()
    }

    /// Bytes of content went through.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<(), ArchiveError> {
        self.progress.bytes += count as u64;
        self.look()
    }

    /// Work that counts as nothing, but that must be possible to cancel.
    pub(crate) fn look(&mut self) -> Result<(), ArchiveError> {
        if let Some(report) = &mut self.report {
            report(self.progress);
        }
        match self.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(ArchiveError::Cancelled),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").field("progress", &self.progress).finish_non_exhaustive()
    }
}
