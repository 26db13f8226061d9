//! Release to park: gate, drain, clean.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{
    Caller, CleanOutcome, Grant, Input, Lease, LeaseId, Receipt, Refusal, ReleaseGoal, SandboxId,
    State, Step,
};
use leasehold_ports::{Call, ProviderError};

use crate::access::Access;
use crate::commands::Remaining;
use crate::crash::Edge;
use crate::{Keeper, KeeperError, SeededBug};

/// How often making a sandbox clean is tried before it counts as unconfirmed.
const CLEAN_TRIES: u32 = 3;

/// What a park came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parked {
    /// The sandbox is kept.
    Kept(Arc<Lease>),
    /// It could not be proved to be clean, and was removed.
    Removed(Receipt),
}

impl Keeper {
    /// Parks a lease: no new command starts, the running ones are ended, the sandbox is made clean
    /// and kept. One that cannot be proved to be clean is removed.
    ///
    /// # Errors
    /// A refusal, or `CleanupUnconfirmed`: it is being removed then, and that goes on.
    pub async fn park(&self, lease: &LeaseId, caller: &Caller) -> Result<Parked, KeeperError> {
        let input = Input::Release { goal: ReleaseGoal::Park };
        let decided = self.decide(lease, &input, caller).await?;
        self.close_gate_here(&decided.lease);
        match decided.lease.state {
            State::Parked => Ok(Parked::Kept(decided.lease)),
            State::Parking => self.finish_park(decided.lease).await,
            _ => Ok(Parked::Removed(self.await_receipt(decided.lease).await?)),
        }
    }

    async fn finish_park(&self, lease: Arc<Lease>) -> Result<Parked, KeeperError> {
        let id = lease.id.clone();
        let row = self.clean(lease).await?;
        match row.state {
            State::Parked => Ok(Parked::Kept(row)),
            State::Destroying | State::Closed => {
                Ok(Parked::Removed(self.await_receipt(row).await?))
            }
            state => Err(Refusal::Busy { lease: id, state }.into()),
        }
    }

    /// Makes the sandbox of a row in `Parking`, claimed by this node, clean.
    pub(crate) async fn clean(&self, lease: Arc<Lease>) -> Result<Arc<Lease>, KeeperError> {
        let id = lease.id.clone();
        let work = async {
            if !self.inner.seeded.has(SeededBug::NoDrain) {
                self.drain_lease(&id).await;
            }
            self.clean_at_provider(&lease).await
        };
        let outcome = self.step(&id, Step::Clean, work).await;
        let input = Input::CleanEnded { epoch: lease.epoch, outcome };
        let decided = self.decide(&id, &input, &Caller::Keeper).await;
        self.point(&id, Step::Clean, Edge::Recorded).await;
        match decided {
            Ok(decided) => Ok(decided.lease),
            // Somebody removes it meanwhile; that counts.
            Err(KeeperError::Refused(Refusal::LateOutcome { .. })) => self.read(&id).await,
            Err(error) => Err(error),
        }
    }

    async fn clean_at_provider(&self, lease: &Lease) -> CleanOutcome {
        let Some(pin) = &lease.pin else { return CleanOutcome::Unconfirmed };
        // First the fence inside: whatever still waits to be started under the old grant will not
        // start after the kill.
        let fence = self.inner.secret.fence(lease, lease.grant.next());
        for tried in 0..CLEAN_TRIES {
            let access = match self.access(&lease.home).await {
                Ok(access) => access,
                Err(_) => return CleanOutcome::Unconfirmed,
            };
            let call = access.call(self, self.inner.settings.drain);
            let work = async {
                self.check_birth(&access, pin).await?;
                let over = self.over(&access, lease, &pin.sandbox, &call).await?;
                access.provider.raise_fence(&pin.sandbox, &fence, &call).await?;
                access.provider.clean(&pin.sandbox, over, &call).await
            };
            match self.limited(&call, work).await {
                Ok(()) => return CleanOutcome::Clean,
                Err(ProviderError::NotFound) => return CleanOutcome::Unconfirmed,
                Err(source) => {
                    let code = source.code();
                    tracing::warn!(lease = %lease.id, code, tried, %source, "the clean failed");
                }
            }
            self.inner.clock.sleep(Duration::from_millis(200)).await;
        }
        CleanOutcome::Unconfirmed
    }

    /// The last grant that a clean may end: the row's, and where the row is older than a restore,
    /// the last one that the sandbox's fence has seen.
    pub(crate) async fn over(
        &self,
        access: &Access,
        lease: &Lease,
        sandbox: &SandboxId,
        call: &Call,
    ) -> Result<Grant, ProviderError> {
        if !self.is_older_than_restore(lease) {
            return Ok(lease.grant);
        }
        let identity = access.provider.identify(sandbox, call).await?;
        Ok(self.last_given(lease, identity.fence.as_ref()))
    }

    /// Waits until every node with commands on the lease has brought them to an end, for as long as
    /// the drain limit. What is left then is a doubt, which the core sees in the row.
    async fn drain_lease(&self, id: &LeaseId) {
        let limit = self.now() + self.inner.settings.drain;
        self.end_commands_here(id).await;
        loop {
            let Ok(row) = self.read(id).await else { return };
            if row.busy_nodes.is_empty() || row.state != State::Parking {
                return;
            }
            let mut buried = false;
            for node in &row.busy_nodes {
                buried |= self.bury_if_dead(id, node).await.unwrap_or(false);
            }
            if buried {
                continue;
            }
            if self.now() >= limit {
                return;
            }
            self.inner.clock.sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends streams here and lets no more start, if the row says that the gate is closed.
    pub(crate) fn close_gate_here(&self, lease: &Lease) {
        if lease.state != State::Active {
            self.inner.commands.close_gate(&lease.id);
        }
    }

    /// Ends this node's commands on a lease whose gate is closed, and records whether that is
    /// certain. A sandbox that is being removed needs no ends: its removal is the end.
    pub(crate) async fn end_commands_here(&self, id: &LeaseId) {
        let commands = &self.inner.commands;
        let limit = self.now() + self.inner.settings.drain;
        commands.close_gate(id);
        let definite = loop {
            let changed = commands.changed();
            match commands.remaining(id) {
                Remaining::Nothing { definite } => break definite,
                Remaining::Starting => {
                    let left = limit.since(self.now());
                    if left.is_zero() {
                        break false;
                    }
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = self.inner.clock.sleep(left) => {}
                    }
                }
                Remaining::Commands(running) => {
                    let ends = running.iter().map(|one| async {
                        let mut call = one.call.clone();
                        call.deadline = self.inner.clock.now() + self.inner.settings.drain;
                        self.limited(&call, one.control.terminate(&call)).await.is_ok()
                    });
                    break join_all(ends).await.into_iter().all(|ended| ended);
                }
            }
        };
        let definite = commands.forget(id) && definite;
        let Ok(row) = self.read(id).await else { return };
        if row.busy_nodes.contains(&self.inner.node) {
            let input = Input::CommandsEnded { definite };
            if let Err(error) = self.decide(id, &input, &Caller::Keeper).await {
                tracing::warn!(lease = %id, code = error.code(), "{error}");
            }
        }
    }
}
