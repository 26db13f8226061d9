//! Calls to the provider: sent, executed, answered or given up.

use leasehold_core::Step;

use crate::judge::{self, Violation};
use crate::moves::{Fate, Moves, Outcome};
use crate::rows::{Ask, Facts, Who};
use crate::world::{Bounds, CALLS, Call, CallKind, Found, Node, Phase, Stage, Tick, World};

/// Before no particular tick.
const ANY_TIME: Tick = Tick::MAX;

impl Moves<'_> {
    pub(crate) fn send_read(&mut self, world: &mut World, node: Node, row: u8) -> bool {
        let Some((id, slot)) = self.rows.facts(world.rows[row as usize]).pin else { return false };
        world.left.reads -= 1;
        world.send(Call { slot, id, ..call(CallKind::Read, node, row, world.now) })
    }

    pub(crate) fn execute(
        &mut self,
        world: &mut World,
        call: Call,
        fate: Fate,
    ) -> Result<bool, Violation> {
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
                let later_started = world.sandbox(slot).running >> call.number != 0;
                if by_id == Found::Yes && later_started && self.bounds.cleans_name_their_grant {
                    Found::Refused
                } else if by_id == Found::Yes {
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
                    by_id
                } else {
                    by_id
                }
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

    pub(crate) fn deliver(&mut self, world: &mut World, call: Call) -> Result<bool, Violation> {
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

    pub(crate) fn give_up(&mut self, world: &mut World, call: Call) -> Result<bool, Violation> {
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
pub(crate) fn send_step(
    bounds: &Bounds,
    world: &mut World,
    node: Node,
    row: u8,
    facts: &Facts,
) -> bool {
    let (Some(step), Some((_, until))) = (facts.step, facts.claim) else { return false };
    let (kind, number, before) = match step {
        Step::FindAttempt => {
            (CallKind::Look, facts.attempt.map_or(0, |(number, _, _)| number), ANY_TIME)
        }
        // Reversible calls have a deadline inside their claim. Where a clean names the grant that is
        // over it needs none: it may come however late.
        Step::Prepare => (CallKind::Prepare, 1, until),
        Step::Clean if bounds.cleans_name_their_grant => {
            (CallKind::Clean, facts.grant + 1, ANY_TIME)
        }
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

/// A new call, awaited, of the row's current decision.
pub(crate) fn call(kind: CallKind, node: Node, row: u8, now: Tick) -> Call {
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
