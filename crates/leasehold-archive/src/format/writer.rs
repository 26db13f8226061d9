//! Entries of an archive, to a stream.

use super::{BLOCK, pax};
use crate::BUFFER;
use crate::error::ArchiveError;
use std::io::{BufWriter, Write};
use tar::{EntryType, Header};

/// What is kept of a file beside its name and content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metadata {
    pub(crate) mode: u32,
    /// Seconds and nanoseconds since 1970.
    pub(crate) modified: (i64, u32),
}

/// Writes entries one by one, with nothing in the headers that depends on who packs, when or where.
pub(crate) struct Writer<W: Write> {
    output: BufWriter<W>,
    /// Bytes of the current content, for the padding behind it.
    content: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output: BufWriter::with_capacity(BUFFER, output), content: 0 }
    }

    /// Writes the header of an entry. For a regular file, `size` bytes of content must follow.
    pub(crate) fn header(
        &mut self,
        kind: EntryType,
        name: &[u8],
        link: &[u8],
        size: u64,
        metadata: Metadata,
    ) -> Result<(), ArchiveError> {
        let (seconds, nanoseconds) = metadata.modified;
        if nanoseconds != 0 || seconds < 0 {
            let record = pax::time_record(seconds, nanoseconds);
            self.extension(EntryType::XHeader, record.as_bytes(), b"")?;
        }
        let mut header = new_header(kind, size);
        header.set_mode(metadata.mode & 0o777);
        header.set_mtime(u64::try_from(seconds).unwrap_or(0));
        // The GNU form of long names: readers without pax (busybox) understand it too.
        if !put(&mut header.as_old_mut().name, name) {
            self.extension(EntryType::GNULongName, name, b"\0")?;
        }
        if !put(&mut header.as_old_mut().linkname, link) {
            self.extension(EntryType::GNULongLink, link, b"\0")?;
        }
        self.write_header(&mut header)
    }

    /// Writes a piece of the current entry's content.
    pub(crate) fn content(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.content += bytes.len() as u64;
        self.output.write_all(bytes).map_err(ArchiveError::Output)
    }

    /// Ends the current entry's content.
    pub(crate) fn end_content(&mut self) -> Result<(), ArchiveError> {
        let over = usize::try_from(self.content % BLOCK as u64).unwrap_or(0);
        self.content = 0;
        if over == 0 {
            return Ok(());
        }
        self.output.write_all(&[0; BLOCK][over..]).map_err(ArchiveError::Output)
    }

    /// Ends the archive, and flushes the stream.
    pub(crate) fn finish(mut self) -> Result<(), ArchiveError> {
        self.output.write_all(&[0; 2 * BLOCK]).map_err(ArchiveError::Output)?;
        self.output.flush().map_err(ArchiveError::Output)
    }

    fn extension(&mut self, kind: EntryType, data: &[u8], end: &[u8]) -> Result<(), ArchiveError> {
        let mut header = new_header(kind, (data.len() + end.len()) as u64);
        put(&mut header.as_old_mut().name, b"././@LongLink");
        header.set_mode(0o644);
        header.set_mtime(0);
        self.write_header(&mut header)?;
        self.content(data)?;
        self.content(end)?;
        self.end_content()
    }

    fn write_header(&mut self, header: &mut Header) -> Result<(), ArchiveError> {
        header.set_cksum();
        self.output.write_all(header.as_bytes()).map_err(ArchiveError::Output)
    }
}

fn new_header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Puts as much of a text as fits into a field; says whether that was all.
fn put(field: &mut [u8; 100], text: &[u8]) -> bool {
    let count = text.len().min(field.len());
    field[..count].copy_from_slice(&text[..count]);
    count == text.len()
}
