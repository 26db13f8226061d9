//! What is read, and by which index.
//!
//! Each query names its index: a plan that would look at every row is an error at once, not a slow
//! ledger in a year. A row that is damaged is left out of pages, and so is not in anybody's way;
//! searches that decide about life and death report it instead.

use std::sync::Arc;

use leasehold_core::{
    AcquireKey, Home, Lease, LeaseId, NodeId, Owner, SandboxName, State, Timestamp,
};
use leasehold_ports::{
    BrakeState, EventPage, HomeAndSandbox, LeaseFilter, LedgerError, LedgerMode, RecordedEvent,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, params};

use super::columns::{self, Damage, READ, integer, number, time, timestamp};
use super::failure::storage;
use super::rows::event;
use super::writer::mode as mode_of;
use crate::brake::{Window, window_start};
use crate::filter;

fn prepare<'a>(connection: &'a Connection, sql: &str) -> Result<CachedStatement<'a>, LedgerError> {
    connection.prepare_cached(sql).map_err(storage)
}

/// The rows in order until `enough` says so; a damaged one is left out.
fn readable(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    mut take: impl FnMut(Arc<Lease>) -> bool,
) -> Result<(), LedgerError> {
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query(parameters).map_err(storage)?;
    while let Some(row) = rows.next().map_err(storage)? {
        if let Ok(lease) = columns::read(row).map_err(storage)?
            && !take(lease)
        {
            break;
        }
    }
    Ok(())
}

