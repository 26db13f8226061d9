//! The one destroy path: everything that is ever removed is removed here.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Attention, Caller, DestroyOutcome, DestroyReason, Evidence, Input, Lease, LeaseId, Receipt,
    Refusal, ReleaseGoal, Step, Timestamp,
};
use leasehold_ports::{Facts, ProviderError, Removal, Status};

use crate::access::Access;
use crate::crash::Edge;
use crate::{Keeper, KeeperError, SeededBug};

impl Keeper {
    /// Removes the sandbox of a lease, and waits for the proof for as long as
    /// [`Settings::proof`](crate::Settings). Repeated, it answers with the same receipt.
    ///
    /// # Errors
    /// A refusal, or `CleanupUnconfirmed`: then the removal goes on.
    pub async fn destroy(&self, lease: &LeaseId, caller: &Caller) -> Result<Receipt, KeeperError> {
        let input = match caller {
            Caller::Owner { .. } => Input::Release { goal: ReleaseGoal::Destroy },
            Caller::Operator(_) | Caller::Keeper => {
                Input::Destroy { reason: DestroyReason::OperatorAsked }
            }
        };
        let decided = self.decide_end(lease, &input, caller).await?;
        self.close_gate_here(&decided.lease);
        if decided.wrote {
            return self.await_receipt(decided.lease).await;
        }
        match &decided.lease.receipt {
            Some(receipt) => Ok(receipt.clone()),
            // Somebody removes it already; take part, or wait for the proof.
            None => self.await_receipt(decided.lease).await,
        }
    }

    /// Works on a row in `Destroying` until it is closed, or the time for it is over.
    pub(crate) async fn await_receipt(&self, lease: Arc<Lease>) -> Result<Receipt, KeeperError> {
        let limit = self.now() + self.inner.settings.proof;
        let mut row = lease;
        loop {
            if let Some(receipt) = &row.receipt {
                return Ok(receipt.clone());
            }
            if self.has_claim(&row) {
                row = self.remove(row).await?;
                continue;
            }
            let now = self.now();
            if now >= limit || row.retry_at >= limit {
                let problem = row.cleanup.as_ref().and_then(|cleanup| cleanup.problem.clone());
                return Err(KeeperError::CleanupUnconfirmed {
                    lease: row.id.clone(),
                    problem: problem.unwrap_or_else(|| "another node is at it".to_owned()),
                    retry_at: row.retry_at,
                });
            }
            let wait = row.retry_at.since(now).max(Duration::from_millis(1));
            let wait = if row.claim.is_some() { wait.max(Duration::from_millis(50)) } else { wait };
            self.inner.clock.sleep(wait.min(limit.since(now))).await;
            row = match self.decide(&row.id, &Input::TakeOver, &Caller::Keeper).await {
                Ok(decided) => decided.lease,
                Err(KeeperError::Refused(refusal)) => {
                    if let Refusal::Claimed { node, .. } = refusal {
                        self.bury_if_dead(&row.id, &node).await?;
                    }
                    self.read(&row.id).await?
                }
                Err(error) => return Err(error),
            };
        }
    }

    /// One try at removing what a row in `Destroying`, claimed by this node, stands for.
    pub(crate) async fn remove(&self, lease: Arc<Lease>) -> Result<Arc<Lease>, KeeperError> {
        let Some(pin) = lease.pin.clone() else { return self.find_attempt(lease).await };
        let id = lease.id.clone();
        let outcome = match self.access(&lease.home).await {
            Err(error) => {
                let attention = matches!(
                    error,
                    KeeperError::NoCredential { .. } | KeeperError::WrongAccount { .. }
                )
                .then_some(Attention::WaitingForKey);
                // Nobody need wait for it: what is missing here is not there a moment later.
                let at_once = self.now() + self.inner.settings.proof;
                let retry_at = at_once.max(self.retry_at(tries(&lease)));
                DestroyOutcome::Unproved { problem: error.to_string(), retry_at, attention }
            }
            Ok(access) => {
                let work = self.remove_at_provider(&access, &lease, &pin);
                self.step(&id, Step::Destroy, work).await
            }
        };
        let input = Input::DestroyEnded { epoch: lease.epoch, outcome };
        let decided = self.decide(&id, &input, &Caller::Keeper).await;
        self.point(&id, Step::Destroy, Edge::Recorded).await;
        match decided {
            Ok(decided) => Ok(decided.lease),
            // Somebody else was at it; what they recorded counts.
            Err(KeeperError::Refused(_)) => self.read(&id).await,
            Err(error) => Err(error),
        }
    }

