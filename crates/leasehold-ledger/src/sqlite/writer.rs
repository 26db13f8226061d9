//! The one thread that writes, and its group commit.
//!
//! Whatever waits is written in one transaction, and so with one sync of the disk. Each commit is
//! taken back alone if it is refused: it spoils no other. When the transaction itself cannot be
//! written (the disk is full), each commit is tried once more alone, so that one that is too big
//! spoils no other either. A commit is answered when it is on disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold_core::Timestamp;
use leasehold_ports::{LedgerError, LedgerMode};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use tokio::sync::{mpsc, oneshot};

use super::columns::{self, integer, number, time, timestamp};
use super::failure::{is_storage, stopped, storage};
use super::identity::{self, Beside};
use super::nodes;
use super::rows::{Prepared, SqliteRows};
use crate::rules::{self, Circumstances};
use crate::time::LedgerTime;

/// How many writes may wait; the next one waits to wait.
const QUEUE: usize = 1024;

/// The most commits in one transaction: bounds how long the first of them waits.
const GROUP: usize = 256;

/// How often a group gives way to the threads that are about to write.
const GIVE_WAY: usize = 32;

/// How far apart in ledger time the file beside the ledger is brought up to date.
const MARK_EVERY: Duration = Duration::from_secs(60);

/// What is done inside the writer's transaction, perhaps twice.
pub(super) type Change =
    Box<dyn FnMut(&mut SqliteRows<'_>, Timestamp) -> Result<(), LedgerError> + Send>;

/// What is done between transactions.
pub(super) type Alone = Box<dyn FnOnce(&mut Connection) + Send>;

enum Work {
    Commit(Vec<Prepared>),
    Change(Change),
}

enum Job {
    Grouped(Work, oneshot::Sender<Result<(), LedgerError>>),
    Alone(Alone),
}

/// The way to the writer.
#[derive(Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

/// What the thread needs.
pub(super) struct Setup {
    pub(super) connection: Connection,
    pub(super) directory: PathBuf,
    pub(super) time: Arc<LedgerTime>,
}

impl Writer {
    pub(super) fn start(setup: Setup) -> Result<Self, LedgerError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let Setup { connection, directory, time } = setup;
        let marked_at = time.now();
        let mut thread = WriterThread {
            connection,
            directory,
            time,
            boot: nodes::boot(),
            queue,
            last_group: 1,
            alone: None,
            marked_at,
            broken: None,
        };
        thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || thread.run())
            .map_err(|error| LedgerError::Unavailable {
                problem: "its thread cannot be started".to_owned(),
                source: Some(Box::new(error)),
            })?;
        Ok(Self { jobs })
    }

    /// Writes all or nothing.
    pub(super) async fn commit(&self, entries: Vec<Prepared>) -> Result<(), LedgerError> {
        self.grouped(Work::Commit(entries)).await
    }

    /// Does `change` in a transaction.
    pub(super) async fn change(&self, change: Change) -> Result<(), LedgerError> {
        self.grouped(Work::Change(change)).await
    }

    async fn grouped(&self, work: Work) -> Result<(), LedgerError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.send(Job::Grouped(work, answer)).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    /// Does `work` with the writer's connection, between transactions.
    pub(super) async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (answer, answered) = oneshot::channel();
        let work = move |connection: &mut Connection| {
            // Nobody waits any more if this fails.
            let _ = answer.send(work(connection));
        };
        self.jobs.send(Job::Alone(Box::new(work))).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

type Waiting = (Work, oneshot::Sender<Result<(), LedgerError>>);

struct WriterThread {
    connection: Connection,
    directory: PathBuf,
    time: Arc<LedgerTime>,
    boot: String,
    queue: mpsc::Receiver<Job>,
    last_group: usize,
    /// What was taken from the queue, and is to be done after the group.
    alone: Option<Alone>,
    marked_at: Timestamp,
    /// Why nothing can be written any more, until the ledger is opened again.
    broken: Option<String>,
}

/// What the ledger says of itself at the beginning of a transaction.
struct Head {
    floor: Timestamp,
    mode: LedgerMode,
    brake_on: bool,
    sequence: u64,
}

/// A transaction that was written.
struct Written {
    answers: Vec<Result<(), LedgerError>>,
    now: Timestamp,
}

