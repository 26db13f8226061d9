//! The rows of the SQLite ledger in the middle of a transaction of the writer.

use leasehold_core::{Event, Lease, LeaseId, SandboxId, State, Timestamp, due_at};
use leasehold_ports::{LedgerError, Write};
use rusqlite::{Connection, OptionalExtension as _, Params, ToSql, params};

use super::columns::{self, integer, number, time};
use super::failure::storage;
use crate::brake::Window;
use crate::rules::{Entry, Rows, Stored};

/// A write with its texts made, so that the one writer thread need not make them.
#[derive(Debug)]
pub(super) struct Prepared {
    entry: Entry,
    home: String,
    body: String,
    nodes: String,
    events: Vec<String>,
}

impl AsRef<Entry> for Prepared {
    fn as_ref(&self) -> &Entry {
        &self.entry
    }
}

impl Prepared {
    pub(super) fn new(write: Write) -> Result<Self, LedgerError> {
        let entry = Entry::from(write);
        let lease = &entry.lease;
        let text = |made: serde_json::Result<String>| {
            made.map_err(|_| LedgerError::Invalid {
                lease: lease.id.clone(),
                problem: "it cannot be written as JSON".to_owned(),
            })
        };
        Ok(Self {
            home: text(serde_json::to_string(&lease.home))?,
            body: text(serde_json::to_string(lease.as_ref()))?,
            nodes: text(serde_json::to_string(&columns::nodes(lease)))?,
            events: entry
                .events
                .iter()
                .map(|kind| text(serde_json::to_string(kind)))
                .collect::<Result<_, _>>()?,
            entry,
        })
    }
}

/// What replacing a row needs to know.
pub(super) struct Replaced {
    row: i64,
    attempt: Option<String>,
    nodes: String,
    due_at: i64,
    last_event: Option<i64>,
}

/// The writer's connection, inside its transaction.
pub(super) struct SqliteRows<'a> {
    connection: &'a Connection,
    /// The sequence number of the last event.
    sequence: u64,
}

impl<'a> SqliteRows<'a> {
    pub(super) fn new(connection: &'a Connection, sequence: u64) -> Self {
        Self { connection, sequence }
    }

