//! The format of the file, and how an older one is brought up to it.
//!
//! The format is the number of migrations that were run, kept as SQLite's user version. A file of a
//! newer format is not touched. Before an older one is changed it is copied, beside itself.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use leasehold_ports::LedgerError;
use rusqlite::Connection;

use super::directory::sync_directory;
use super::failure::{file, storage, unsuitable};

/// Marks the file as ours: `LSHD`.
pub(super) const APPLICATION: i32 = i32::from_be_bytes(*b"LSHD");

/// Every step from an empty file to the present format, in order. What was released never changes.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_leases.sql"),
    include_str!("../../migrations/0002_clock.sql"),
    include_str!("../../migrations/0003_births.sql"),
    include_str!("../../migrations/0004_events.sql"),
];

/// Where SQLite keeps the user version and the application id in the first bytes of a file.
const HEADER: usize = 72;
const USER_VERSION: usize = 60;
const APPLICATION_ID: usize = 68;

/// Refuses a file that is newer or not ours, by its first bytes: opening it could already change
/// what lies beside it.
pub(super) fn check_header(path: &Path, known: u32) -> Result<(), LedgerError> {
    let mut header = [0; HEADER];
    match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => {}
        // Not there yet, or made by a process that died before it wrote anything.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) =>
        {
            return Ok(());
        }
        Err(error) => return Err(file(path, "reading", error)),
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(unsuitable(path, "the file is not a ledger"));
    }
    let number = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&header[at..at + 4]);
        i32::from_be_bytes(bytes)
    };
    check_format(path, number(APPLICATION_ID), number(USER_VERSION), known)
}

fn check_format(path: &Path, application: i32, format: i32, known: u32) -> Result<(), LedgerError> {
    if application != APPLICATION && (application != 0 || format != 0) {
        return Err(unsuitable(path, "the file belongs to another application"));
    }
    match u32::try_from(format) {
        Ok(found) if found <= known => Ok(()),
        Ok(found) => Err(LedgerError::TooNew { found, known }),
        Err(_) => Err(unsuitable(path, "the file has no format of a ledger")),
    }
}

/// Brings the file up to the format of `migrations`, and says where the copy of the older one is.
///
/// Each migration is one transaction with its number, so that a crash leaves a whole format.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<Option<PathBuf>, LedgerError> {
    let known = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
    let pragma =
        |name| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i32>(0));
    let application = pragma("application_id").map_err(storage)?;
    let format = pragma("user_version").map_err(storage)?;
    // Once more: the newest header may still be in the write-ahead log.
    check_format(path, application, format, known)?;
    let format = usize::try_from(format).unwrap_or(0);
    if format == migrations.len() {
        return Ok(None);
    }
    let backup = if format == 0 { None } else { Some(back_up(connection, path, format)?) };
    for (number, migration) in migrations.iter().enumerate().skip(format) {
        run(connection, number + 1, migration).map_err(storage)?;
    }
    // Into the file itself, whose first bytes an older Leasehold looks at.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(storage)?;
    Ok(backup)
}

fn run(connection: &mut Connection, number: usize, migration: &str) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let format: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    if format >= number {
        // Another process was faster.
        return Ok(());
    }
    transaction.execute_batch(migration)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", number)?;
    transaction.commit()
}

/// Copies the ledger beside itself. A copy of the same format from an interrupted upgrade is as
/// good, and stays.
fn back_up(connection: &Connection, path: &Path, format: usize) -> Result<PathBuf, LedgerError> {
    let target = path.with_extension(format!("format-{format}.sqlite"));
    if !target.exists() {
        copy(connection, &target, |_| Ok(()))?;
    }
    Ok(target)
}

/// Writes a whole and consistent copy of the ledger to `target`, durably, after `finish` has had it.
pub(super) fn copy(
    connection: &Connection,
    target: &Path,
    finish: impl FnOnce(&Connection) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let draft = target.with_extension("new");
    let failed = |error| file(target, "writing", error);
    match std::fs::remove_file(&draft) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    // An empty file is a valid target, and this one is private from the beginning.
    File::options().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    let text = draft.to_str().ok_or_else(|| unsuitable(target, "its path is not UTF-8"))?;
    connection.execute("VACUUM INTO ?1", [text]).map_err(storage)?;
    let copied = Connection::open(&draft).map_err(storage)?;
    finish(&copied)?;
    copied.close().map_err(|(_, error)| storage(error))?;
    File::open(&draft).and_then(|draft| draft.sync_all()).map_err(failed)?;
    std::fs::rename(&draft, target).map_err(failed)?;
    match target.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => sync_directory(directory),
        _ => sync_directory(Path::new(".")),
    }
    .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "CREATE TABLE rows (body TEXT NOT NULL) STRICT";
    const SECOND: &str = "ALTER TABLE rows ADD COLUMN length INTEGER NOT NULL DEFAULT 0; \
         UPDATE rows SET length = length(body)";
    const BROKEN: &str = "UPDATE rows SET length = 7; UPDATE nothing SET a = 1";

    fn format(connection: &Connection) -> i64 {
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    }

    /// A ledger of the first format with one row, as an older program left it.
    fn older(directory: &Path) -> (Connection, PathBuf) {
        let path = directory.join("ledger.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        assert_eq!(migrate(&mut connection, &path, &[FIRST]).unwrap(), None, "nothing to copy");
        connection.execute("INSERT INTO rows VALUES ('four')", []).unwrap();
        (connection, path)
    }

    #[test]
    fn an_older_format_is_copied_and_then_brought_up() {
        let directory = tempfile::tempdir().unwrap();
        let (mut connection, path) = older(directory.path());
        let backup = migrate(&mut connection, &path, &[FIRST, SECOND]).unwrap().unwrap();
        let length: i64 =
            connection.query_row("SELECT length FROM rows", [], |row| row.get(0)).unwrap();
        assert_eq!((length, format(&connection)), (4, 2));
        check_header(&path, 2).unwrap();

        let kept = Connection::open(&backup).unwrap();
        let body: String = kept.query_row("SELECT body FROM rows", [], |row| row.get(0)).unwrap();
        assert_eq!((body.as_str(), format(&kept)), ("four", 1));
        assert_eq!(migrate(&mut connection, &path, &[FIRST, SECOND]).unwrap(), None);
    }

    #[test]
    fn a_failed_step_leaves_the_format_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let (mut connection, path) = older(directory.path());
        migrate(&mut connection, &path, &[FIRST, SECOND, BROKEN]).unwrap_err();
        let length: i64 =
            connection.query_row("SELECT length FROM rows", [], |row| row.get(0)).unwrap();
        assert_eq!((length, format(&connection)), (4, 2));
        // And the mended program goes on from there.
        migrate(&mut connection, &path, &[FIRST, SECOND, "UPDATE rows SET length = 7"]).unwrap();
        assert_eq!(format(&connection), 3);
    }

    #[test]
    fn a_newer_format_is_refused_by_its_first_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let (mut connection, path) = older(directory.path());
        migrate(&mut connection, &path, &[FIRST, SECOND]).unwrap();
        let refusal = check_header(&path, 1).unwrap_err();
        assert!(matches!(refusal, LedgerError::TooNew { found: 2, known: 1 }), "{refusal}");
    }
}
