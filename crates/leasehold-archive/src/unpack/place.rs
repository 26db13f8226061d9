//! Puts one thing at a name, in place of whatever stands there.

use crate::error::{ArchiveError, Refusal, failed, refused};
use crate::handle::TRIES;
use crate::slot::FileSlot;
use crate::unpack::kind_at;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timestamps};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How a new file is opened: never one that is there already, never through a link.
pub(crate) const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Nobody else reads a file before it is complete.
pub(crate) const DRAFT: Mode = Mode::RUSR.union(Mode::WUSR);

/// Repeats `attempt` until it says that it is done: between its two calls another process may take the
/// name again.
pub(super) fn placed(
    path: &[u8],
    mut attempt: impl FnMut() -> Result<bool, Errno>,
) -> Result<(), ArchiveError> {
    for _ in 0..TRIES {
        match attempt() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(Errno::NOTEMPTY) => return Err(refused(path, Refusal::DirectoryInTheWay)),
            Err(error) => return Err(failed("create", path, error)),
        }
    }
    Err(ArchiveError::Contended { path: crate::error::shown(path) })
}

/// Removes a file or link; fine if it is gone already.
pub(super) fn unlink(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Removes whatever stands at a name, unless it is a directory with something in it.
pub(super) fn clear(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match kind_at(parent, name)? {
        None => Ok(()),
        Some(FileType::Directory) => match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
            other => other,
        },
        // A directory that took the name meanwhile gives an error, and the next attempt sees it.
        Some(_) => match unlink(parent, name) {
            Err(Errno::ISDIR) => Ok(()),
            other => other,
        },
    }
}

/// A file that is being written. It is removed when it is dropped before it was finished.
pub(crate) struct Draft<'a> {
    parent: BorrowedFd<'a>,
    name: &'a [u8],
    how: How,
    finished: Cell<bool>,
}

enum How {
    /// Under its own name, which was free.
    New(OwnedFd),
    /// Beside a file that it will replace.
    Beside(FileSlot),
}

impl<'a> Draft<'a> {
    /// Begins a file: under its name if that is free, else beside it.
    pub(crate) fn create(
        parent: BorrowedFd<'a>,
        name: &'a [u8],
        path: &[u8],
    ) -> Result<Self, ArchiveError> {
        let how = match rustix::fs::openat(parent, name, NEW_FILE, DRAFT) {
            Ok(handle) => How::New(handle),
            Err(Errno::EXIST) => How::Beside(FileSlot::take(parent)?),
            Err(error) => return Err(failed("create", path, error)),
        };
        Ok(Self { parent, name, how, finished: Cell::new(false) })
    }

    /// Begins a file that is complete or absent under its name at every instant.
    pub(crate) fn beside(parent: BorrowedFd<'a>, name: &'a [u8]) -> Result<Self, ArchiveError> {
        let how = How::Beside(FileSlot::take(parent)?);
        Ok(Self { parent, name, how, finished: Cell::new(false) })
    }

    pub(crate) fn handle(&self) -> BorrowedFd<'_> {
        match &self.how {
            How::New(handle) => handle.as_fd(),
            How::Beside(slot) => slot.handle(),
        }
    }

    /// Appends bytes.
    pub(crate) fn write(&self, mut bytes: &[u8], path: &[u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            match rustix::io::write(self.handle(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("write", path, error)),
            }
        }
        Ok(())
    }

    /// Gives the file its mode, its time (`None`: now) and, if it does not have it yet, its name.
    pub(crate) fn finish(
        self,
        mode: Mode,
        times: Option<&Timestamps>,
        durable: bool,
        path: &[u8],
    ) -> Result<(), ArchiveError> {
        let done = if mode == DRAFT { Ok(()) } else { rustix::fs::fchmod(self.handle(), mode) };
        done.and_then(|()| {
            times.map_or(Ok(()), |times| rustix::fs::futimens(self.handle(), times))
        })
        .map_err(|error| failed("set the mode and time of", path, error))?;
        if durable {
            rustix::fs::fsync(self.handle()).map_err(|error| failed("sync", path, error))?;
        }
        if let How::Beside(slot) = &self.how {
            placed(path, || {
                match rustix::fs::renameat(self.parent, slot.name(), self.parent, self.name) {
                    // Only an empty directory makes room.
                    Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                        clear(self.parent, self.name).map(|()| false)
                    }
                    other => other.map(|()| true),
                }
            })?;
        }
        self.finished.set(true);
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.finished.get() {
            return;
        }
        let name = match &self.how {
            How::New(_) => self.name,
            How::Beside(slot) => slot.name(),
        };
        // The error that led here is the one to report; what stays behind is incomplete, and under a
        // slot's name it is cleaned by the next run.
        let _ = unlink(self.parent, name);
    }
}
