//! What can happen, and what it does to the world.

use crate::calls::{call, send_step};
use crate::judge::{self, Violation};
use crate::rows::{Ask, Question, Rows, Ruling, Who};
use crate::world::{
    Bounds, Call, CallKind, Held, LEASES, Node, ROWS, STRANGER, Slot, Stage, World,
};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Time passes.
    Tick,
    /// A new lease is recorded.
    Acquire { lease: u8, node: Node },
    /// A node decides about a row: as it is now, or as it read it a while ago.
    Decide { node: Node, row: u8, ask: Ask, who: Who, held: bool },
    /// A node reads the sandbox of a lease in use.
    Read { node: Node, row: u8 },
    /// The provider executes a call.
    Execute { call: Call, fate: Fate },
    /// The answer reaches its node, which decides on it.
    Deliver { call: Call },
    /// The node waits no longer; the call may still execute.
    GiveUp { call: Call },
    /// A node dies, and what it had in memory with it.
    Crash { node: Node },
    /// A sandbox vanishes by itself.
    Vanish { slot: Slot },
    /// A sandbox that is not ours gets the id of one that is gone.
    StrangerTakes { id: u8 },
    /// A node reads a row, to decide on it later.
    Hold { node: Node, row: u8 },
}

/// How a provider executes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Works,
    /// A read that lags does not see a new sandbox.
    Misses,
    Refuses,
    /// The new sandbox gets the id of one that is gone.
    Recycles(u8),
}

/// What came of asking the decision function.
pub(crate) enum Outcome {
    Refused,
    AlreadySo,
    Written,
    /// The world is too small for what would come of it.
    NoRoom,
}

/// The rules of the world.
pub(crate) struct Moves<'a> {
    pub(crate) bounds: &'a Bounds,
    pub(crate) rows: &'a mut Rows,
}