    pub(super) fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// The sequence number of the last event.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    fn run(&self, sql: &str, parameters: impl Params) -> Result<usize, LedgerError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(parameters))
            .map_err(storage)
    }

    fn one<T: rusqlite::types::FromSql>(
        &self,
        sql: &str,
        parameters: impl Params,
    ) -> Result<Option<T>, LedgerError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(parameters, |row| row.get(0)).optional())
            .map_err(storage)
    }

    fn id(&self, sql: &str, parameters: impl Params) -> Result<Option<LeaseId>, LedgerError> {
        let Some(text) = self.one::<String>(sql, parameters)? else { return Ok(None) };
        match LeaseId::new(text.as_str()) {
            Ok(lease) => Ok(Some(lease)),
            Err(error) => Err(LedgerError::Damaged { lease: text, problem: error.to_string() }),
        }
    }

    fn count(&self, sql: &str, parameters: impl Params) -> Result<u32, LedgerError> {
        let count = self.one::<i64>(sql, parameters)?.unwrap_or(0);
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The number of the row in `table` with these values, made if absent.
    fn numbered(&self, find: &str, make: &str, values: &[&dyn ToSql]) -> Result<i64, LedgerError> {
        if let Some(found) = self.one(find, values)? {
            return Ok(found);
        }
        self.run(make, values)?;
        Ok(self.connection.last_insert_rowid())
    }

    fn insert(&self, prepared: &Prepared) -> Result<i64, LedgerError> {
        let lease = &prepared.entry.lease;
        let owner = self.numbered(
            "SELECT owner FROM owners WHERE company = ?1 AND environment = ?2",
            "INSERT INTO owners (company, environment) VALUES (?1, ?2)",
            &[&lease.owner.company(), &lease.owner.environment()],
        )?;
        let home = self.numbered(
            "SELECT home FROM homes WHERE body = ?1",
            "INSERT INTO homes (body) VALUES (?1)",
            &[&prepared.home],
        )?;
        self.run(
            "INSERT INTO leases (id, version, kind, state, open, owner, home, acquire_key, \
             sandbox, attempt, nodes, due_at, expires_at, ended_at, body, last_event) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            params![
                lease.id.as_str(),
                integer(lease.version),
                columns::kind(lease.kind),
                lease.state.name(),
                lease.is_open(),
                owner,
                home,
                lease.intent.as_ref().map(|intent| intent.key.as_str()),
                sandbox(lease),
                attempt(lease),
                prepared.nodes,
                due(lease),
                time(lease.expires_at()),
                ended(lease),
                prepared.body,
                self.last_event(prepared, None),
            ],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Several statements, since a statement that names a column rewrites each index that has it:
    /// most updates change neither state nor sandbox, few open or close, and not all move the time
    /// at which the row is due.
    fn update(&self, prepared: &Prepared, before: &Stored<Replaced>) -> Result<(), LedgerError> {
        let lease = &prepared.entry.lease;
        let row = before.extra.row;
        self.run(
            if before.extra.due_at == due(lease) {
                "UPDATE leases SET version = ?2, kind = ?3, attempt = ?4, nodes = ?5, \
                 expires_at = ?7, ended_at = ?8, body = ?9, last_event = ?10 \
                 WHERE lease = ?1 AND due_at = ?6"
            } else {
                "UPDATE leases SET version = ?2, kind = ?3, attempt = ?4, nodes = ?5, due_at = ?6, \
                 expires_at = ?7, ended_at = ?8, body = ?9, last_event = ?10 WHERE lease = ?1"
            },
            params![
                row,
                integer(lease.version),
                columns::kind(lease.kind),
                attempt(lease),
                prepared.nodes,
                due(lease),
                time(lease.expires_at()),
                ended(lease),
                prepared.body,
                self.last_event(prepared, before.extra.last_event),
            ],
        )?;
        let was_open = before.state != State::Closed;
        if was_open != lease.is_open()
            || before.sandbox.as_ref().map(SandboxId::as_str) != sandbox(lease)
        {
            self.run(
                "UPDATE leases SET state = ?2, open = ?3, sandbox = ?4 WHERE lease = ?1",
                params![row, lease.state.name(), lease.is_open(), sandbox(lease)],
            )?;
        } else if before.state != lease.state {
            self.run(
                "UPDATE leases SET state = ?2 WHERE lease = ?1",
                params![row, lease.state.name()],
            )?;
        }
        Ok(())
    }

    /// Keeps what a search for the row goes by: nodes, sandboxes, names.
    fn index(
        &self,
        prepared: &Prepared,
        row: i64,
        before: Option<&Stored<Replaced>>,
    ) -> Result<(), LedgerError> {
        let lease = &prepared.entry.lease;
        if before.is_none_or(|before| before.extra.nodes != prepared.nodes) {
            if before.is_some_and(|before| before.extra.nodes != "[]") {
                let nodes = before.map_or("[]", |before| before.extra.nodes.as_str());
                self.run(
                    "DELETE FROM lease_nodes WHERE lease = ?1 \
                     AND node IN (SELECT value FROM json_each(?2))",
                    params![row, nodes],
                )?;
            }
            for node in columns::nodes(lease) {
                self.run(
                    "INSERT INTO lease_nodes (node, lease) VALUES (?1, ?2)",
                    params![node, row],
                )?;
            }
        }
        // A row that was opened again may mean another sandbox that was given the same id.
        if let Some(pin) = &lease.pin
            && before.is_none_or(|before| {
                before.sandbox.as_ref() != Some(&pin.sandbox) || before.state == State::Closed
            })
        {
            self.run(
                "INSERT INTO pins (home, sandbox, lease, birth) \
                 SELECT home, ?2, lease, ?3 FROM leases WHERE lease = ?1 \
                 ON CONFLICT DO UPDATE SET birth = excluded.birth",
                params![row, pin.sandbox.as_str(), pin.birth.as_str()],
            )?;
        }
        if let Some(name) = attempt(lease)
            && before.is_none_or(|before| before.extra.attempt.as_deref() != Some(name))
        {
            self.run(
                "INSERT OR IGNORE INTO attempts (home, name, lease) \
                 SELECT home, ?2, lease FROM leases WHERE lease = ?1",
                params![row, name],
            )?;
        }
        Ok(())
    }

    /// The sequence number of the row's last event once those of the write are appended.
    fn last_event(&self, prepared: &Prepared, before: Option<i64>) -> Option<i64> {
        match u64::try_from(prepared.events.len()) {
            Ok(0) => before,
            more => Some(integer(self.sequence.saturating_add(more.unwrap_or(u64::MAX)))),
        }
    }

    fn append(
        &mut self,
        prepared: &Prepared,
        row: i64,
        mut previous: Option<i64>,
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        for body in &prepared.events {
            // A refused commit leaves a gap, which means nothing.
            self.sequence += 1;
            let sequence = integer(self.sequence);
            self.run(
                "INSERT INTO events (sequence, lease, previous, at, epoch, actor, body) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    sequence,
                    row,
                    previous.replace(sequence),
                    time(at),
                    integer(prepared.entry.lease.epoch.0),
                    prepared.entry.actor,
                    body
                ],
            )?;
        }
        Ok(())
    }
}

