//! Modes and times of directories, set when nothing more goes into them.

use crate::error::{ArchiveError, failed};
use crate::handle::Root;
use crate::names::{components, split};
use crate::stack::DirectoryStack;
use crate::unpack::times;
use crate::watch::Watch;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Bytes of what is kept at most.
const FULL: usize = 4 << 20;

/// What an entry costs beside its path, roughly.
const EACH: usize = 64;

/// Modes and times that are still to be set: an entry that comes later would change the time again, and
/// could not be put into a directory that is not writable.
///
/// When there are too many of them they are set early. That only shows if the archive comes back later
/// to a directory that it had left, which no packer that walks a tree does.
#[derive(Default)]
pub(super) struct Directories {
    /// By path, so that the reverse order has what is in a directory before the directory.
    pending: BTreeMap<Vec<u8>, Attributes>,
    bytes: usize,
}

struct Attributes {
    mode: u32,
    modified: (i64, u32),
}

impl Directories {
    /// Notes what a directory should get; the last note for a path counts.
    pub(super) fn set(&mut self, path: Vec<u8>, mode: u32, modified: (i64, u32)) {
        let cost = path.len() + EACH;
        if self.pending.insert(path, Attributes { mode, modified }).is_none() {
            self.bytes += cost;
        }
    }

    /// Something else stands at this path now.
    pub(super) fn forget(&mut self, path: &[u8]) {
        if !self.pending.is_empty() && self.pending.remove(path).is_some() {
            self.bytes -= path.len() + EACH;
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    /// Sets all of them.
    pub(super) fn apply(&mut self, root: &Root, watch: &mut Watch<'_>) -> Result<(), ArchiveError> {
        let pending = std::mem::take(&mut self.pending);
        self.bytes = 0;
        let mut stack = DirectoryStack::new(root.handle());
        'next: for (path, attributes) in pending.into_iter().rev() {
            watch.look()?;
            let (parent, _) = split(&path);
            let common = stack.keep_common(components(parent));
            for name in components(parent).skip(common) {
                if stack.enter(name).is_err() {
                    // Another process moved it: there is nothing to set a mode on.
                    continue 'next;
                }
            }
            let (_, name) = split(&path);
            let name = if name.is_empty() { b"." } else { name };
            let handle = match crate::handle::open_directory(stack.current()?, name) {
                Ok(handle) => handle,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(error) => return Err(failed("open the directory", &path, error)),
            };
            rustix::fs::futimens(&handle, &times(attributes.modified))
                .and_then(|()| rustix::fs::fchmod(&handle, Mode::from_raw_mode(attributes.mode)))
                .map_err(|error| failed("set the mode and time of", &path, error))?;
        }
        Ok(())
    }
}
