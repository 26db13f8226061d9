//! Names for what is not complete yet, beside what it will replace.
//!
//! There are [`SLOTS`] of either kind in a directory, so that what a killed run left is found without a
//! search:
//!
//! ```text
//! .leasehold-archive.00         a new tree; after the exchange, the old one
//! .leasehold-archive.00.lock    locked (flock) by the run that uses it; made first, removed last
//! .leasehold-archive.00.aside   the old tree, where an exchange is not possible
//! .leasehold-archive.00.name    a link whose text is the name that the old tree had
//! .leasehold-archive.file.00    a new file, itself locked by the run that writes it
//! ```
//!
//! A lock ends with its process: what can be locked is a leftover.

use crate::error::{ArchiveError, failed};
use crate::handle::{DIRECTORY, Root, look};
use crate::remove::remove;
use crate::unpack::{DRAFT, NEW_FILE, kind_at};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Trees, and files, that are on their way into one directory at once, at most.
const SLOTS: usize = 16;

const PREFIX: &[u8] = b".leasehold-archive.";
const LOCK: &str = ".lock";
const ASIDE: &str = ".aside";
const NAME: &str = ".name";

/// Whether a name is one of this module's. Such names are neither packed nor unpacked.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

/// Removes what killed runs left in a directory, and puts back an old tree that one of them had moved
/// aside without having put the new one in its place. What live runs use is left alone.
///
/// [`unpack_into`](crate::unpack_into), [`unpack_replacing`](crate::unpack_replacing) and
/// [`write_file`](crate::write_file) do this first, in the directory that they are given or that the
/// file is in. What `unpack_into` left in a directory further down is found when it replaces a file
/// there, and is never packed.
///
/// # Errors
/// [`ArchiveError::FileSystem`] if a leftover cannot be removed.
pub fn clean_leftovers(directory: &Root) -> Result<(), ArchiveError> {
    let directory = directory.handle();
    let there = |name: &[u8]| {
        kind_at(directory, name)
            .map(|kind| kind.is_some())
            .map_err(|error| failed("look at", name, error))
    };
    for index in 0..SLOTS {
        if there(&tree_name(index, LOCK))?
            && let Some(slot) = TreeLock::take(directory, index)?
        {
            slot.clean(directory)?;
        }
        let name = file_name(index);
        if there(&name)? {
            reclaim_file(directory, &name).map_err(|error| failed("remove", &name, error))?;
        }
    }
    Ok(())
}

fn tree_name(index: usize, ending: &str) -> Vec<u8> {
    [PREFIX, format!("{index:02}{ending}").as_bytes()].concat()
}

fn file_name(index: usize) -> Vec<u8> {
    [PREFIX, format!("file.{index:02}").as_bytes()].concat()
}

/// Renames, but never onto something.
pub(crate) fn rename_if_free(
    directory: BorrowedFd<'_>,
    from: &[u8],
    to: &[u8],
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // A file system without it.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if kind_at(directory, to)?.is_some() {
                return Err(Errno::EXIST);
            }
            rustix::fs::renameat(directory, from, directory, to)
        }
        other => other,
    }
}

/// Locks an open file, unless another run has it or it does not have this name any more.
fn lock(directory: BorrowedFd<'_>, name: &[u8], handle: &OwnedFd) -> Result<bool, Errno> {
    match rustix::fs::flock(handle, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(error) => return Err(error),
    }
    // Between the open and the lock the run that had it may have ended, and removed it.
    match (rustix::fs::fstat(handle)?, look(directory, name)) {
        (ours, Ok(there)) => Ok((ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)),
        (_, Err(Errno::NOENT)) => Ok(false),
        (_, Err(error)) => Err(error),
    }
}

/// The right to use one slot for a tree.
struct TreeLock {
    index: usize,
    /// Held, not used.
    _lock: OwnedFd,
}

impl TreeLock {
    /// `None` if a live run has it, or something that no run made is in the way.
    fn take(directory: BorrowedFd<'_>, index: usize) -> Result<Option<Self>, ArchiveError> {
        let name = tree_name(index, LOCK);
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let handle = match rustix::fs::openat(directory, &name[..], flags, DRAFT) {
            Ok(handle) => handle,
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Ok(None),
            Err(error) => return Err(failed("create", &name, error)),
        };
        match lock(directory, &name, &handle) {
            Ok(true) => Ok(Some(Self { index, _lock: handle })),
            Ok(false) => Ok(None),
            Err(error) => Err(failed("lock", &name, error)),
        }
    }

