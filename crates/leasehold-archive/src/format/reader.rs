//! Entries of an archive, from a stream.

use super::pax::Extended;
use super::{BLOCK, EXTENDED_HEADER};
use crate::BUFFER;
use crate::error::{ArchiveError, Cap, Malformed, Refusal, over, refused};
use crate::options::Caps;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use tar::Header;

/// How many bytes of padding may follow the end of an archive. GNU tar fills up to 10 KiB by default.
const PADDING: u64 = 1 << 20;

/// One entry, its name not yet checked.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    /// Permission bits; all others are dropped.
    pub(crate) mode: u32,
    /// Seconds and nanoseconds since 1970.
    pub(crate) modified: (i64, u32),
    /// Whether it came with extended attributes.
    pub(crate) attributes: bool,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// A regular file with so many bytes of content.
    File(u64),
    Directory,
    Symlink(Vec<u8>),
    HardLink(Vec<u8>),
}

/// Reads entries one by one. Contents are taken between two of them, in pieces of the buffer.
pub(crate) struct Reader<R> {
    input: BufReader<R>,
    caps: Caps,
    offset: u64,
    /// Bytes of content of the current entry that were not taken yet.
    content: u64,
    /// Bytes of padding after them.
    padding: u64,
    /// Global headers so far, which come without an entry that would be counted.
    globals: u64,
}

/// What extensions say about the entry that comes next.
#[derive(Default)]
struct Extensions {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: Option<Extended>,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(input: R, caps: Caps) -> Self {
        let input = BufReader::with_capacity(BUFFER, input);
        Self { input, caps, offset: 0, content: 0, padding: 0, globals: 0 }
    }

