//! Resume: is it the sandbox that we parked? Then a new grant, in the record and inside.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Attention, Caller, Evidence, Grant, Input, Lease, LeaseId, Pin, Refusal, ResumeOutcome, State,
    Step, Timestamp,
};
use leasehold_ports::{Fence, ProviderError, Status};

use crate::access::Access;
use crate::crash::Edge;
use crate::park::Parked;
use crate::{Keeper, KeeperError, SeededBug};

/// What a look at a parked sandbox tells.
enum Verified {
    Outcome(ResumeOutcome, Option<Attention>),
    Absent { evidence: Evidence, asked_at: Timestamp, lag: Duration },
}

impl Keeper {
    /// Takes a parked lease up again, under a new grant. An active one is parked first, since its
    /// owner's last use may never have been released.
    ///
    /// # Errors
    /// A refusal (`Gone`, `Closing`, `Expired`: acquire another), or a transient failure: the
    /// sandbox is kept then, and asking again may work.
    pub async fn resume(
        &self,
        lease: &LeaseId,
        caller: &Caller,
        delivered: bool,
    ) -> Result<Arc<Lease>, KeeperError> {
        self.refuse_draining()?;
        let input = Input::Resume { least_life: self.inner.settings.least_life };
        let decided = match self.decide(lease, &input, caller).await {
            Err(KeeperError::Refused(Refusal::ParkFirst { .. })) => {
                if let Parked::Removed(receipt) = self.park(lease, caller).await? {
                    let lease = lease.clone();
                    return Err(Refusal::Gone { lease, ending: receipt.ending }.into());
                }
                self.decide(lease, &input, caller).await?
            }
            other => other?,
        };
        self.verify(decided.lease, delivered).await
    }

    /// Verifies the sandbox of a row in `Resuming`, claimed by this node.
    async fn verify(&self, lease: Arc<Lease>, delivered: bool) -> Result<Arc<Lease>, KeeperError> {
        let id = lease.id.clone();
        let Some(pin) = lease.pin.clone() else { return Ok(lease) };
        let verified = match self.access(&lease.home).await {
            Err(error) => {
                let problem = error.to_string();
                Verified::Outcome(ResumeOutcome::Transient { problem }, None)
            }
            Ok(access) => {
                let work = self.verify_at_provider(&access, &lease, &pin, delivered);
                self.step(&id, Step::Verify, work).await
            }
        };
        let row = match verified {
            Verified::Absent { evidence, asked_at, lag } => {
                let input = Input::SandboxAbsent { evidence, asked_at, lag };
                let row = self.decide(&id, &input, &Caller::Keeper).await?.lease;
                self.point(&id, Step::Verify, Edge::Recorded).await;
                // The second look, where the caller can wait for it.
                if lag <= self.inner.settings.proof && row.state == State::Parked {
                    self.inner.clock.sleep(lag + Duration::from_millis(1)).await;
                    self.look_again(row).await?
                } else {
                    row
                }
            }
            Verified::Outcome(outcome, attention) => {
                let problem = match &outcome {
                    ResumeOutcome::Transient { problem } => Some(problem.clone()),
                    _ => None,
                };
                let input = Input::ResumeEnded { epoch: lease.epoch, outcome };
                let row = self.decide(&id, &input, &Caller::Keeper).await?.lease;
                self.point(&id, Step::Verify, Edge::Recorded).await;
                if let Some(attention) = attention {
                    let input = Input::Attend { attention, stands: true };
                    let _ = self.decide(&id, &input, &Caller::Keeper).await;
                }
                if let Some(message) = problem {
                    let source = ProviderError::NoAnswer { message, source: None };
                    return Err(KeeperError::Step { lease: id, step: Step::Verify, source });
                }
                row
            }
        };
        match (&row.receipt, &row.cleanup, row.state) {
            (_, _, State::Active) => Ok(row),
            (Some(receipt), _, _) => {
                Err(Refusal::Gone { lease: id, ending: receipt.ending }.into())
            }
            (None, Some(cleanup), _) => {
                let reason = cleanup.reason;
                // The removal is on record; a first try now, and it goes on by itself.
                let _ = self.remove(row).await;
                Err(Refusal::Closing { lease: id, reason }.into())
            }
            (None, None, _) => {
                let message = "its sandbox was not found; a second look will tell".to_owned();
                let source = ProviderError::NoAnswer { message, source: None };
                Err(KeeperError::Step { lease: id, step: Step::Verify, source })
            }
        }
    }

