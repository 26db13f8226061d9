//! What must hold, judged on what really is: not on what a row says about itself.

use leasehold_core::{AttemptState, State};

use crate::rows::{Ask, Facts, RowId, Rows, Who};
use crate::world::{Call, CallKind, LEASES, Slot, World};

/// A promise that was broken, in words.
pub(crate) type Violation = String;

/// LIVING: a removal executes only for a sandbox whose row is being removed, and for none that a
/// living row names.
pub(crate) fn destroy(world: &World, rows: &Rows, call: &Call) -> Option<Violation> {
    let row = rows.facts(world.rows[call.row as usize]);
    if !(row.state == State::Destroying || row.forgotten) {
        return Some(format!("LIVING: sandbox {} is removed, its row is {}", call.slot, row.state));
    }
    let living = open_rows(world, rows)
        .find(|row| row.state != State::Destroying && pins(row, world, call.slot))?;
    Some(format!(
        "LIVING: sandbox {} is removed, a row that is {} names it",
        call.slot, living.state
    ))
}

/// LIVING, for what runs inside: a clean ends only commands of grants that are over.
pub(crate) fn clean(world: &World, rows: &Rows, call: &Call) -> Option<Violation> {
    let row = rows.facts(world.rows[call.row as usize]);
    let running = world.sandbox(call.slot).running;
    (row.state == State::Active && running & (1 << row.grant) != 0)
        .then(|| format!("LIVING: a clean ends commands of grant {}, which is in use", row.grant))
}

/// What a decision may do to a row.
pub(crate) fn decision(
    world: &World,
    row: usize,
    (before, after): (&Facts, &Facts),
    ask: Ask,
    who: Who,
) -> Option<Violation> {
    if let Who::Stranger(_) = who {
        return Some(format!("OWNERSHIP: {ask:?} of another owner is obeyed"));
    }
    if let Some(violation) = stale_use(world, row, before, ask, who) {
        return Some(violation);
    }
    if before.state == State::Destroying
        && !matches!(after.state, State::Destroying | State::Closed)
    {
        return Some(format!("ABSORBING: a removal becomes {}", after.state));
    }
    let due = u64::from(world.now) >= before.expires_at;
    if ask == Ask::Expire && !due {
        return Some(format!(
            "DEADLINE: it ends at {}, and is ended at {}",
            before.expires_at, world.now
        ));
    }
    let uses = matches!(ask, Ask::BeginCommands | Ask::Renew { .. } | Ask::Resume);
    if uses && due {
        return Some(format!(
            "DEADLINE: {ask:?} at {}, its end was {}",
            world.now, before.expires_at
        ));
    }
    if after.grant > before.grant {
        return hand_on(world, after);
    }
    None
}

/// Only the newest grant is obeyed; while nobody has called with it, the one before may end the
/// lease. Anybody of the owner may resume what is parked.
pub(crate) fn stale_use(
    world: &World,
    row: usize,
    before: &Facts,
    ask: Ask,
    who: Who,
) -> Option<Violation> {
    let Who::Owner(grant) = who else { return None };
    let ends = matches!(ask, Ask::Park | Ask::Destroy);
    let obeyed = grant == before.grant
        || ask == Ask::Resume
        || ends && grant + 1 == before.grant && world.shown[row] < before.grant;
    (!obeyed).then(|| format!("GRANT: {ask:?} of grant {grant} is obeyed at {}", before.grant))
}

/// CLEAN HAND-ON: when a grant is given, nothing of an older one runs or can start.
fn hand_on(world: &World, after: &Facts) -> Option<Violation> {
    let (_, slot) = after.pin?;
    let sandbox = world.sandbox(slot);
    let older = (1u8 << after.grant) - 1;
    if sandbox.running & older != 0 {
        return Some(format!(
            "CLEAN HAND-ON: grant {} is given over running commands",
            after.grant
        ));
    }
    let can_start = |call: &&Call| {
        call.kind == CallKind::Start
            && call.slot == slot
            && call.is_sent()
            && call.number < after.grant
            && call.number >= sandbox.fence
    };
    let starter = world.calls.iter().find(can_start)?;
    Some(format!(
        "CLEAN HAND-ON: grant {} is given, a command of grant {} can still start",
        after.grant, starter.number
    ))
}

/// CONSERVATION and TRUTHFUL ENDS, which hold at every instant.
pub(crate) fn state(world: &World, rows: &Rows) -> Option<Violation> {
    for slot in 0..u8::try_from(LEASES * 2).unwrap() {
        if world.sandbox(slot).exists()
            && let Some(violation) = conservation(world, rows, slot)
        {
            return Some(violation);
        }
    }
    world.rows.iter().filter(|row| row.exists()).find_map(|row| truthful(world, rows.facts(*row)))
}

fn conservation(world: &World, rows: &Rows, slot: Slot) -> Option<Violation> {
    let pinned = open_rows(world, rows).filter(|row| pins(row, world, slot)).count();
    if pinned == 1 {
        return None;
    }
    if pinned > 1 {
        return Some(format!("CONSERVATION: {pinned} open rows pin sandbox {slot}"));
    }
    let attempted =
        |row: &Facts| row.in_doubt && row.attempt.is_some_and(|(_, attempt, _)| attempt == slot);
    if open_rows(world, rows).any(attempted) {
        return None;
    }
    // What an operator gave up is no longer ours; but what a node learns of later is recorded.
    let told = world.sandbox(slot).told;
    let given_up = all_rows(world, rows)
        .any(|row| row.forgotten && (pins(row, world, slot) || !told && attempted(row)));
    (!given_up).then(|| format!("CONSERVATION: sandbox {slot} exists, and no open row names it"))
}

fn truthful(world: &World, row: &Facts) -> Option<Violation> {
    if row.open || row.forgotten {
        return None;
    }
    if let Some((_, slot)) = row.pin {
        return world
            .sandbox(slot)
            .exists()
            .then(|| format!("TRUTHFUL ENDS: a row is closed, and its sandbox {slot} exists"));
    }
    let (_, slot, attempt) = row.attempt?;
    if attempt == AttemptState::Refused {
        return None;
    }
    let sent = |call: &Call| call.kind == CallKind::Create && call.slot == slot && call.is_sent();
    let can_make = world.calls.iter().any(|call| sent(call) && world.now < call.before);
    (world.sandbox(slot).exists() || can_make)
        .then(|| format!("TRUTHFUL ENDS: a row is closed, and its attempt can have made {slot}"))
}

fn pins(row: &Facts, world: &World, slot: Slot) -> bool {
    row.pin == Some((world.sandbox(slot).id, slot))
}

fn all_rows<'a>(world: &'a World, rows: &'a Rows) -> impl Iterator<Item = &'a Facts> {
    world.rows.iter().copied().filter(|row| RowId::exists(*row)).map(|row| rows.facts(row))
}

fn open_rows<'a>(world: &'a World, rows: &'a Rows) -> impl Iterator<Item = &'a Facts> {
    all_rows(world, rows).filter(|row| row.open)
}
