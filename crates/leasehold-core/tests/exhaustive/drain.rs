//! Always a way out: once mishaps stop and callers are gone, every lease ends by itself.

use leasehold_core::State;

use crate::judge::Violation;
use crate::moves::{Fate, Move, Moves};
use crate::rows::{Ask, Who};
use crate::world::{LEASES, Slot, Tick, World};

/// Every deadline of a lease, one after the other, is well within this.
const LONG_ENOUGH: Tick = 24;

/// Keepers that are busy for ever get nowhere.
const MANY_MOVES: u32 = 1_000;

impl Moves<'_> {
    /// Lets the keepers work on what is due, and time pass, until nothing is left.
    pub(crate) fn drain(&mut self, start: &World) -> Result<(), Violation> {
        let mut world = *start;
        let mut offered = Vec::new();
        let mut moves = 0;
        while !self.is_over(&world) {
            moves += 1;
            if world.now > LONG_ENOUGH || moves > MANY_MOVES {
                return Err(format!("WAY OUT: a row or sandbox is left at tick {}", world.now));
            }
            self.offer(&world, &mut offered);
            let works = offered.iter().filter(|made| is_work(made, &world));
            let next = works.filter_map(|made| self.make(&world, *made)).next();
            world = match next.or_else(|| self.make(&world, Move::Tick)) {
                Some(after) => after?,
                None => return Err("WAY OUT: time stands still".to_owned()),
            };
        }
        Ok(())
    }

    /// Whether nothing of ours is left but what an operator gave up.
    fn is_over(&self, world: &World) -> bool {
        let rows = world.rows.iter().filter(|row| row.exists()).map(|row| self.rows.facts(*row));
        let given_up: Vec<Slot> = rows
            .clone()
            .filter(|row| row.forgotten)
            .flat_map(|row| row.pin.map(|(_, slot)| slot).or(row.attempt.map(|(_, slot, _)| slot)))
            .collect();
        let left = |slot: Slot| world.sandbox(slot).exists() && !given_up.contains(&slot);
        rows.clone().all(|row| row.state == State::Closed)
            && !(0..u8::try_from(LEASES * 2).unwrap()).any(left)
    }
}

/// What happens without callers and without mishaps.
fn is_work(made: &Move, world: &World) -> bool {
    match made {
        Move::Execute { fate: Fate::Works, .. } | Move::Deliver { .. } => true,
        Move::GiveUp { call } => world.now >= call.before,
        Move::Decide { ask, who: Who::Keeper, held: false, .. } => {
            matches!(ask, Ask::Expire | Ask::TakeBack | Ask::TakeOver | Ask::NodeDied { .. })
        }
        _ => false,
    }
}
