//! The end of a lease: one way in ([`Draft::destroy`]), one way out ([`Draft::close`]).

use std::time::Duration;

use crate::event::EventKind;
use crate::identifiers::{BirthFingerprint, Epoch, NodeId, SandboxId};
use crate::lease::{Attention, Cleanliness, Cleanup, DestroyReason, Kind, Pin, State};
use crate::receipt::{Ending, Evidence, Receipt};
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::due::next_step;
use super::{DestroyOutcome, Draft, Guards};

impl Draft<'_> {
    /// Decides the removal. Where no attempt can have made a sandbox the lease ends at once.
    pub(super) fn destroy(&mut self, reason: DestroyReason) {
        let now = self.context.now;
        let actor = self.context.caller.actor();
        self.note(EventKind::DestroyBegan { reason });
        self.next.deliver_by = None;
        self.next.cleanup = Some(Cleanup { reason, actor, since: now, tries: 0, problem: None });
        if self.next.pin.is_none() && !self.next.has_attempt_in_doubt() {
            self.close(
                Ending::NeverCreated,
                Evidence::of("no create was sent, or each was refused"),
            );
            return;
        }
        self.next.state = State::Destroying;
        self.next.retry_at = now;
        self.next.absent_since = None;
        self.new_epoch();
        self.take_claim();
    }

    pub(super) fn destroy_ended(
        &mut self,
        epoch: Epoch,
        outcome: &DestroyOutcome,
    ) -> Result<(), Refusal> {
        self.check_epoch(epoch, State::Destroying)?;
        if self.next.state == State::Closed {
            return Err(self.late());
        }
        match outcome {
            DestroyOutcome::Proved(evidence) => self.close(Ending::Destroyed, evidence.clone()),
            DestroyOutcome::Absent { evidence, asked_at, lag } => {
                self.sandbox_absent(evidence, *asked_at, *lag);
            }
            DestroyOutcome::Stranger(evidence) => {
                self.next.attention.insert(Attention::Stranger);
                self.close(Ending::AlreadyAbsent, evidence.clone());
            }
            DestroyOutcome::Unproved { problem, retry_at, attention } => {
                if let Some(attention) = attention {
                    self.next.attention.insert(*attention);
                }
                self.next.absent_since = None;
                self.unproved(problem, *retry_at);
            }
        }
        Ok(())
    }

    /// Keeps the row open, and says when to go on.
    pub(super) fn unproved(&mut self, problem: &str, retry_at: Timestamp) {
        self.next.claim = None;
        self.next.retry_at = retry_at;
        if let Some(cleanup) = &mut self.next.cleanup {
            cleanup.tries = cleanup.tries.saturating_add(1);
            cleanup.problem = Some(problem.to_owned());
            self.note(EventKind::DestroyUnproved { problem: problem.to_owned(), retry_at });
        }
    }

    /// One look that did not find the sandbox; the second, late enough after the first, proves it.
    pub(super) fn sandbox_absent(
        &mut self,
        evidence: &Evidence,
        asked_at: Timestamp,
        lag: Duration,
    ) {
        let ending = match self.next.state {
            State::Active | State::Parking | State::Parked | State::Resuming => Ending::Lost,
            State::Preparing | State::Destroying => Ending::AlreadyAbsent,
            State::Requested | State::Creating | State::Closed => return,
        };
        self.note(EventKind::SandboxAbsent { proof: evidence.proof.clone() });
        if self.is_second_look(asked_at, lag) {
            let proof = format!("two looks: {}", evidence.proof);
            self.close(ending, Evidence { proof, request_id: evidence.request_id.clone() });
            return;
        }
        self.next.retry_at = self.context.now + lag;
        match self.next.state {
            State::Destroying => self.next.claim = None,
            // The second look happens before anybody gets it again.
            State::Resuming => self.back_to_parked("its sandbox was not found"),
            State::Preparing => self.destroy(DestroyReason::PreparationFailed),
            _ => {}
        }
    }

    /// Notes a look that found nothing; whether it is the one that proves absence. The first counts
    /// from its answer, the second from its question: only what lies between is certain.
    pub(super) fn is_second_look(&mut self, asked_at: Timestamp, lag: Duration) -> bool {
        let first = *self.next.absent_since.get_or_insert(self.context.now);
        if !self.guards.stand(Guards::TWO_LOOKS) {
            return true;
        }
        first < asked_at && asked_at.since(first) >= lag
    }

    /// Ends the lease, with its evidence.
    pub(super) fn close(&mut self, ending: Ending, evidence: Evidence) {
        let actor = match &self.next.cleanup {
            Some(cleanup) => cleanup.actor.clone(),
            None => self.context.caller.actor(),
        };
        self.note(EventKind::Closed { ending, proof: evidence.proof.clone() });
        self.next.state = State::Closed;
        self.next.claim = None;
        self.next.deliver_by = None;
        self.next.busy_nodes.clear();
        self.next.attention.clear();
        self.next.receipt = Some(Receipt { ending, evidence, at: self.context.now, actor });
        self.new_epoch();
    }

    pub(super) fn expire(&mut self) -> Result<(), Refusal> {
        let open = !matches!(self.next.state, State::Destroying | State::Closed);
        let due = self.has_expired();
        if !open || (!due && self.guards.stand(Guards::DEADLINE)) {
            return Err(Refusal::NotDue { lease: self.next.id.clone() });
        }
        self.destroy(DestroyReason::Deadline);
        Ok(())
    }

    pub(super) fn node_died(&mut self, node: &NodeId) {
        self.note(EventKind::NodeDied { node: node.clone() });
        if self.next.busy_nodes.remove(node) && self.guards.stand(Guards::CLEAN) {
            self.next.cleanliness = Cleanliness::Doubtful;
        }
        if self.next.claim.as_ref().is_some_and(|claim| &claim.node == node) {
            self.next.claim = None;
            self.next.retry_at = self.context.now;
        }
        if self.next.tether.as_ref() == Some(node) {
            self.next.tether = None;
            if !matches!(self.next.state, State::Destroying | State::Closed) {
                self.destroy(DestroyReason::HolderDied);
            }
        }
    }

    /// Refuses if another node holds the claim and it has not run out.
    pub(super) fn check_claim(&self) -> Result<(), Refusal> {
        match &self.next.claim {
            Some(claim)
                if claim.node != *self.context.node
                    && claim.until > self.context.now
                    && self.guards.stand(Guards::CLAIM) =>
            {
                Err(Refusal::Claimed { lease: self.next.id.clone(), node: claim.node.clone() })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn take_over(&mut self) -> Result<(), Refusal> {
        self.check_claim()?;
        let due = self.context.now >= self.next.retry_at;
        if next_step(&self.next).is_none() || !due {
            return Err(Refusal::NotDue { lease: self.next.id.clone() });
        }
        let node = self.context.node.clone();
        self.note(EventKind::TakenOver { node });
        if self.next.state == State::Resuming {
            // Whoever asked is gone, and nothing was started: it is parked as it was.
            self.back_to_parked("the node that resumed it is gone");
            return Ok(());
        }
        self.new_epoch();
        self.take_claim();
        Ok(())
    }

    pub(super) fn renew_claim(&mut self) -> Result<(), Refusal> {
        if self.next.claim.as_ref().is_none_or(|claim| claim.node != *self.context.node) {
            return Err(self.late());
        }
        self.take_claim();
        Ok(())
    }

    pub(super) fn forget(&mut self, why: &str) {
        self.next.cleanup = None;
        self.close(Ending::Forgotten, Evidence::of(why));
    }

    /// Opens a closed row again, to remove what was found. A sweep decides this, never a caller.
    pub(super) fn reopen(
        &mut self,
        sandbox: &SandboxId,
        birth: &BirthFingerprint,
        proof: &str,
    ) -> Result<(), Refusal> {
        let lease = self.next.id.clone();
        match &self.next.receipt {
            None => return Err(Refusal::NotDue { lease }),
            Some(receipt) if receipt.ending == Ending::Forgotten => {
                return Err(Refusal::Forgotten { lease });
            }
            Some(_) => {}
        }
        self.next.receipt = None;
        if self.next.kind == Kind::Template {
            self.next.kind = Kind::Debt;
        }
        self.next.pin = Some(Pin { sandbox: sandbox.clone(), birth: birth.clone() });
        self.note(EventKind::Reopened { proof: proof.to_owned() });
        self.destroy(DestroyReason::Reappeared);
        self.next.claim = None;
        Ok(())
    }
}