    /// Removes what the slot holds: leftovers, or the tree that is not wanted any more.
    fn clear(&self, directory: BorrowedFd<'_>) -> Result<(), ArchiveError> {
        self.put_back(directory);
        for ending in [ASIDE, NAME, ""] {
            remove(directory, &tree_name(self.index, ending))?;
        }
        Ok(())
    }

    fn clean(self, directory: BorrowedFd<'_>) -> Result<(), ArchiveError> {
        self.clear(directory)?;
        // Last, and while it is locked: whoever sees it gone may begin.
        remove(directory, &tree_name(self.index, LOCK))
    }

    /// Moves an old tree back to the name that it had, if that is free.
    fn put_back(&self, directory: BorrowedFd<'_>) {
        let note = tree_name(self.index, NAME);
        let Ok(name) = rustix::fs::readlinkat(directory, note, Vec::new()) else { return };
        let name = name.to_bytes();
        if name.is_empty() || name.contains(&b'/') || matches!(name, b"." | b"..") {
            return;
        }
        // Not free: the new tree is there, and the old one only waits to be removed.
        let _ = rename_if_free(directory, &tree_name(self.index, ASIDE), name);
    }
}

/// A slot with a tree in it.
pub(crate) struct TreeSlot {
    lock: TreeLock,
    root: Root,
}

impl TreeSlot {
    /// Takes a slot that no live run uses, and makes an empty directory in it.
    pub(crate) fn take(directory: BorrowedFd<'_>) -> Result<Self, ArchiveError> {
        for index in 0..SLOTS {
            let Some(lock) = TreeLock::take(directory, index)? else { continue };
            if lock.clear(directory).is_err() {
                // A leftover that cannot be removed keeps its slot, and is nobody else's matter.
                continue;
            }
            let name = tree_name(index, "");
            let root = rustix::fs::mkdirat(directory, &name[..], Mode::RWXU)
                .and_then(|()| rustix::fs::openat(directory, &name[..], DIRECTORY, Mode::empty()))
                .map_err(|error| failed("create the directory", &name, error))?;
            return Ok(Self { lock, root: Root::from_owned(root) });
        }
        Err(ArchiveError::Busy)
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    pub(crate) fn name(&self) -> Vec<u8> {
        tree_name(self.lock.index, "")
    }

    /// Where the old tree goes when it cannot be exchanged.
    pub(crate) fn aside(&self) -> Vec<u8> {
        tree_name(self.lock.index, ASIDE)
    }

    /// Notes for the next run which name the old tree had.
    pub(crate) fn note(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        rustix::fs::symlinkat(name, directory, tree_name(self.lock.index, NAME))
    }

    /// Removes what the slot holds by now: the old tree, or a new one that failed.
    pub(crate) fn clean(self, directory: BorrowedFd<'_>) -> Result<(), ArchiveError> {
        self.lock.clean(directory)
    }
}

/// A slot with a file in it.
pub(crate) struct FileSlot {
    name: Vec<u8>,
    handle: OwnedFd,
}

impl FileSlot {
    /// Takes a slot that no live run uses, and makes an empty file in it.
    pub(crate) fn take(directory: BorrowedFd<'_>) -> Result<Self, ArchiveError> {
        for index in 0..SLOTS {
            let name = file_name(index);
            let explain = |error| failed("create", &name, error);
            let make = || rustix::fs::openat(directory, &name[..], NEW_FILE, DRAFT);
            let mut made = make();
            if matches!(made, Err(Errno::EXIST)) && reclaim_file(directory, &name) == Ok(true) {
                made = make();
            }
            let handle = match made {
                Ok(handle) => handle,
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(explain(error)),
            };
            // Another run may have taken it for a leftover before it was locked.
            if lock(directory, &name, &handle).map_err(explain)? {
                return Ok(Self { name, handle });
            }
        }
        Err(ArchiveError::Busy)
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Removes a file slot unless a live run has it; says whether it is free.
fn reclaim_file(directory: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    let handle = match rustix::fs::openat(directory, name, crate::pack::FILE, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(true),
        // No run made that.
        Err(Errno::LOOP | Errno::NXIO) => return Ok(false),
        Err(error) => return Err(error),
    };
    if !lock(directory, name, &handle)? {
        return Ok(false);
    }
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(error) => Err(error),
    }
}
