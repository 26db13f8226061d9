//! What can go wrong, and what to do about it.

use std::fmt;
use std::io;

/// Why a tree was not packed or an archive not unpacked.
///
/// Paths in it are relative to the root, with bytes that are not UTF-8 shown as `�`; they were chosen
/// by whoever made the tree or the archive, so escape them before they reach a terminal (`Debug` does).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The caller asked to stop.
    #[error("cancelled: run it again to have the whole")]
    Cancelled,

    /// A limit of [`Caps`](crate::Caps) was passed; nothing of the entry that passed it was kept.
    #[error("{path:?} exceeds the cap on {cap} ({limit}): raise that cap, or exclude it")]
    Cap {
        /// Which limit.
        cap: Cap,
        /// Its value, in the unit that [`Cap`] names.
        limit: u64,
        /// The entry that passed it.
        path: String,
    },

    /// An entry of the archive, or something in the tree, is not allowed here.
    #[error("{path:?} is refused: {reason}")]
    Refused {
        /// The entry.
        path: String,
        /// What is not allowed.
        reason: Refusal,
    },

    /// The stream is not an archive that is understood in one way only.
    #[error("the archive is damaged or not a tar archive, at byte {offset}: {reason}")]
    Malformed {
        /// How many bytes into the stream the damaged header begins.
        offset: u64,
        /// What is wrong with it.
        reason: Malformed,
    },

    /// The stream ended before the archive did.
    #[error("the archive is cut off after {offset} bytes: transfer it again")]
    Truncated {
        /// How many bytes there were.
        offset: u64,
    },

    /// The archive could not be read from its stream.
    #[error("cannot read the archive: {0}")]
    Input(#[source] io::Error),

    /// The archive or file could not be written to its stream.
    #[error("cannot write the archive: {0}")]
    Output(#[source] io::Error),

    /// The file system said no.
    #[error("cannot {action} {path:?}: {source}")]
    FileSystem {
        /// What was tried, as a verb.
        action: &'static str,
        /// Where.
        path: String,
        /// What the system answered.
        #[source]
        source: io::Error,
    },

    /// Another process changed the same name again and again.
    #[error("{path:?} is being changed by another process: stop it, and run this again")]
    Contended {
        /// Where.
        path: String,
    },

    /// All places for temporary files in this directory are in use by live runs.
    #[error("too many transfers into one directory at once: wait for one of them to end")]
    Busy,

    /// A pattern of [`Exclude`](crate::Exclude) is not valid.
    #[error("{pattern:?} is not a pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why not.
        reason: String,
    },
}

/// What kind of trouble it is: all that the exit status of a process can tell of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Something in the tree or the archive is not allowed, or an option cannot be used.
    Refused,
    /// A limit was passed.
    Cap,
    /// The stream is damaged, was cut off, or could not be read.
    Damaged,
    /// The file system, or the reader of the stream, said no.
    Failed,
    /// The caller asked to stop.
    Cancelled,
}

impl Trouble {
    const ALL: [Self; 5] = [Self::Refused, Self::Cap, Self::Damaged, Self::Failed, Self::Cancelled];

    /// The exit status of a process that did not do its transfer.
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        // Apart from what the system and shells use.
        64 + self as u8
    }

    /// What an exit status of a transfer tells.
    #[must_use]
    pub fn of_exit_status(status: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|trouble| trouble.exit_status() == status)
    }
}

impl ArchiveError {
    /// What kind of trouble it is.
    #[must_use]
    pub const fn trouble(&self) -> Trouble {
        match self {
            Self::Refused { .. } | Self::Pattern { .. } => Trouble::Refused,
            Self::Cap { .. } => Trouble::Cap,
            Self::Malformed { .. } | Self::Truncated { .. } | Self::Input(_) => Trouble::Damaged,
            Self::Output(_) | Self::FileSystem { .. } | Self::Contended { .. } | Self::Busy => {
                Trouble::Failed
            }
            Self::Cancelled => Trouble::Cancelled,
        }
    }
}

/// A limit of [`Caps`](crate::Caps).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cap {
    /// Bytes of content of all files together.
    TotalBytes,
    /// Bytes of content of one file.
    FileBytes,
    /// Number of entries.
    Entries,
    /// Bytes of a path from the root, or of a link's target.
    PathBytes,
    /// Components of a path from the root.
    Depth,
    /// Bytes of a pax extended header (256 KiB; fixed).
    HeaderBytes,
}