impl WriterThread {
    fn run(&mut self) {
        let mut group = Vec::new();
        while let Some(first) = self.queue.blocking_recv() {
            self.gather(first, &mut group);
            if !group.is_empty() {
                self.write(&mut group, self.alone.is_none());
            }
            if let Some(alone) = self.alone.take() {
                alone(&mut self.connection);
            }
        }
    }

    /// Collects what waits. When the group before was answered, its writers came back one by one:
    /// giving way to them for some microseconds makes one group of them instead of two.
    fn gather(&mut self, first: Job, group: &mut Vec<Waiting>) {
        match first {
            Job::Grouped(work, answer) => group.push((work, answer)),
            Job::Alone(alone) => {
                self.alone = Some(alone);
                return;
            }
        }
        for _ in 0..GIVE_WAY {
            self.alone = take_waiting(&mut self.queue, group);
            if self.alone.is_some() || group.len() >= self.last_group.min(GROUP) {
                return;
            }
            thread::yield_now();
        }
    }

    /// Writes the group; with `more`, also what comes while it waits for its turn.
    fn write(&mut self, group: &mut Vec<Waiting>, more: bool) {
        let outcome = self.transaction(group, more);
        self.last_group = group.len();
        match outcome {
            Ok(written) => {
                self.time.raise(written.now);
                for ((_, answer), outcome) in group.drain(..).zip(written.answers) {
                    // Nobody waits any more if this fails; the write stands.
                    let _ = answer.send(outcome);
                }
                self.mark(written.now);
            }
            Err(error) if group.len() == 1 || self.broken.is_some() => {
                let problem = error.to_string();
                let mut first = Some(error);
                for (_, answer) in group.drain(..) {
                    let error = first.take().unwrap_or_else(|| LedgerError::Unavailable {
                        problem: problem.clone(),
                        source: None,
                    });
                    let _ = answer.send(Err(error));
                }
            }
            Err(_) => {
                for waiting in std::mem::take(group) {
                    self.write(&mut vec![waiting], false);
                }
            }
        }
    }

    /// One transaction for the group. An error means that nothing of it is written.
    fn transaction(
        &mut self,
        group: &mut Vec<Waiting>,
        more: bool,
    ) -> Result<Written, LedgerError> {
        if let Some(problem) = &self.broken {
            return Err(LedgerError::Unavailable { problem: problem.clone(), source: None });
        }
        let time = Arc::clone(&self.time);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(storage)?;
        let head = head(&transaction)?;
        time.raise(head.floor);
        let now = time.now();
        let circumstances = Circumstances { now, mode: &head.mode };
        let mut rows = SqliteRows::new(&transaction, head.sequence);
        let mut braked = false;
        let mut answers = Vec::with_capacity(group.len());
        while answers.len() < group.len() {
            for (work, _) in group.iter_mut().skip(answers.len()) {
                let answer = saved(&mut rows, work, circumstances)?;
                braked |= matches!(answer, Err(LedgerError::Braked { .. }));
                answers.push(answer);
            }
            if more && self.alone.is_none() {
                // What has come meanwhile shares the sync, and another process's turn, which may
                // have taken some milliseconds.
                self.alone = take_waiting(&mut self.queue, group);
            }
        }
        let sequence = rows.sequence();
        let turned_on = braked && !head.brake_on;
        if !turned_on && answers.iter().all(Result::is_err) {
            // Nothing to write, and nothing to wait for. Dropping the transaction takes it back.
            return Ok(Written { answers, now });
        }
        transaction
            .prepare_cached(
                "UPDATE ledger SET commits = commits + 1, time_floor = max(time_floor, ?1), \
                 brake_on = brake_on OR ?2, sequence = ?3, clock_boot = ?4, clock_wall = ?5, \
                 clock_monotonic = ?6, clock_jumped_at = ?7",
            )
            .and_then(|mut statement| {
                let note = time.note();
                statement.execute(params![
                    self::time(now),
                    braked,
                    integer(sequence),
                    self.boot,
                    self::time(note.wall),
                    columns::millis(note.monotonic),
                    note.jumped_at.map(columns::millis),
                ])
            })
            .map_err(storage)?;
        if let Err(error) = transaction.commit() {
            if is_failed_sync(&error) {
                self.broken = Some(
                    "its disk failed to sync, and may have lost what was written; see to the \
                     disk, then start again"
                        .to_owned(),
                );
            }
            return Err(storage(error));
        }
        Ok(Written { answers, now })
    }