/// Every row that is found; a damaged one is an error.
fn all(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Vec<Arc<Lease>>, LedgerError> {
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query(parameters).map_err(storage)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(storage)? {
        found.push(columns::read(row).map_err(storage)??);
    }
    Ok(found)
}

fn text_of(home: &Home) -> Result<String, LedgerError> {
    serde_json::to_string(home).map_err(|error| LedgerError::Unavailable {
        problem: "the home cannot be written as JSON".to_owned(),
        source: Some(Box::new(error)),
    })
}

pub(super) const GET: &str = "WHERE id = ?1";

pub(super) fn get(
    connection: &Connection,
    lease: &LeaseId,
) -> Result<Option<Arc<Lease>>, LedgerError> {
    let sql = format!("SELECT {READ} FROM leases {GET}");
    Ok(all(connection, &sql, [lease.as_str()])?.pop())
}

pub(super) const FIND_KEY: &str = "INDEXED BY leases_by_key WHERE acquire_key = ?1 \
     AND owner = (SELECT owner FROM owners WHERE company = ?2 AND environment = ?3) \
     AND home = (SELECT home FROM homes WHERE body = ?4)";

pub(super) fn find_key(
    connection: &Connection,
    owner: &Owner,
    home: &Home,
    key: &AcquireKey,
) -> Result<Option<Arc<Lease>>, LedgerError> {
    let sql = format!("SELECT {READ} FROM leases {FIND_KEY}");
    let parameters = params![key.as_str(), owner.company(), owner.environment(), text_of(home)?];
    Ok(all(connection, &sql, parameters)?.pop())
}

pub(super) const FIND_PINNED: &str = "WHERE lease IN (SELECT lease FROM pins WHERE sandbox = ?1 \
     AND home = (SELECT home FROM homes WHERE body = ?2)) ORDER BY open DESC, id";

pub(super) fn find_pinned(
    connection: &Connection,
    place: &HomeAndSandbox,
) -> Result<Vec<Arc<Lease>>, LedgerError> {
    let sql = format!("SELECT {READ} FROM leases {FIND_PINNED}");
    all(connection, &sql, params![place.sandbox.as_str(), text_of(&place.home)?])
}

pub(super) const FIND_ATTEMPT: &str = "WHERE lease IN (SELECT lease FROM attempts WHERE name = ?1 \
     AND home = (SELECT home FROM homes WHERE body = ?2)) ORDER BY id";

pub(super) fn find_attempt(
    connection: &Connection,
    home: &Home,
    name: &SandboxName,
) -> Result<Option<Arc<Lease>>, LedgerError> {
    let sql = format!("SELECT {READ} FROM leases {FIND_ATTEMPT}");
    let rows = all(connection, &sql, params![name.as_str(), text_of(home)?])?;
    Ok(filter::answers_for_attempt(rows, name))
}

/// The queries of a page, each by one index and in the order of ids.
pub(super) const OPEN: &str = "INDEXED BY leases_open WHERE open";
pub(super) const EVERY: &str = "WHERE true";
pub(super) const OPEN_OF_OWNER: &str = "INDEXED BY leases_open_by_owner WHERE open \
     AND owner = (SELECT owner FROM owners WHERE company = ?4 AND environment = ?5)";
pub(super) const EVERY_OF_OWNER: &str = "INDEXED BY leases_by_owner \
     WHERE owner = (SELECT owner FROM owners WHERE company = ?4 AND environment = ?5)";
pub(super) const IN_STATE: &str = "INDEXED BY leases_by_state WHERE state = ?4";
/// After an id, from a prefix on, before the first id beyond the prefix.
pub(super) const RANGE: &str = "AND id > ?1 AND id >= ?2 AND id < ?3 ORDER BY id";

pub(super) fn list(
    connection: &Connection,
    filter: &LeaseFilter,
) -> Result<Vec<Arc<Lease>>, LedgerError> {
    let states = filter::states(filter);
    let size = filter::page_size(filter);
    let after = filter.after.as_ref().map_or("", LeaseId::as_str);
    let prefix = filter.id_prefix.as_deref().unwrap_or_default();
    let beyond = format!("{prefix}{}", char::MAX);
    let closed = states.contains(&State::Closed);
    let mut page = Vec::new();
    let fill = |lease: Arc<Lease>| {
        if states.contains(&lease.state) {
            page.push(lease);
        }
        page.len() < size
    };
    let sql = |by: &str| format!("SELECT {READ} FROM leases {by} {RANGE}");
    if let Some(owner) = &filter.owner {
        let by = if closed { EVERY_OF_OWNER } else { OPEN_OF_OWNER };
        let parameters = params![after, prefix, beyond, owner.company(), owner.environment()];
        readable(connection, &sql(by), parameters, fill)?;
        return Ok(page);
    }
    let open_states = states.len() - usize::from(closed);
    if open_states == State::ALL.len() - 1 {
        let by = if closed { EVERY } else { OPEN };
        readable(connection, &sql(by), params![after, prefix, beyond], fill)?;
        return Ok(page);
    }
    // A few states: the first rows of each, of which the first altogether are the page.
    let mut found = Vec::new();
    for state in &states {
        let mut of_state = 0;
        let parameters = params![after, prefix, beyond, state.name()];
        readable(connection, &sql(IN_STATE), parameters, |lease| {
            found.push(lease);
            of_state += 1;
            of_state < size
        })?;
    }
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found.truncate(size);
    Ok(found)
}

pub(super) fn homes(connection: &Connection) -> Result<Vec<Home>, LedgerError> {
    let mut statement = prepare(connection, "SELECT body FROM homes WHERE open > 0")?;
    let bodies = statement.query_map([], |row| row.get::<_, String>(0)).map_err(storage)?;
    let mut homes = Vec::new();
    for body in bodies {
        let body = body.map_err(storage)?;
        homes.push(serde_json::from_str(&body).map_err(|error| LedgerError::Unavailable {
            problem: "a home in it cannot be read".to_owned(),
            source: Some(Box::new(error)),
        })?);
    }
    homes.sort();
    Ok(homes)
}

pub(super) const DUE: &str = "INDEXED BY leases_due WHERE open AND due_at <= ?1 \
     ORDER BY due_at, id";

pub(super) fn due(
    connection: &Connection,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Arc<Lease>>, LedgerError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut page = Vec::new();
    if limit > 0 {
        let sql = format!("SELECT {READ} FROM leases {DUE}");
        readable(connection, &sql, [time(now)], |lease| {
            page.push(lease);
            page.len() < limit
        })?;
    }
    Ok(page)
}

/// Goes past damaged rows, which [`due`] does not hand out: they would be due for ever.
pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, LedgerError> {
    let sql = format!("SELECT {READ} FROM leases {DUE}");
    let mut first = None;
    readable(connection, &sql, [time(Timestamp::NEVER)], |lease| {
        first = leasehold_core::due_at(&lease);
        false
    })?;
    Ok(first.filter(|at| *at < Timestamp::NEVER))
}

pub(super) const ROWS_OF_NODE: &str =
    "WHERE lease IN (SELECT lease FROM lease_nodes WHERE node = ?1) ORDER BY id";

pub(super) fn rows_of_node(
    connection: &Connection,
    node: &NodeId,
) -> Result<Vec<Arc<Lease>>, LedgerError> {
    let sql = format!("SELECT {READ} FROM leases {ROWS_OF_NODE}");
    let mut found = Vec::new();
    readable(connection, &sql, [node.as_str()], |lease| {
        found.push(lease);
        true
    })?;
    Ok(found)
}

/// How many rows [`damaged_after`] looks at: other reads come between.
pub(super) const LOOK: usize = 1000;

/// The damaged rows among the next ones by row number, and the last row number that was looked at;
/// none after the last row.
pub(super) fn damaged_after(
    connection: &Connection,
    after: i64,
) -> Result<(Vec<Damage>, Option<i64>), LedgerError> {
    let sql = format!("SELECT {READ}, lease FROM leases WHERE lease > ?1 ORDER BY lease LIMIT ?2");
    let mut statement = prepare(connection, &sql)?;
    let limit = i64::try_from(LOOK).unwrap_or(i64::MAX);
    let mut rows = statement.query([after, limit]).map_err(storage)?;
    let mut damaged = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next().map_err(storage)? {
        last = Some(row.get(4).map_err(storage)?);
        damaged.extend(columns::read(row).map_err(storage)?.err());
    }
    Ok((damaged, last))
}

/// The events of the lease `?1` after the sequence number `?2`, from the last one backwards.
pub(super) const HISTORY: &str = "WITH RECURSIVE history (sequence, previous) AS (\
         SELECT sequence, previous FROM events \
         WHERE sequence = (SELECT last_event FROM leases WHERE lease = ?1) AND sequence > ?2 \
         UNION ALL SELECT events.sequence, events.previous \
         FROM history JOIN events ON events.sequence = history.previous \
         WHERE events.sequence > ?2)";

pub(super) fn events(
    connection: &Connection,
    lease: &LeaseId,
    after: u64,
    limit: u32,
) -> Result<EventPage, LedgerError> {
    let row: Option<(i64, bool)> =
        prepare(connection, "SELECT lease, events_removed FROM leases WHERE id = ?1")?
            .query_row([lease.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(storage)?;
    let Some((row, older_removed)) = row else { return Ok(EventPage::default()) };
    let mut statement = prepare(
        connection,
        &format!(
            "SELECT sequence, at, epoch, actor, body FROM events WHERE sequence IN \
             ({HISTORY} SELECT sequence FROM history ORDER BY sequence LIMIT ?3) ORDER BY sequence"
        ),
    )?;
    let mut rows = statement.query(params![row, integer(after), limit]).map_err(storage)?;
    let mut page = EventPage { events: Vec::new(), older_removed };
    while let Some(row) = rows.next().map_err(storage)? {
        let (at, epoch, actor, body) =
            (|| Ok((row.get(1)?, row.get(2)?, row.get(3)?, row.get::<_, String>(4)?)))()
                .map_err(storage)?;
        page.events.push(RecordedEvent {
            sequence: number(row.get(0).map_err(storage)?),
            event: event(lease, at, epoch, actor, &body)?,
        });
    }
    Ok(page)
}

pub(super) fn mode(connection: &Connection) -> Result<LedgerMode, LedgerError> {
    prepare(connection, "SELECT restored FROM ledger")?
        .query_row([], |row| row.get(0).map(mode_of))
        .map_err(storage)
}

pub(super) fn brake(connection: &Connection, now: Timestamp) -> Result<BrakeState, LedgerError> {
    prepare(
        connection,
        "SELECT brake_on, (SELECT count(*) FROM removals WHERE at > ?1), \
         (SELECT coalesce(sum(open), 0) FROM homes) FROM ledger",
    )?
    .query_row([time(window_start(now))], |row| {
        let window = Window { on: row.get(0)?, recent: row.get(1)? };
        Ok(window.state(row.get(2)?))
    })
    .map_err(storage)
}

/// A registered node, as it is stored.
pub(super) struct NodeRow {
    pub(super) node: String,
    pub(super) started_at: Timestamp,
    pub(super) boot: String,
    pub(super) machine: Option<String>,
}

pub(super) fn nodes(connection: &Connection) -> Result<Vec<NodeRow>, LedgerError> {
    let mut statement =
        prepare(connection, "SELECT node, started_at, boot, machine FROM nodes ORDER BY node")?;
    let rows = statement
        .query_map([], |row| {
            Ok(NodeRow {
                node: row.get(0)?,
                started_at: timestamp(row.get(1)?),
                boot: row.get(2)?,
                machine: row.get(3)?,
            })
        })
        .map_err(storage)?;
    rows.collect::<rusqlite::Result<_>>().map_err(storage)
}
