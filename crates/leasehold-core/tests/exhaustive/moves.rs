//! What can happen next, and what it does to the world.

use leasehold_core::{AttemptState, State, Step};

use crate::judge::{self, Violation};
use crate::rows::{Ask, Facts, Question, RowId, Rows, Ruling, Who};
use crate::world::{
    Bounds, CALLS, Call, CallKind, Found, HORIZON, Held, LEASES, Node, Phase, ROWS, STRANGER, Slot,
    Stage, Tick, World, slot,
};

/// Before no particular tick.
const ANY_TIME: Tick = Tick::MAX;

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
enum Outcome {
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
    /// Every move that may be possible; [`Moves::make`] tells which are.
    pub(crate) fn offer(&self, world: &World, moves: &mut Vec<Move>) {
        moves.clear();
        if world.now < self.bounds.last_tick {
            moves.push(Move::Tick);
        }
        for call in world.calls.iter().filter(|call| call.exists()) {
            self.offer_call(world, *call, moves);
        }
        for node in [0, 1] {
            if !world.dead[node as usize] {
                self.offer_node(world, node, moves);
            }
        }
        for (slot, sandbox) in (0..).zip(&world.sandboxes) {
            if world.left.vanishings > 0 && sandbox.exists() && slot != STRANGER {
                moves.push(Move::Vanish { slot });
            }
            let free = sandbox.stage == Stage::Gone && world.with_id(sandbox.id).is_none();
            if world.left.recyclings > 0 && free {
                moves.push(Move::StrangerTakes { id: sandbox.id });
            }
        }
    }

    fn offer_call(&self, world: &World, call: Call, moves: &mut Vec<Move>) {
        let in_time = world.now < call.before;
        if !call.is_sent() {
            moves.push(Move::Deliver { call });
        } else if in_time {
            moves.push(Move::Execute { call, fate: Fate::Works });
            let seeks = matches!(call.kind, CallKind::Look | CallKind::Read | CallKind::Destroy);
            if seeks && world.sandbox(call.slot).fresh {
                moves.push(Move::Execute { call, fate: Fate::Misses });
            }
            if call.kind == CallKind::Create {
                if world.left.refusals > 0 && call.awaited {
                    moves.push(Move::Execute { call, fate: Fate::Refuses });
                }
                let free = world
                    .sandboxes
                    .iter()
                    .find(|s| s.stage == Stage::Gone && world.with_id(s.id).is_none());
                if let (Some(gone), true) = (free, world.left.recyclings > 0) {
                    moves.push(Move::Execute { call, fate: Fate::Recycles(gone.id) });
                }
            }
        }
        let overdue = call.is_sent() && !in_time;
        if call.awaited && call.kind != CallKind::Read && (world.left.losses > 0 || overdue) {
            moves.push(Move::GiveUp { call });
        }
    }

    fn offer_node(&self, world: &World, node: Node, moves: &mut Vec<Move>) {
        let other = 1 - node;
        if world.left.crashes > 0 && !world.dead[other as usize] {
            moves.push(Move::Crash { node });
        }
        for row in 0..ROWS {
            let number = u8::try_from(row).unwrap();
            if !world.rows[row].exists() {
                // Nodes are alike, so the first lease is acquired on the first.
                if row < self.bounds.leases && (row > 0 || node == 0) {
                    moves.push(Move::Acquire { lease: number, node });
                }
                continue;
            }
            self.offer_keeper(world, node, row, moves);
            if row < LEASES {
                for (ask, who) in self.owner_asks(world, row, node) {
                    moves.push(Move::Decide { node, row: number, ask, who, held: false });
                }
            }
            if world.left.stale_reads > 0 {
                moves.push(Move::Hold { node, row: number });
            }
        }
        let held = world.held[node as usize];
        if held.as_read.exists() {
            self.offer_held(node, held, moves);
        }
    }

    /// What callers ask of a lease: its owner with the newest grant and the one before, another
    /// owner, an operator.
    fn owner_asks(&self, world: &World, row: usize, node: Node) -> Vec<(Ask, Who)> {
        let facts = self.rows.facts(world.rows[row]);
        // One command of a node at a time: a second adds nothing but states.
        let may_start = world.has_room()
            && !world.calls.iter().any(|call| {
                call.kind == CallKind::Start && call.node == node && usize::from(call.row) == row
            });
        let mut asks = Vec::new();
        for grant in facts.grant.saturating_sub(1)..=facts.grant {
            let who = Who::Owner(grant);
            asks.extend([(Ask::Acknowledge, who), (Ask::Park, who), (Ask::Destroy, who)]);
            if may_start {
                asks.push((Ask::BeginCommands, who));
            }
            if facts.grant < self.bounds.last_grant {
                asks.push((Ask::Resume, who));
            }
            if world.left.renewals > 0 {
                asks.push((Ask::Renew { until: facts.created_at + 6 }, who));
            }
        }
        let stranger = Who::Stranger(facts.grant);
        asks.extend([(Ask::BeginCommands, stranger), (Ask::Park, stranger)]);
        asks.push((Ask::Destroy, stranger));
        if world.left.forgettings > 0 {
            asks.push((Ask::Forget, Who::Operator));
        }
        asks
    }

