//! What an operator does with a ledger: copy it, check it, shorten its histories.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::Timestamp;
use leasehold_ports::LedgerError;
use rusqlite::{Connection, params};

use super::columns::time;
use super::failure::{storage, unsuitable};
use super::queries::HISTORY;
use super::{SqliteLedger, migrations};

/// What [`SqliteLedger::check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What SQLite's own check says of the file; empty if it is whole.
    pub file: Vec<String>,
    /// Rows that cannot be read, and counts that are wrong: which, and what is wrong.
    pub rows: Vec<(String, String)>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.file.is_empty() && self.rows.is_empty()
    }
}

/// How many leases one transaction of a compaction looks at: other writes come between.
const STEP: usize = 200;

impl SqliteLedger {
    /// Writes a whole and consistent copy of the ledger to `target`, which must not exist yet,
    /// durably and with mode 0600. The secret is not in it. A copy opens in restored mode, since
    /// what happened after it was made is not in it.
    ///
    /// # Errors
    /// [`LedgerError::Unsuitable`] if the target exists, [`LedgerError::Unavailable`] if it cannot
    /// be written.
    pub async fn backup(&self, target: &Path) -> Result<(), LedgerError> {
        let target = target.to_owned();
        let now = leasehold_ports::Ledger::now(self);
        self.readers.read(move |connection| backup(connection, &target, now)).await
    }

    /// Checks the file, every row and every count.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] if the file is too damaged to be checked.
    pub async fn check(&self) -> Result<CheckReport, LedgerError> {
        let mut report = self
            .readers
            .read(|connection| {
                let mut rows = counts(connection)?;
                rows.extend(broken_histories(connection)?);
                Ok(CheckReport { file: integrity(connection)?, rows })
            })
            .await?;
        report.rows.extend(leasehold_ports::Ledger::damaged(self).await?);
        Ok(report)
    }

    /// Removes the histories of leases that ended more than `older_than` ago, and says how many
    /// events that were. The rows themselves stay, as tombstones.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`]; what was removed until then stays removed.
    pub async fn compact(&self, older_than: Duration) -> Result<u64, LedgerError> {
        let now = leasehold_ports::Ledger::now(self).as_millis();
        let age = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
        let before = Timestamp::from_millis(now.saturating_sub(age));
        let mut removed = 0;
        let mut after = Some(String::new());
        while let Some(from) = after.take() {
            let step = Arc::new(Mutex::new((0, None)));
            let outcome = Arc::clone(&step);
            self.writer
                .change(Box::new(move |rows, _| {
                    let done = compact_step(rows.connection(), &from, before)?;
                    *outcome.lock().unwrap_or_else(PoisonError::into_inner) = done;
                    Ok(())
                }))
                .await?;
            let (events, last) = step.lock().unwrap_or_else(PoisonError::into_inner).clone();
            removed += events;
            after = last;
        }
        Ok(removed)
    }
}

/// Compacts some leases after the id `from`, and says how many events went, and the last id.
fn compact_step(
    connection: &Connection,
    from: &str,
    before: Timestamp,
) -> Result<(u64, Option<String>), LedgerError> {
    let mut statement = connection
        .prepare_cached(
            "SELECT lease, id, ended_at < ?2 AND NOT events_removed FROM leases \
             INDEXED BY leases_by_state WHERE state = 'closed' AND id > ?1 ORDER BY id LIMIT ?3",
        )
        .map_err(storage)?;
    let step = i64::try_from(STEP).unwrap_or(i64::MAX);
    let rows: Vec<(i64, String, bool)> = statement
        .query_map(params![from, time(before), step], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .and_then(Iterator::collect)
        .map_err(storage)?;
    let mut removed = 0;
    for (lease, _, old) in &rows {
        if *old {
            let events = connection
                .execute(
                    &format!(
                        "DELETE FROM events WHERE sequence IN \
                         ({HISTORY} SELECT sequence FROM history)"
                    ),
                    params![lease, 0],
                )
                .map_err(storage)?;
            removed += u64::try_from(events).unwrap_or(u64::MAX);
            connection
                .execute(
                    "UPDATE leases SET events_removed = 1, last_event = NULL WHERE lease = ?1",
                    [lease],
                )
                .map_err(storage)?;
        }
    }
    Ok((removed, rows.into_iter().next_back().map(|(_, id, _)| id)))
}

fn backup(connection: &Connection, target: &Path, now: Timestamp) -> Result<(), LedgerError> {
    if target.exists() {
        return Err(unsuitable(target, "it exists already; a backup replaces nothing"));
    }
    // A reader may write nowhere, not even to another file.
    let allow = |only: bool| connection.pragma_update(None, "query_only", only).map_err(storage);
    allow(false)?;
    let copied = migrations::copy(connection, target, |copy| {
        let why = format!("it is a backup, made at {} ms of its time", now.as_millis());
        copy.execute(
            "UPDATE ledger SET restored = coalesce(restored, ?1), restored_at = NULL",
            [why],
        )
        .map(drop)
        .map_err(storage)
    });
    allow(true)?;
    copied
}

fn integrity(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let mut statement = connection.prepare("PRAGMA integrity_check").map_err(storage)?;
    let lines: Vec<String> =
        statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(storage)?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Leases whose history is not read in one piece, from the last event backwards.
fn broken_histories(connection: &Connection) -> Result<Vec<(String, String)>, LedgerError> {
    wrong(
        connection,
        "its history has a gap",
        "SELECT id FROM leases JOIN (\
             SELECT lease, sequence, previous, \
                 lag(sequence) OVER by_lease AS earlier, lead(sequence) OVER by_lease AS later \
             FROM events WINDOW by_lease AS (PARTITION BY lease ORDER BY sequence)) USING (lease) \
         WHERE previous IS NOT earlier OR (later IS NULL AND last_event IS NOT sequence) \
         UNION SELECT id FROM leases WHERE last_event IS NOT NULL \
             AND NOT EXISTS (SELECT 1 FROM events WHERE sequence = last_event)",
    )
}

/// Counts that limits and the brake go by.
fn counts(connection: &Connection) -> Result<Vec<(String, String)>, LedgerError> {
    wrong(
        connection,
        "its count of open leases is wrong",
        "SELECT 'owner ' || company || '/' || environment FROM owners \
         WHERE open <> (SELECT count(*) FROM leases \
                        WHERE open AND leases.owner = owners.owner) \
         UNION ALL SELECT 'home ' || body FROM homes \
         WHERE open <> (SELECT count(*) FROM leases WHERE open AND leases.home = homes.home)",
    )
}

/// Everything that `sql` finds, with what is wrong with it.
fn wrong(
    connection: &Connection,
    problem: &str,
    sql: &str,
) -> Result<Vec<(String, String)>, LedgerError> {
    let mut statement = connection.prepare(sql).map_err(storage)?;
    let found = statement
        .query_map([], |row| Ok((row.get(0)?, problem.to_owned())))
        .and_then(Iterator::collect);
    found.map_err(storage)
}
