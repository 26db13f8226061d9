//! The ledger that ships: one SQLite file in a state directory.
//!
//! One thread writes, in groups ([`writer`]); two threads read ([`readers`]). Several processes may
//! have the same ledger open. Nothing here needs a runtime: every future waits on a channel only.

mod columns;
mod directory;
mod failure;
mod identity;
mod maintenance;
mod migrations;
mod nodes;
mod open;
#[cfg(test)]
mod plans;
mod queries;
mod readers;
mod rows;
mod salvage;
mod secret;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{
    AcquireKey, Home, Lease, LeaseId, NodeId, Owner, Salvage, SandboxName, Timestamp,
};
use leasehold_ports::{
    BrakeState, Clock, EventPage, HomeAndSandbox, LeaseFilter, Ledger, LedgerError, LedgerMode,
    NodeRecord, Random, Write,
};
use rusqlite::{OptionalExtension as _, params};

use self::columns::time;
use self::failure::storage;
use self::identity::Place;
use self::nodes::NodeLocks;
use self::readers::Readers;
use self::rows::Prepared;
use self::writer::{Setup, Writer};
use crate::time::LedgerTime;

pub use self::identity::this_machine;
pub use self::maintenance::CheckReport;
pub use self::secret::InstallationSecret;

/// A ledger in a state directory.
pub struct SqliteLedger {
    directory: PathBuf,
    time: Arc<LedgerTime>,
    writer: Writer,
    readers: Readers,
    nodes: NodeLocks,
    restored_at: Option<Timestamp>,
    place: Place,
    installation: String,
    secret: InstallationSecret,
}

impl fmt::Debug for SqliteLedger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SqliteLedger")
            .field("directory", &self.directory)
            .field("installation", &self.installation)
            .finish_non_exhaustive()
    }
}

impl SqliteLedger {
    /// Opens the ledger in `directory`, which is made, private, if it is absent. Blocks for some
    /// syncs of the disk.
    ///
    /// A ledger that is behind, copied or from another machine opens in restored mode: see
    /// [`Ledger::mode`].
    ///
    /// # Errors
    /// [`LedgerError::Unsuitable`] if the place cannot keep a ledger (a network file system,
    /// read-only, writable by others), [`LedgerError::TooNew`] if a newer Leasehold wrote it, which
    /// changes nothing; [`LedgerError::Unavailable`] if it cannot be opened now.
    #[expect(clippy::needless_pass_by_value, reason = "as every port, it is handed over")]
    pub fn open(
        directory: &Path,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, LedgerError> {
        Self::open_judging(directory, clock, random.as_ref(), directory::file_system_type)
    }

    /// [`SqliteLedger::open`] with another way to tell the type of a file system (statfs(2),
    /// `f_type`), for tests.
    ///
    /// # Errors
    /// As [`SqliteLedger::open`].
    #[doc(hidden)]
    pub fn open_judging(
        directory: &Path,
        clock: Arc<dyn Clock>,
        random: &dyn Random,
        file_system_type: fn(&Path) -> io::Result<u64>,
    ) -> Result<Self, LedgerError> {
        let opened = open::open(directory, random, file_system_type)?;
        let time = Arc::new(LedgerTime::new(clock, opened.floor, opened.note));
        let writer = Writer::start(Setup {
            connection: opened.connection,
            directory: directory.to_owned(),
            time: Arc::clone(&time),
        })?;
        Ok(Self {
            time,
            writer,
            readers: Readers::of(directory.join(directory::LEDGER)),
            nodes: NodeLocks::in_directory(directory, opened.place.machine.as_deref()),
            place: opened.place,
            restored_at: opened.restored_at,
            installation: opened.installation,
            secret: opened.secret,
            directory: directory.to_owned(),
        })
    }

    /// What this installation alone knows: names of attempts and tags of fences come from it.
    #[must_use]
    pub fn secret(&self) -> &InstallationSecret {
        &self.secret
    }

    /// The format of its file: an older one was brought up to it when the ledger was opened.
    #[must_use]
    pub fn format(&self) -> u32 {
        u32::try_from(migrations::MIGRATIONS.len()).unwrap_or(u32::MAX)
    }

    /// The random id of this ledger, made once.
    #[must_use]
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// Does `work` with the writer's connection, for tests that damage rows or fill disks.
    #[doc(hidden)]
    #[cfg(feature = "suite")]
    pub async fn with_connection<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut rusqlite::Connection) -> T + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.writer.alone(move |connection| Ok(work(connection))).await
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    fn now(&self) -> Timestamp {
        self.time.now()
    }

    fn restored_at(&self) -> Option<Timestamp> {
        self.restored_at
    }

    fn last_jump(&self) -> Option<Duration> {
        self.time.note().jumped_at
    }

    async fn mode(&self) -> Result<LedgerMode, LedgerError> {
        self.readers.read(queries::mode).await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), LedgerError> {
        let entries = writes.into_iter().map(Prepared::new).collect::<Result<_, _>>()?;
        self.writer.commit(entries).await
    }

    async fn get(&self, lease: &LeaseId) -> Result<Option<Arc<Lease>>, LedgerError> {
        let lease = lease.clone();
        self.readers.read(move |connection| queries::get(connection, &lease)).await
    }

