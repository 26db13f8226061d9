//! A tree, as an archive.

use crate::BUFFER;
use crate::error::{ArchiveError, Cap, Refusal, failed, over, refused};
use crate::format::{Metadata, Writer};
use crate::handle::{DIRECTORY, Root, look, open_beneath, open_directory};
use crate::options::{PackOptions, Symlinks, TimePrecision};
use crate::slot;
use crate::stack::DirectoryStack;
use crate::summary::{NoticeReason, Summary};
use crate::watch::Watch;
use rustix::fs::{FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tar::EntryType;

/// How a file is opened: a named pipe or device that takes its place must neither block nor become a
/// terminal of ours.
pub(crate) const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Packs everything in `root` as a tar stream to `output`.
///
/// The root itself is the first entry, `./`. Names are in the order of their bytes, a directory before
/// what is in it, and headers hold nothing that depends on who packs, when or where: one tree gives
/// one stream of bytes, always. A file that grows meanwhile is packed to the length that it had when it
/// was opened; one that shrinks is filled up with zeros, with a notice.
///
/// What cannot be read, and what is neither a file nor a directory nor a link, is left out and noted in
/// the [`Summary`]: a caller that needs everything looks at [`Summary::noticed`].
///
/// # Errors
/// [`ArchiveError::Output`] if the stream cannot be written, [`ArchiveError::Cap`] past a limit,
/// [`ArchiveError::Refused`] for a link under [`Symlinks::Refuse`], [`ArchiveError::FileSystem`] if a
/// file fails in the middle, [`ArchiveError::Cancelled`]. What was written until then is cut off, and a
/// reader will notice.
pub fn pack(
    root: &Root,
    output: impl Write,
    options: &PackOptions,
    watch: &mut Watch<'_>,
) -> Result<Summary, ArchiveError> {
    let mut packer = Packer {
        writer: Writer::new(output),
        options,
        watch,
        summary: Summary::default(),
        buffer: vec![0; BUFFER],
        listed: 0,
        written: 0,
    };
    packer.tree(root)?;
    packer.writer.finish()?;
    Ok(packer.summary)
}

struct Packer<'a, 'w, W: Write> {
    writer: Writer<W>,
    options: &'a PackOptions,
    watch: &'a mut Watch<'w>,
    summary: Summary,
    buffer: Vec<u8>,
    /// Names that were listed and are still to come.
    listed: u64,
    written: u64,
}

/// A directory on the way down, and what is still to do in it.
struct Frame {
    names: Names,
    next: usize,
    /// Length of this directory's path, its slash included.
    prefix: usize,
    identity: (u64, u64),
}

impl<W: Write> Packer<'_, '_, W> {
    fn tree(&mut self, root: &Root) -> Result<(), ArchiveError> {
        let mut stack = DirectoryStack::new(root.handle());
        // A handle of its own: reading a directory moves the position of its handle.
        let top =
            open_directory(root.handle(), b".").map_err(|error| failed("read", b".", error))?;
        let stat = rustix::fs::fstat(&top).map_err(|error| failed("read", b".", error))?;
        let metadata = self.metadata(&stat);
        self.entry(EntryType::Directory, b"./", b"", 0, metadata)?;
        self.summary.directories += 1;
        let names = self.list(top.as_fd(), b"")?;
        drop(top);
        let mut frames = vec![Frame { names, next: 0, prefix: 0, identity: identity(&stat) }];
        let mut path = Vec::new();
        while let Some(frame) = frames.last_mut() {
            path.truncate(frame.prefix);
            let Some((name, kind)) = frame.names.get(frame.next) else {
                frames.pop();
                if !frames.is_empty() {
                    stack.leave();
                }
                continue;
            };
            frame.next += 1;
            self.listed -= 1;
            path.extend_from_slice(name);
            let Some(opened) = self.one(&mut stack, root, name, kind, &path)? else { continue };
            let name = name.to_vec();
            if let Some(frame) = self.directory(opened, &mut stack, &name, &mut path, &frames)? {
                frames.push(frame);
            }
        }
        Ok(())
    }

    /// Packs one name, unless it is a directory: that is opened and returned.
    fn one(
        &mut self,
        stack: &mut DirectoryStack<'_>,
        root: &Root,
        name: &[u8],
        kind: FileType,
        path: &[u8],
    ) -> Result<Option<Opened>, ArchiveError> {
        self.watch.look()?;
        let parent = stack.current()?;
        if slot::is_reserved(name) {
            self.summary.notice(path, NoticeReason::ReservedName);
            return Ok(None);
        }
        let kind = match kind {
            // Some file systems do not tell when a directory is listed.
            FileType::Unknown => match look(parent, name) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(error) => return self.left_out(path, error).map(|()| None),
            },
            known => known,
        };
        if self.options.exclude.leaves_out(path, kind == FileType::Directory) {
            self.summary.excluded += 1;
            return Ok(None);
        }
        self.check_path(path)?;
        let opened = match kind {
            FileType::RegularFile => rustix::fs::openat(parent, name, FILE, Mode::empty()),
            FileType::Directory => open_directory(parent, name),
            FileType::Symlink => match self.options.symlinks {
                Symlinks::Keep => return self.link(parent, name, path).map(|()| None),
                Symlinks::Refuse => return Err(refused(path, Refusal::Symlink)),
                Symlinks::Follow => return self.follow(root, path),
            },
            _ => {
                self.summary.notice(path, NoticeReason::SpecialFile);
                return Ok(None);
            }
        };
        match opened {
            Ok(handle) => self.opened(handle, path, false),
            Err(error) => self.left_out(path, error).map(|()| None),
        }
    }

    /// Packs what a link leads to.
    fn follow(&mut self, root: &Root, path: &[u8]) -> Result<Option<Opened>, ArchiveError> {
        // First a handle that only names it: opening a device for reading could have effects.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let kind = open_beneath(root.handle(), path, flags)
            .and_then(|handle| rustix::fs::fstat(&handle))
            .map(|stat| FileType::from_raw_mode(stat.st_mode));
        let flags = match kind {
            Ok(FileType::RegularFile) => FILE.difference(OFlags::NOFOLLOW),
            Ok(FileType::Directory) => DIRECTORY.difference(OFlags::NOFOLLOW),
            Ok(_) => {
                self.summary.notice(path, NoticeReason::SpecialFile);
                return Ok(None);
            }
            Err(error) => return self.not_followed(path, error),
        };
        match open_beneath(root.handle(), path, flags) {
            Ok(handle) => self.opened(handle, path, true),
            Err(error) => self.not_followed(path, error),
        }
    }

    fn not_followed(&mut self, path: &[u8], error: Errno) -> Result<Option<Opened>, ArchiveError> {
        match error {
            Errno::XDEV | Errno::NOENT | Errno::NOTDIR | Errno::LOOP => {
                self.summary.notice(path, NoticeReason::LinkLeadsOutside);
            }
            other => self.left_out(path, other)?,
        }
        Ok(None)
    }

    /// Packs an open file; gives an open directory back.
    fn opened(
        &mut self,
        handle: OwnedFd,
        path: &[u8],
        followed: bool,
    ) -> Result<Option<Opened>, ArchiveError> {
        let stat = rustix::fs::fstat(&handle).map_err(|error| failed("read", path, error))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(handle.as_fd(), &stat, path).map(|()| None),
            FileType::Directory => Ok(Some(Opened { handle, stat, followed })),
            _ => {
                self.summary.notice(path, NoticeReason::Vanished);
                Ok(None)
            }
        }
    }

    fn directory(
        &mut self,
        opened: Opened,
        stack: &mut DirectoryStack<'_>,
        name: &[u8],
        path: &mut Vec<u8>,
        frames: &[Frame],
    ) -> Result<Option<Frame>, ArchiveError> {
        let Opened { handle, stat, followed } = opened;
        let identity = identity(&stat);
        if followed && frames.iter().any(|frame| frame.identity == identity) {
            self.summary.notice(path, NoticeReason::LinkLoop);
            return Ok(None);
        }
        let depth = stack.depth() as u64 + 2;
        path.push(b'/');
        let metadata = self.metadata(&stat);
        self.entry(EntryType::Directory, path, b"", 0, metadata)?;
        self.summary.directories += 1;
        let names = self.list(handle.as_fd(), path)?;
        if depth > self.options.caps.depth
            && let Some((name, _)) = names.get(0)
        {
            path.extend_from_slice(name);
            return Err(over(Cap::Depth, self.options.caps.depth, path));
        }
        stack.push(name, handle, followed);
        Ok(Some(Frame { names, next: 0, prefix: path.len(), identity }))
    }

    fn link(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), ArchiveError> {
        let read = look(parent, name)
            .and_then(|stat| Ok((stat, rustix::fs::readlinkat(parent, name, Vec::new())?)));
        let (stat, target) = match read {
            Ok(read) => read,
            Err(error) => return self.left_out(path, error),
        };
        let metadata = Metadata { mode: 0o777, ..self.metadata(&stat) };
        self.entry(EntryType::Symlink, path, target.to_bytes(), 0, metadata)?;
        self.summary.symlinks += 1;
        Ok(())
    }

    fn file(
        &mut self,
        handle: BorrowedFd<'_>,
        stat: &Stat,
        path: &[u8],
    ) -> Result<(), ArchiveError> {
        let caps = &self.options.caps;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > caps.file_bytes {
            return Err(over(Cap::FileBytes, caps.file_bytes, path));
        }
        if size > caps.total_bytes - self.summary.bytes.min(caps.total_bytes) {
            return Err(over(Cap::TotalBytes, caps.total_bytes, path));
        }
        let metadata = self.metadata(stat);
        // A first piece before the header: a small file is as long as what was read of it.
        let wanted = usize::try_from(size).unwrap_or(usize::MAX).min(BUFFER);
        let mut count = match fill(handle, &mut self.buffer[..wanted]) {
            Ok(count) => count,
            Err(error) => return self.left_out(path, error),
        };
        if count < wanted {
            self.summary.notice(path, NoticeReason::Shrank);
        }
        let size = if count < wanted { count as u64 } else { size };
        self.entry(EntryType::Regular, path, b"", size, metadata)?;
        let mut rest = size;
        let mut shrank = false;
        loop {
            self.writer.content(&self.buffer[..count])?;
            self.watch.bytes(count)?;
            rest -= count as u64;
            if rest == 0 {
                break;
            }
            let wanted = usize::try_from(rest).unwrap_or(usize::MAX).min(BUFFER);
            count = wanted;
            if !shrank {
                let read = fill(handle, &mut self.buffer[..wanted])
                    .map_err(|error| failed("read", path, error))?;
                if read < wanted {
                    // The header has promised these bytes.
                    self.buffer[read..].fill(0);
                    self.summary.notice(path, NoticeReason::Shrank);
                    shrank = true;
                }
            } else {
                self.buffer.fill(0);
            }
        }
        self.writer.end_content()?;
        self.summary.files += 1;
        self.summary.bytes += size;
        Ok(())
    }

    fn entry(
        &mut self,
        kind: EntryType,
        path: &[u8],
        link: &[u8],
        size: u64,
        metadata: Metadata,
    ) -> Result<(), ArchiveError> {
        if self.written >= self.options.caps.entries {
            return Err(over(Cap::Entries, self.options.caps.entries, path));
        }
        self.written += 1;
        self.watch.entry()?;
        self.writer.header(kind, path, link, size, metadata)
    }

    fn check_path(&self, path: &[u8]) -> Result<(), ArchiveError> {
        let limit = self.options.caps.path_bytes;
        if path.len() as u64 > limit { Err(over(Cap::PathBytes, limit, path)) } else { Ok(()) }
    }

    fn metadata(&self, stat: &Stat) -> Metadata {
        let nanoseconds = match self.options.times {
            TimePrecision::Nanoseconds => u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            TimePrecision::Seconds => 0,
        };
        Metadata { mode: stat.st_mode & 0o777, modified: (stat.st_mtime, nanoseconds) }
    }

    /// A name that could not be opened: gone, changed or not allowed is noted, the rest is an error.
    fn left_out(&mut self, path: &[u8], error: Errno) -> Result<(), ArchiveError> {
        let reason = match error {
            Errno::ACCESS | Errno::PERM | Errno::IO => NoticeReason::Unreadable,
            Errno::NOENT
            | Errno::LOOP
            | Errno::NOTDIR
            | Errno::NXIO
            | Errno::NODEV
            | Errno::STALE
            | Errno::INVAL => NoticeReason::Vanished,
            other => return Err(failed("read", path, other)),
        };
        self.summary.notice(path, reason);
        Ok(())
    }

    /// The names in a directory, sorted. More than the cap on entries allows is an error at once, so
    /// that a huge directory does not fill the memory.
    fn list(&mut self, directory: BorrowedFd<'_>, path: &[u8]) -> Result<Names, ArchiveError> {
        let mut names = Names::default();
        let mut space = [MaybeUninit::uninit(); 32 * 1024];
        let mut listing = RawDir::new(directory, &mut space);
        while let Some(found) = listing.next() {
            let found = match found {
                Ok(found) => found,
                // Removed meanwhile.
                Err(Errno::NOENT) => break,
                Err(error) => return Err(failed("read the directory", path, error)),
            };
            if matches!(found.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            names.add(found.file_name(), found.file_type());
            self.listed += 1;
            // Those that were written count only as far as they are not in `listed` any more.
            if self.listed > self.options.caps.entries {
                return Err(over(Cap::Entries, self.options.caps.entries, path));
            }
        }
        names.sort();
        Ok(names)
    }
}

struct Opened {
    handle: OwnedFd,
    stat: Stat,
    followed: bool,
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn fill(handle: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut count = 0;
    while count < buffer.len() {
        match rustix::io::read(handle, &mut buffer[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Names of a directory, without an allocation for each.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    entries: Vec<(usize, u16, FileType)>,
}

impl Names {
    fn add(&mut self, name: &CStr, kind: FileType) {
        let name = name.to_bytes();
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        self.entries.push((self.bytes.len(), length, kind));
        self.bytes.extend_from_slice(&name[..usize::from(length)]);
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.entries
            .sort_unstable_by_key(|&(start, length, _)| &bytes[start..start + usize::from(length)]);
    }

    fn get(&self, index: usize) -> Option<(&[u8], FileType)> {
        let &(start, length, kind) = self.entries.get(index)?;
        Some((&self.bytes[start..start + usize::from(length)], kind))
    }
}
