//! The threads that read, each with a connection of its own.
//!
//! A write-ahead log lets them read while the writer writes. They are started by the first read, so
//! that a process that only writes does not pay for them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use leasehold_ports::LedgerError;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{mpsc, oneshot};

use super::failure::{stopped, storage};
use super::open::set_up;

const THREADS: usize = 2;

/// How many reads may wait; the next one waits to wait.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(&Result<Connection, LedgerError>) + Send>;

/// The way to the readers.
pub(super) struct Readers {
    path: PathBuf,
    jobs: OnceLock<mpsc::Sender<Job>>,
}

impl Readers {
    pub(super) fn of(path: PathBuf) -> Self {
        Self { path, jobs: OnceLock::new() }
    }

    /// Runs `read` on a reader's thread.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let outcome = match connection {
                Ok(connection) => read(connection),
                Err(error) => {
                    Err(LedgerError::Unavailable { problem: error.to_string(), source: None })
                }
            };
            // Nobody waits any more if this fails.
            let _ = answer.send(outcome);
        });
        self.jobs().send(job).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    fn jobs(&self) -> &mpsc::Sender<Job> {
        self.jobs.get_or_init(|| {
            let (sender, queue) = mpsc::channel(QUEUE);
            let queue = Arc::new(Mutex::new(queue));
            for _ in 0..THREADS {
                let (queue, path) = (Arc::clone(&queue), self.path.clone());
                let started = thread::Builder::new()
                    .name("ledger-reader".to_owned())
                    .spawn(move || serve(&queue, &path));
                if let Err(error) = started {
                    // With none at all the queue closes, and each read says so.
                    tracing::warn!(%error, "a reader of the ledger could not be started");
                }
            }
            sender
        })
    }
}

fn serve(queue: &Mutex<mpsc::Receiver<Job>>, path: &std::path::Path) {
    let mut connection = open(path);
    loop {
        // One reader waits in the queue, the other one at the lock.
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(job) = job else { return };
        if connection.is_err() {
            connection = open(path);
        }
        job(&connection);
    }
}

fn open(path: &std::path::Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(storage)?;
    set_up(&mut connection)?;
    connection.pragma_update(None, "query_only", true).map_err(storage)?;
    Ok(connection)
}