    /// Brings the file beside the ledger up to date from time to time, so that an older copy of the
    /// ledger is noticed. A failure is no failure of the writes: the file is then only behind.
    fn mark(&mut self, now: Timestamp) {
        if now.since(self.marked_at) < MARK_EVERY {
            return;
        }
        self.marked_at = now;
        if let Err(error) = write_mark(&self.connection, &self.directory) {
            tracing::warn!(%error, "the file beside the ledger could not be brought up to date");
        }
    }
}

/// Takes what waits into the group, up to work that is done between transactions.
fn take_waiting(queue: &mut mpsc::Receiver<Job>, group: &mut Vec<Waiting>) -> Option<Alone> {
    while group.len() < GROUP {
        match queue.try_recv() {
            Ok(Job::Grouped(work, answer)) => group.push((work, answer)),
            Ok(Job::Alone(alone)) => return Some(alone),
            Err(_) => break,
        }
    }
    None
}

/// Does one commit of the group, and takes it back if it is refused. An error is the transaction's.
///
/// A commit of one row needs no savepoint, which would copy each page that it changes: the rules
/// look before they write, so that a refused row has changed nothing.
fn saved(
    rows: &mut SqliteRows<'_>,
    work: &mut Work,
    circumstances: Circumstances<'_>,
) -> Result<Result<(), LedgerError>, LedgerError> {
    let connection = rows.connection();
    let run = |sql: &str| {
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map_err(storage)
    };
    let savepoint = !matches!(work, Work::Commit(entries) if entries.len() == 1);
    if savepoint {
        run("SAVEPOINT one")?;
    }
    let outcome = match work {
        Work::Commit(entries) => {
            entries.iter().try_for_each(|entry| rules::apply(rows, entry, circumstances))
        }
        Work::Change(change) => change(rows, circumstances.now),
    };
    if let Err(error) = &outcome
        && is_storage(error)
    {
        return outcome.map(Ok);
    }
    if savepoint {
        if outcome.is_err() {
            run("ROLLBACK TO one")?;
        }
        run("RELEASE one")?;
    }
    Ok(outcome)
}

fn head(connection: &Connection) -> Result<Head, LedgerError> {
    connection
        .prepare_cached("SELECT time_floor, restored, brake_on, sequence FROM ledger")
        .and_then(|mut statement| {
            statement.query_row([], |row| {
                Ok(Head {
                    floor: timestamp(row.get(0)?),
                    mode: mode(row.get(1)?),
                    brake_on: row.get(2)?,
                    sequence: number(row.get(3)?),
                })
            })
        })
        .map_err(storage)
}

/// The mode that the column `restored` tells.
pub(super) fn mode(restored: Option<String>) -> LedgerMode {
    restored.map_or(LedgerMode::Current, |why| LedgerMode::Restored { why })
}

/// After a failed sync the system may have dropped what it could not write: neither a success nor a
/// failure of what follows would mean anything.
fn is_failed_sync(error: &rusqlite::Error) -> bool {
    const FSYNC: i32 = rusqlite::ffi::SQLITE_IOERR_FSYNC;
    const DIRECTORY_FSYNC: i32 = rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC;
    error.sqlite_error().is_some_and(|error| matches!(error.extended_code, FSYNC | DIRECTORY_FSYNC))
}

/// Writes the counters of a current ledger beside it.
pub(super) fn write_mark(
    connection: &Connection,
    directory: &std::path::Path,
) -> Result<(), LedgerError> {
    let beside = connection
        .query_row(
            "SELECT installation, generation, commits FROM ledger WHERE restored IS NULL",
            [],
            |row| {
                Ok(Beside {
                    installation: row.get(0)?,
                    generation: number(row.get(1)?),
                    commits: number(row.get(2)?),
                })
            },
        )
        .optional()
        .map_err(storage)?;
    match beside {
        Some(beside) => {
            let _opening = super::open::lock(directory)?;
            identity::write(directory, beside)
        }
        None => Ok(()),
    }
}
