//! Opening the ledger: the place, the file, its format, its identity.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use leasehold_core::Timestamp;
use leasehold_ports::{LedgerError, Random};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::columns::{integer, number, timestamp};
use super::directory::{self, FileSystemType, LEDGER};
use super::failure::{file, storage, unsuitable};
use super::identity::{self, Beside, Identity, Place};
use super::migrations::{self, MIGRATIONS};
use super::nodes;
use super::secret::{self, InstallationSecret};
use crate::time::ClockNote;

/// An open ledger.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) secret: InstallationSecret,
    pub(super) installation: String,
    pub(super) place: Place,
    pub(super) floor: Timestamp,
    pub(super) note: Option<ClockNote>,
    pub(super) restored_at: Option<Timestamp>,
}

/// Opens the ledger in `directory`, made if absent.
pub(super) fn open(
    directory: &Path,
    random: &dyn Random,
    file_system_type: FileSystemType,
) -> Result<Opened, LedgerError> {
    directory::prepare(directory, file_system_type)?;
    let opening = lock(directory)?;
    let path = directory.join(LEDGER);
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    migrations::check_header(&path, known)?;
    let mut connection = connect(&path)?;
    if let Some(backup) = migrations::migrate(&mut connection, &path, MIGRATIONS)? {
        tracing::info!(backup = %backup.display(), "the ledger was brought to the present format");
    }
    let place = Place::of(directory)?;
    let secret = secret::read_or_make(directory, random)?;
    let identity = identify(&mut connection, directory, &place, &secret, random)?;
    drop(opening);
    let (floor, restored_at): (i64, Option<i64>) = connection
        .query_row("SELECT time_floor, restored_at FROM ledger", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .map_err(storage)?;
    let (floor, restored_at) = (timestamp(floor), restored_at.map(timestamp));
    let note = clock_note(&connection)?;
    Ok(Opened {
        connection,
        secret,
        installation: identity.installation,
        place,
        floor,
        note,
        restored_at,
    })
}

/// What the last writer saw of the clocks, if that was on this boot.
fn clock_note(connection: &Connection) -> Result<Option<ClockNote>, LedgerError> {
    type Row = (Option<String>, Option<i64>, Option<i64>, Option<i64>);
    let (boot, wall, monotonic, jumped_at): Row = connection
        .query_row(
            "SELECT clock_boot, clock_wall, clock_monotonic, clock_jumped_at FROM ledger",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .map_err(storage)?;
    let duration = |millis| Duration::from_millis(number(millis));
    Ok(match (boot, wall, monotonic) {
        (Some(boot), Some(wall), Some(monotonic)) if !boot.is_empty() && boot == nodes::boot() => {
            Some(ClockNote {
                wall: timestamp(wall),
                monotonic: duration(monotonic),
                jumped_at: jumped_at.map(duration),
            })
        }
        _ => None,
    })
}

/// One opening at a time, and no writing of the file beside the ledger meanwhile. Held for some
/// milliseconds; it ends with its process.
pub(super) fn lock(directory: &Path) -> Result<File, LedgerError> {
    let path = directory.join("ledger.lock");
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            unsuitable(directory, "it is read-only")
        }
        _ => file(&path, "locking", error),
    };
    let lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    lock.lock().map_err(failed)?;
    Ok(lock)
}

/// The writer's connection.
fn connect(path: &Path) -> Result<Connection, LedgerError> {
    // Private from the beginning; SQLite gives its other files the same mode.
    File::options().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(
        |error| match error.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                unsuitable(path, "it is read-only")
            }
            _ => file(path, "opening", error),
        },
    )?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(storage)?;
    set_up(&mut connection)?;
    if connection.is_readonly(rusqlite::MAIN_DB).map_err(storage)? {
        return Err(unsuitable(path, "it is read-only"));
    }
    let journal: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(storage)?;
    if journal != "wal" {
        return Err(unsuitable(path, "its file system allows no write-ahead log"));
    }
    Ok(connection)
}

/// What holds for every connection. That writes are synced in full is checked, not believed.
pub(super) fn set_up(connection: &mut Connection) -> Result<(), LedgerError> {
    connection.busy_handler(Some(wait_for_turn)).map_err(storage)?;
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA temp_store = MEMORY;
             PRAGMA trusted_schema = OFF;
             PRAGMA cache_size = -8192;
             PRAGMA journal_size_limit = 67108864;",
        )
        .map_err(storage)?;
    for option in [
        // A process that ends need not wait for a checkpoint: the next writer makes it.
        DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
        // A plan does not depend on the values that are bound; otherwise SQLite makes a new one
        // whenever they change, which costs more than running it.
        DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG,
    ] {
        connection.set_db_config(option, true).map_err(storage)?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    let synchronous: i64 =
        connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(storage)?;
    if synchronous != 2 {
        return Err(LedgerError::Unavailable {
            problem: "SQLite does not sync each transaction".to_owned(),
            source: None,
        });
    }
    Ok(())
}

