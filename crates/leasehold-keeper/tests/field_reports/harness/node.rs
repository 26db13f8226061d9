//! One running keeper process.

use std::sync::Arc;

use leasehold_core::{Caller, Lease, LeaseId, Receipt, State};
use leasehold_keeper::{
    AcquireRequest, CommandEvent, ExecuteRequest, Execution, Keeper, KeeperError, Parked,
};
use leasehold_ports::{ProcessEnd, Work};
use leasehold_testkit::SimulatedProvider;
use leasehold_testkit::executor::{Node, SimulatedClock};
use leasehold_testkit::judge::Judge;

use super::ledger::{CommitFault, StoppableLedger};
use super::stop::Hold;

/// A node. Cheap to clone; all clones are the same one.
#[derive(Clone)]
pub(crate) struct TestNode {
    /// The keeper itself.
    pub(crate) keeper: Keeper,
    pub(super) number: Node,
    pub(super) clock: Arc<SimulatedClock>,
    pub(super) ledger: Arc<StoppableLedger>,
    pub(super) providers: Vec<SimulatedProvider>,
    pub(super) judge: Arc<Judge>,
}

impl TestNode {
    /// [`Keeper::acquire`].
    pub(crate) async fn acquire(&self, request: AcquireRequest) -> Result<Lease, KeeperError> {
        self.keeper.acquire(request).await.map(Arc::unwrap_or_clone)
    }

    /// [`Keeper::park`], and the row if it was kept.
    ///
    /// # Panics
    /// If it was removed.
    pub(crate) async fn park(&self, lease: &Lease, caller: &Caller) -> Result<Lease, KeeperError> {
        match self.keeper.park(&lease.id, caller).await? {
            Parked::Kept(row) => Ok(Arc::unwrap_or_clone(row)),
            Parked::Removed(receipt) => panic!("{} was not kept: {receipt:?}", lease.id),
        }
    }

    /// [`Keeper::resume`], with an answer that counts as delivered.
    pub(crate) async fn resume(&self, lease: &Lease, by: &Caller) -> Result<Lease, KeeperError> {
        self.keeper.resume(&lease.id, by, true).await.map(Arc::unwrap_or_clone)
    }

    /// [`Keeper::destroy`]. The judge hears of it if the caller may ask.
    pub(crate) async fn destroy(&self, id: &LeaseId, by: &Caller) -> Result<Receipt, KeeperError> {
        self.tell_judge(id, by);
        self.keeper.destroy(id, by).await
    }

    /// [`Keeper::forget`].
    pub(crate) async fn forget(
        &self,
        id: &LeaseId,
        why: &str,
        by: &Caller,
    ) -> Result<Receipt, KeeperError> {
        self.tell_judge(id, by);
        self.keeper.forget(id, why, by).await
    }

    fn tell_judge(&self, id: &LeaseId, caller: &Caller) {
        let may_ask = match caller {
            Caller::Owner { owner, .. } => {
                self.judge.row(id).is_some_and(|row| &row.owner == owner)
            }
            Caller::Operator(_) => true,
            Caller::Keeper => false,
        };
        if may_ask {
            self.judge.end_was_asked(id);
        }
    }

    /// Starts a command without input.
    pub(crate) async fn start(
        &self,
        lease: &Lease,
        caller: &Caller,
        argv: &[&str],
    ) -> Result<Execution, KeeperError> {
        let request = ExecuteRequest {
            work: Work::Program(argv.iter().map(|word| (*word).to_owned()).collect()),
            directory: None,
            environment: std::collections::BTreeMap::new(),
            input: false,
        };
        self.keeper.execute(&lease.id, caller, request).await
    }

    /// Runs a command to its end.
    pub(crate) async fn run(
        &self,
        lease: &Lease,
        caller: &Caller,
        argv: &[&str],
    ) -> Result<ProcessEnd, KeeperError> {
        let mut execution = self.start(lease, caller, argv).await?;
        loop {
            if let CommandEvent::Ended(end) = execution.next().await? {
                return Ok(end);
            }
        }
    }

    /// Moves this machine's wall clock.
    pub(crate) fn jump_clock(&self, millis: i64) {
        self.clock.jump(millis);
    }

    /// Lets so many reads of this node answer what was true at the read before.
    pub(crate) fn fall_behind(&self, reads: u32) {
        self.ledger.fall_behind(reads);
    }

    /// Stops this node's next commit whose first row is in that state, before it is written.
    pub(crate) fn hold_commit(&self, of: State) -> Hold {
        self.ledger.hold_commit(of)
    }

    /// Lets this node's next commit whose first row is in that state fail.
    pub(crate) fn fail_commit(&self, of: State, fault: CommitFault) {
        self.ledger.fail_commit(of, fault);
    }
}