    async fn find_key(
        &self,
        owner: &Owner,
        home: &Home,
        key: &AcquireKey,
    ) -> Result<Option<Arc<Lease>>, LedgerError> {
        let (owner, home, key) = (owner.clone(), home.clone(), key.clone());
        self.readers
            .read(move |connection| queries::find_key(connection, &owner, &home, &key))
            .await
    }

    async fn find_pinned(&self, place: &HomeAndSandbox) -> Result<Vec<Arc<Lease>>, LedgerError> {
        let place = place.clone();
        self.readers.read(move |connection| queries::find_pinned(connection, &place)).await
    }

    async fn find_attempt(
        &self,
        home: &Home,
        name: &SandboxName,
    ) -> Result<Option<Arc<Lease>>, LedgerError> {
        let (home, name) = (home.clone(), name.clone());
        self.readers.read(move |connection| queries::find_attempt(connection, &home, &name)).await
    }

    async fn list(&self, filter: &LeaseFilter) -> Result<Vec<Arc<Lease>>, LedgerError> {
        let filter = filter.clone();
        self.readers.read(move |connection| queries::list(connection, &filter)).await
    }

    async fn homes(&self) -> Result<Vec<Home>, LedgerError> {
        self.readers.read(queries::homes).await
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.readers.read(move |connection| queries::due(connection, now, limit)).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError> {
        self.readers.read(queries::next_due).await
    }

    async fn damaged(&self) -> Result<Vec<(String, String)>, LedgerError> {
        let mut damaged = Vec::new();
        let mut after = Some(0);
        while let Some(row) = after {
            let (found, last) = self
                .readers
                .read(move |connection| queries::damaged_after(connection, row))
                .await?;
            damaged.extend(found.into_iter().map(|damage| (damage.lease, damage.problem)));
            after = last;
        }
        Ok(damaged)
    }

    async fn salvage(&self, lease: &LeaseId) -> Result<Option<Salvage>, LedgerError> {
        let lease = lease.clone();
        self.readers.read(move |connection| salvage::salvage(connection, &lease)).await
    }

    async fn events(
        &self,
        lease: &LeaseId,
        after: u64,
        limit: u32,
    ) -> Result<EventPage, LedgerError> {
        let lease = lease.clone();
        self.readers.read(move |connection| queries::events(connection, &lease, after, limit)).await
    }

    async fn register_node(&self, node: &NodeId) -> Result<(), LedgerError> {
        let (locks, locked) = (self.nodes.clone(), node.clone());
        // First the lock, then the row: a row whose lock is free is a dead node's.
        self.readers.read(move |_| locks.hold(&locked)).await?;
        let (boot, machine) = (self.nodes.boot(), self.nodes.machine());
        let node = node.clone();
        self.writer
            .change(Box::new(move |rows, now| {
                rows.connection()
                    .execute(
                        "INSERT OR REPLACE INTO nodes (node, started_at, boot, machine) \
                         VALUES (?1, ?2, ?3, ?4)",
                        params![node.as_str(), time(now), boot, machine],
                    )
                    .map(drop)
                    .map_err(storage)
            }))
            .await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, LedgerError> {
        let locks = self.nodes.clone();
        self.readers
            .read(move |connection| {
                let rows = queries::nodes(connection)?;
                Ok(rows
                    .into_iter()
                    .filter_map(|row| {
                        Some(NodeRecord {
                            node: NodeId::new(row.node.as_str()).ok()?,
                            started_at: row.started_at,
                            proved_dead: locks.proves_dead(&row),
                        })
                    })
                    .collect())
            })
            .await
    }

    async fn rows_of_node(&self, node: &NodeId) -> Result<Vec<Arc<Lease>>, LedgerError> {
        let node = node.clone();
        self.readers.read(move |connection| queries::rows_of_node(connection, &node)).await
    }

    async fn remove_node(&self, node: &NodeId) -> Result<(), LedgerError> {
        let removed = node.clone();
        self.writer
            .change(Box::new(move |rows, _| {
                let named: Option<String> = rows
                    .connection()
                    .query_row(
                        "SELECT id FROM lease_nodes JOIN leases USING (lease) WHERE node = ?1",
                        [removed.as_str()],
                        |row| row.get(0),
                    )
                    .optional()
                    .map_err(storage)?;
                if let Some(lease) = named {
                    return Err(LeaseId::new(lease.as_str()).map_or_else(
                        |error| LedgerError::Damaged { lease, problem: error.to_string() },
                        |lease| LedgerError::Conflict { lease },
                    ));
                }
                rows.connection()
                    .execute("DELETE FROM nodes WHERE node = ?1", [removed.as_str()])
                    .map(drop)
                    .map_err(storage)
            }))
            .await?;
        let (locks, node) = (self.nodes.clone(), node.clone());
        self.readers.read(move |_| locks.remove(&node)).await
    }

    async fn brake(&self) -> Result<BrakeState, LedgerError> {
        let now = self.now();
        self.readers.read(move |connection| queries::brake(connection, now)).await
    }

    async fn release_brake(&self) -> Result<(), LedgerError> {
        self.writer
            .change(Box::new(|rows, _| {
                rows.connection()
                    .execute_batch("DELETE FROM removals; UPDATE ledger SET brake_on = 0")
                    .map_err(storage)
            }))
            .await
    }

    async fn accept(&self) -> Result<(), LedgerError> {
        let (directory, place) = (self.directory.clone(), self.place.clone());
        let digest = secret::digest(&self.secret);
        self.writer
            .alone(move |connection| open::accept(connection, &directory, &place, &digest))
            .await
    }
}
