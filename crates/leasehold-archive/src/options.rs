//! What a caller may choose.

use crate::exclude::Exclude;

/// Limits on what is packed or unpacked. Passing one is [`ArchiveError::Cap`](crate::ArchiveError).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of content of all files together. Default: 64 GiB.
    pub total_bytes: u64,
    /// Bytes of content of one file. Default: 64 GiB.
    pub file_bytes: u64,
    /// Number of entries, excluded ones not counted while packing. Default: 1,000,000.
    pub entries: u64,
    /// Bytes of a path from the root, and of a link's target. Default: 4,095, the kernel's own limit.
    pub path_bytes: u64,
    /// Components of a path from the root. Default: 256.
    pub depth: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            total_bytes: 64 << 30,
            file_bytes: 64 << 30,
            entries: 1_000_000,
            path_bytes: 4_095,
            depth: 256,
        }
    }
}

/// What packing does with symbolic links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// A link is packed as a link, with its text, wherever it leads.
    #[default]
    Keep,
    /// What the link leads to is packed in its place, as long as the whole way there is inside the
    /// root (`openat2` with `RESOLVE_BENEATH`). A link that leads outside (an absolute one always
    /// does), nowhere, or to a parent of itself is left out with a notice.
    Follow,
    /// A link is an error.
    Refuse,
}

/// Which symbolic links unpacking creates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SymlinkTargets {
    /// All of them. A link is data: this crate never follows it. Whoever reads the tree later should
    /// not follow it blindly either.
    #[default]
    Any,
    /// Only those whose text, taken from the directory of the link, stays inside the root. It is
    /// judged by the text alone: a relative link through another link may still lead elsewhere.
    Inside,
    /// None: a link is an error.
    None,
}

/// How exactly packing keeps times of modification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimePrecision {
    /// To the nanosecond, by a pax header of 1 KiB for each entry whose time is not a whole second.
    #[default]
    Nanoseconds,
    /// To the second: an archive that is smaller, and that readers without pax understand fully.
    Seconds,
}

/// Options of [`pack`](crate::pack).
#[derive(Debug, Clone, Default)]
pub struct PackOptions {
    /// What to leave out.
    pub exclude: Exclude,
    /// Limits.
    pub caps: Caps,
    /// What to do with symbolic links.
    pub symlinks: Symlinks,
    /// How exactly to keep times.
    pub times: TimePrecision,
}

/// Options of [`unpack_into`](crate::unpack_into) and [`unpack_replacing`](crate::unpack_replacing).
#[derive(Debug, Clone, Default)]
pub struct UnpackOptions {
    /// What to leave out.
    pub exclude: Exclude,
    /// Limits.
    pub caps: Caps,
    /// Which symbolic links to create.
    pub symlinks: SymlinkTargets,
    /// Whether the tree is on disk before the call returns (and, when replacing, before it takes its
    /// place): one `syncfs`. Default: no.
    pub durable: bool,
}

/// Options of [`write_file`](crate::write_file).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// Permission bits; others are dropped. Default: 0o644.
    pub mode: u32,
    /// Time of modification in seconds and nanoseconds since 1970. Default: now.
    pub modified: Option<(i64, u32)>,
    /// Whether missing parents are created. Default: no.
    pub create_parents: bool,
    /// Limits ([`Caps::file_bytes`], [`Caps::total_bytes`], [`Caps::path_bytes`], [`Caps::depth`]).
    pub caps: Caps,
    /// Whether the file is on disk before it takes its place. Default: no.
    pub durable: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            mode: 0o644,
            modified: None,
            create_parents: false,
            caps: Caps::default(),
            durable: false,
        }
    }
}