fn sandbox(lease: &Lease) -> Option<&str> {
    lease.pin.as_ref().map(|pin| pin.sandbox.as_str())
}

fn attempt(lease: &Lease) -> Option<&str> {
    lease.attempt.as_ref().map(|attempt| attempt.name.as_str())
}

fn due(lease: &Lease) -> i64 {
    time(due_at(lease).unwrap_or(Timestamp::NEVER))
}

fn ended(lease: &Lease) -> i64 {
    time(lease.receipt.as_ref().map_or(Timestamp::NEVER, |receipt| receipt.at))
}

impl Rows for SqliteRows<'_> {
    type Entry = Prepared;
    type Extra = Replaced;

    fn stored(&mut self, prepared: &Prepared) -> Result<Option<Stored<Replaced>>, LedgerError> {
        let lease = &prepared.entry.lease;
        let found = self
            .connection
            .prepare_cached(
                "SELECT lease, version, state, sandbox, attempt, nodes, acquire_key, company, \
                 environment, homes.body, due_at, last_event \
                 FROM leases JOIN owners USING (owner) JOIN homes USING (home) WHERE id = ?1",
            )
            .and_then(|mut statement| {
                statement
                    .query_row([lease.id.as_str()], |row| {
                        let key = lease.intent.as_ref().map(|intent| intent.key.as_str());
                        let same_identity = row.get_ref(6)?.as_str_or_null()? == key
                            && row.get_ref(7)?.as_str()? == lease.owner.company()
                            && row.get_ref(8)?.as_str()? == lease.owner.environment()
                            && row.get_ref(9)?.as_str()? == prepared.home;
                        Ok((
                            row.get::<_, i64>(1)?,
                            columns::state_named(row.get_ref(2)?.as_str()?),
                            row.get::<_, Option<String>>(3)?,
                            same_identity,
                            Replaced {
                                row: row.get(0)?,
                                attempt: row.get(4)?,
                                nodes: row.get(5)?,
                                due_at: row.get(10)?,
                                last_event: row.get(11)?,
                            },
                        ))
                    })
                    .optional()
            })
            .map_err(storage)?;
        let Some((version, state, sandbox, same_identity, extra)) = found else {
            return Ok(None);
        };
        let damaged = |problem: &str| LedgerError::Damaged {
            lease: lease.id.to_string(),
            problem: problem.to_owned(),
        };
        Ok(Some(Stored {
            version: number(version),
            state: state.ok_or_else(|| damaged("its state is none"))?,
            sandbox: sandbox
                .map(SandboxId::new)
                .transpose()
                .map_err(|_| damaged("its sandbox is none"))?,
            same_identity,
            extra,
        }))
    }

    fn key_holder(&mut self, prepared: &Prepared) -> Result<Option<LeaseId>, LedgerError> {
        let lease = &prepared.entry.lease;
        let Some(intent) = &lease.intent else { return Ok(None) };
        self.id(
            "SELECT id FROM leases WHERE acquire_key = ?1 \
             AND owner = (SELECT owner FROM owners WHERE company = ?2 AND environment = ?3) \
             AND home = (SELECT home FROM homes WHERE body = ?4)",
            params![
                intent.key.as_str(),
                lease.owner.company(),
                lease.owner.environment(),
                prepared.home
            ],
        )
    }

    fn pin_holder(
        &mut self,
        prepared: &Prepared,
        sandbox: &SandboxId,
    ) -> Result<Option<LeaseId>, LedgerError> {
        self.id(
            "SELECT id FROM leases WHERE open AND sandbox = ?1 \
             AND home = (SELECT home FROM homes WHERE body = ?2)",
            params![sandbox.as_str(), prepared.home],
        )
    }

    fn open_of_owner(&mut self, prepared: &Prepared) -> Result<u32, LedgerError> {
        let owner = &prepared.entry.lease.owner;
        self.count(
            "SELECT open FROM owners WHERE company = ?1 AND environment = ?2",
            params![owner.company(), owner.environment()],
        )
    }

    fn open_of_home(&mut self, prepared: &Prepared) -> Result<u32, LedgerError> {
        self.count("SELECT open FROM homes WHERE body = ?1", [&prepared.home])
    }

    fn open(&mut self) -> Result<u32, LedgerError> {
        self.count("SELECT coalesce(sum(open), 0) FROM homes", [])
    }

    fn brake(&mut self, from: Timestamp) -> Result<Window, LedgerError> {
        let on = self.one("SELECT brake_on FROM ledger", [])?.unwrap_or(true);
        let recent = self.count("SELECT count(*) FROM removals WHERE at > ?1", [time(from)])?;
        Ok(Window { on, recent })
    }

    fn count_removal(&mut self, lease: &LeaseId, at: Timestamp) -> Result<(), LedgerError> {
        // What has left the window is never counted again.
        self.run("DELETE FROM removals WHERE at <= ?1", [time(crate::brake::window_start(at))])?;
        self.run(
            "INSERT OR IGNORE INTO removals (at, lease) VALUES (?1, ?2)",
            params![time(at), lease.as_str()],
        )?;
        Ok(())
    }

    fn keep(
        &mut self,
        prepared: &Prepared,
        before: Option<Stored<Replaced>>,
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        let row = match &before {
            None => self.insert(prepared)?,
            Some(before) => {
                self.update(prepared, before)?;
                before.extra.row
            }
        };
        self.index(prepared, row, before.as_ref())?;
        self.append(prepared, row, before.and_then(|before| before.extra.last_event), at)
    }
}

/// An event as it is stored.
pub(super) fn event(
    lease: &LeaseId,
    at: i64,
    epoch: i64,
    actor: String,
    body: &str,
) -> Result<Event, LedgerError> {
    let kind = serde_json::from_str(body).map_err(|error| LedgerError::Damaged {
        lease: lease.to_string(),
        problem: format!("an event of it cannot be read at column {}", error.column()),
    })?;
    Ok(Event {
        lease: lease.clone(),
        at: columns::timestamp(at),
        epoch: leasehold_core::Epoch(number(epoch)),
        actor,
        kind,
    })
}
