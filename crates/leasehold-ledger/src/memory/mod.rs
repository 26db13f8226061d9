//! The ledger in memory: for simulations and tests.
//!
//! It follows the same rules as the ledger that ships and keeps the same indexes. It is
//! deterministic, and each of its futures is ready at the first poll.

mod tables;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{
    AcquireKey, Home, Lease, LeaseId, NodeId, Owner, Salvage, SandboxName, Timestamp,
};
use leasehold_ports::{
    BrakeState, Clock, EventPage, HomeAndSandbox, LeaseFilter, Ledger, LedgerError, LedgerMode,
    NodeRecord, Write,
};

use self::tables::Tables;
use crate::time::LedgerTime;

/// A ledger in memory.
#[derive(Debug)]
pub struct MemoryLedger {
    time: LedgerTime,
    tables: Arc<Mutex<Tables>>,
}

/// Everything that a [`MemoryLedger`] held at some moment.
#[derive(Clone)]
pub struct MemorySnapshot(Tables);

impl fmt::Debug for MemorySnapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("MemorySnapshot").finish()
    }
}

impl MemoryLedger {
    /// An empty ledger.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            time: LedgerTime::new(clock, Timestamp::default(), None),
            tables: Arc::new(Mutex::new(Tables::default())),
        }
    }

    /// The same ledger as another process sees it, by its own clock.
    #[must_use]
    pub fn share(&self, clock: Arc<dyn Clock>) -> Self {
        let (floor, note) = {
            let tables = self.tables();
            (tables.floor, tables.note)
        };
        Self { time: LedgerTime::new(clock, floor, note), tables: Arc::clone(&self.tables) }
    }

    /// A copy of everything that is written.
    #[must_use]
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(self.tables().clone())
    }

    /// Puts everything back as it was, its time too: what a restart on a restored copy finds. The
    /// mode is the copy's; see [`MemoryLedger::set_mode`].
    pub fn restore(&self, snapshot: &MemorySnapshot) {
        let mut tables = self.tables();
        tables.clone_from(&snapshot.0);
        self.time.reset(tables.floor, tables.note);
    }

    /// Makes [`Ledger::nodes`] report the node as proved to be dead, if it is registered.
    pub fn mark_dead(&self, node: &NodeId) {
        if let Some(record) = self.tables().nodes.get_mut(node) {
            record.proved_dead = true;
        }
    }

    /// Sets the mode, as opening a copied ledger does.
    pub fn set_mode(&self, mode: LedgerMode) {
        let mut tables = self.tables();
        if matches!(mode, LedgerMode::Restored { .. }) {
            tables.restored_at = Some(self.time.now());
        }
        tables.mode = mode;
    }

    /// The tables, whatever a panicking test thread did: a commit is undone or done under the lock.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    fn now(&self) -> Timestamp {
        self.time.now()
    }

    fn restored_at(&self) -> Option<Timestamp> {
        self.tables().restored_at
    }

    fn last_jump(&self) -> Option<Duration> {
        self.time.note().jumped_at
    }

    async fn mode(&self) -> Result<LedgerMode, LedgerError> {
        Ok(self.tables().mode.clone())
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), LedgerError> {
        let mut tables = self.tables();
        self.time.raise(tables.floor);
        tables.note = Some(self.time.note());
        tables.commit(writes, self.time.now())
    }

    async fn get(&self, lease: &LeaseId) -> Result<Option<Arc<Lease>>, LedgerError> {
        Ok(self.tables().leases.get(lease).cloned())
    }

    async fn find_key(
        &self,
        owner: &Owner,
        home: &Home,
        key: &AcquireKey,
    ) -> Result<Option<Arc<Lease>>, LedgerError> {
        Ok(self.tables().find_key(owner, home, key))
    }

    async fn find_pinned(&self, place: &HomeAndSandbox) -> Result<Vec<Arc<Lease>>, LedgerError> {
        Ok(self.tables().find_pinned(place))
    }

    async fn find_attempt(
        &self,
        home: &Home,
        name: &SandboxName,
    ) -> Result<Option<Arc<Lease>>, LedgerError> {
        Ok(self.tables().find_attempt(home, name))
    }

    async fn list(&self, filter: &LeaseFilter) -> Result<Vec<Arc<Lease>>, LedgerError> {
        Ok(self.tables().list(filter))
    }

    async fn homes(&self) -> Result<Vec<Home>, LedgerError> {
        Ok(self.tables().open_by_home.keys().cloned().collect())
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Arc<Lease>>, LedgerError> {
        Ok(self.tables().due(now, limit))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError> {
        let first = self.tables().due.first().map(|(at, _)| *at);
        Ok(first.filter(|at| *at < Timestamp::NEVER))
    }

    async fn damaged(&self) -> Result<Vec<(String, String)>, LedgerError> {
        Ok(Vec::new())
    }

    async fn salvage(&self, _lease: &LeaseId) -> Result<Option<Salvage>, LedgerError> {
        Ok(None)
    }

    async fn events(
        &self,
        lease: &LeaseId,
        after: u64,
        limit: u32,
    ) -> Result<EventPage, LedgerError> {
        Ok(self.tables().events(lease, after, limit))
    }

    async fn register_node(&self, node: &NodeId) -> Result<(), LedgerError> {
        let record = NodeRecord { node: node.clone(), started_at: self.now(), proved_dead: false };
        self.tables().nodes.insert(node.clone(), record);
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, LedgerError> {
        Ok(self.tables().nodes.values().cloned().collect())
    }

    async fn rows_of_node(&self, node: &NodeId) -> Result<Vec<Arc<Lease>>, LedgerError> {
        Ok(self.tables().rows_of_node(node))
    }

    async fn remove_node(&self, node: &NodeId) -> Result<(), LedgerError> {
        self.tables().remove_node(node)
    }

    async fn brake(&self) -> Result<BrakeState, LedgerError> {
        let now = self.now();
        Ok(self.tables().brake_state(now))
    }

    async fn release_brake(&self) -> Result<(), LedgerError> {
        self.tables().release_brake();
        Ok(())
    }

    async fn accept(&self) -> Result<(), LedgerError> {
        self.set_mode(LedgerMode::Current);
        Ok(())
    }
}
