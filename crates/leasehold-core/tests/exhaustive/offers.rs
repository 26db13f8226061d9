//! What may happen next.

use leasehold_core::State;

use crate::moves::{Fate, Move, Moves};
use crate::rows::{Ask, Who};
use crate::world::{
    Call, CallKind, HORIZON, Held, LEASES, Node, ROWS, STRANGER, Stage, World, slot,
};

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
        let works = holds_claim && world.calls.iter().any(awaits);
        let ran_out = facts.claim.is_some_and(|(_, until)| until <= world.now);
        let free = !holds_claim || !works && ran_out;
        if facts.step.is_some() && facts.retry_at <= world.now && free {
            ask(Ask::TakeOver);
        }
        if works {
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
}