impl fmt::Display for Cap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TotalBytes => "bytes in all",
            Self::FileBytes => "bytes of one file",
            Self::Entries => "entries",
            Self::PathBytes => "bytes of a path",
            Self::Depth => "depth of a path",
            Self::HeaderBytes => "bytes of an extended header",
        })
    }
}

/// Why an entry is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The name begins with a slash.
    #[error("its name is absolute")]
    Absolute,
    /// The name has a component `..`.
    #[error("its name has a component `..`")]
    ParentComponent,
    /// The name or link target is empty.
    #[error("its name or target is empty")]
    EmptyName,
    /// The name or link target contains a zero byte.
    #[error("its name or target has a zero byte in it")]
    ZeroByte,
    /// Something other than a directory claims to be the root itself.
    #[error("only a directory can stand for the root")]
    NotForRoot,
    /// A parent of the name is a symbolic link.
    #[error("a parent in its name is a symbolic link, which is never followed")]
    LinkInTheWay,
    /// A parent of the name is neither a directory nor a link.
    #[error("a parent in its name is not a directory")]
    NotADirectory,
    /// A directory with contents stands where another type should.
    #[error("a directory that is not empty stands there: remove it first")]
    DirectoryInTheWay,
    /// The target of a hard link is outside the root.
    #[error("it is a hard link to something outside")]
    HardLinkOutside,
    /// The target of a hard link is not a regular file in the root.
    #[error("it is a hard link to something that is not a regular file here")]
    HardLinkTarget,
    /// A symbolic link, where links are not wanted.
    #[error("it is a symbolic link, and the options allow none")]
    Symlink,
    /// A symbolic link whose text leads outside, where that is not wanted.
    #[error("it is a symbolic link that leads outside, and the options allow none")]
    SymlinkOutside,
    /// A device node or a named pipe.
    #[error("it is a device node or a named pipe")]
    SpecialFile,
    /// A sparse file.
    #[error("it is a sparse file: pack it without `--sparse`")]
    Sparse,
    /// A type of entry that is not known, by its type flag.
    #[error("its type {0:#04x} is not known: pack it as ustar, pax or GNU tar")]
    UnknownType(u8),
    /// Something other than a regular file has content.
    #[error("it has content, but is not a regular file")]
    UnexpectedContent,
    /// Asked for as a file, but something else.
    #[error("it is not a regular file")]
    NotAFile,
}

/// Why a stream is not an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The checksum of a header is wrong.
    #[error("the checksum of a header is wrong")]
    Checksum,
    /// A numeric field of a header is not a number, or too large.
    #[error("a numeric field is not a number, or too large")]
    Number,
    /// A record of a pax extended header is damaged.
    #[error("a pax record is damaged")]
    PaxRecord,
    /// One property of an entry is given twice.
    #[error("a property of one entry is given twice")]
    Ambiguous,
    /// A global pax header would change names or sizes of other entries.
    #[error("a global header sets a name or a size")]
    GlobalOverride,
    /// An extension is not followed by the entry that it describes.
    #[error("an extension without an entry")]
    Dangling,
    /// The line before the archive says nothing that is understood.
    #[error("its first line is not one of a transfer")]
    Preamble,
    /// There is more after the end of the archive.
    #[error("there is something after the end of the archive")]
    TrailingData,
}

/// A path for an error, from the bytes that it is made of.
pub(crate) fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    // A path within the caps may still be long, and an error goes into logs.
    match text.char_indices().nth(512) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The error for a call of the file system that failed.
pub(crate) fn failed(action: &'static str, path: &[u8], source: rustix::io::Errno) -> ArchiveError {
    ArchiveError::FileSystem { action, path: shown(path), source: source.into() }
}

/// The error for an entry that is not allowed.
pub(crate) fn refused(path: &[u8], reason: Refusal) -> ArchiveError {
    ArchiveError::Refused { path: shown(path), reason }
}

/// The error for a limit that was passed.
pub(crate) fn over(cap: Cap, limit: u64, path: &[u8]) -> ArchiveError {
    ArchiveError::Cap { cap, limit, path: shown(path) }
}
