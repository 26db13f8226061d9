//! The way from the root down to one directory, as open handles.

use crate::error::{ArchiveError, failed};
use crate::handle::{DIRECTORY, open_beneath, open_directory};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Handles that are kept open, however deep the directory is.
const HELD: usize = 64;

struct Level {
    name: Box<[u8]>,
    handle: Option<OwnedFd>,
    /// Whether this level was reached by following a link inside the root.
    followed: bool,
}

/// The way from the root down to one directory.
///
/// Going up uses the handle of the parent, never `..`. Of a deep way only the last handles are kept; the
/// others are opened again when they are needed, by one component after the other from the root.
pub(crate) struct DirectoryStack<'a> {
    root: BorrowedFd<'a>,
    levels: Vec<Level>,
}

impl<'a> DirectoryStack<'a> {
    pub(crate) fn new(root: BorrowedFd<'a>) -> Self {
        Self { root, levels: Vec::new() }
    }

    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Path of a name in the current directory.
    pub(crate) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path = Vec::new();
        for level in &self.levels {
            path.extend_from_slice(&level.name);
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// The handle of the current directory.
    pub(crate) fn current(&mut self) -> Result<BorrowedFd<'_>, ArchiveError> {
        if self.levels.last().is_some_and(|level| level.handle.is_none())
            && let Err(error) = self.reopen()
        {
            return Err(failed("open the directory", &self.path_of(b""), error));
        }
        Ok(self.peek().unwrap_or(self.root))
    }

    /// The handle of the current directory, if it is open.
    pub(crate) fn peek(&self) -> Option<BorrowedFd<'_>> {
        match self.levels.last() {
            None => Some(self.root),
            Some(level) => level.handle.as_ref().map(AsFd::as_fd),
        }
    }

    /// Goes down by one component, which must be a directory.
    pub(crate) fn enter(&mut self, name: &[u8]) -> Result<(), Errno> {
        if self.peek().is_none() {
            self.reopen()?;
        }
        let handle = open_directory(self.peek().unwrap_or(self.root), name)?;
        self.push(name, handle, false);
        Ok(())
    }

    /// Goes down to a directory that is open already.
    pub(crate) fn push(&mut self, name: &[u8], handle: OwnedFd, followed: bool) {
        self.levels.push(Level { name: name.into(), handle: Some(handle), followed });
        if let Some(far) = self.levels.len().checked_sub(HELD + 1) {
            self.levels[far].handle = None;
        }
    }

    /// Goes up by one.
    pub(crate) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Goes up until only the levels that `path` begins with are left; says how many.
    pub(crate) fn keep_common<'b>(&mut self, path: impl Iterator<Item = &'b [u8]>) -> usize {
        let common = self.levels.iter().zip(path).take_while(|(level, name)| *level.name == **name);
        let count = common.count();
        self.levels.truncate(count);
        count
    }

    fn reopen(&mut self) -> Result<(), Errno> {
        let first_held = self.levels.len().saturating_sub(HELD);
        let mut path = Vec::new();
        let mut above: Option<OwnedFd> = None;
        for index in 0..self.levels.len() {
            let level = &self.levels[index];
            path.extend_from_slice(&level.name);
            let parent = match index.checked_sub(1).and_then(|up| self.levels[up].handle.as_ref()) {
                Some(handle) => handle.as_fd(),
                None => above.as_ref().map_or(self.root, AsFd::as_fd),
            };
            let handle = if level.followed {
                open_beneath(self.root, &path, DIRECTORY.difference(OFlags::NOFOLLOW))?
            } else {
                open_directory(parent, &level.name)?
            };
            path.push(b'/');
            if index >= first_held {
                self.levels[index].handle = Some(handle);
                above = None;
            } else {
                self.levels[index].handle = None;
                above = Some(handle);
            }
        }
        Ok(())
    }
}