    /// The next entry; `None` at the end of the archive, once the stream has been read to its end.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        self.skip_rest()?;
        let mut extensions = Extensions::default();
        loop {
            let header_at = self.offset;
            let malformed = |reason| ArchiveError::Malformed { offset: header_at, reason };
            let header = self.block()?;
            if header.as_bytes().iter().all(|&byte| byte == 0) {
                if extensions.any() {
                    return Err(malformed(Malformed::Dangling));
                }
                self.expect_end()?;
                return Ok(None);
            }
            check(&header).map_err(malformed)?;
            let size = number(&header.as_old().size).map_err(malformed)?;
            let twice = match header.as_old().linkflag[0] {
                b'L' => extensions.name.replace(self.long_name(size)?).is_some(),
                b'K' => extensions.link.replace(self.long_name(size)?).is_some(),
                b'x' => {
                    let data = self.extension(size)?;
                    let pax = Extended::parse(&data).map_err(malformed)?;
                    extensions.pax.replace(pax).is_some()
                }
                b'g' => {
                    self.globals += 1;
                    if self.globals > self.caps.entries {
                        return Err(over(Cap::Entries, self.caps.entries, EXTENSION));
                    }
                    let data = self.extension(size)?;
                    let global = Extended::parse(&data).map_err(malformed)?;
                    if global.path.is_some()
                        || global.link.is_some()
                        || global.size.is_some()
                        || global.sparse
                    {
                        return Err(malformed(Malformed::GlobalOverride));
                    }
                    false
                }
                flag => {
                    let properties = extensions.onto(&header, size).map_err(malformed)?;
                    return self.entry(flag, properties).map(Some);
                }
            };
            if twice {
                return Err(malformed(Malformed::Ambiguous));
            }
        }
    }

    fn entry(&mut self, flag: u8, found: Properties) -> Result<Entry, ArchiveError> {
        let Properties { name, link, size, mode, modified, sparse, attributes } = found;
        if sparse {
            return Err(refused(&name, Refusal::Sparse));
        }
        let content = size != 0;
        let kind = match flag {
            // Old archives know directories by the slash, and so do POSIX and GNU tar.
            b'0' | b'\0' | b'7' if !name.ends_with(b"/") => Kind::File(size),
            b'0' | b'\0' | b'5' if !content => Kind::Directory,
            b'2' if !content => Kind::Symlink(link),
            b'1' if !content => Kind::HardLink(link),
            b'0' | b'\0' | b'7' | b'5' | b'2' | b'1' => {
                return Err(refused(&name, Refusal::UnexpectedContent));
            }
            b'3' | b'4' | b'6' => return Err(refused(&name, Refusal::SpecialFile)),
            b'S' => return Err(refused(&name, Refusal::Sparse)),
            other => return Err(refused(&name, Refusal::UnknownType(other))),
        };
        self.content = size;
        self.padding = padding(size);
        Ok(Entry { name, kind, mode, modified, attributes })
    }

    /// The next piece of the current entry's content; empty at its end.
    pub(crate) fn piece(&mut self) -> Result<&[u8], ArchiveError> {
        if self.content == 0 {
            return Ok(&[]);
        }
        fill(&mut self.input, self.offset)?;
        let buffer = self.input.buffer();
        let length = usize::try_from(self.content).unwrap_or(usize::MAX).min(buffer.len());
        Ok(&buffer[..length])
    }

    /// Marks bytes of the last [`piece`](Self::piece) as taken.
    pub(crate) fn took(&mut self, count: usize) {
        self.input.consume(count);
        self.offset += count as u64;
        self.content -= count as u64;
    }

    fn skip_rest(&mut self) -> Result<(), ArchiveError> {
        let mut rest = self.content + self.padding;
        (self.content, self.padding) = (0, 0);
        while rest > 0 {
            fill(&mut self.input, self.offset)?;
            let count = usize::try_from(rest).unwrap_or(usize::MAX).min(self.input.buffer().len());
            self.input.consume(count);
            self.offset += count as u64;
            rest -= count as u64;
        }
        Ok(())
    }

    fn block(&mut self) -> Result<Header, ArchiveError> {
        let mut header = Header::new_old();
        self.exactly(header.as_mut_bytes())?;
        Ok(header)
    }

    fn exactly(&mut self, mut target: &mut [u8]) -> Result<(), ArchiveError> {
        while !target.is_empty() {
            fill(&mut self.input, self.offset)?;
            let count = self.input.buffer().len().min(target.len());
            let (now, later) = target.split_at_mut(count);
            now.copy_from_slice(&self.input.buffer()[..count]);
            self.input.consume(count);
            self.offset += count as u64;
            target = later;
        }
        Ok(())
    }

    /// The content of an extension, which is bounded before any of it is read.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > EXTENDED_HEADER {
            return Err(over(Cap::HeaderBytes, EXTENDED_HEADER, EXTENSION));
        }
        // Grown piece by piece: a header that lies about its size gets no memory for it.
        let mut data = Vec::new();
        self.content = size;
        self.padding = padding(size);
        loop {
            let piece = self.piece()?;
            let count = piece.len();
            if count == 0 {
                break;
            }
            data.extend_from_slice(piece);
            self.took(count);
        }
        self.skip_rest()?;
        Ok(data)
    }

    /// The content of a GNU extension for a long name.
    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        // One more for the zero byte that GNU tar puts behind it.
        if size > self.caps.path_bytes.saturating_add(1) {
            return Err(over(Cap::PathBytes, self.caps.path_bytes, EXTENSION));
        }
        let mut name = self.extension(size)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// Reads what follows the first block of zeros: zeros only, up to the end of the stream.
    ///
    /// To the end, so that a sender is not stopped by a closed pipe; and nothing but zeros, since another
    /// reader (`tar --ignore-zeros`) would go on with whatever comes there.
    fn expect_end(&mut self) -> Result<(), ArchiveError> {
        let end_at = self.offset;
        loop {
            match fill(&mut self.input, self.offset) {
                Ok(()) => {}
                Err(ArchiveError::Truncated { .. }) => return Ok(()),
                Err(other) => return Err(other),
            }
            let count = self.input.buffer().len();
            let zeros = self.input.buffer().iter().all(|&byte| byte == 0);
            if !zeros || self.offset - end_at > PADDING {
                let reason = Malformed::TrailingData;
                return Err(ArchiveError::Malformed { offset: self.offset, reason });
            }
            self.input.consume(count);
            self.offset += count as u64;
        }
    }
}

/// What an error calls an extension, which has no name of its own.
const EXTENSION: &[u8] = b"(extended header)";

/// What the header and the extensions before it say together.
struct Properties {
    name: Vec<u8>,
    link: Vec<u8>,
    size: u64,
    mode: u32,
    modified: (i64, u32),
    sparse: bool,
    attributes: bool,
}

impl Extensions {
    fn any(&self) -> bool {
        self.name.is_some() || self.link.is_some() || self.pax.is_some()
    }