    async fn remove_at_provider(
        &self,
        access: &Access,
        lease: &Lease,
        pin: &leasehold_core::Pin,
    ) -> DestroyOutcome {
        let (facts, capabilities) = (access.provider.facts(), access.provider.capabilities());
        let lag = facts.read_lag;
        let read_first = facts.recycles_ids && !capabilities.compares_births;
        let call = access.call(self, self.inner.settings.proof);
        let asked_at = self.now();
        if read_first && !self.inner.seeded.has(SeededBug::BirthNotRead) {
            match self.limited(&call, access.provider.status(&pin.sandbox, &call)).await {
                Ok(Status::Present { birth, .. }) if birth != pin.birth => {
                    return DestroyOutcome::Stranger(stranger());
                }
                Ok(Status::Present { .. }) => {}
                Ok(Status::Destroyed(evidence)) => return told_ended(facts, evidence, asked_at),
                Ok(Status::Absent(evidence)) => {
                    return DestroyOutcome::Absent { evidence, asked_at, lag };
                }
                Err(error) => return self.unproved(lease, error.to_string(), None),
            }
        }
        match self.limited(&call, access.provider.destroy(pin, &call)).await {
            Ok(Removal::Proved(evidence)) => DestroyOutcome::Proved(evidence),
            Ok(Removal::Absent(evidence)) => DestroyOutcome::Absent { evidence, asked_at, lag },
            Ok(Removal::Stranger(evidence)) => DestroyOutcome::Stranger(evidence),
            Ok(Removal::Accepted) => self.await_removal(access, lease, pin).await,
            Err(error) => self.unproved(lease, error.to_string(), None),
        }
    }

    /// Reads, slower and slower, until the provider says that the sandbox is gone.
    async fn await_removal(
        &self,
        access: &Access,
        lease: &Lease,
        pin: &leasehold_core::Pin,
    ) -> DestroyOutcome {
        let facts = access.provider.facts();
        let limit = self.now() + self.inner.settings.proof;
        let mut wait = Duration::from_millis(100);
        loop {
            self.inner.clock.sleep(wait).await;
            let asked_at = self.now();
            let call = access.call(self, self.inner.settings.proof);
            match self.limited(&call, access.provider.status(&pin.sandbox, &call)).await {
                Ok(Status::Destroyed(evidence)) => return told_ended(facts, evidence, asked_at),
                Ok(Status::Absent(evidence)) => {
                    return DestroyOutcome::Absent { evidence, asked_at, lag: facts.read_lag };
                }
                Ok(Status::Present { birth, .. }) if birth != pin.birth => {
                    return DestroyOutcome::Stranger(stranger());
                }
                Ok(Status::Present { .. }) | Err(ProviderError::Busy { .. }) => {}
                Err(error) => return self.unproved(lease, error.to_string(), None),
            }
            if self.now() + wait >= limit {
                let problem = "the provider accepted the removal and is still at it".to_owned();
                return self.unproved(lease, problem, None);
            }
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }

    fn unproved(
        &self,
        lease: &Lease,
        problem: String,
        attention: Option<Attention>,
    ) -> DestroyOutcome {
        let retry_at = self.retry_at(tries(lease));
        DestroyOutcome::Unproved { problem, retry_at, attention }
    }
}

fn tries(lease: &Lease) -> u32 {
    lease.cleanup.as_ref().map_or(0, |cleanup| cleanup.tries)
}

/// What a read that says "it was removed" proves. Where ids are given again, a read that lags may
/// tell of the sandbox that had the id before: then it counts like one that finds nothing.
fn told_ended(facts: Facts, evidence: Evidence, asked_at: Timestamp) -> DestroyOutcome {
    if facts.recycles_ids {
        DestroyOutcome::Absent { evidence, asked_at, lag: facts.read_lag }
    } else {
        DestroyOutcome::Proved(evidence)
    }
}

fn stranger() -> Evidence {
    Evidence::of("another sandbox stands under the id: its birth differs")
}
