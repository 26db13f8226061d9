//! Headers of tar, strung together into entries: no file system here.

mod pax;
mod reader;
mod writer;

pub(crate) use reader::{Entry, Kind, Reader};
pub(crate) use writer::{Metadata, Writer};

/// Bytes of a block: what headers and contents are padded to.
const BLOCK: usize = 512;

/// Longest pax extended header that is read, in bytes. Attributes of one file are at most 64 KiB each.
const EXTENDED_HEADER: u64 = 256 * 1024;
