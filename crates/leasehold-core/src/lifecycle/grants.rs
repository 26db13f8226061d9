//! The use of a lease: grants, acknowledgements, renewals, commands.

use crate::event::EventKind;
use crate::identifiers::Grant;
use crate::lease::{Cleanliness, DestroyReason, Kind, State};
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::{Caller, Draft, Guards};

impl Draft<'_> {
    /// Makes the lease usable under a new grant.
    pub(super) fn give_grant(&mut self, grant: Grant, delivered: bool) {
        let now = self.context.now;
        let grant = grant.max(self.next.grant.next());
        self.next.state = State::Active;
        self.next.grant = grant;
        self.next.claim = None;
        self.next.touched_at = now;
        self.new_epoch();
        self.note(EventKind::Granted { grant });
        if delivered {
            self.mark_acknowledged();
        } else {
            self.next.deliver_by = Some(now + self.next.clocks.provisioning);
        }
    }

    fn mark_acknowledged(&mut self) {
        if self.next.acknowledged < self.next.grant {
            self.next.acknowledged = self.next.grant;
            self.next.deliver_by = None;
            let grant = self.next.grant;
            self.note(EventKind::Acknowledged { grant });
        }
    }

    /// Whether the caller shows by this very call that it knows the current grant.
    fn caller_knows_grant(&self) -> bool {
        match self.context.caller {
            Caller::Owner { grant, .. } => grant.is_none_or(|grant| grant == self.next.grant),
            Caller::Operator(_) | Caller::Keeper => false,
        }
    }

    pub(super) fn acknowledge(&mut self) {
        if self.caller_knows_grant() {
            self.mark_acknowledged();
            self.restart_idle_clock();
        }
    }

    /// Written only when an eighth of the idle time has passed: a durable write for every command
    /// would cost more than the command.
    fn restart_idle_clock(&mut self) {
        if self.context.now.since(self.next.touched_at) * 8 >= self.next.clocks.idle_active {
            self.next.touched_at = self.context.now;
        }
    }

    pub(super) fn has_expired(&self) -> bool {
        self.context.calm && self.context.now >= self.next.expires_at()
    }

    fn refuse_expired(&self) -> Result<(), Refusal> {
        if self.has_expired() && self.guards.stand(Guards::DEADLINE) {
            return Err(Refusal::Expired { lease: self.next.id.clone() });
        }
        Ok(())
    }

    pub(super) fn renew(&mut self, life_until: Timestamp) -> Result<(), Refusal> {
        if self.next.kind == Kind::Template {
            return Err(Refusal::Template { lease: self.next.id.clone() });
        }
        self.refuse_expired()?;
        let longest = self.next.clocks.longest_life;
        let latest = self.next.created_at + longest;
        if life_until > latest {
            return Err(Refusal::BeyondLife { lease: self.next.id.clone(), latest, longest });
        }
        self.next.life_until = life_until;
        self.acknowledge();
        self.restart_idle_clock();
        self.note(EventKind::Renewed { life_until });
        Ok(())
    }

    pub(super) fn touch(&mut self) -> Result<(), Refusal> {
        if self.next.state != State::Active {
            return Err(Refusal::NotReady { lease: self.next.id.clone(), state: self.next.state });
        }
        self.refuse_expired()?;
        self.restart_idle_clock();
        Ok(())
    }

    pub(super) fn begin_commands(&mut self) -> Result<(), Refusal> {
        self.refuse_expired()?;
        self.acknowledge();
        self.restart_idle_clock();
        if self.next.cleanliness == Cleanliness::Clean {
            self.next.cleanliness = Cleanliness::Dirty;
        }
        if self.next.busy_nodes.insert(self.context.node.clone()) {
            let node = self.context.node.clone();
            self.note(EventKind::CommandsBegan { node });
        }
        Ok(())
    }

    pub(super) fn commands_ended(&mut self, definite: bool) {
        let node = self.context.node.clone();
        if !self.next.busy_nodes.remove(&node) {
            // It has none here, or its word comes after it was given up for dead: the doubt that this
            // left is on record.
            return;
        }
        if !definite && self.guards.stand(Guards::CLEAN) {
            self.next.cleanliness = Cleanliness::Doubtful;
        }
        self.note(EventKind::CommandsEnded { node, definite });
        if self.next.state == State::Active {
            self.next.touched_at = self.context.now;
        }
    }

    /// Takes back a grant that nobody acknowledged: an acquire's sandbox is removed, a resume's is
    /// parked again.
    pub(super) fn take_back(&mut self) -> Result<(), Refusal> {
        let overdue = self.next.deliver_by.is_some_and(|limit| limit <= self.context.now);
        if !overdue || !self.context.calm || self.next.state != State::Active {
            return Err(Refusal::NotDue { lease: self.next.id.clone() });
        }
        if self.next.grant.0 == 1 {
            self.destroy(DestroyReason::Undelivered);
        } else {
            self.release_to_park();
        }
        Ok(())
    }
}
