//! A tree in place of another: all of it or nothing.

use crate::error::{ArchiveError, Refusal, failed, refused, shown};
use crate::handle::{Root, TRIES};
use crate::options::UnpackOptions;
use crate::slot::{TreeSlot, clean_leftovers, rename_if_free};
use crate::summary::{NoticeReason, Summary};
use crate::unpack::unpack_tree;
use crate::watch::Watch;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

/// Unpacks a tar stream into a new directory that then takes the place of `name` in `root`.
///
/// The new tree is made under a temporary name beside `name`, so on the same file system, and exchanged
/// with the old one in one step (`renameat2` with `RENAME_EXCHANGE`): whoever looks sees the whole old
/// tree or the whole new one. The old one (a file or a link, if it is that) is removed afterwards. A
/// failure, a cancellation or a kill leaves the old tree as it was; what a killed run leaves is called
/// `.leasehold-archive.` and a number, and the next run in `root` removes it.
///
/// The new directory has the mode and time of the archive's entry for the root (`./`), or mode 0o755 if
/// there is none.
///
/// On a file system without exchange (some network and FUSE file systems) the old tree is first moved
/// aside, and then the new one to its name. In between nothing has the name; a run that is killed there
/// leaves both trees whole, and the next run puts the old one back.
///
/// # Errors
/// As [`unpack_into`](crate::unpack_into); also [`ArchiveError::Refused`] if `name` is not a single
/// component, and [`ArchiveError::Busy`] when 16 runs are under way in `root`. After an error the old
/// tree is in place. If only the removal of the old tree failed, that is no error but a notice.
pub fn unpack_replacing(
    root: &Root,
    name: impl AsRef<OsStr>,
    input: impl Read,
    options: &UnpackOptions,
    watch: &mut Watch<'_>,
) -> Result<Summary, ArchiveError> {
    let name = single(name.as_ref().as_bytes())?;
    // What could not be cleaned is in nobody's way, and keeps its slot.
    let _ = clean_leftovers(root);
    let directory = root.handle();
    let slot = TreeSlot::take(directory)?;
    let replaced = unpack_tree(slot.root(), input, options, watch, true).and_then(|summary| {
        if options.durable {
            rustix::fs::syncfs(slot.root()).map_err(|error| failed("sync", name, error))?;
        }
        swap(directory, &slot, name)?;
        Ok(summary)
    });
    let slot_name = slot.name();
    let cleaned = slot.clean(directory);
    let mut summary = replaced?;
    if options.durable {
        rustix::fs::fsync(directory).map_err(|error| failed("sync", b".", error))?;
    }
    if cleaned.is_err() {
        summary.notice(&slot_name, NoticeReason::OldTreeRemains);
    }
    Ok(summary)
}

/// A name that is one component.
fn single(name: &[u8]) -> Result<&[u8], ArchiveError> {
    match name {
        b"" | b"." => Err(refused(name, Refusal::EmptyName)),
        b".." => Err(refused(name, Refusal::ParentComponent)),
        _ if name.contains(&0) => Err(refused(name, Refusal::ZeroByte)),
        _ if name.contains(&b'/') => Err(refused(name, Refusal::NotADirectory)),
        _ => Ok(name),
    }
}

fn swap(directory: BorrowedFd<'_>, slot: &TreeSlot, name: &[u8]) -> Result<(), ArchiveError> {
    let from = slot.name();
    for _ in 0..TRIES {
        let flags = RenameFlags::EXCHANGE;
        match rustix::fs::renameat_with(directory, &from[..], directory, name, flags) {
            Ok(()) => return Ok(()),
            // Nothing there to exchange with.
            Err(Errno::NOENT) => match rename_if_free(directory, &from, name) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                Err(error) => return Err(failed("replace", name, error)),
            },
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                move_aside(directory, slot, name)
                    .map_err(|error| failed("replace", name, error))?;
                return move_in(directory, slot, name);
            }
            Err(error) => return Err(failed("replace", name, error)),
        }
    }
    Err(ArchiveError::Contended { path: shown(name) })
}

/// First half of a replacement without exchange.
fn move_aside(directory: BorrowedFd<'_>, slot: &TreeSlot, name: &[u8]) -> Result<(), Errno> {
    // What the next run needs to put it back.
    slot.note(directory, name)?;
    match rename_if_free(directory, name, &slot.aside()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Second half; undoes the first one if it fails.
fn move_in(directory: BorrowedFd<'_>, slot: &TreeSlot, name: &[u8]) -> Result<(), ArchiveError> {
    rename_if_free(directory, &slot.name(), name).map_err(|error| {
        // If this fails too, somebody has put something else there: the next run cleans up.
        let _ = rename_if_free(directory, &slot.aside(), name);
        failed("replace", name, error)
    })
}

#[cfg(test)]
mod tests {
    use super::{clean_leftovers, move_aside, move_in};
    use crate::handle::Root;
    use crate::slot::TreeSlot;
    use std::fs;

    /// An old tree at `name`, and a new one in a slot.
    fn prepared() -> (tempfile::TempDir, Root, TreeSlot) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("name")).unwrap();
        fs::write(place.path().join("name/which"), "old").unwrap();
        let root = Root::open(place.path()).unwrap();
        let slot = TreeSlot::take(root.handle()).unwrap();
        fs::write(place.path().join(".leasehold-archive.00/which"), "new").unwrap();
        (place, root, slot)
    }

    fn names(place: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(place.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn without_exchange_the_new_tree_takes_the_name_by_two_renames() {
        let (place, root, slot) = prepared();
        move_aside(root.handle(), &slot, b"name").unwrap();
        move_in(root.handle(), &slot, b"name").unwrap();
        slot.clean(root.handle()).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("name/which")).unwrap(), "new");
        assert_eq!(names(&place), ["name"]);
    }

    #[test]
    fn a_run_that_dies_between_the_two_renames_loses_nothing() {
        let (place, root, slot) = prepared();
        move_aside(root.handle(), &slot, b"name").unwrap();
        // While it lives, nobody touches what it has.
        clean_leftovers(&root).unwrap();
        assert!(place.path().join(".leasehold-archive.00.aside/which").exists());
        drop(slot);
        clean_leftovers(&root).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("name/which")).unwrap(), "old");
        assert_eq!(names(&place), ["name"]);
    }

    #[test]
    fn a_run_that_dies_after_the_second_rename_has_replaced() {
        let (place, root, slot) = prepared();
        move_aside(root.handle(), &slot, b"name").unwrap();
        move_in(root.handle(), &slot, b"name").unwrap();
        drop(slot);
        clean_leftovers(&root).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("name/which")).unwrap(), "new");
        assert_eq!(names(&place), ["name"]);
    }
}
