//! The ledger of one node, which can stop or fail the commit of a row in a chosen state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use leasehold_core::{
    AcquireKey, Home, Lease, LeaseId, NodeId, Owner, Salvage, SandboxName, State, Timestamp,
};
use leasehold_ports::{
    BrakeState, EventPage, HomeAndSandbox, LeaseFilter, Ledger, LedgerError, LedgerMode,
    NodeRecord, Write,
};

use super::behind::Behind;
use super::stop::Hold;

/// How a commit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitFault {
    /// Not written: the disk is full, a constraint refuses it.
    Unavailable,
    /// Written, and the answer says that the ledger cannot be used.
    LostAnswer,
}

enum Event {
    Hold(Hold),
    Fail(CommitFault),
}

pub(super) struct StoppableLedger {
    inner: Arc<dyn Ledger>,
    planned: Mutex<Vec<(State, Event)>>,
    behind: Mutex<Behind>,
}

impl StoppableLedger {
    pub(super) fn new(inner: Arc<dyn Ledger>) -> Self {
        Self { inner, planned: Mutex::default(), behind: Mutex::default() }
    }

    pub(super) fn hold_commit(&self, of: State) -> Hold {
        let hold = Hold::new();
        self.planned().push((of, Event::Hold(hold.clone())));
        hold
    }

    pub(super) fn fail_commit(&self, of: State, fault: CommitFault) {
        self.planned().push((of, Event::Fail(fault)));
    }

    pub(super) fn fall_behind(&self, reads: u32) {
        self.behind().fall(reads);
    }

    fn behind(&self) -> MutexGuard<'_, Behind> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, writes: &[Write]) -> Option<Event> {
        let state = match writes.first()? {
            Write::Insert { lease, .. }
            | Write::Update { lease, .. }
            | Write::InsertDebt { lease, .. } => lease.state,
        };
        let mut planned = self.planned();
        let found = planned.iter().position(|(of, _)| *of == state)?;
        Some(planned.remove(found).1)
    }

    fn planned(&self) -> MutexGuard<'_, Vec<(State, Event)>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for StoppableLedger {
    async fn commit(&self, writes: Vec<Write>) -> Result<(), LedgerError> {
        let unavailable =
            || LedgerError::Unavailable { problem: "the disk is full".to_owned(), source: None };
        match self.take(&writes) {
            None => self.inner.commit(writes).await,
            Some(Event::Hold(hold)) => {
                hold.stop_here().await;
                self.inner.commit(writes).await
            }
            Some(Event::Fail(CommitFault::Unavailable)) => Err(unavailable()),
            Some(Event::Fail(CommitFault::LostAnswer)) => {
                self.inner.commit(writes).await.and(Err(unavailable()))
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn restored_at(&self) -> Option<Timestamp> {
        self.inner.restored_at()
    }

    fn last_jump(&self) -> Option<std::time::Duration> {
        self.inner.last_jump()
    }

    async fn mode(&self) -> Result<LedgerMode, LedgerError> {
        self.inner.mode().await
    }

    async fn get(&self, lease: &LeaseId) -> Result<Option<Arc<Lease>>, LedgerError> {
        let truth = self.inner.get(lease).await?;
        Ok(self.behind().row(lease, truth))
    }

    async fn find_key(
        &self,
        owner: &Owner,
        home: &Home,
        key: &AcquireKey,
    ) -> Result<Option<Arc<Lease>>, LedgerError> {
        let truth = self.inner.find_key(owner, home, key).await?;
        Ok(self.behind().key(key, truth))
    }

    async fn find_pinned(&self, place: &HomeAndSandbox) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.inner.find_pinned(place).await
    }

    async fn find_attempt(
        &self,
        home: &Home,
        name: &SandboxName,
    ) -> Result<Option<Arc<Lease>>, LedgerError> {
        self.inner.find_attempt(home, name).await
    }

    async fn list(&self, filter: &LeaseFilter) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.inner.list(filter).await
    }

    async fn homes(&self) -> Result<Vec<Home>, LedgerError> {
        self.inner.homes().await
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.inner.due(now, limit).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError> {
        self.inner.next_due().await
    }

    async fn damaged(&self) -> Result<Vec<(String, String)>, LedgerError> {
        self.inner.damaged().await
    }

    async fn salvage(&self, lease: &LeaseId) -> Result<Option<Salvage>, LedgerError> {
        self.inner.salvage(lease).await
    }

    async fn events(
        &self,
        lease: &LeaseId,
        after: u64,
        limit: u32,
    ) -> Result<EventPage, LedgerError> {
        self.inner.events(lease, after, limit).await
    }

    async fn register_node(&self, node: &NodeId) -> Result<(), LedgerError> {
        self.inner.register_node(node).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, LedgerError> {
        self.inner.nodes().await
    }

    async fn rows_of_node(&self, node: &NodeId) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.inner.rows_of_node(node).await
    }

    async fn remove_node(&self, node: &NodeId) -> Result<(), LedgerError> {
        self.inner.remove_node(node).await
    }

    async fn brake(&self) -> Result<BrakeState, LedgerError> {
        self.inner.brake().await
    }

    async fn release_brake(&self) -> Result<(), LedgerError> {
        self.inner.release_brake().await
    }

    async fn accept(&self) -> Result<(), LedgerError> {
        self.inner.accept().await
    }
}
