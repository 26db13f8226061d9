//! The state directory: made private, and refused where a ledger would not be safe.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use leasehold_ports::LedgerError;

use super::failure::{file, unsuitable};

/// The ledger itself, in its state directory.
pub(super) const LEDGER: &str = "ledger.sqlite";

/// Tells the type of the file system of a directory, as statfs(2) does in `f_type`.
pub(super) type FileSystemType = fn(&Path) -> io::Result<u64>;

/// What statfs(2) says of file systems whose locks or syncs cannot be relied on, or that several
/// machines can mount at once: each is a way to two keepers with one ledger.
const UNSUITABLE_FILE_SYSTEMS: [(u64, &str); 15] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB 2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0x4750_4653, "GPFS"),
];

/// The type of the file system that holds `path`.
pub(super) fn file_system_type(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statfs(path)?;
    // Some architectures have it signed; the known numbers are 32 bits wide.
    #[expect(clippy::cast_sign_loss, reason = "only the low 32 bits mean something")]
    Ok(found.f_type as u64 & 0xffff_ffff)
}

/// Makes `directory` if it is absent, and sees that it can keep a ledger.
pub(super) fn prepare(
    directory: &Path,
    file_system_type: FileSystemType,
) -> Result<(), LedgerError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| match error
        .kind()
    {
        io::ErrorKind::AlreadyExists => unsuitable(directory, "it is not a directory"),
        io::ErrorKind::ReadOnlyFilesystem => unsuitable(directory, "it is read-only"),
        io::ErrorKind::PermissionDenied => unsuitable(directory, "it may not be made"),
        _ => file(directory, "making", error),
    })?;
    let found = file_system_type(directory)
        .map_err(|error| file(directory, "looking at the file system of", error))?;
    if let Some((_, name)) = UNSUITABLE_FILE_SYSTEMS.iter().find(|(number, _)| *number == found) {
        return Err(unsuitable(
            directory,
            format!(
                "it is on {name}, where locks and syncs of several machines cannot be relied on; \
                 name a local directory with --state-dir or LEASEHOLD_STATE_DIR"
            ),
        ));
    }
    make_private(directory)?;
    check_writable(directory)
}

/// Takes the rights of others off a directory that is ours alone. Another one is refused if others
/// may write to it: they could put their own ledger there. It is never changed, since it may be
/// `/tmp`.
fn make_private(directory: &Path) -> Result<(), LedgerError> {
    let look = |error| file(directory, "looking at", error);
    let metadata = fs::metadata(directory).map_err(look)?;
    if metadata.mode() & 0o077 == 0 {
        return Ok(());
    }
    let empty = fs::read_dir(directory).map_err(look)?.next().is_none();
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if ours && (empty || directory.join(LEDGER).exists()) {
        return fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
            .map_err(|error| file(directory, "taking the rights of others off", error));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(unsuitable(directory, "others may write to it; name a directory of its own"));
    }
    Ok(())
}

fn check_writable(directory: &Path) -> Result<(), LedgerError> {
    use rustix::fs::{Access, AtFlags, CWD};
    let access = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::accessat(CWD, directory, access, AtFlags::EACCESS) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::ROFS | rustix::io::Errno::ACCESS) => {
            Err(unsuitable(directory, "it is read-only"))
        }
        Err(error) => Err(file(directory, "looking at", error.into())),
    }
}

/// Writes a whole file so that after a power cut either the old content is there or the new one.
pub(super) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut target =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    target.write_all(content)?;
    target.sync_all()?;
    fs::rename(&draft, path)?;
    match path.parent() {
        Some(directory) => sync_directory(directory),
        None => Ok(()),
    }
}

/// Makes names that were added to or taken from the directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_file_system_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        for (number, name) in UNSUITABLE_FILE_SYSTEMS {
            // A function pointer carries no number, so each is checked by the table's own search.
            assert!(UNSUITABLE_FILE_SYSTEMS.iter().any(|(known, _)| *known == number), "{name}");
        }
        let refusal = prepare(directory.path(), |_| Ok(0x6969)).unwrap_err();
        assert!(matches!(refusal, LedgerError::Unsuitable { .. }));
        assert!(refusal.to_string().contains("NFS"), "{refusal}");
    }

    #[test]
    fn a_new_directory_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a").join("state");
        prepare(&directory, file_system_type).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_empty_directory_becomes_private() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        prepare(directory.path(), file_system_type).unwrap();
        assert_eq!(fs::metadata(directory.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_shared_directory_is_refused_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        File::create(directory.path().join("somebody's")).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let refusal = prepare(directory.path(), file_system_type).unwrap_err();
        assert!(refusal.to_string().contains("others may write"), "{refusal}");
        assert_eq!(fs::metadata(directory.path()).unwrap().mode() & 0o7777, 0o1777);
    }

    #[test]
    fn a_file_is_no_directory() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("file");
        File::create(&path).unwrap();
        let refusal = prepare(&path, file_system_type).unwrap_err();
        assert!(matches!(refusal, LedgerError::Unsuitable { .. }), "{refusal}");
    }
}
