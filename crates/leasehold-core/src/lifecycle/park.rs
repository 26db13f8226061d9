//! Parking, resuming and templates.

use std::time::Duration;

use crate::event::EventKind;
use crate::identifiers::Epoch;
use crate::lease::{Attention, Cleanliness, DestroyReason, Kind, State};
use crate::receipt::Ending;
use crate::refusal::Refusal;

use super::{CleanOutcome, Draft, Guards, ResumeOutcome};

impl Draft<'_> {
    /// Closes the gate: from here on no command of the old grant starts.
    pub(super) fn release_to_park(&mut self) {
        if self.next.cleanliness == Cleanliness::Doubtful {
            self.destroy(DestroyReason::StopUnconfirmed);
            return;
        }
        self.next.state = State::Parking;
        self.next.deliver_by = None;
        self.next.retry_at = self.context.now;
        self.next.touched_at = self.context.now;
        self.new_epoch();
        self.take_claim();
        self.note(EventKind::ParkBegan);
    }

    pub(super) fn clean_ended(
        &mut self,
        epoch: Epoch,
        outcome: &CleanOutcome,
    ) -> Result<(), Refusal> {
        self.check_epoch(epoch, State::Parking)?;
        let stopped =
            self.next.busy_nodes.is_empty() && self.next.cleanliness != Cleanliness::Doubtful;
        let clean = *outcome == CleanOutcome::Clean && stopped;
        if clean || !self.guards.stand(Guards::CLEAN) {
            self.next.state = State::Parked;
            self.next.cleanliness = Cleanliness::Clean;
            self.next.cleaned_at = Some(self.context.now);
            self.next.busy_nodes.clear();
            self.next.claim = None;
            self.next.touched_at = self.context.now;
            self.new_epoch();
            self.note(EventKind::Parked);
        } else {
            self.destroy(DestroyReason::StopUnconfirmed);
        }
        Ok(())
    }

    pub(super) fn resume(&mut self, least_life: Duration) -> Result<(), Refusal> {
        let lease = self.next.id.clone();
        if self.next.kind == Kind::Template {
            return Err(Refusal::Template { lease });
        }
        let now = self.context.now;
        let too_short = self.context.calm && now + least_life > self.next.life_until;
        let too_late = self.has_expired() || too_short;
        if too_late && self.guards.stand(Guards::DEADLINE) {
            return Err(Refusal::Expired { lease });
        }
        self.acknowledge();
        self.next.state = State::Resuming;
        self.next.retry_at = now;
        self.new_epoch();
        self.take_claim();
        self.note(EventKind::ResumeBegan);
        Ok(())
    }

    pub(super) fn resume_ended(
        &mut self,
        epoch: Epoch,
        outcome: &ResumeOutcome,
    ) -> Result<(), Refusal> {
        self.check_epoch(epoch, State::Resuming)?;
        match outcome {
            ResumeOutcome::Ready { grant, delivered } => {
                self.next.absent_since = None;
                self.give_grant(*grant, *delivered);
            }
            ResumeOutcome::Transient { problem } => self.back_to_parked(problem),
            ResumeOutcome::Stranger { evidence } => {
                self.next.attention.insert(Attention::Stranger);
                self.close(Ending::Lost, evidence.clone());
            }
            ResumeOutcome::WrongMarker => self.destroy(DestroyReason::WrongMarker),
        }
        Ok(())
    }

    /// Nothing was started under the new grant, so the sandbox is as clean as it was.
    pub(super) fn back_to_parked(&mut self, problem: &str) {
        self.next.state = State::Parked;
        self.next.claim = None;
        self.new_epoch();
        self.note(EventKind::ResumeFailed { problem: problem.to_owned() });
    }

    pub(super) fn promote(&mut self) {
        if self.next.kind == Kind::Template {
            return;
        }
        self.next.kind = Kind::Template;
        self.next.tether = None;
        self.new_epoch();
        self.note(EventKind::Promoted);
    }
}
