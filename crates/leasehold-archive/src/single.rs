//! One file, without an archive around it.

use crate::BUFFER;
use crate::error::{ArchiveError, Cap, Refusal, failed, over, refused};
use crate::handle::{Root, in_the_way};
use crate::names::{clean, components, split};
use crate::options::{Caps, FileOptions};
use crate::pack::{FILE, fill};
use crate::slot::is_reserved;
use crate::stack::DirectoryStack;
use crate::unpack::{Draft, kind_at, times};
use crate::watch::Watch;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What was transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileFacts {
    /// Bytes of content.
    pub bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Time of modification in seconds and nanoseconds since 1970; `None` if it is left to the system.
    pub modified: Option<(i64, u32)>,
}

/// Copies the content of the file at `path` in `root` to `output`, up to its end.
///
/// No link is followed, in the middle of the path or at its end.
///
/// # Errors
/// [`ArchiveError::Refused`] for a path that is not inside, leads over a link, or is no regular file;
/// [`ArchiveError::Cap`] past a limit; [`ArchiveError::FileSystem`], [`ArchiveError::Output`],
/// [`ArchiveError::Cancelled`]. What was written until then stays written.
pub fn read_file(
    root: &Root,
    path: impl AsRef<Path>,
    mut output: impl Write,
    caps: &Caps,
    watch: &mut Watch<'_>,
) -> Result<FileFacts, ArchiveError> {
    let path = clean(path.as_ref().as_os_str().as_bytes(), caps)?;
    let (directory, name) = split(&path);
    let mut stack = DirectoryStack::new(root.handle());
    for component in components(directory) {
        stack.enter(component).map_err(|error| in_the_way(&stack, component, error))?;
    }
    watch.entry()?;
    let not_a_file = || refused(&path, Refusal::NotAFile);
    let parent = stack.current()?;
    // First a look, since opening a device could have effects; then again by the handle.
    let kind = kind_at(parent, name).map_err(|error| failed("read", &path, error))?;
    if kind.is_some_and(|kind| kind != FileType::RegularFile) || name.is_empty() {
        return Err(not_a_file());
    }
    let handle = match rustix::fs::openat(parent, name, FILE, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::LOOP | Errno::NXIO) => return Err(not_a_file()),
        Err(error) => return Err(failed("read", &path, error)),
    };
    let stat = rustix::fs::fstat(&handle).map_err(|error| failed("read", &path, error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(not_a_file());
    }
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    loop {
        let count =
            fill(handle.as_fd(), &mut buffer).map_err(|error| failed("read", &path, error))?;
        bytes = within(bytes, count, caps, &path)?;
        output.write_all(&buffer[..count]).map_err(ArchiveError::Output)?;
        watch.bytes(count)?;
        if count < buffer.len() {
            break;
        }
    }
    output.flush().map_err(ArchiveError::Output)?;
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let modified = Some((stat.st_mtime, nanoseconds));
    Ok(FileFacts { bytes, mode: stat.st_mode & 0o777, modified })
}

/// Makes everything that `input` holds, up to its end, the file at `path` in `root`.
///
/// It is written under a temporary name beside its own and then renamed: whoever looks sees the old
/// file or the whole new one, and a failure or a kill leaves the old one as it was. A link at `path` is
/// replaced, not followed; a link in the middle of it is refused.
///
/// # Errors
/// [`ArchiveError::Refused`] for a path that is not inside, leads over a link, or is a directory that is
/// not empty; [`ArchiveError::Cap`] past a limit; [`ArchiveError::Input`], [`ArchiveError::FileSystem`],
/// [`ArchiveError::Busy`], [`ArchiveError::Cancelled`]. Parents that were created stay.
pub fn write_file(
    root: &Root,
    path: impl AsRef<Path>,
    mut input: impl Read,
    options: &FileOptions,
    watch: &mut Watch<'_>,
) -> Result<FileFacts, ArchiveError> {
    let caps = &options.caps;
    let path = clean(path.as_ref().as_os_str().as_bytes(), caps)?;
    let (directory, name) = split(&path);
    if name.is_empty() || components(&path).any(is_reserved) {
        return Err(refused(&path, Refusal::NotAFile));
    }
    watch.entry()?;
    let mut stack = DirectoryStack::new(root.handle());
    crate::unpack::go_to(&mut stack, directory, options.create_parents)?;
    let parent = stack.current()?;
    let here = Root::from_owned(
        crate::handle::open_directory(parent, b".")
            .map_err(|error| failed("open", &path, error))?,
    );
    // What could not be cleaned is in nobody's way, and keeps its slot.
    let _ = crate::slot::clean_leftovers(&here);
    let draft = Draft::beside(parent, name)?;
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(ArchiveError::Input(error)),
        };
        bytes = within(bytes, count, caps, &path)?;
        draft.write(&buffer[..count], &path)?;
        watch.bytes(count)?;
    }
    let mode = options.mode & 0o777;
    let modified = options.modified.map(times);
    draft.finish(Mode::from_raw_mode(mode), modified.as_ref(), options.durable, &path)?;
    if options.durable {
        rustix::fs::fsync(&here).map_err(|error| failed("sync", &path, error))?;
    }
    Ok(FileFacts { bytes, mode, modified: options.modified })
}

fn within(bytes: u64, count: usize, caps: &Caps, path: &[u8]) -> Result<u64, ArchiveError> {
    let bytes = bytes + count as u64;
    if bytes > caps.file_bytes {
        return Err(over(Cap::FileBytes, caps.file_bytes, path));
    }
    if bytes > caps.total_bytes {
        return Err(over(Cap::TotalBytes, caps.total_bytes, path));
    }
    Ok(bytes)
}
