//! One side of a copy: a file or a tree to a stream, and a stream to where it belongs.
//!
//! A stream is one line that says what comes, and then a tar stream or the content of one file:
//!
//! ```text
//! tree                                          file MODE SECONDS NANOSECONDS BYTES
//! (a tar stream)                                (exactly so many bytes)
//! ```
//!
//! Both forms tell a whole stream from one that was cut off, so that a sender that dies never makes a
//! part of a file look like all of it.

use crate::BUFFER;
use crate::error::{ArchiveError, Cap, Malformed, Refusal, failed, over, refused};
use crate::handle::Root;
use crate::options::{Caps, FileOptions, PackOptions, UnpackOptions};
use crate::pack::{FILE, pack};
use crate::replace::unpack_replacing;
use crate::single::write_file;
use crate::summary::Summary;
use crate::unpack::unpack_into;
use crate::watch::Watch;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that the first line may have.
const HEADER_BYTES: usize = 128;

/// Where what is received is put.
#[derive(Debug, Clone, Copy)]
pub enum Placement<'a> {
    /// As `cp -r` does: into a directory that exists, under this name of the source; else as the path
    /// itself, whose parent must exist. Without a name the *contents* of a tree go to the path.
    Copy {
        /// The source's own name, a single component.
        name: Option<&'a str>,
    },
    /// A tree takes the place of the path, all of it or nothing.
    Replace,
}

/// What a stream holds, from its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    Tree,
    File { mode: u32, modified: (i64, u32), bytes: u64 },
}

/// Sends the file or directory at `path`, which the caller trusts: a link there is followed.
///
/// # Errors
/// As [`pack`]; [`ArchiveError::Refused`] for a path that is neither; [`ArchiveError::Cap`] for a file
/// above a limit, before anything of it is sent; [`ArchiveError::Contended`] for one that changes
/// its size meanwhile. What was sent until then is cut off, and [`receive`] will notice.
pub fn send(
    path: impl AsRef<Path>,
    mut output: impl Write,
    options: &PackOptions,
    watch: &mut Watch<'_>,
) -> Result<Summary, ArchiveError> {
    let path = path.as_ref();
    let shown = path.as_os_str().as_bytes();
    let flags = FILE.difference(OFlags::NOFOLLOW);
    // First a look, since opening a device could have effects; then again by the handle.
    let stat = rustix::fs::stat(path).map_err(|error| failed("read", shown, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory => {}
        _ => return Err(refused(shown, Refusal::NotAFile)),
    }
    let handle = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| failed("read", shown, error))?;
    let stat = rustix::fs::fstat(&handle).map_err(|error| failed("read", shown, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            output.write_all(Header::Tree.line().as_bytes()).map_err(ArchiveError::Output)?;
            pack(&Root::from_handle(handle)?, output, options, watch)
        }
        FileType::RegularFile => {
            let bytes = u64::try_from(stat.st_size).unwrap_or(0);
            within(bytes, &options.caps, shown)?;
            let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
            let modified = (stat.st_mtime, nanoseconds);
            let header = Header::File { mode: stat.st_mode & 0o777, modified, bytes };
            output.write_all(header.line().as_bytes()).map_err(ArchiveError::Output)?;
            send_content(handle, bytes, shown, output, watch)
        }
        _ => Err(refused(shown, Refusal::NotAFile)),
    }
}

fn send_content(
    handle: OwnedFd,
    bytes: u64,
    path: &[u8],
    mut output: impl Write,
    watch: &mut Watch<'_>,
) -> Result<Summary, ArchiveError> {
    watch.entry()?;
    let mut file = std::fs::File::from(handle);
    let mut buffer = vec![0; BUFFER];
    let mut sent = 0;
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(source) => {
                let path = crate::error::shown(path);
                return Err(ArchiveError::FileSystem { action: "read", path, source });
            }
        };
        sent += count as u64;
        if sent > bytes {
            break;
        }
        output.write_all(&buffer[..count]).map_err(ArchiveError::Output)?;
        watch.bytes(count)?;
    }
    if sent != bytes {
        return Err(ArchiveError::Contended { path: crate::error::shown(path) });
    }
    output.flush().map_err(ArchiveError::Output)?;
    Ok(Summary { files: 1, bytes, ..Summary::default() })
}

/// Receives what [`send`] sends, and puts it at `path`,
/// which the caller trusts: links in it are followed, as they are by `cp`. What comes *inside* the
/// stream is confined as by [`unpack_into`].
///
/// # Errors
/// As [`unpack_into`], [`unpack_replacing`] and [`write_file`]; [`ArchiveError::Malformed`] for a first
/// line that nobody sends. A file is complete or unchanged after an error.
pub fn receive(
    path: impl AsRef<Path>,
    placement: Placement<'_>,
    input: impl Read,
    options: &UnpackOptions,
    watch: &mut Watch<'_>,
) -> Result<Summary, ArchiveError> {
    let path = path.as_ref();
    let mut input = BufReader::with_capacity(BUFFER, input);
    let header = Header::read(&mut input)?;
    match (header, placement) {
        (Header::Tree, Placement::Replace) => {
            let (parent, name) = parent_and_name(path)?;
            unpack_replacing(&Root::open(parent)?, name, input, options, watch)
        }
        (Header::File { .. }, Placement::Replace) => {
            Err(refused(path.as_os_str().as_bytes(), Refusal::NotADirectory))
        }
        (Header::Tree, Placement::Copy { name }) => {
            unpack_into(&tree_target(path, name)?, input, options, watch)
        }
        (Header::File { mode, modified, bytes }, Placement::Copy { name }) => {
            within(bytes, &options.caps, path.as_os_str().as_bytes())?;
            let options = FileOptions {
                mode,
                modified: Some(modified),
                create_parents: false,
                caps: options.caps,
                durable: options.durable,
            };
            let (parent, name) = match (path.is_dir(), name) {
                (true, Some(name)) => (path, single(name)?),
                (true, None) => {
                    return Err(refused(path.as_os_str().as_bytes(), Refusal::NotAFile));
                }
                (false, _) => parent_and_name(path)?,
            };
            let content = Exactly { input, left: bytes, bytes };
            let root = Root::open(parent)?;
            let facts = write_file(&root, name, content, &options, watch).map_err(cut_off)?;
            Ok(Summary { files: 1, bytes: facts.bytes, ..Summary::default() })
        }
    }
}

