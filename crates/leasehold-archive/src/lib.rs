//! Packing and unpacking file trees safely: the one place that touches tar.
//!
//! A tree that is packed here, an archive that is unpacked here, and the processes that change the
//! tree meanwhile are all taken to be hostile. Whatever they hold or do, nothing outside the given
//! [`Root`] is read or written, memory stays bounded, and what goes wrong is a typed [`ArchiveError`].
//!
//! | call | what it does |
//! |---|---|
//! | [`pack`] | a directory, as a tar stream in a reproducible order |
//! | [`unpack_into`] | a tar stream, merged into a directory as `cp -r` does |
//! | [`unpack_replacing`] | a tar stream, in place of a directory: all of it or nothing |
//! | [`read_file`], [`write_file`] | one file, without an archive around it |
//! | [`send`], [`receive`] | one side of a copy each: a file or a tree, where `cp -r` would put it |
//! | [`clean_leftovers`] | removes what a killed run left beside its target |
//!
//! Every call blocks: an asynchronous caller runs it where blocking is allowed. Progress is told to,
//! and cancellation is asked of, a [`Watch`].
//!
//! # What may not live here
//!
//! Leases, providers, and where a tree comes from or goes to (a transport is a `Read` or a `Write`);
//! compression; anything asynchronous; anything that opens a second file by a path of several
//! components.
//!
//! # How it stays inside
//!
//! Each name that comes from a tree or an archive is used as *one component*, relative to the open
//! handle of its directory, in a call that does not follow a symbolic link there (`openat` with
//! `O_NOFOLLOW`, `mkdirat`, `unlinkat`, `renameat`, …). `..` is never used: the handles of the parents
//! are kept. A component that is swapped for a link between two calls therefore makes the next call
//! fail; there is no check that a race could make untrue, and no kernel feature to fall back from.
//!
//! Why not cap-std: it keeps lookups inside a directory, but follows links there, whereas an archive
//! must not be able to write through a link at all; and locks, exchanges and times need rustix beside
//! it anyhow. Why not one `openat2` of a whole path for each entry: the handle of the directory that
//! the last entry was in is still open, so that the next one costs a single component. `openat2` is
//! used in two places where its flags are the point: to follow a link inside the root
//! ([`Symlinks::Follow`], `RESOLVE_BENEATH`), and to never delete across a mount (`RESOLVE_NO_XDEV`).
//!
//! Why the extraction of the `tar` crate is not used: it works on paths by name, and following links
//! there has been the subject of several advisories (RUSTSEC-2018-0002, RUSTSEC-2021-0080,
//! RUSTSEC-2026-0067). Only its [`tar::Header`] is: the layout of the fields, their encoding, the
//! checksum. What strings headers together is in the module `format`, which bounds the length of
//! extensions and refuses what two readers could understand in two ways (RUSTSEC-2026-0068).
//!
//! # What an archive may hold
//!
//! Regular files, directories, symbolic links and hard links, in the formats v7, ustar, GNU and pax,
//! with long names of either kind. Permission bits and times of modification are kept; owners,
//! set-user-id, set-group-id and sticky bits, access times and extended attributes are not. Device
//! nodes, named pipes, sparse files and unknown types are refused, since a partial tree that looks
//! whole is worse than none. When a tree is packed, device nodes, named pipes and sockets are left out
//! and counted. A file with several names is packed once for each of them.
//!
//! An entry takes the place of what stands at its own name, a link included, and never goes through
//! it: of two entries with one name the last wins. A directory is only replaced by another type when
//! it is empty. What stands at the name of a *parent* is never replaced: if it is no directory, the
//! entry is refused.
//!
//! # Memory
//!
//! One buffer of 256 KiB on each side of a copy; at most 64 directory handles, however deep the tree;
//! when packing, the names of the directories on the way down to the current one (at most as many as
//! [`Caps::entries`]); when unpacking, at most 4 MiB of what is to be set on directories at the end.

#![cfg(target_os = "linux")]

mod error;
mod exclude;
mod format;
mod handle;
mod names;
mod options;
mod pack;
mod remove;
mod replace;
mod single;
mod slot;
mod stack;
mod summary;
mod transfer;
mod unpack;
mod watch;

pub use error::{ArchiveError, Cap, Malformed, Refusal, Trouble};
pub use exclude::Exclude;
pub use handle::Root;
pub use options::{
    Caps, FileOptions, PackOptions, SymlinkTargets, Symlinks, TimePrecision, UnpackOptions,
};
pub use pack::pack;
pub use replace::unpack_replacing;
pub use single::{FileFacts, read_file, write_file};
pub use slot::clean_leftovers;
pub use summary::{NOTICES, Notice, NoticeReason, Summary};
pub use transfer::{Placement, TREE, receive, send};
pub use unpack::unpack_into;
pub use watch::{Progress, Watch};

/// Bytes of each buffer that file contents go through.
pub(crate) const BUFFER: usize = 256 * 1024;
