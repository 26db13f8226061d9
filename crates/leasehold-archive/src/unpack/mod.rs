//! An archive, as a tree.

mod directories;
mod place;

use crate::error::{ArchiveError, Cap, Refusal, failed, over, refused};
use crate::format::{Entry, Kind, Reader};
use crate::handle::{Root, TRIES, in_the_way, look};
use crate::names::{clean, components, leads_inside, split};
use crate::options::{SymlinkTargets, UnpackOptions};
use crate::slot;
use crate::stack::DirectoryStack;
use crate::summary::{NoticeReason, Summary};
use crate::watch::Watch;
use directories::Directories;
pub(crate) use place::{DRAFT, Draft, NEW_FILE};
use rustix::fs::{AtFlags, FileType, Mode, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::BorrowedFd;

/// Mode of a directory while things are put into it, whatever its entry says.
const OPEN_DIRECTORY: Mode = Mode::RWXU;

/// Mode of a directory that no entry describes, less what the umask takes away.
const PARENT: Mode = Mode::from_raw_mode(0o755);

/// Unpacks a tar stream into `root`, beside and over what is there, as `cp -r` does.
///
/// A file that is there already is replaced by a rename once the new one is complete; a reader sees the
/// one or the other. The entry of the root itself (`./`) changes nothing. The stream is read up to its
/// end.
///
/// # Errors
/// [`ArchiveError::Refused`] and [`ArchiveError::Malformed`] for what may not be in an archive,
/// [`ArchiveError::Truncated`] if it is cut off, [`ArchiveError::Cap`] past a limit,
/// [`ArchiveError::Cancelled`], or what the stream or the file system says. What was unpacked until then
/// stays; the entry that failed does not. If the process is killed, a file that was new may stay under
/// its name with a part of its content; use [`unpack_replacing`](crate::unpack_replacing) where that
/// matters.
pub fn unpack_into(
    root: &Root,
    input: impl Read,
    options: &UnpackOptions,
    watch: &mut Watch<'_>,
) -> Result<Summary, ArchiveError> {
    // What could not be cleaned is in nobody's way, and keeps its slot.
    let _ = slot::clean_leftovers(root);
    let summary = unpack_tree(root, input, options, watch, false)?;
    if options.durable {
        rustix::fs::syncfs(root).map_err(|error| failed("sync", b".", error))?;
    }
    Ok(summary)
}

/// Unpacks into a directory; `own`: the directory was made for it, and gets the root's mode and time.
pub(crate) fn unpack_tree(
    root: &Root,
    input: impl Read,
    options: &UnpackOptions,
    watch: &mut Watch<'_>,
    own: bool,
) -> Result<Summary, ArchiveError> {
    let mut unpacker = Unpacker {
        reader: Reader::new(input, options.caps),
        root,
        stack: DirectoryStack::new(root.handle()),
        options,
        watch,
        summary: Summary::default(),
        directories: Directories::default(),
        begun: 0,
        root_described: false,
    };
    while let Some(entry) = unpacker.reader.next_entry()? {
        unpacker.entry(&entry, own)?;
    }
    unpacker.directories.apply(root, unpacker.watch)?;
    if own && !unpacker.root_described {
        rustix::fs::fchmod(root, PARENT)
            .map_err(|error| failed("set the mode and time of", b".", error))?;
    }
    Ok(unpacker.summary)
}

struct Unpacker<'a, 'w, R> {
    reader: Reader<R>,
    root: &'a Root,
    /// The directory of the last entry.
    stack: DirectoryStack<'a>,
    options: &'a UnpackOptions,
    watch: &'a mut Watch<'w>,
    summary: Summary,
    directories: Directories,
    begun: u64,
    root_described: bool,
}

impl<R: Read> Unpacker<'_, '_, R> {
    fn entry(&mut self, entry: &Entry, own: bool) -> Result<(), ArchiveError> {
        let caps = &self.options.caps;
        self.watch.entry()?;
        self.begun += 1;
        let path = clean(&entry.name, caps)?;
        if self.begun > caps.entries {
            return Err(over(Cap::Entries, caps.entries, &path));
        }
        let is_directory = matches!(entry.kind, Kind::Directory);
        if path.is_empty() {
            if !is_directory {
                return Err(refused(&entry.name, Refusal::NotForRoot));
            }
            self.summary.directories += 1;
            self.root_described = true;
            if own {
                self.directories.set(path, entry.mode, entry.modified);
            }
            return Ok(());
        }
        if components(&path).any(slot::is_reserved) {
            self.summary.notice(&path, NoticeReason::ReservedName);
            return self.pass_over();
        }
        if self.options.exclude.leaves_out_with_parents(&path, is_directory) {
            self.summary.excluded += 1;
            return self.pass_over();
        }
        if entry.attributes {
            self.summary.notice(&path, NoticeReason::ExtendedAttributes);
        }
        let (parent, _) = split(&path);
        go_to(&mut self.stack, parent, true)?;
        match &entry.kind {
            Kind::File(size) => self.file(&path, *size, entry),
            Kind::Directory => self.directory(path, entry),
            Kind::Symlink(target) => self.symlink(&path, target, entry),
            Kind::HardLink(target) => self.hard_link(&path, target),
        }
    }

    /// Reads over the content of an entry that is left out, however much it claims to be.
    fn pass_over(&mut self) -> Result<(), ArchiveError> {
        loop {
            let count = self.reader.piece()?.len();
            if count == 0 {
                return Ok(());
            }
            self.reader.took(count);
            self.watch.look()?;
        }
    }

    fn directory(&mut self, path: Vec<u8>, entry: &Entry) -> Result<(), ArchiveError> {
        let (_, name) = split(&path);
        let parent = self.stack.current()?;
        place::placed(&path, || match rustix::fs::mkdirat(parent, name, OPEN_DIRECTORY) {
            Err(Errno::EXIST) => {
                if kind_at(parent, name)? == Some(FileType::Directory) {
                    return Ok(true);
                }
                place::unlink(parent, name).map(|()| false)
            }
            other => other.map(|()| true),
        })?;
        self.summary.directories += 1;
        self.directories.set(path, entry.mode, entry.modified);
        if self.directories.is_full() {
            self.directories.apply(self.root, self.watch)?;
        }
        Ok(())
    }

    fn symlink(&mut self, path: &[u8], target: &[u8], entry: &Entry) -> Result<(), ArchiveError> {
        let limit = self.options.caps.path_bytes;
        match self.options.symlinks {
            _ if target.is_empty() => return Err(refused(path, Refusal::EmptyName)),
            _ if target.contains(&0) => return Err(refused(path, Refusal::ZeroByte)),
            _ if target.len() as u64 > limit => return Err(over(Cap::PathBytes, limit, path)),
            SymlinkTargets::None => return Err(refused(path, Refusal::Symlink)),
            SymlinkTargets::Inside if !leads_inside(path, target) => {
                return Err(refused(path, Refusal::SymlinkOutside));
            }
            SymlinkTargets::Inside | SymlinkTargets::Any => {}
        }
        let (_, name) = split(path);
        let parent = self.stack.current()?;
        place::placed(path, || match rustix::fs::symlinkat(target, parent, name) {
            Err(Errno::EXIST) => place::clear(parent, name).map(|()| false),
            other => other.map(|()| true),
        })?;
        let times = times(entry.modified);
        match rustix::fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW) {
            // Another process was quicker, or a file system without times for links: nothing lost.
            Ok(()) | Err(Errno::NOENT | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(failed("set the time of", path, error)),
        }
        self.directories.forget(path);
        self.summary.symlinks += 1;
        Ok(())
    }

    fn hard_link(&mut self, path: &[u8], target: &[u8]) -> Result<(), ArchiveError> {
        let target = clean(target, &self.options.caps).map_err(|error| match error {
            ArchiveError::Refused { reason, .. } => match reason {
                Refusal::Absolute | Refusal::ParentComponent => {
                    refused(path, Refusal::HardLinkOutside)
                }
                other => refused(path, other),
            },
            other => other,
        })?;
        let excluded = self.options.exclude.leaves_out_with_parents(&target, false);
        if target.is_empty() || excluded || components(&target).any(slot::is_reserved) {
            return Err(refused(path, Refusal::HardLinkTarget));
        }
        let (target_parent, target_name) = split(&target);
        let (_, name) = split(path);
        // A way of its own, so that the stack stays where the next entry will probably be.
        let mut way = DirectoryStack::new(self.root.handle());
        for component in components(target_parent) {
            way.enter(component).map_err(|error| match in_the_way(&way, component, error) {
                ArchiveError::Refused { .. } => refused(path, Refusal::HardLinkTarget),
                other => other,
            })?;
        }
        let from = way.current()?;
        let parent = self.stack.current()?;
        match kind_at(from, target_name).map_err(|error| failed("link to", &target, error))? {
            Some(FileType::RegularFile) => {}
            _ => return Err(refused(path, Refusal::HardLinkTarget)),
        }
        if target == path {
            // A link to itself: replacing it would remove it.
            self.summary.hard_links += 1;
            return Ok(());
        }
        // Without `AT_SYMLINK_FOLLOW`, a link that took the target's name meanwhile is not followed:
        // the new name is then one more name of that link, and is taken back.
        place::placed(path, || {
            match rustix::fs::linkat(from, target_name, parent, name, AtFlags::empty()) {
                Err(Errno::EXIST) => place::clear(parent, name).map(|()| false),
                other => other.map(|()| true),
            }
        })?;
        match kind_at(parent, name) {
            Ok(Some(FileType::RegularFile)) => {}
            _ => {
                // Whatever it is, the entry did not ask for it; already gone is as good.
                let _ = place::unlink(parent, name);
                return Err(refused(path, Refusal::HardLinkTarget));
            }
        }
        self.directories.forget(path);
        self.summary.hard_links += 1;
        Ok(())
    }

    fn file(&mut self, path: &[u8], size: u64, entry: &Entry) -> Result<(), ArchiveError> {
        let caps = &self.options.caps;
        if size > caps.file_bytes {
            return Err(over(Cap::FileBytes, caps.file_bytes, path));
        }
        // What the entry claims, before a byte of it is read; it cannot give more than that.
        if size > caps.total_bytes - self.summary.bytes.min(caps.total_bytes) {
            return Err(over(Cap::TotalBytes, caps.total_bytes, path));
        }
        let (_, name) = split(path);
        let draft = place::Draft::create(self.stack.current()?, name, path)?;
        loop {
            let piece = self.reader.piece()?;
            let count = piece.len();
            if count == 0 {
                break;
            }
            draft.write(piece, path)?;
            self.reader.took(count);
            self.watch.bytes(count)?;
        }
        let mode = Mode::from_raw_mode(entry.mode);
        draft.finish(mode, Some(&times(entry.modified)), false, path)?;
        self.directories.forget(path);
        self.summary.files += 1;
        self.summary.bytes += size;
        Ok(())
    }
}

/// Makes a stack stand at a directory, creating what is missing of it if that is wanted.
pub(crate) fn go_to(
    stack: &mut DirectoryStack<'_>,
    path: &[u8],
    create: bool,
) -> Result<(), ArchiveError> {
    let common = stack.keep_common(components(path));
    for name in components(path).skip(common) {
        let mut result = stack.enter(name);
        for _ in 0..TRIES {
            if result != Err(Errno::NOENT) || !create {
                break;
            }
            // A link that took the name meanwhile is not followed: the next look fails at it.
            match rustix::fs::mkdirat(stack.current()?, name, PARENT) {
                Ok(()) | Err(Errno::EXIST) => result = stack.enter(name),
                Err(error) => {
                    return Err(failed("create the directory", &stack.path_of(name), error));
                }
            }
        }
        result.map_err(|error| in_the_way(stack, name, error))?;
    }
    Ok(())
}

/// The type of what stands at a name; `None` if nothing does.
pub(crate) fn kind_at(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Option<FileType>, Errno> {
    match look(parent, name) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A time of modification, the time of access left as it is.
pub(crate) fn times((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
    }
}