/// The directory that a tree is unpacked into; made if it is not there yet.
fn tree_target(path: &Path, name: Option<&str>) -> Result<Root, ArchiveError> {
    let (parent, name) = match (path.is_dir(), name) {
        (true, None) => return Root::open(path),
        (true, Some(name)) => (path, single(name)?),
        (false, _) => parent_and_name(path)?,
    };
    let root = Root::open(parent)?;
    let mode = Mode::from_raw_mode(0o755);
    match rustix::fs::mkdirat(root.handle(), name.as_os_str().as_bytes(), mode) {
        Ok(()) | Err(Errno::EXIST) => root.open_inside(name),
        Err(error) => Err(failed("make the directory", name.as_os_str().as_bytes(), error)),
    }
}

fn parent_and_name(path: &Path) -> Result<(&Path, &Path), ArchiveError> {
    let shown = path.as_os_str().as_bytes();
    let name = path.file_name().ok_or_else(|| refused(shown, Refusal::EmptyName))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok((parent.unwrap_or(Path::new(".")), Path::new(name)))
}

fn single(name: &str) -> Result<&Path, ArchiveError> {
    match name {
        "" | "." => Err(refused(name.as_bytes(), Refusal::EmptyName)),
        ".." => Err(refused(name.as_bytes(), Refusal::ParentComponent)),
        _ if name.contains('/') => Err(refused(name.as_bytes(), Refusal::NotADirectory)),
        _ => Ok(Path::new(name)),
    }
}

fn within(bytes: u64, caps: &Caps, path: &[u8]) -> Result<(), ArchiveError> {
    if bytes > caps.file_bytes {
        return Err(over(Cap::FileBytes, caps.file_bytes, path));
    }
    if bytes > caps.total_bytes {
        return Err(over(Cap::TotalBytes, caps.total_bytes, path));
    }
    Ok(())
}

impl Header {
    fn line(self) -> String {
        match self {
            Self::Tree => "tree\n".to_owned(),
            Self::File { mode, modified: (seconds, nanoseconds), bytes } => {
                format!("file {mode:o} {seconds} {nanoseconds} {bytes}\n")
            }
        }
    }

    fn read(input: &mut impl Read) -> Result<Self, ArchiveError> {
        let mut line = Vec::with_capacity(HEADER_BYTES);
        let mut byte = [0];
        loop {
            match input.read(&mut byte) {
                Ok(0) => return Err(ArchiveError::Truncated { offset: line.len() as u64 }),
                Ok(_) if byte == [b'\n'] => break,
                Ok(_) if line.len() < HEADER_BYTES => line.extend_from_slice(&byte),
                Ok(_) => return Err(malformed()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ArchiveError::Input(error)),
            }
        }
        std::str::from_utf8(&line).ok().and_then(Self::parse).ok_or_else(malformed)
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["tree"] => Some(Self::Tree),
            ["file", mode, seconds, nanoseconds, bytes] => Some(Self::File {
                mode: u32::from_str_radix(mode, 8).ok()?,
                modified: (
                    seconds.parse().ok()?,
                    nanoseconds.parse().ok().filter(|count| *count < 1_000_000_000)?,
                ),
                bytes: bytes.parse().ok()?,
            }),
            _ => None,
        }
    }
}

const fn malformed() -> ArchiveError {
    ArchiveError::Malformed { offset: 0, reason: Malformed::Preamble }
}

/// The first line of a tree's stream, for a tar stream that somebody else made.
pub const TREE: &[u8] = b"tree\n";

/// A stream that must hold exactly so many bytes.
struct Exactly<R> {
    input: R,
    left: u64,
    bytes: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return match self.input.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(ErrorKind::InvalidData.into()),
            };
        }
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.input.read(&mut buffer[..room])?;
        if count == 0 && room > 0 {
            return Err(std::io::Error::new(
                ErrorKind::UnexpectedEof,
                Short(self.bytes - self.left),
            ));
        }
        self.left -= count as u64;
        Ok(count)
    }
}

/// How much of a file there was.
#[derive(Debug, thiserror::Error)]
#[error("{0} bytes, and no more")]
struct Short(u64);

/// What [`Exactly`] noticed, in the words of an archive's errors.
fn cut_off(error: ArchiveError) -> ArchiveError {
    let ArchiveError::Input(source) = &error else { return error };
    if let Some(Short(offset)) = source.get_ref().and_then(|inner| inner.downcast_ref()) {
        return ArchiveError::Truncated { offset: *offset };
    }
    if source.kind() == ErrorKind::InvalidData {
        return ArchiveError::Malformed { offset: 0, reason: Malformed::TrailingData };
    }
    error
}