impl Moves<'_> {
    /// Makes a move: the world after it, or nothing if it is not possible or changes nothing.
    pub(crate) fn make(&mut self, before: &World, made: Move) -> Option<Result<World, Violation>> {
        let mut world = *before;
        let violation = match self.apply(&mut world, made) {
            Err(violation) => Some(violation),
            Ok(false) => return None,
            Ok(true) => {
                world.settle();
                judge::state(&world, self.rows)
            }
        };
        match violation {
            Some(violation) => Some(Err(violation)),
            None if world == *before => None,
            None => Some(Ok(world)),
        }
    }

    fn apply(&mut self, world: &mut World, made: Move) -> Result<bool, Violation> {
        match made {
            Move::Tick => {
                world.now += 1;
                for sandbox in &mut world.sandboxes {
                    sandbox.fresh = false;
                }
                Ok(true)
            }
            Move::Acquire { lease, node } => {
                let tether = self.bounds.tethers[lease as usize];
                world.rows[lease as usize] =
                    self.rows.requested(lease.into(), node, world.now, tether);
                Ok(true)
            }
            Move::Decide { node, row, ask, who, held } => {
                self.caller_decides(world, node, row, (ask, who), held)
            }
            Move::Read { node, row } => Ok(self.send_read(world, node, row)),
            Move::Execute { call, fate } => self.execute(world, call, fate),
            Move::Deliver { call } => self.deliver(world, call),
            Move::GiveUp { call } => self.give_up(world, call),
            Move::Crash { node } => {
                world.left.crashes -= 1;
                world.dead[node as usize] = true;
                world.held[node as usize] = Held::default();
                for call in world.calls.iter_mut().filter(|c| c.exists() && c.node == node) {
                    // What it has asked for may still happen.
                    call.awaited = false;
                }
                Ok(true)
            }
            Move::Vanish { slot } => {
                world.left.vanishings -= 1;
                world.remove(slot);
                Ok(true)
            }
            Move::StrangerTakes { id } => {
                let stranger = world.sandbox_mut(STRANGER);
                if stranger.stage != Stage::Never {
                    return Ok(false);
                }
                stranger.stage = Stage::Exists;
                stranger.id = id;
                world.left.recyclings -= 1;
                Ok(true)
            }
            Move::Hold { node, row } => {
                let held = &mut world.held[node as usize];
                if held.as_read.exists() {
                    return Ok(false);
                }
                *held = Held { row, as_read: world.rows[row as usize], current: true };
                world.left.stale_reads -= 1;
                Ok(true)
            }
        }
    }

    fn caller_decides(
        &mut self,
        world: &mut World,
        node: Node,
        row: u8,
        (ask, who): (Ask, Who),
        held: bool,
    ) -> Result<bool, Violation> {
        let outcome = self.decide(world, node, row, (ask, who), held)?;
        match ask {
            Ask::SendCreate { slot, horizon } if matches!(outcome, Outcome::Written) => {
                let facts = self.rows.facts(world.rows[row as usize]);
                let number = facts.attempt.map_or(0, |(number, _, _)| number);
                world.send(Call {
                    slot,
                    id: slot,
                    number,
                    before: horizon,
                    ..call(CallKind::Create, node, row, world.now)
                });
            }
            Ask::BeginCommands if !matches!(outcome, Outcome::Refused) => {
                let facts = *self.rows.facts(world.rows[row as usize]);
                if let Who::Owner(_) = who
                    && matches!(outcome, Outcome::AlreadySo)
                    && let Some(violation) = judge::stale_use(world, row.into(), &facts, ask, who)
                {
                    return Err(violation);
                }
                let Some((id, slot)) = facts.pin else { return Ok(false) };
                let number = facts.grant;
                world.send(Call {
                    slot,
                    id,
                    number,
                    ..call(CallKind::Start, node, row, world.now)
                });
                return Ok(true);
            }
            Ask::Renew { .. } if matches!(outcome, Outcome::Written) => world.left.renewals -= 1,
            Ask::Forget if matches!(outcome, Outcome::Written) => world.left.forgettings -= 1,
            Ask::Reopen { .. } if matches!(outcome, Outcome::Written) => {
                world.left.reopenings -= 1;
            }
            _ => {}
        }
        if held {
            world.held[node as usize] = Held::default();
            return Ok(true);
        }
        Ok(matches!(outcome, Outcome::Written))
    }

    /// Asks the shipped function, and writes what it answers if nobody was faster.
    pub(crate) fn decide(
        &mut self,
        world: &mut World,
        node: Node,
        row: u8,
        (ask, who): (Ask, Who),
        held: bool,
    ) -> Result<Outcome, Violation> {
        let index = row as usize;
        let stored = world.rows[index];
        let read = if held { world.held[node as usize].as_read } else { stored };
        let question = Question { row: read, ask, who, node, now: world.now };
        let (next, debt, new_epoch) = match self.rows.decide(question) {
            Ruling::Refused => return Ok(Outcome::Refused),
            Ruling::AlreadySo => return Ok(Outcome::AlreadySo),
            Ruling::Write { row, debt, new_epoch } => (row, debt, new_epoch),
        };
        if held && self.bounds.compares && !world.held[node as usize].current {
            return Ok(Outcome::Refused);
        }
        let (before, after) = (*self.rows.facts(stored), *self.rows.facts(next));
        if let Some((id, _)) = after.pin
            && after.open
            && self.is_pinned(world, id, index)
        {
            return Ok(Outcome::Refused);
        }
        let mut place = None;
        if debt.exists() {
            let pin = self.rows.facts(debt).pin;
            let answered_for = pin.is_some_and(|(id, _)| {
                self.is_pinned(world, id, index) || after.open && after.pin == pin
            });
            if !answered_for {
                place = (LEASES..ROWS).find(|place| !world.rows[*place].exists());
                if place.is_none() {
                    return Ok(Outcome::NoRoom);
                }
            }
        }
        if let Some(violation) = judge::decision(world, index, (&before, &after), ask, who) {
            return Err(violation);
        }
        if let Some((broken, rule)) = &self.rows.broken {
            return Err(format!("ROW: {rule}: {:?}", self.rows.lease(*broken)));
        }
        self.show(world, index, who);
        world.rows[index] = next;
        if let Some(place) = place {
            world.rows[place] = debt;
        }
        for call in world.calls.iter_mut().filter(|call| call.row == row) {
            call.current &= !new_epoch && !held;
        }
        for held in world.held.iter_mut().filter(|held| held.row == row) {
            held.current = false;
        }
        // Whoever writes that it will do a step sends the call. That it has not done so yet is the
        // same as a call that was not executed yet; that it never does, as one that never is.
        let claims = after.claim.is_some_and(|(claimer, _)| claimer == node);
        let creates = matches!(ask, Ask::SendCreate { .. });
        if new_epoch
            && claims
            && after.step.is_some()
            && !creates
            && !send_step(self.bounds, world, node, row, &after)
        {
            return Ok(Outcome::NoRoom);
        }
        Ok(Outcome::Written)
    }

    fn show(&self, world: &mut World, row: usize, who: Who) {
        if let Who::Owner(grant) = who
            && grant == self.rows.facts(world.rows[row]).grant
        {
            world.shown[row] = world.shown[row].max(grant);
        }
    }

    fn is_pinned(&self, world: &World, id: u8, except: usize) -> bool {
        (0..ROWS).filter(|row| *row != except && world.rows[*row].exists()).any(|row| {
            let facts = self.rows.facts(world.rows[row]);
            facts.open && facts.pin.is_some_and(|(pinned, _)| pinned == id)
        })
    }
}
