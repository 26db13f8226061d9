//! What a call did.

use crate::error::shown;
use std::fmt;

/// How many notices a [`Summary`] keeps; more are only counted.
pub const NOTICES: usize = 64;

/// What a call did, and what it left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Regular files.
    pub files: u64,
    /// Directories, the root among them if it is an entry of its own.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Hard links (only when unpacking).
    pub hard_links: u64,
    /// Bytes of content of the files.
    pub bytes: u64,
    /// What an exclusion left out. A directory that is left out while packing counts as one.
    pub excluded: u64,
    /// What was left out or changed for another reason, all of it.
    pub noticed: u64,
    /// The first [`NOTICES`] of those, with their reasons.
    pub notices: Vec<Notice>,
}

impl Summary {
    /// Everything that was packed or unpacked.
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.hard_links
    }

    pub(crate) fn notice(&mut self, path: &[u8], reason: NoticeReason) {
        self.noticed += 1;
        if self.notices.len() < NOTICES {
            self.notices.push(Notice { path: shown(path), reason });
        }
    }
}

/// Something that was left out or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Where, relative to the root. Chosen by whoever made the tree: escape it for a terminal.
    pub path: String,
    /// Why.
    pub reason: NoticeReason,
}

/// Why something was left out or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoticeReason {
    /// Left out while packing: a device node, named pipe or socket.
    SpecialFile,
    /// Left out while packing: this process may not read it.
    Unreadable,
    /// Left out while packing: it was removed or became something else after it was listed.
    Vanished,
    /// Packed, but it became shorter meanwhile: the end is filled with zeros.
    Shrank,
    /// Left out while packing: a link that should be followed, but leads outside or nowhere.
    LinkLeadsOutside,
    /// Left out while packing: a link that should be followed, but leads to a parent of itself.
    LinkLoop,
    /// Left out: the name is one of this crate's own for temporary files.
    ReservedName,
    /// Unpacked without its extended attributes.
    ExtendedAttributes,
    /// The new tree is in place, but the old one could not be removed: it is under this name, and the
    /// next run tries again.
    OldTreeRemains,
}

impl fmt::Display for NoticeReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::SpecialFile => "left out: a device node, named pipe or socket",
            Self::Unreadable => "left out: it may not be read",
            Self::Vanished => "left out: it was removed or replaced meanwhile",
            Self::Shrank => "it became shorter meanwhile, and is filled up with zeros",
            Self::LinkLeadsOutside => "left out: a link that leads outside or nowhere",
            Self::LinkLoop => "left out: a link that leads to a parent of itself",
            Self::ReservedName => "left out: the name is one of a transfer's own temporary files",
            Self::ExtendedAttributes => "copied without its extended attributes",
            Self::OldTreeRemains => "the old tree could not be removed, and has this name now",
        })
    }
}
