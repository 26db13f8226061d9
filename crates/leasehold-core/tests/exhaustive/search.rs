//! Breadth first: whatever is found is found on a shortest way.

use std::fmt::Write as _;

use leasehold_core::Guards;

use crate::hash::{Folded, fingerprint};
use crate::moves::{Move, Moves};
use crate::rows::Rows;
use crate::trace::describe;
use crate::world::{Bounds, World};

#[expect(
    clippy::disallowed_types,
    reason = "only asked whether it holds a fingerprint, never iterated"
)]
type Seen = std::collections::HashSet<u128, Folded>;

/// What a search came to.
pub(crate) struct Report {
    /// From how many states every lease was seen to end by itself.
    pub(crate) drained: usize,
    pub(crate) states: usize,
    /// The length of the longest of the shortest ways.
    pub(crate) depth: usize,
    /// Whether there was nothing left to visit.
    pub(crate) complete: bool,
    /// How many different rows were written.
    pub(crate) rows: usize,
    pub(crate) counterexample: Option<String>,
}

/// From one state in so many the way out is followed to its end.
const DRAINED_EVERY: usize = 100;

struct Visited {
    world: World,
    from: u32,
    by: Option<Move>,
    depth: u32,
}

/// Visits at most `limit` states, or stops at the first that breaks a promise.
pub(crate) fn search(guards: Guards, bounds: &Bounds, limit: usize) -> Report {
    let mut rows = Rows::new(guards);
    let mut moves = Moves { bounds, rows: &mut rows };
    let start = World::new(bounds);
    let mut seen = Seen::default();
    seen.insert(fingerprint(&start.words()));
    let mut visited = vec![Visited { world: start, from: 0, by: None, depth: 0 }];
    if bounds.begins_active {
        for (from, made) in (0..).zip(moves.prologue(&start)) {
            let before = visited[from as usize].world;
            let Some(Ok(world)) = moves.make(&before, made) else { break };
            seen.insert(fingerprint(&world.words()));
            visited.push(Visited { world, from, by: Some(made), depth: from + 1 });
        }
    }
    let mut offered = Vec::new();
    let mut next = visited.len() - 1;
    let mut counterexample = None;
    'search: while next < visited.len() && visited.len() < limit {
        let (world, depth) = (visited[next].world, visited[next].depth);
        moves.offer(&world, &mut offered);
        for made in &offered {
            match moves.make(&world, *made) {
                None => {}
                Some(Ok(world)) if seen.insert(fingerprint(&world.words())) => {
                    let from = u32::try_from(next).unwrap();
                    visited.push(Visited { world, from, by: Some(*made), depth: depth + 1 });
                }
                Some(Ok(_)) => {}
                Some(Err(violation)) => {
                    counterexample = Some(trace(&visited, next, *made, &violation, moves.rows));
                    break 'search;
                }
            }
        }
        next += 1;
    }
    let mut drained = 0;
    if counterexample.is_none() {
        for (index, sample) in visited.iter().enumerate().step_by(DRAINED_EVERY) {
            drained += 1;
            if let Err(violation) = moves.drain(&sample.world) {
                counterexample = Some(trace(&visited, index, Move::Tick, &violation, moves.rows));
                break;
            }
        }
    }
    Report {
        drained,
        states: visited.len(),
        depth: visited.last().map_or(0, |last| last.depth as usize),
        complete: next == visited.len(),
        rows: moves.rows.count(),
        counterexample,
    }
}

fn trace(visited: &[Visited], last: usize, made: Move, violation: &str, rows: &Rows) -> String {
    let mut way = Vec::new();
    let mut at = last;
    while let Some(by) = visited[at].by {
        way.push((by, describe(&visited[at].world, rows)));
        at = visited[at].from as usize;
    }
    let mut text = String::new();
    for (number, (by, rows)) in (1..).zip(way.iter().rev()) {
        let _ = writeln!(text, "{number:3}. {by}\n       [{rows}]");
    }
    let _ = writeln!(text, "{:3}. {made}\n     ! {violation}", way.len() + 1);
    text
}
