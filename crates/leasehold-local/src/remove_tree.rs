//! Removes a tree that hostile code has written, when nothing runs in it any more.
//!
//! Unlike `std::fs::remove_dir_all` it needs one descriptor however deep the tree is (a folder that is not
//! empty is moved up to the top and waits its turn), and it enters folders that their maker closed to
//! everybody. Links are removed, never followed.

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, chmodat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const OPEN_FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Removes `name` in `parent` with all that is below. What is absent already is fine.
///
/// # Errors
///
/// When something cannot be removed. Calling it again goes on where it stopped.
pub(crate) fn remove_tree(parent: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let parent = parent.as_fd();
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    let top = open_for_removal(parent, name)?;
    let mut queue = Queue { next: 0, waiting: Vec::new() };
    empty(&top, &top, &mut queue)?;
    while let Some(waiting) = queue.waiting.pop() {
        let folder = open_for_removal(top.as_fd(), &waiting)?;
        empty(&folder, &top, &mut queue)?;
        unlinkat(&top, &waiting, AtFlags::REMOVEDIR)?;
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Folders that were moved to the top.
struct Queue {
    next: u64,
    waiting: Vec<CString>,
}

impl Queue {
    /// Moves a folder to the top, under a name that nothing there has.
    fn take(
        &mut self,
        from: BorrowedFd<'_>,
        name: &CStr,
        top: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        loop {
            let own = CString::new(format!(".leasehold-removal-{}", self.next))
                .map_err(|_| Errno::INVAL)?;
            self.next += 1;
            match renameat_with(from, name, top, &own, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.waiting.push(own);
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Removes what is in `folder`; folders in it that are not empty join the queue.
fn empty(folder: &OwnedFd, top: &OwnedFd, queue: &mut Queue) -> Result<(), Errno> {
    // Names first: an entry that is moved within the folder that is being read may be met again.
    for (name, file_type) in entries(folder)? {
        let is_folder = match file_type {
            FileType::Directory => true,
            FileType::Unknown => {
                let status = rustix::fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(status.st_mode) == FileType::Directory
            }
            _ => false,
        };
        if !is_folder {
            unlinkat(folder, &name, AtFlags::empty())?;
            continue;
        }
        match unlinkat(folder, &name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS) => {
                // Moving a folder writes its `..`, for which it must be writable.
                chmodat(folder, &name, Mode::RWXU, AtFlags::empty())?;
                queue.take(folder.as_fd(), &name, top.as_fd())?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn entries(folder: &OwnedFd) -> Result<Vec<(CString, FileType)>, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            entries.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(entries)
}

/// Opens a folder; where its mode forbids that, and the folder is ours, changes the mode first.
fn open_for_removal(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let status = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mode = Mode::from_raw_mode(status.st_mode);
    if FileType::from_raw_mode(status.st_mode) == FileType::Directory && !mode.contains(Mode::RWXU)
    {
        chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
    }
    openat(parent, name, OPEN_FOLDER, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn remove(folder: &tempfile::TempDir, name: &CStr) {
        let parent = rustix::fs::open(folder.path(), OPEN_FOLDER, Mode::empty()).unwrap();
        remove_tree(&parent, name).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut at = rustix::fs::open(folder.path(), OPEN_FOLDER, Mode::empty()).unwrap();
        for _ in 0..1000 {
            rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
            at = openat(&at, "deep", OPEN_FOLDER, Mode::empty()).unwrap();
        }
        remove(&folder, c"deep");
    }

    #[test]
    fn folders_that_nobody_may_enter_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::write(tree.join("a/b/file"), "x").unwrap();
        for path in [tree.join("a/b"), tree.join("a"), tree] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove(&folder, c"tree");
    }

    #[test]
    fn links_are_not_followed_and_our_own_names_may_be_taken() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "x").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::os::unix::fs::symlink(outside.path(), tree.join("a/link")).unwrap();
        std::fs::write(tree.join(".leasehold-removal-0"), "x").unwrap();
        remove(&folder, c"tree");
        assert!(outside.path().join("kept").exists());
    }
}
