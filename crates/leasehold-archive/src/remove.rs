//! Removes a tree, without leaving it.

use crate::error::{ArchiveError, failed};
use crate::handle::open_same_mount;
use crate::unpack::kind_at;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Levels that are open at once. What is deeper is first moved up to the top.
const LEVELS: usize = 64;

/// How often another process may fill a directory again while it is being removed.
const STUBBORN: usize = 1_000;

/// Removes whatever stands at a name, with everything in it. Links are removed, not followed; nothing
/// is removed across a mount. Fine if nothing is there.
pub(crate) fn remove(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), ArchiveError> {
    let removed = kind_at(parent, name).and_then(|kind| match kind {
        None => Ok(()),
        Some(FileType::Directory) => tree(parent, name),
        Some(_) => unlink(parent, name, AtFlags::empty()),
    });
    removed.map_err(|error| failed("remove", name, error))
}

/// Removes a directory and what is in it: depth first, with a handle for each level.
///
/// A hostile process can make a tree as deep as it likes. What is below [`LEVELS`] is moved up into the
/// top directory and removed from there, so that neither handles nor memory nor time grow with depth
/// more than they must.
fn tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let mut levels = vec![(name.to_vec(), open(parent, name)?)];
    let mut stubborn = 0;
    let mut moved = 0_u64;
    while let Some((_, handle)) = levels.last() {
        let Some(child) = remove_files(handle.as_fd())? else {
            let name = levels.pop().map(|(name, _)| name).unwrap_or_default();
            let above = levels.last().map_or(parent, |(_, handle)| handle.as_fd());
            match unlink(above, &name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) if stubborn < STUBBORN => {
                    stubborn += 1;
                    let handle = open(above, &name)?;
                    levels.push((name, handle));
                }
                result => result?,
            }
            continue;
        };
        match open(handle.as_fd(), &child) {
            Ok(opened) if levels.len() < LEVELS => levels.push((child, opened)),
            Ok(_) => {
                let to = format!("leasehold-deep-{moved}");
                moved += 1;
                let flags = RenameFlags::NOREPLACE;
                match rustix::fs::renameat_with(handle, &child[..], &levels[0].1, &to[..], flags) {
                    // Moved, taken away by another process, or a name that is taken: the next number.
                    Ok(()) | Err(Errno::NOENT | Errno::EXIST) => {}
                    Err(error) => return Err(error),
                }
            }
            // Another process was quicker: the next look at this directory sees what is there.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if stubborn < STUBBORN => stubborn += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes everything in a directory up to its first subdirectory, whose name it returns.
fn remove_files(directory: BorrowedFd<'_>) -> Result<Option<Vec<u8>>, Errno> {
    rustix::fs::seek(directory, SeekFrom::Start(0))?;
    let mut space = [MaybeUninit::uninit(); 8 * 1024];
    let mut listing = RawDir::new(directory, &mut space);
    while let Some(found) = listing.next() {
        let found = match found {
            Ok(found) => found,
            Err(Errno::NOENT) => break,
            Err(error) => return Err(error),
        };
        let name = found.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = match found.file_type() {
            FileType::Unknown => kind_at(directory, name)?,
            known => Some(known),
        };
        if kind == Some(FileType::Directory) {
            return Ok(Some(name.to_vec()));
        }
        match unlink(directory, name, AtFlags::empty()) {
            // It became a directory meanwhile.
            Err(Errno::ISDIR) => return Ok(Some(name.to_vec())),
            result => result?,
        }
    }
    Ok(None)
}

/// Opens a directory that is to be emptied, and makes that possible for its owner.
fn open(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let handle = match open_same_mount(parent, name) {
        Err(Errno::ACCESS) => {
            // Not even readable, so that there is no handle to change its mode by. One that only names
            // it has a path which leads to it and nowhere else, whatever its own name is by now.
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let named = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            rustix::fs::chmod(format!("/proc/self/fd/{}", named.as_raw_fd()), Mode::RWXU)?;
            open_same_mount(parent, name)?
        }
        other => other?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        match rustix::fs::fchmod(&handle, Mode::RWXU) {
            // Not the owner: perhaps it may be emptied anyhow.
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(handle)
}

fn unlink(parent: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::remove;
    use crate::handle::Root;
    use rustix::fs::Mode;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_tree_of_ten_thousand_levels_is_removed() {
        // In memory where that is possible: a disk that others sync makes it slow.
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let root = Root::open(place.path()).unwrap();
        let mut handle = crate::handle::open_directory(root.handle(), b".").unwrap();
        for _ in 0..10_000 {
            rustix::fs::mkdirat(&handle, "d", Mode::RWXU).unwrap();
            handle =
                rustix::fs::openat(&handle, "d", crate::handle::DIRECTORY, Mode::empty()).unwrap();
        }
        remove(root.handle(), b"d").unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_link_in_a_tree_leads_to_is_not_removed() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("outside")).unwrap();
        std::fs::write(place.path().join("outside/canary"), "alive").unwrap();
        std::fs::create_dir_all(place.path().join("tree/a")).unwrap();
        symlink("../../outside", place.path().join("tree/a/link")).unwrap();
        symlink(place.path().join("outside"), place.path().join("tree/absolute")).unwrap();
        let root = Root::open(place.path()).unwrap();
        remove(root.handle(), b"tree").unwrap();
        assert!(!place.path().join("tree").exists());
        assert!(place.path().join("outside/canary").exists());
    }
}
