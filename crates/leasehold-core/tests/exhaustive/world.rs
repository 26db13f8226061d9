//! The small world: what the ledger holds, what really exists at the provider, and what is on its
//! way between the two.

use crate::rows::RowId;

/// Time is a few discrete ticks.
pub(crate) type Tick = u8;
/// One of two nodes.
pub(crate) type Node = u8;
/// One of the sandboxes that may come to be; also its birth, which nothing else ever has.
pub(crate) type Slot = u8;

/// How long a claim lasts.
pub(crate) const CLAIM: Tick = 1;
/// How long a read may miss a new sandbox.
pub(crate) const LAG: Tick = 1;
/// How long after it was sent a create may still execute.
pub(crate) const HORIZON: Tick = 2;
/// How long an acquire may take, and an answer stay unacknowledged.
pub(crate) const PROVISIONING: Tick = 2;

/// Two leases, then room for debts.
pub(crate) const ROWS: usize = 4;
pub(crate) const LEASES: usize = 2;
/// Two attempts for each lease, and a stranger.
pub(crate) const SLOTS: usize = 5;
pub(crate) const STRANGER: Slot = 4;
pub(crate) const CALLS: usize = 4;

/// The slot of the sandbox that an attempt of a lease makes.
pub(crate) fn slot(lease: usize, attempt: u8) -> Slot {
    u8::try_from(lease).unwrap() * 2 + attempt - 1
}

/// How far the search goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) leases: usize,
    pub(crate) last_tick: Tick,
    pub(crate) last_grant: u8,
    /// The node that each lease ends with.
    pub(crate) tethers: [Option<Node>; LEASES],
    pub(crate) left: Left,
    /// Whether the ledger compares versions; if not, it is broken on purpose.
    pub(crate) compares: bool,
    /// Whether a clean says which grant is over, and ends nothing once a command of a later one runs;
    /// if not, the provider is broken on purpose.
    pub(crate) cleans_name_their_grant: bool,
    /// Whether the leases are active already when the search begins.
    pub(crate) begins_active: bool,
    /// Whether a clean raises the fence before it kills; if not, the keeper is broken on purpose.
    pub(crate) fences: bool,
}

/// Bits, one field after the other.
#[derive(Default)]
struct Words {
    words: [u64; 11],
    at: usize,
}

impl Words {
    fn put(&mut self, value: u64, bits: usize) {
        debug_assert!(value < 1 << bits, "{value} does not fit {bits} bits");
        if self.at % 64 + bits > 64 {
            self.at = self.at.next_multiple_of(64);
        }
        self.words[self.at / 64] |= value << (self.at % 64);
        self.at += bits;
    }
}

/// How many of each mishap may still come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    /// A node dies, and its memory with it.
    pub(crate) crashes: u8,
    /// A client gives up, and never learns what came of its call.
    pub(crate) losses: u8,
    /// The provider definitely refuses a create.
    pub(crate) refusals: u8,
    /// A sandbox vanishes by itself.
    pub(crate) vanishings: u8,
    /// An id is given to another sandbox.
    pub(crate) recyclings: u8,
    /// An operator gives a lease up.
    pub(crate) forgettings: u8,
    /// Somebody looks after a lease in use.
    pub(crate) reads: u8,
    /// A sweep opens a closed row again.
    pub(crate) reopenings: u8,
    /// A node reads a row, and decides on it only later.
    pub(crate) stale_reads: u8,
    /// A caller renews.
    pub(crate) renewals: u8,
}

impl Left {
    fn counts(self) -> [u8; 10] {
        [
            self.crashes,
            self.losses,
            self.refusals,
            self.vanishings,
            self.recyclings,
            self.forgettings,
            self.reads,
            self.reopenings,
            self.stale_reads,
            self.renewals,
        ]
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    #[default]
    Never,
    Exists,
    Gone,
}

/// A sandbox as it really is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sandbox {
    pub(crate) stage: Stage,
    /// Made in this tick: reads may not see it yet.
    pub(crate) fresh: bool,
    /// Whether its id is an older sandbox's; then whose. Else its own slot.
    pub(crate) id: u8,
    /// The lowest grant whose commands may start.
    pub(crate) fence: u8,
    /// The grants, as bits, whose processes run.
    pub(crate) running: u8,
    /// A node was told that it exists.
    pub(crate) told: bool,
}

impl Sandbox {
    pub(crate) fn exists(self) -> bool {
        self.stage == Stage::Exists
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CallKind {
    #[default]
    None,
    Create,
    /// A full listing, for an attempt's name.
    Look,
    Prepare,
    Start,
    Clean,
    /// Identity and marker are read, and the fence is raised.
    Verify,
    Destroy,
    /// A read by id.
    Read,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// On its way: not executed.
    #[default]
    Sent,
    /// Executed; the answer is on its way.
    Done(Found),
}

impl Phase {
    fn number(self) -> u64 {
        match self {
            Phase::Sent => 0,
            Phase::Done(found) => 1 + found as u64,
        }
    }
}

/// What a call came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Found {
    /// It did what it should, or found what it looked for.
    #[default]
    Yes,
    Absent,
    /// Another sandbox has the id.
    Stranger,
    Refused,
}

/// A provider call, from its decision to the delivery of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Call {
    pub(crate) kind: CallKind,
    pub(crate) node: Node,
    pub(crate) row: u8,
    /// Which sandbox, by birth.
    pub(crate) slot: Slot,
    /// The id by which the provider is asked.
    pub(crate) id: u8,
    /// The attempt of a create or look, the grant of a start or verify.
    pub(crate) number: u8,
    pub(crate) phase: Phase,
    /// Whether its epoch is the row's.
    pub(crate) current: bool,
    /// Whether somebody waits for its answer. If not, it may still execute.
    pub(crate) awaited: bool,
    /// It executes before this tick or never.
    pub(crate) before: Tick,
    /// When the look or read was asked for.
    pub(crate) began: Tick,
}