    fn offer_keeper(&self, world: &World, node: Node, row: usize, moves: &mut Vec<Move>) {
        let number = u8::try_from(row).unwrap();
        let facts = self.rows.facts(world.rows[row]);
        let mut ask = |ask| {
            moves.push(Move::Decide { node, row: number, ask, who: Who::Keeper, held: false });
        };
        if row < LEASES && matches!(facts.state, State::Requested | State::Creating) {
            let attempt = facts.attempt.map_or(1, |(attempt, _, _)| attempt + 1);
            if attempt <= 2 && world.has_room() {
                let horizon = world.now + HORIZON;
                ask(Ask::SendCreate { slot: slot(row, attempt), horizon });
            }
        }
        if facts.open && facts.state != State::Destroying {
            ask(Ask::Expire);
            ask(Ask::TakeBack);
        }
        let other = 1 - node;
        let names_other = facts.busy[other as usize]
            || facts.claim.is_some_and(|(claimer, _)| claimer == other)
            || facts.tethered_to == Some(other);
        if world.dead[other as usize] && names_other && facts.open {
            ask(Ask::NodeDied { node: other });
        }
        let awaits =
            |call: &Call| call.exists() && call.awaited && call.node == node && call.row == number;
        let holds_claim = facts.claim.is_some_and(|(claimer, _)| claimer == node);
        if facts.step.is_some() && facts.retry_at <= world.now && !holds_claim {
            ask(Ask::TakeOver);
        }
        if holds_claim && world.calls.iter().any(awaits) {
            ask(Ask::RenewClaim);
        }
        if let (Some((id, birth)), true) = (facts.pin, world.left.reopenings > 0 && !facts.open) {
            ask(Ask::Reopen { id, birth });
        }
        let used = matches!(facts.state, State::Active | State::Parked);
        if world.left.reads > 0 && used && world.has_room() {
            moves.push(Move::Read { node, row: number });
        }
    }

    /// What a node may decide on a row that it read a while ago.
    fn offer_held(&self, node: Node, held: Held, moves: &mut Vec<Move>) {
        let facts = self.rows.facts(held.as_read);
        let owner = Who::Owner(facts.grant);
        let asks = [
            (Ask::Park, owner),
            (Ask::Destroy, owner),
            (Ask::Resume, owner),
            (Ask::Expire, Who::Keeper),
            (Ask::TakeOver, Who::Keeper),
        ];
        for (ask, who) in asks {
            if ask == Ask::Resume && facts.grant >= self.bounds.last_grant
                || held.row as usize >= LEASES && who == owner
            {
                continue;
            }
            moves.push(Move::Decide { node, row: held.row, ask, who, held: true });
        }
    }

