//! From the intent to a prepared sandbox. Recovery comes through here too, and never creates: only
//! [`Draft::send_create`] leads to a create, and only a caller's acquire leads to it.

use std::time::Duration;

use crate::event::EventKind;
use crate::identifiers::{BirthFingerprint, Epoch, LeaseId, SandboxId, SandboxName};
use crate::lease::{
    Attempt, AttemptState, Attention, Cleanliness, Cleanup, DestroyReason, KeyedIntent, Kind,
    Lease, Pin, State,
};
use crate::receipt::{Ending, Evidence};
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::{CreateOutcome, Draft, Guards, Looked, PrepareOutcome};

/// How long to wait between two looks for a sandbox that may still come.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// Whether an acquire with a key that was used before gets the lease of that key.
///
/// # Errors
/// [`Refusal::KeyConflict`] if it asks for something else, [`Refusal::KeyUsed`] if that lease has
/// been released, resumed or ended.
pub fn answer_key(lease: &Lease, intent: &KeyedIntent) -> Result<(), Refusal> {
    if lease.intent.as_ref() != Some(intent) {
        return Err(Refusal::KeyConflict { lease: lease.id.clone() });
    }
    match lease.state {
        State::Requested | State::Creating | State::Preparing => Ok(()),
        State::Active if lease.grant.0 == 1 => Ok(()),
        _ => Err(Refusal::KeyUsed { lease: lease.id.clone() }),
    }
}