/// Waits for another process to finish its transaction: some milliseconds, so the first looks are
/// close together. SQLite's own handler waits up to 100 ms at a time, and would often come last.
fn wait_for_turn(looks: i32) -> bool {
    const CLOSE: i32 = 200;
    const LONGEST: i32 = CLOSE + 10_000;
    let pause = if looks < CLOSE { Duration::from_micros(100) } else { Duration::from_millis(1) };
    #[expect(
        clippy::disallowed_methods,
        reason = "the ledger's own thread waits, not a runtime's"
    )]
    thread::sleep(pause);
    looks < LONGEST
}

/// Reads who the ledger is, or makes it somebody; decides its mode; counts the opening.
fn identify(
    connection: &mut Connection,
    directory: &Path,
    place: &Place,
    secret: &InstallationSecret,
    random: &dyn Random,
) -> Result<Identity, LedgerError> {
    let secret_digest = secret::digest(secret);
    let beside = identity::read(directory)?;
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(storage)?;
    let mut ledger = match read_identity(&transaction)? {
        Some(ledger) => ledger,
        None => make_identity(&transaction, place, &secret_digest, random)?,
    };
    let empty = transaction
        .query_row("SELECT NOT EXISTS (SELECT 1 FROM leases)", [], |row| row.get(0))
        .map_err(storage)?;
    ledger.restored = identity::judge(&ledger, beside.as_ref(), place, &secret_digest, empty);
    match &ledger.restored {
        Some(why) => {
            tracing::warn!(why, "the ledger is in restored mode until `leasehold ledger accept`");
            transaction
                .execute(
                    "UPDATE ledger SET restored_at = CASE WHEN restored IS NULL THEN time_floor \
                     ELSE coalesce(restored_at, time_floor) END, restored = ?1",
                    [why],
                )
                .map_err(storage)?;
        }
        None => {
            ledger.generation += 1;
            transaction
                .execute("UPDATE ledger SET generation = ?1", [integer(ledger.generation)])
                .map_err(storage)?;
        }
    }
    transaction.commit().map_err(storage)?;
    if ledger.restored.is_none() {
        // After the ledger, so that a crash between them leaves the file behind, which is harmless.
        identity::write(
            directory,
            Beside {
                installation: ledger.installation.clone(),
                generation: ledger.generation,
                commits: ledger.commits,
            },
        )?;
    }
    Ok(ledger)
}

fn read_identity(connection: &Connection) -> Result<Option<Identity>, LedgerError> {
    connection
        .query_row(
            "SELECT installation, secret_digest, machine, directory, generation, commits, restored \
             FROM ledger",
            [],
            |row| {
                Ok(Identity {
                    installation: row.get(0)?,
                    secret_digest: row.get(1)?,
                    place: Place { machine: row.get(2)?, directory: row.get(3)? },
                    generation: number(row.get(4)?),
                    commits: number(row.get(5)?),
                    restored: row.get(6)?,
                })
            },
        )
        .optional()
        .map_err(storage)
}

fn make_identity(
    connection: &Connection,
    place: &Place,
    secret_digest: &str,
    random: &dyn Random,
) -> Result<Identity, LedgerError> {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    let identity = Identity {
        installation: data_encoding::HEXLOWER.encode(&bytes),
        secret_digest: secret_digest.to_owned(),
        place: place.clone(),
        generation: 0,
        commits: 0,
        restored: None,
    };
    connection
        .execute(
            "INSERT INTO ledger (only, installation, secret_digest, machine, directory, \
             generation, commits, time_floor) VALUES (1, ?1, ?2, ?3, ?4, 0, 0, 0)",
            params![identity.installation, secret_digest, place.machine, place.directory],
        )
        .map_err(storage)?;
    Ok(identity)
}

/// Makes the ledger the one that belongs here, by an operator.
pub(super) fn accept(
    connection: &mut Connection,
    directory: &Path,
    place: &Place,
    secret_digest: &str,
) -> Result<(), LedgerError> {
    {
        let opening = lock(directory)?;
        let beside = identity::read(directory)?;
        let (generation, commits) =
            beside.map_or((0, 0), |beside| (beside.generation, beside.commits));
        let transaction = connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(storage)?;
        transaction
            .execute(
                "UPDATE ledger SET restored = NULL, machine = ?1, directory = ?2, \
                 secret_digest = ?3, generation = max(generation, ?4) + 1, \
                 commits = max(commits, ?5) + 1",
                params![
                    place.machine,
                    place.directory,
                    secret_digest,
                    integer(generation),
                    integer(commits)
                ],
            )
            .map_err(storage)?;
        transaction.commit().map_err(storage)?;
        drop(opening);
    }
    super::writer::write_mark(connection, directory)
}