    /// The moves that make every lease active, each on its own node.
    pub(crate) fn prologue(&mut self, start: &World) -> Vec<Move> {
        let mut world = *start;
        let mut way = Vec::new();
        let mut offered = Vec::new();
        for lease in 0..u8::try_from(self.bounds.leases).unwrap() {
            let wanted: [fn(&Move, u8) -> bool; 6] = [
                |made, lease| *made == Move::Acquire { lease, node: lease },
                |made, lease| {
                    matches!(made, Move::Decide { node, row, ask: Ask::SendCreate { .. }, .. }
                        if *node == lease && *row == lease)
                },
                |made, _| matches!(made, Move::Execute { fate: Fate::Works, .. }),
                |made, _| matches!(made, Move::Deliver { .. }),
                |made, _| matches!(made, Move::Execute { fate: Fate::Works, .. }),
                |made, _| matches!(made, Move::Deliver { .. }),
            ];
            for wanted in wanted {
                self.offer(&world, &mut offered);
                let made = *offered.iter().find(|made| wanted(made, lease)).unwrap();
                world = self.make(&world, made).unwrap().unwrap();
                way.push(made);
            }
        }
        way
    }

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
                    call.awaited = false;
                    let reversible = matches!(call.kind, CallKind::Clean | CallKind::Verify);
                    if reversible && !self.bounds.calls_outlive_nodes {
                        *call = Call::default();
                    }
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
    fn decide(
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
            && !send_step(world, node, row, &after)
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

    fn send_read(&mut self, world: &mut World, node: Node, row: u8) -> bool {
        let Some((id, slot)) = self.rows.facts(world.rows[row as usize]).pin else { return false };
        world.left.reads -= 1;
        world.send(Call { slot, id, ..call(CallKind::Read, node, row, world.now) })
    }

    fn execute(&mut self, world: &mut World, call: Call, fate: Fate) -> Result<bool, Violation> {
        let target = match fate {
            Fate::Misses => None,
            _ => world.with_id(call.id),
        };
        let (slot, by_id) = (
            call.slot,
            match target {
                Some(found) if found == call.slot => Found::Yes,
                Some(_) => Found::Stranger,
                None => Found::Absent,
            },
        );
        let found = match call.kind {
            CallKind::None => return Ok(false),
            CallKind::Create => match fate {
                Fate::Refuses => {
                    world.left.refusals -= 1;
                    Found::Refused
                }
                _ => {
                    let sandbox = world.sandbox_mut(slot);
                    sandbox.stage = Stage::Exists;
                    sandbox.fresh = true;
                    if let Fate::Recycles(id) = fate {
                        sandbox.id = id;
                        world.left.recyclings -= 1;
                    }
                    Found::Yes
                }
            },
            CallKind::Look if fate == Fate::Misses || !world.sandbox(slot).exists() => {
                Found::Absent
            }
            CallKind::Look | CallKind::Read => match call.kind {
                CallKind::Look => Found::Yes,
                _ => by_id,
            },
            CallKind::Prepare => {
                if by_id == Found::Yes {
                    world.sandbox_mut(slot).fence = world.sandbox(slot).fence.max(1);
                }
                by_id
            }
            CallKind::Start => {
                let starts = by_id == Found::Yes && world.sandbox(slot).fence <= call.number;
                if starts {
                    world.sandbox_mut(slot).running |= 1 << call.number;
                }
                if starts { Found::Yes } else { Found::Refused }
            }
            CallKind::Clean => {
                if by_id == Found::Yes {
                    if let Some(violation) = judge::clean(world, self.rows, &call) {
                        return Err(violation);
                    }
                    // The fence first: what still waits to be started under the old grant does not
                    // start after the kill.
                    if self.bounds.fences {
                        let fence = &mut world.sandbox_mut(slot).fence;
                        *fence = call.number.max(*fence);
                    }
                    world.sandbox_mut(slot).running = 0;
                }
                by_id
            }
            CallKind::Verify => {
                if by_id == Found::Yes {
                    world.sandbox_mut(slot).fence = world.sandbox(slot).fence.max(call.number);
                }
                by_id
            }
            CallKind::Destroy => {
                if by_id == Found::Yes {
                    if let Some(violation) = judge::destroy(world, self.rows, &call) {
                        return Err(violation);
                    }
                    world.remove(slot);
                }
                by_id
            }
        };
        let place = place_of(world, call);
        world.calls[place] =
            if call.awaited { Call { phase: Phase::Done(found), ..call } } else { Call::default() };
        Ok(true)
    }

    fn deliver(&mut self, world: &mut World, call: Call) -> Result<bool, Violation> {
        let Phase::Done(found) = call.phase else { return Ok(false) };
        world.calls[place_of(world, call)] = Call::default();
        let (attempt, current, asked_at) = (call.number, call.current, call.began);
        let (birth, id) = (call.slot, world.sandbox(call.slot).id);
        let ask = match (call.kind, found) {
            (CallKind::Create, Found::Refused) => Ask::CreateRefused { attempt },
            (CallKind::Create, _) => {
                if world.sandbox(birth).exists() {
                    world.sandbox_mut(birth).told = true;
                }
                Ask::CreateMade { attempt, id, birth }
            }
            (CallKind::Look, Found::Yes) => Ask::LookedFound { attempt, id, birth },
            (CallKind::Look, _) => Ask::LookedAbsent { attempt, asked_at },
            (CallKind::Prepare, Found::Yes) => Ask::Prepared { current },
            (CallKind::Prepare, _) => Ask::PrepareFailed { current },
            (CallKind::Start, _) => {
                if runs_more(world, &call) {
                    return Ok(true);
                }
                Ask::CommandsEnded { definite: true }
            }
            (CallKind::Clean, Found::Yes) => Ask::Cleaned { current },
            (CallKind::Clean, _) => Ask::CleanUnconfirmed { current },
            (CallKind::Verify, Found::Yes) => Ask::ResumeReady { current },
            (CallKind::Verify, Found::Stranger) => Ask::ResumeStranger { current },
            (CallKind::Verify, _) => Ask::ResumeTransient { current },
            (CallKind::Destroy, Found::Yes) => Ask::Destroyed { current },
            (CallKind::Destroy, Found::Stranger) => Ask::DestroyStranger { current },
            (CallKind::Destroy, _) => Ask::DestroyAbsent { current, asked_at },
            (CallKind::Read, Found::Absent) => Ask::SandboxAbsent { asked_at },
            (CallKind::Read, Found::Yes) => Ask::SandboxPresent,
            (CallKind::Read, _) | (CallKind::None, _) => return Ok(true),
        };
        self.learn(world, &call, ask)
    }

    fn give_up(&mut self, world: &mut World, call: Call) -> Result<bool, Violation> {
        let place = place_of(world, call);
        let overdue = call.is_sent() && world.now >= call.before;
        if !overdue {
            world.left.losses -= 1;
        }
        world.calls[place] = if call.is_sent() && !overdue {
            Call { awaited: false, ..call }
        } else {
            Call::default()
        };
        let (attempt, current) = (call.number, call.current);
        let ask = match call.kind {
            CallKind::Create => Ask::CreateLost { attempt },
            CallKind::Look => Ask::LookedUnprovable { attempt },
            CallKind::Prepare => Ask::PrepareFailed { current },
            CallKind::Start => Ask::CommandsEnded { definite: false },
            CallKind::Clean => Ask::CleanUnconfirmed { current },
            CallKind::Verify => Ask::ResumeTransient { current },
            CallKind::Destroy => Ask::DestroyUnproved { current },
            CallKind::Read | CallKind::None => return Ok(false),
        };
        self.learn(world, &call, ask)
    }

    fn learn(&mut self, world: &mut World, call: &Call, ask: Ask) -> Result<bool, Violation> {
        let outcome = self.decide(world, call.node, call.row, (ask, Who::Keeper), false)?;
        Ok(!matches!(outcome, Outcome::NoRoom))
    }
}

/// Sends the call that a row asks for.
fn send_step(world: &mut World, node: Node, row: u8, facts: &Facts) -> bool {
    let (Some(step), Some((_, until))) = (facts.step, facts.claim) else { return false };
    let (kind, number, before) = match step {
        Step::FindAttempt => {
            (CallKind::Look, facts.attempt.map_or(0, |(number, _, _)| number), ANY_TIME)
        }
        // Reversible calls have a deadline inside their claim.
        Step::Prepare => (CallKind::Prepare, 1, until),
        Step::Clean => (CallKind::Clean, facts.grant + 1, until),
        Step::Verify => (CallKind::Verify, facts.grant + 1, until),
        Step::Destroy => (CallKind::Destroy, 0, ANY_TIME),
        Step::Create | Step::Start => return false,
    };
    let (id, slot) = match (facts.pin, facts.attempt) {
        (Some((id, slot)), _) => (id, slot),
        (None, Some((_, slot, _))) => (slot, slot),
        (None, None) => return false,
    };
    world.send(Call { slot, id, number, before, ..call(kind, node, row, world.now) })
}

fn call(kind: CallKind, node: Node, row: u8, now: Tick) -> Call {
    Call {
        kind,
        node,
        row,
        current: true,
        awaited: true,
        before: ANY_TIME,
        // Only looks and reads are dated: for the others it would only multiply states.
        began: match kind {
            CallKind::Look | CallKind::Read | CallKind::Destroy => now,
            _ => 0,
        },
        ..Call::default()
    }
}

fn place_of(world: &World, call: Call) -> usize {
    (0..CALLS).find(|place| world.calls[*place] == call).unwrap()
}

/// Whether another command of the node runs on the row.
fn runs_more(world: &World, call: &Call) -> bool {
    world.calls.iter().any(|other| {
        other.kind == CallKind::Start
            && other.awaited
            && other.node == call.node
            && other.row == call.row
    })
}

/// Kept for traces: a row in one line.
pub(crate) fn describe(world: &World, rows: &Rows) -> String {
    let mut parts = Vec::new();
    for row in world.rows.iter().filter(|row| RowId::exists(**row)) {
        let facts = rows.facts(*row);
        let attempt = match facts.attempt {
            Some((number, _, AttemptState::InDoubt)) if facts.in_doubt => {
                format!(" attempt {number}?")
            }
            _ => String::new(),
        };
        let pin = facts.pin.map_or(String::new(), |(id, _)| format!(" s{id}"));
        parts.push(format!("{}{attempt}{pin} g{}", facts.state, facts.grant));
    }
    parts.join(" | ")
}

impl std::fmt::Display for Move {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self:?}")
    }
}