    async fn verify_at_provider(
        &self,
        access: &Access,
        lease: &Lease,
        pin: &Pin,
        delivered: bool,
    ) -> Verified {
        let asked_at = self.now();
        let call = access.call(self, self.inner.settings.proof);
        let transient = |error: ProviderError| {
            Verified::Outcome(ResumeOutcome::Transient { problem: error.to_string() }, None)
        };
        match self.limited(&call, access.provider.status(&pin.sandbox, &call)).await {
            Ok(Status::Present { birth, .. }) if birth == pin.birth => {}
            Ok(Status::Present { .. }) => {
                let evidence =
                    Evidence::of("another sandbox stands under the id: its birth differs");
                return Verified::Outcome(ResumeOutcome::Stranger { evidence }, None);
            }
            Ok(Status::Absent(evidence) | Status::Destroyed(evidence)) => {
                let lag = access.provider.facts().read_lag;
                return Verified::Absent { evidence, asked_at, lag };
            }
            Err(error) => return transient(error),
        }
        let identity =
            match self.limited(&call, access.provider.identify(&pin.sandbox, &call)).await {
                Ok(identity) => identity,
                Err(error) => return transient(error),
            };
        if !self.inner.seeded.has(SeededBug::MarkerNotRead)
            && identity.marker.as_ref() != Some(&lease.marker)
        {
            return Verified::Outcome(ResumeOutcome::WrongMarker, None);
        }
        let mut next = lease.grant.next();
        let suspect = self.is_older_than_restore(lease);
        match &identity.fence {
            Some(fence) if !self.inner.secret.is_authentic(lease, fence) => {
                return Verified::Outcome(ResumeOutcome::WrongMarker, Some(Attention::FalseFence));
            }
            fence if suspect => next = self.last_given(lease, fence.as_ref()).next(),
            Some(fence) if fence.grant > next => {
                let problem = format!(
                    "its fence is at grant {}, ahead of this ledger: the ledger is an old copy",
                    fence.grant
                );
                return Verified::Outcome(ResumeOutcome::Transient { problem }, None);
            }
            _ => {}
        }
        let over = Grant(next.0 - 1);
        let fence = self.inner.secret.fence(lease, next);
        let raised = async {
            access.provider.raise_fence(&pin.sandbox, &fence, &call).await?;
            if suspect {
                access.provider.clean(&pin.sandbox, over, &call).await?;
            }
            Ok(())
        };
        match self.limited(&call, raised).await {
            Ok(()) => Verified::Outcome(ResumeOutcome::Ready { grant: next, delivered }, None),
            Err(error) => transient(error),
        }
    }

    /// Whether the row was made, and parked the last time, before the ledger was found to be a copy:
    /// what happened since, on the record that was lost, nobody knows.
    pub(crate) fn is_older_than_restore(&self, lease: &Lease) -> bool {
        let known_at = lease.cleaned_at.map_or(lease.created_at, |at| at.max(lease.created_at));
        self.inner.ledger.restored_at().is_some_and(|restored| known_at <= restored)
    }

    /// The last grant that was given for the sandbox, on this record or on one that was lost. Only a
    /// fence that this installation wrote says so.
    pub(crate) fn last_given(&self, lease: &Lease, fence: Option<&Fence>) -> Grant {
        let authentic = fence.filter(|fence| self.inner.secret.is_authentic(lease, fence));
        authentic.map_or(lease.grant, |fence| lease.grant.max(fence.grant))
    }

    /// The second look at a sandbox that was not found, for a lease that is not being removed.
    pub(crate) async fn look_again(&self, lease: Arc<Lease>) -> Result<Arc<Lease>, KeeperError> {
        let Some(pin) = &lease.pin else { return Ok(lease) };
        let access = self.access(&lease.home).await?;
        let asked_at = self.now();
        let call = access.call(self, self.inner.settings.proof);
        let lag = access.provider.facts().read_lag;
        let status = self.limited(&call, access.provider.status(&pin.sandbox, &call)).await;
        let input = match status {
            Ok(Status::Present { birth, .. }) if birth == pin.birth => Input::SandboxPresent,
            Ok(Status::Present { .. }) => {
                let evidence =
                    Evidence::of("another sandbox stands under the id: its birth differs");
                Input::SandboxAbsent { evidence, asked_at, lag }
            }
            Ok(Status::Absent(evidence) | Status::Destroyed(evidence)) => {
                Input::SandboxAbsent { evidence, asked_at, lag }
            }
            Err(source) => {
                let lease = lease.id.clone();
                return Err(KeeperError::Step { lease, step: Step::Verify, source });
            }
        };
        Ok(self.decide(&lease.id, &input, &Caller::Keeper).await?.lease)
    }
}
