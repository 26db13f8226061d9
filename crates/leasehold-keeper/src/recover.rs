//! Recover: whatever the record asks for and nobody does.
//!
//! Recovery never creates. It ends the rights of dead nodes, takes over unfinished steps, carries
//! out deadlines, takes back what was not delivered, and pays debts; in pages, and one bad row holds
//! up nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use leasehold_core::{Caller, Input, Lease, LeaseId, NodeId, State, Step, Timestamp, next_step};

use leasehold_ports::LedgerMode;

use crate::{Keeper, KeeperError, lock};

/// How many rows of a page are attended to at once.
const AT_ONCE: usize = 8;

/// Rows that could not be attended to, although they are due: they wait their turn, so that they do
/// not take the places of others in every page.
#[derive(Default)]
pub(crate) struct Setbacks(BTreeMap<LeaseId, (u32, Timestamp)>);

impl Setbacks {
    fn waiting(&self, now: Timestamp) -> BTreeSet<LeaseId> {
        let waits = |(_, (_, until)): &(&LeaseId, &(u32, Timestamp))| *until > now;
        self.0.iter().filter(waits).map(|(id, _)| id.clone()).collect()
    }

    fn tries(&self, id: &LeaseId) -> u32 {
        self.0.get(id).map_or(0, |(tries, _)| *tries)
    }

    fn note(&mut self, id: &LeaseId, tries: u32, until: Timestamp) {
        self.0.insert(id.clone(), (tries, until));
    }

    fn clear(&mut self, id: &LeaseId) {
        self.0.remove(id);
    }
}

/// How far a recovery goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryScope {
    /// Everything that is due.
    Everything,
    /// Only leases that were tied to a process that is proved to be dead.
    DeadHolders,
}

/// What a recovery did.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Rows on which something was done.
    pub worked_on: Vec<LeaseId>,
    /// Those of them that ended.
    pub ended: Vec<LeaseId>,
    /// What went wrong; each row is tried again later.
    pub failed: Vec<(LeaseId, KeeperError)>,
    /// Whether more was due than one page takes.
    pub more: bool,
    /// Why nothing was done: the ledger is behind, copied or from another machine.
    pub restored: Option<String>,
    /// Nodes that were found dead.
    pub dead_nodes: Vec<NodeId>,
}

impl Keeper {
    /// Does what is due, one page of it.
    ///
    /// # Errors
    /// Only if the ledger cannot be read. What fails for a row is in the report.
    pub async fn recover(&self, scope: RecoveryScope) -> Result<Recovery, KeeperError> {
        let mut report = Recovery::default();
        if let LedgerMode::Restored { why } = self.inner.ledger.mode().await? {
            tracing::warn!(
                why,
                "restored mode: nothing is recovered until `leasehold ledger accept`"
            );
            report.restored = Some(why);
            return Ok(report);
        }
        self.bury_dead_nodes(scope, &mut report).await?;
        if scope == RecoveryScope::Everything {
            self.attend_page(&mut report).await?;
        }
        Ok(report)
    }

    /// Attends to one page of due rows, some at a time: a provider that hangs for one row does not
    /// hold up the others, and neither does a row that cannot be written.
    async fn attend_page(&self, report: &mut Recovery) -> Result<(), KeeperError> {
        let now = self.now();
        let waiting = lock(&self.inner.setbacks).waiting(now);
        let page = self.inner.settings.page;
        let overdue = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        let mut due = self.inner.ledger.due(now, page.saturating_add(overdue)).await?;
        due.retain(|row| !waiting.contains(&row.id));
        report.more = due.len() >= page as usize;
        let mut attended = stream::iter(due)
            .map(|row| async {
                let id = row.id.clone();
                let attended = self.attend(row).await;
                (id, attended)
            })
            .buffer_unordered(AT_ONCE);
        while let Some((id, attended)) = attended.next().await {
            let mut setbacks = lock(&self.inner.setbacks);
            match &attended {
                Err(error) if !matches!(error, KeeperError::Refused(_)) => {
                    let tries = setbacks.tries(&id);
                    setbacks.note(&id, tries + 1, self.retry_at(tries));
                }
                _ => setbacks.clear(&id),
            }
            drop(setbacks);
            report.note(id, attended);
        }
        Ok(())
    }

