//! Handles of directories, and the few ways to come by one.

use crate::error::{ArchiveError, Refusal, failed, refused};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How often a call is tried again when another process changes the same name in between.
pub(crate) const TRIES: usize = 64;

/// A directory that everything stays inside of, by its open handle.
///
/// It stays the same directory when its name is changed or given to another one.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
}

impl Root {
    /// Opens a directory by a path that the caller trusts: links in it are followed.
    ///
    /// # Errors
    /// [`ArchiveError::FileSystem`] if it is no directory, or may not be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ArchiveError> {
        let path = path.as_ref();
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        let handle = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| failed("open the directory", path.as_os_str().as_bytes(), error))?;
        Ok(Self { handle })
    }

    /// Takes a directory that is open for reading already.
    ///
    /// # Errors
    /// [`ArchiveError::FileSystem`] if it is not a directory.
    pub fn from_handle(handle: OwnedFd) -> Result<Self, ArchiveError> {
        // A lookup of `.` fails on whatever is not a directory.
        rustix::fs::statat(&handle, ".", AtFlags::empty())
            .map_err(|error| failed("use as a directory", b".", error))?;
        Ok(Self { handle })
    }

    /// Opens a directory inside this one as a root of its own, without following any link on the way.
    ///
    /// # Errors
    /// [`ArchiveError::Refused`] for a path that is absolute, has `..`, or leads over a link;
    /// [`ArchiveError::FileSystem`] if there is no such directory.
    pub fn open_inside(&self, path: impl AsRef<Path>) -> Result<Self, ArchiveError> {
        let caps = crate::options::Caps::default();
        let path = crate::names::clean(path.as_ref().as_os_str().as_bytes(), &caps)?;
        let mut stack = crate::stack::DirectoryStack::new(self.handle());
        for component in crate::names::components(&path) {
            stack.enter(component).map_err(|error| in_the_way(&stack, component, error))?;
        }
        let handle = open_directory(stack.current()?, b".")
            .map_err(|error| failed("open the directory", &path, error))?;
        Ok(Self { handle })
    }

    pub(crate) fn from_owned(handle: OwnedFd) -> Self {
        Self { handle }
    }

    pub(crate) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle()
    }
}

/// Opens a directory by one component, not following a link.
pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

/// Opens a directory by one component, following neither a link nor a mount.
pub(crate) fn open_same_mount(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(parent, name, DIRECTORY, Mode::empty(), resolve) {
        // Kernels before 5.6, and old sandboxes around this process. A mount of another part of the
        // same file system is not noticed then.
        Err(Errno::NOSYS | Errno::PERM) => {
            let handle = open_directory(parent, name)?;
            if rustix::fs::fstat(&handle)?.st_dev == rustix::fs::fstat(parent)?.st_dev {
                Ok(handle)
            } else {
                Err(Errno::XDEV)
            }
        }
        other => other,
    }
}

/// Follows a link to whatever it leads to, as long as the whole way is inside the root.
pub(crate) fn open_beneath(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            // A rename somewhere on the way: the kernel cannot vouch for it.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// What stands at a name, not following a link.
pub(crate) fn look(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Why a directory could not be entered, in the words of a refusal where it is one.
pub(crate) fn in_the_way(
    stack: &crate::stack::DirectoryStack<'_>,
    name: &[u8],
    error: Errno,
) -> ArchiveError {
    let path = stack.path_of(name);
    if matches!(error, Errno::NOTDIR | Errno::LOOP) {
        let link = stack.peek().and_then(|parent| look(parent, name).ok()).is_some_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink
        });
        let reason = if link { Refusal::LinkInTheWay } else { Refusal::NotADirectory };
        return refused(&path, reason);
    }
    failed("open the directory", &path, error)
}