    fn onto(self, header: &Header, size: u64) -> Result<Properties, Malformed> {
        let old = header.as_old();
        let pax = self.pax.unwrap_or_default();
        let name = one_of(pax.path, self.name)?.unwrap_or_else(|| header.path_bytes().into_owned());
        let link =
            one_of(pax.link, self.link)?.unwrap_or_else(|| until_zero(&old.linkname).to_vec());
        // The size of a pax header counts, whatever the header itself says (RUSTSEC-2026-0068).
        let size = pax.size.unwrap_or(size);
        if size > LARGEST {
            return Err(Malformed::Number);
        }
        let modified = match pax.modified {
            Some(time) => time,
            None => (signed(&old.mtime)?, 0),
        };
        // The rest are the type of the file and the bits that are dropped.
        let mode = u32::try_from(number(&old.mode)? & 0o777).unwrap_or(0);
        let (sparse, attributes) = (pax.sparse, pax.attributes);
        Ok(Properties { name, link, size, mode, modified, sparse, attributes })
    }
}

/// The largest size that is believed: the kernel's own largest.
const LARGEST: u64 = i64::MAX as u64;

/// One property by two kinds of extension: readers differ in which one counts.
fn one_of(first: Option<Vec<u8>>, second: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Malformed> {
    match (first, second) {
        (Some(first), Some(second)) if first != second => Err(Malformed::Ambiguous),
        (first, second) => Ok(first.or(second)),
    }
}

/// Makes sure that the buffer is not empty.
fn fill<R: Read>(input: &mut BufReader<R>, offset: u64) -> Result<(), ArchiveError> {
    loop {
        match input.fill_buf() {
            Ok([]) => return Err(ArchiveError::Truncated { offset }),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(ArchiveError::Input(error)),
        }
    }
}

fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

/// The checksum counts its own field as blanks.
fn check(header: &Header) -> Result<(), Malformed> {
    let bytes = header.as_bytes();
    let sum = bytes[..148].iter().chain(&bytes[156..]).map(|&byte| u64::from(byte)).sum::<u64>();
    match number(&header.as_old().cksum) {
        Ok(stated) if stated == sum + 8 * u64::from(b' ') => Ok(()),
        _ => Err(Malformed::Checksum),
    }
}

fn until_zero(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A numeric field: octal digits between blanks, or binary when the first bit is set.
///
/// Stricter than `tar::Header`, which lets a sign through and looks only at the last eight bytes of a
/// binary number, where another reader sees all twelve.
fn number(field: &[u8]) -> Result<u64, Malformed> {
    if field[0] & 0x80 != 0 {
        let (high, low) = field.split_at(field.len() - 8);
        let low: [u8; 8] = low.try_into().map_err(|_| Malformed::Number)?;
        let low = u64::from_be_bytes(low);
        // The mark itself is no part of the number. A field of eight bytes has it in the low part.
        let (high_is_empty, low) = match high {
            [] => (true, low & !(1 << 63)),
            [first, rest @ ..] => (*first == 0x80 && rest.iter().all(|&byte| byte == 0), low),
        };
        return if high_is_empty && low <= LARGEST { Ok(low) } else { Err(Malformed::Number) };
    }
    let digits = until_zero(field).trim_ascii();
    digits.iter().try_fold(0_u64, |sum, digit| match digit {
        b'0'..=b'7' => {
            sum.checked_mul(8).map(|sum| sum + u64::from(digit - b'0')).ok_or(Malformed::Number)
        }
        _ => Err(Malformed::Number),
    })
}

/// A numeric field that may be negative, which only the binary form can say.
fn signed(field: &[u8; 12]) -> Result<i64, Malformed> {
    if let [0xff, 0xff, 0xff, 0xff, low @ ..] = field {
        return Ok(i64::from_be_bytes(*low).min(-1));
    }
    // `number` gives no more than `LARGEST`, or octal digits that may be a little more.
    i64::try_from(number(field)?).map_err(|_| Malformed::Number)
}

#[cfg(test)]
mod tests {
    use super::{number, signed};

    #[test]
    fn a_number_is_octal_digits_between_blanks() {
        assert_eq!(number(b"0000644\0"), Ok(0o644));
        assert_eq!(number(b"    644 "), Ok(0o644));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Ok(0));
        for wrong in [b"+000644\0", b"-000644\0", b"0000648\0", b"6 44 \0\0\0"] {
            assert!(number(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_binary_number_uses_all_of_its_field() {
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Ok(0x2_0000_0000));
        assert!(number(b"\x80\0\0\x01\0\0\0\0\0\0\0\0").is_err());
        assert!(number(b"\x81\0\0\0\0\0\0\0\0\0\0\0").is_err());
        assert!(number(&[0xff; 12]).is_err());
        assert_eq!(signed(&[0xff; 12]), Ok(-1));
    }
}