impl Call {
    pub(crate) fn exists(&self) -> bool {
        self.kind != CallKind::None
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.phase == Phase::Sent
    }
}

/// A row as a node read it a while ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) row: u8,
    pub(crate) as_read: RowId,
    /// Whether nobody has written it since.
    pub(crate) current: bool,
}

/// Everything, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: Tick,
    pub(crate) rows: [RowId; ROWS],
    pub(crate) sandboxes: [Sandbox; SLOTS],
    pub(crate) calls: [Call; CALLS],
    pub(crate) dead: [bool; 2],
    /// The newest grant whose holder has called with it, whatever the row says.
    pub(crate) shown: [u8; LEASES],
    pub(crate) held: [Held; 2],
    pub(crate) left: Left,
}

impl World {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let mut world = Self { left: bounds.left, ..Self::default() };
        for (slot, sandbox) in (0..).zip(&mut world.sandboxes) {
            sandbox.id = slot;
        }
        world
    }

    /// Everything, in a few words: equal worlds, and only they, have equal words.
    pub(crate) fn words(&self) -> [u64; 11] {
        let mut words = Words::default();
        for row in self.rows {
            words.put(row.number().into(), 32);
        }
        for sandbox in self.sandboxes {
            words.put(sandbox.stage as u64, 2);
            words.put(sandbox.fresh.into(), 1);
            words.put(sandbox.told.into(), 1);
            words.put(sandbox.id.into(), 3);
            words.put(sandbox.fence.into(), 3);
            words.put(sandbox.running.into(), 5);
        }
        for call in self.calls {
            words.put(call.kind as u64, 4);
            words.put(call.node.into(), 1);
            words.put(call.row.into(), 2);
            words.put(call.slot.into(), 3);
            words.put(call.id.into(), 3);
            words.put(call.number.into(), 3);
            words.put(call.phase.number(), 3);
            words.put(call.current.into(), 1);
            words.put(call.awaited.into(), 1);
            words.put(call.before.into(), 8);
            words.put(call.began.into(), 5);
        }
        for held in self.held {
            words.put(held.as_read.number().into(), 32);
            words.put(held.row.into(), 2);
            words.put(held.current.into(), 1);
        }
        for (dead, shown) in self.dead.into_iter().zip(self.shown) {
            words.put(dead.into(), 1);
            words.put(shown.into(), 3);
        }
        words.put(self.now.into(), 5);
        for left in self.left.counts() {
            words.put(left.into(), 3);
        }
        words.words
    }

    /// The existing sandbox that has the id.
    pub(crate) fn with_id(&self, id: u8) -> Option<Slot> {
        (0..).zip(&self.sandboxes).find(|(_, s)| s.exists() && s.id == id).map(|(slot, _)| slot)
    }

    pub(crate) fn sandbox(&self, slot: Slot) -> &Sandbox {
        &self.sandboxes[slot as usize]
    }

    pub(crate) fn sandbox_mut(&mut self, slot: Slot) -> &mut Sandbox {
        &mut self.sandboxes[slot as usize]
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        let sandbox = self.sandbox_mut(slot);
        *sandbox = Sandbox { stage: Stage::Gone, id: sandbox.id, ..Sandbox::default() };
    }

    pub(crate) fn has_room(&self) -> bool {
        self.calls.iter().any(|call| !call.exists())
    }

    pub(crate) fn send(&mut self, call: Call) -> bool {
        match self.calls.iter_mut().find(|call| !call.exists()) {
            Some(place) => {
                *place = call;
                true
            }
            None => false,
        }
    }

    /// Drops what can have no effect any more, and orders what has no order.
    pub(crate) fn settle(&mut self) {
        for index in 0..CALLS {
            let call = self.calls[index];
            if call.exists() && !call.awaited && !self.may_matter(&call) {
                self.calls[index] = Call::default();
            }
        }
        self.calls.sort_unstable();
    }

    /// Whether a call for which nobody waits may still do something.
    fn may_matter(&self, call: &Call) -> bool {
        if !call.is_sent() || self.now >= call.before {
            return false;
        }
        match call.kind {
            CallKind::Create => true,
            CallKind::Start => {
                let sandbox = self.sandbox(call.slot);
                sandbox.exists() && sandbox.fence <= call.number
            }
            CallKind::Clean | CallKind::Verify | CallKind::Destroy => {
                self.sandbox(call.slot).exists()
            }
            CallKind::None | CallKind::Look | CallKind::Prepare | CallKind::Read => false,
        }
    }
}