    async fn bury_dead_nodes(
        &self,
        scope: RecoveryScope,
        report: &mut Recovery,
    ) -> Result<(), KeeperError> {
        let nodes = self.inner.ledger.nodes().await?;
        for dead in nodes.into_iter().filter(|node| node.proved_dead) {
            let mut left = false;
            for row in self.inner.ledger.rows_of_node(&dead.node).await? {
                if scope == RecoveryScope::DeadHolders && row.tether.as_ref() != Some(&dead.node) {
                    left = true;
                    continue;
                }
                let buried = self.bury(&row, &dead.node).await;
                left |= buried.is_err();
                report.note(row.id.clone(), buried);
            }
            if !left {
                self.inner.ledger.remove_node(&dead.node).await?;
            }
            report.dead_nodes.push(dead.node);
        }
        Ok(())
    }

    /// Ends the rights of a dead node on a row, and removes what was tied to it.
    async fn bury(&self, row: &Lease, node: &NodeId) -> Result<Option<Arc<Lease>>, KeeperError> {
        let input = Input::NodeDied { node: node.clone() };
        let row = self.decide(&row.id, &input, &Caller::Keeper).await?.lease;
        if row.state == State::Destroying && self.has_claim(&row) {
            return self.carry_on(row).await.map(Some);
        }
        Ok((!row.is_open()).then_some(row))
    }

    /// Does what a row that is due asks for.
    async fn attend(&self, row: Arc<Lease>) -> Result<Option<Arc<Lease>>, KeeperError> {
        let now = self.now();
        let keeper = Caller::Keeper;
        let calm = !self.is_in_jump_grace();
        let ending = matches!(row.state, State::Destroying | State::Closed);
        let input = if !ending && now >= row.expires_at() {
            Input::Expire
        } else if row.state == State::Active && row.deliver_by.is_some_and(|limit| now >= limit) {
            Input::TakeBack
        } else if next_step(&row).is_some() {
            if !calm && row.claim.is_some() && !self.has_claim(&row) {
                return Ok(None);
            }
            Input::TakeOver
        } else if row.absent_since.is_some() && now >= row.retry_at {
            return self.look_again(row).await.map(Some);
        } else {
            return Ok(None);
        };
        let decided = self.decide(&row.id, &input, &keeper).await?;
        self.carry_on(decided.lease).await.map(Some)
    }

    /// Ends the rights of a node on a row if the node is proved to be dead; whether it did.
    pub(crate) async fn bury_if_dead(
        &self,
        lease: &LeaseId,
        node: &NodeId,
    ) -> Result<bool, KeeperError> {
        let nodes = self.inner.ledger.nodes().await?;
        if !nodes.iter().any(|record| record.node == *node && record.proved_dead) {
            return Ok(false);
        }
        let input = Input::NodeDied { node: node.clone() };
        self.decide(lease, &input, &Caller::Keeper).await?;
        Ok(true)
    }

    pub(crate) fn has_claim(&self, row: &Lease) -> bool {
        row.claim.as_ref().is_some_and(|claim| claim.node == self.inner.node)
    }

    /// Does the step that a row claimed by this node asks for, and the removal that may follow.
    pub(crate) async fn carry_on(&self, row: Arc<Lease>) -> Result<Arc<Lease>, KeeperError> {
        self.close_gate_here(&row);
        let row = match next_step(&row) {
            Some(Step::Prepare) => self.prepare(row, false, true).await?,
            Some(Step::Clean) => self.clean(row).await?,
            Some(Step::FindAttempt) => self.find_attempt(row).await?,
            _ => row,
        };
        if row.state == State::Destroying && row.pin.is_some() && self.has_claim(&row) {
            return self.remove(row).await;
        }
        Ok(row)
    }
}

impl Recovery {
    /// Notes what became of a row. A refusal means that there was nothing to do, or that another
    /// node was faster.
    fn note(&mut self, id: LeaseId, result: Result<Option<Arc<Lease>>, KeeperError>) {
        match result {
            Ok(None) | Err(KeeperError::Refused(_)) => {}
            Ok(Some(lease)) => {
                if !lease.is_open() {
                    self.ended.push(id.clone());
                }
                self.worked_on.push(id);
            }
            Err(error) => {
                tracing::warn!(lease = %id, code = error.code(), "{error}");
                self.failed.push((id, error));
            }
        }
    }
}