impl Draft<'_> {
    pub(super) fn send_create(
        &mut self,
        name: SandboxName,
        horizon: Timestamp,
        debt: &LeaseId,
    ) -> Result<(), Refusal> {
        let lease = self.next.id.clone();
        self.check_claim()?;
        let number = match (self.next.state, &self.next.attempt) {
            (State::Requested, _) => 1,
            (State::Creating, Some(old)) if old.state == AttemptState::Refused => old.number + 1,
            (State::Creating, Some(old))
                if old.state == AttemptState::InDoubt
                    && self.context.now >= self.next.provisioning_until =>
            {
                let number = old.number + 1;
                self.debt = Some(Box::new(self.debt_for_attempt(old.clone(), debt)));
                self.note(EventKind::DebtRecorded { debt: debt.clone() });
                number
            }
            (State::Creating, _) => {
                return Err(Refusal::Busy { lease, state: State::Creating });
            }
            (state, _) => return Err(Refusal::NotReady { lease, state }),
        };
        if self.has_expired() {
            return Err(Refusal::Expired { lease });
        }
        self.note(EventKind::CreateSent { attempt: number, name: name.clone() });
        self.next.attempt = Some(Attempt { number, name, horizon, state: AttemptState::InDoubt });
        self.next.absent_since = None;
        if number > 1 {
            self.next.provisioning_until = self.context.now + self.next.clocks.provisioning;
        }
        self.next.state = State::Creating;
        self.new_epoch();
        self.take_claim();
        Ok(())
    }

    pub(super) fn create_ended(
        &mut self,
        attempt: u32,
        outcome: &CreateOutcome,
        debt: &LeaseId,
    ) -> Result<(), Refusal> {
        let current = self.next.has_attempt_in_doubt()
            && self.next.attempt.as_ref().is_some_and(|current| current.number == attempt)
            && matches!(self.next.state, State::Creating | State::Destroying);
        match outcome {
            CreateOutcome::Made { sandbox, birth } if current => self.pin(sandbox, birth),
            CreateOutcome::Made { sandbox, birth } => {
                let known = self.next.is_open()
                    && self.next.pin.as_ref().is_some_and(|pin| &pin.sandbox == sandbox);
                if known || !self.guards.stand(Guards::LATE_CREATE) {
                    return Err(self.late());
                }
                self.debt = Some(Box::new(self.debt_for_sandbox(sandbox, birth, debt)));
                self.note(EventKind::DebtRecorded { debt: debt.clone() });
            }
            _ if !current => return Err(self.late()),
            CreateOutcome::Refused { problem, again } => {
                self.note(EventKind::CreateRefused { attempt, problem: problem.clone() });
                if let Some(attempt) = &mut self.next.attempt {
                    attempt.state = AttemptState::Refused;
                }
                if !again || self.next.state == State::Destroying {
                    self.close(Ending::NeverCreated, Evidence::of(format!("refused: {problem}")));
                }
            }
            CreateOutcome::Lost { problem, look_at } => {
                self.note(EventKind::CreateLost { attempt, problem: problem.clone() });
                self.next.claim = None;
                self.next.retry_at = *look_at;
            }
        }
        Ok(())
    }

    pub(super) fn attempt_looked(&mut self, attempt: u32, looked: &Looked) -> Result<(), Refusal> {
        let Some(current) = self.next.attempt.clone().filter(|current| current.number == attempt)
        else {
            return Err(self.late());
        };
        if !self.next.has_attempt_in_doubt()
            || !matches!(self.next.state, State::Creating | State::Destroying)
        {
            return Err(self.late());
        }
        let now = self.context.now;
        match looked {
            Looked::Found { sandbox, birth } => {
                self.next.attention.remove(&Attention::AmbiguousAttempt);
                self.pin(sandbox, birth);
            }
            Looked::Absent { asked_at, lag } => {
                self.next.claim = None;
                if *asked_at < current.horizon && self.guards.stand(Guards::HORIZON) {
                    self.next.retry_at = current.horizon.min(now + LOOK_PAUSE);
                    return Ok(());
                }
                self.note(EventKind::AttemptAbsent { attempt });
                if self.is_second_look(*asked_at, *lag) {
                    self.close(
                        Ending::NeverCreated,
                        Evidence::of("two full listings past the create horizon do not hold it"),
                    );
                } else {
                    self.next.retry_at = now + *lag;
                }
            }
            Looked::Ambiguous { candidates, retry_at } => {
                self.note(EventKind::AttemptAmbiguous { attempt, candidates: candidates.clone() });
                self.next.attention.insert(Attention::AmbiguousAttempt);
                self.unproved("several sandboxes could be the attempt's", *retry_at);
            }
            Looked::Unprovable { problem, retry_at } => self.unproved(problem, *retry_at),
        }
        Ok(())
    }

    pub(super) fn prepare_ended(
        &mut self,
        epoch: Epoch,
        outcome: &PrepareOutcome,
    ) -> Result<(), Refusal> {
        self.check_epoch(epoch, State::Preparing)?;
        match outcome {
            PrepareOutcome::Ready { grant, delivered } => {
                self.give_grant(self.next.grant.next().max(*grant), *delivered);
            }
            PrepareOutcome::Failed => self.destroy(DestroyReason::PreparationFailed),
        }
        Ok(())
    }

    /// Binds the row to its sandbox.
    fn pin(&mut self, sandbox: &SandboxId, birth: &BirthFingerprint) {
        self.note(EventKind::Pinned { sandbox: sandbox.clone() });
        self.next.pin = Some(Pin { sandbox: sandbox.clone(), birth: birth.clone() });
        if let Some(attempt) = &mut self.next.attempt {
            attempt.state = AttemptState::Made;
        }
        self.next.absent_since = None;
        self.next.retry_at = self.context.now;
        self.new_epoch();
        self.take_claim();
        // One that is being removed is pinned too, so that it can be; that is all it is pinned for.
        if self.next.state == State::Creating || !self.guards.stand(Guards::ABSORBING) {
            self.next.state = State::Preparing;
        }
    }

    /// A row of its own for an attempt that might still make a sandbox nobody waits for.
    fn debt_for_attempt(&self, attempt: Attempt, id: &LeaseId) -> Lease {
        Lease { attempt: Some(attempt), pin: None, ..self.debt_row(id) }
    }

    /// A row of its own for a sandbox that came too late.
    fn debt_for_sandbox(
        &self,
        sandbox: &SandboxId,
        birth: &BirthFingerprint,
        id: &LeaseId,
    ) -> Lease {
        let pin = Pin { sandbox: sandbox.clone(), birth: birth.clone() };
        Lease { attempt: None, pin: Some(pin), ..self.debt_row(id) }
    }

    fn debt_row(&self, id: &LeaseId) -> Lease {
        let now = self.context.now;
        Lease {
            id: id.clone(),
            kind: Kind::Debt,
            intent: None,
            state: State::Destroying,
            version: 1,
            epoch: Epoch(1),
            grant: crate::Grant(0),
            acknowledged: crate::Grant(0),
            deliver_by: None,
            cleanliness: Cleanliness::Doubtful,
            cleaned_at: None,
            busy_nodes: std::collections::BTreeSet::new(),
            absent_since: None,
            claim: None,
            tether: None,
            created_at: now,
            touched_at: now,
            retry_at: now,
            cleanup: Some(Cleanup {
                reason: DestroyReason::LateCreate,
                actor: self.context.caller.actor(),
                since: now,
                tries: 0,
                problem: None,
            }),
            attention: std::collections::BTreeSet::new(),
            receipt: None,
            ..self.next.clone()
        }
    }
}
