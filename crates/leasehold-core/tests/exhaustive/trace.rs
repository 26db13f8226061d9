//! Ways through the world, for people.

use std::fmt;

use leasehold_core::AttemptState;

use crate::moves::{Fate, Move};
use crate::rows::Rows;
use crate::world::{Call, Found, Phase, World};

impl fmt::Display for Move {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Move::Tick => formatter.write_str("a tick passes"),
            Move::Acquire { lease, node } => {
                write!(formatter, "node {node} acquires lease {lease}")
            }
            Move::Decide { node, row, ask, who, held } => {
                let read = if *held { ", as it read it before" } else { "" };
                write!(formatter, "node {node} decides on row {row}{read}: {ask:?} of {who:?}")
            }
            Move::Read { node, row } => write!(formatter, "node {node} looks after row {row}"),
            Move::Execute { call, fate: Fate::Works } => write!(formatter, "executes: {call}"),
            Move::Execute { call, fate } => write!(formatter, "executes, but {fate:?}: {call}"),
            Move::Deliver { call } => {
                let found = match call.phase {
                    Phase::Sent | Phase::Done(Found::Yes) => "done",
                    Phase::Done(Found::Absent) => "absent",
                    Phase::Done(Found::Stranger) => "a stranger",
                    Phase::Done(Found::Refused) => "refused",
                };
                write!(formatter, "answers, {found}: {call}")
            }
            Move::GiveUp { call } => write!(formatter, "is given up: {call}"),
            Move::Crash { node } => write!(formatter, "node {node} dies"),
            Move::Vanish { slot } => write!(formatter, "sandbox {slot} vanishes"),
            Move::StrangerTakes { id } => write!(formatter, "a stranger gets the id {id}"),
            Move::Hold { node, row } => write!(formatter, "node {node} reads row {row}"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { kind, node, row, slot, .. } = self;
        let kind = format!("{kind:?}").to_lowercase();
        write!(formatter, "{kind} of sandbox {slot} for row {row}, by node {node}")?;
        if !self.current {
            formatter.write_str(", of an older decision")?;
        }
        if !self.awaited {
            formatter.write_str(", for which nobody waits")?;
        }
        Ok(())
    }
}

/// The rows of a world in one line.
pub(crate) fn describe(world: &World, rows: &Rows) -> String {
    let describe = |facts: &crate::rows::Facts| {
        let attempt = match facts.attempt {
            Some((number, _, AttemptState::InDoubt)) if facts.in_doubt => {
                format!(", attempt {number} in doubt")
            }
            _ => String::new(),
        };
        let pin = facts.pin.map_or(String::new(), |(id, _)| format!(", id {id}"));
        format!("{}{attempt}{pin}, grant {}", facts.state, facts.grant)
    };
    let rows: Vec<String> = world
        .rows
        .iter()
        .filter(|row| row.exists())
        .map(|row| describe(rows.facts(*row)))
        .collect();
    rows.join(" | ")
}
