//! How fast the SQLite ledger is: durable transitions, and reads among 100,000 open leases.
//!
//! `cargo bench -p leasehold-ledger` runs all of it. A transition is one compare-and-set of a lease
//! with one event, acknowledged when it is synced. `LEASEHOLD_BENCH_DIRECTORY` says on which disk
//! (default: the working directory's target folder, not `/tmp`, which may be memory);
//! `LEASEHOLD_BENCH_SECONDS` how long (default 10). To count the syncs of the disk by the kernel's word:
//! `strace -f -c -e fsync,fdatasync` before the bench's binary.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark, not a library")]
#![expect(clippy::disallowed_methods, reason = "it measures the time of the machine")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use leasehold_core::{EventKind, Lease, Timestamp};
use leasehold_ledger::SqliteLedger;
use leasehold_ledger::suite::samples::{active, insert, next, update_noting};
use leasehold_ports::{Clock, LeaseFilter, Ledger, Random};

const AT_ONCE: usize = 64;
const OF_THE_OTHER: usize = 8;
const OPEN: usize = 100_000;
const ROLE: &str = "LEASEHOLD_BENCH_OTHER";

struct SystemClock(Instant);

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, _: Duration) {}
}

struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).unwrap();
    }
}

fn open(directory: &Path) -> Arc<SqliteLedger> {
    let clock = Arc::new(SystemClock(Instant::now()));
    Arc::new(SqliteLedger::open(directory, clock, Arc::new(SystemRandom)).unwrap())
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    if let Some(directory) = std::env::var_os(ROLE) {
        return runtime.block_on(write_beside(Path::new(&directory)));
    }
    // `cargo test --benches` asks for a short run.
    let whole = std::env::args().any(|argument| argument == "--bench");
    let seconds = std::env::var("LEASEHOLD_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    let long = Duration::from_secs(seconds.unwrap_or(if whole { 10 } else { 1 }));
    let disk = std::env::var_os("LEASEHOLD_BENCH_DIRECTORY").map_or_else(
        || std::env::current_exe().unwrap().parent().unwrap().to_owned(),
        PathBuf::from,
    );
    runtime.block_on(async {
        for other in [false, true] {
            let state = tempfile::tempdir_in(&disk).unwrap();
            transitions(state.path(), long, other).await;
        }
        let state = tempfile::tempdir_in(&disk).unwrap();
        reads(state.path(), if whole { OPEN } else { OPEN / 100 }).await;
    });
}

/// Starts this binary as the second process, which writes until it is killed.
fn start_other(directory: &Path) -> Child {
    let mut other = Command::new(std::env::current_exe().unwrap())
        .env(ROLE, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0];
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut ready).unwrap();
    other
}

async fn write_beside(directory: &Path) {
    let ledger = open(directory);
    let leases = store(&ledger, "ls_other", OF_THE_OTHER).await;
    println!();
    let running = Arc::new(AtomicBool::new(true));
    let _ = write_at_once(&ledger, leases, &running).await;
}

async fn store(ledger: &SqliteLedger, prefix: &str, count: usize) -> Vec<Lease> {
    let leases: Vec<Lease> =
        (0..count).map(|number| active(&format!("{prefix}_{number:06}"))).collect();
    for some in leases.chunks(500) {
        ledger.commit(some.iter().map(insert).collect()).await.unwrap();
    }
    leases
}

/// One task for each lease, which writes its next version as soon as the one before is on disk.
async fn write_at_once(
    ledger: &Arc<SqliteLedger>,
    leases: Vec<Lease>,
    running: &Arc<AtomicBool>,
) -> Vec<Duration> {
    let tasks: Vec<_> = leases
        .into_iter()
        .map(|mut lease| {
            let (ledger, running) = (Arc::clone(ledger), Arc::clone(running));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while running.load(Ordering::Relaxed) {
                    lease = next(&lease, |lease| {
                        lease.touched_at = lease.touched_at + Duration::from_millis(1);
                        lease.epoch = lease.epoch.next();
                    });
                    let write = update_noting(&lease, vec![EventKind::ParkBegan]);
                    let began = Instant::now();
                    ledger.commit(vec![write]).await.unwrap();
                    latencies.push(began.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap());
    }
    latencies
}

async fn counters(ledger: &SqliteLedger) -> (i64, i64) {
    ledger
        .with_connection(|connection| {
            let synchronous: i64 =
                connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
            assert_eq!(synchronous, 2, "each transaction is synced in full");
            let sql = "SELECT commits, (SELECT sum(version - 1) FROM leases WHERE id GLOB 'ls_other*') \
                       FROM ledger";
            connection
                .query_row(sql, [], |row| {
                    Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0)))
                })
                .unwrap()
        })
        .await
        .unwrap()
}

async fn transitions(directory: &Path, long: Duration, with_other: bool) {
    let ledger = open(directory);
    let leases = store(&ledger, "ls_ours", AT_ONCE).await;
    let other = with_other.then(|| start_other(directory));
    let (commits_before, other_before) = counters(&ledger).await;
    let running = Arc::new(AtomicBool::new(true));
    let stop = Arc::clone(&running);
    let began = Instant::now();
    let alarm = std::thread::spawn(move || {
        std::thread::sleep(long);
        stop.store(false, Ordering::Relaxed);
    });
    let mut latencies = write_at_once(&ledger, leases, &running).await;
    let took = began.elapsed().as_secs_f64();
    let (commits, others) = counters(&ledger).await;
    if let Some(mut other) = other {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    alarm.join().unwrap();
    latencies.sort();
    let per_second = |count: f64| count / took;
    println!(
        "transitions, {AT_ONCE} leases at once, {}: {:.0}/s (the other process: {:.0}/s); latency \
         median {:.2} ms, p99 {:.2} ms, worst {:.2} ms; {} synced transactions of both ({:.0}/s)",
        if with_other { "a second process writing" } else { "alone" },
        per_second(latencies.len() as f64),
        per_second((others - other_before) as f64),
        milliseconds(latencies[latencies.len() / 2]),
        milliseconds(latencies[latencies.len() * 99 / 100]),
        milliseconds(latencies[latencies.len() - 1]),
        commits - commits_before,
        per_second((commits - commits_before) as f64),
    );
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

async fn reads(directory: &Path, count: usize) {
    let ledger = open(directory);
    let leases = store(&ledger, "ls_open", count).await;
    let mut pages = Vec::new();
    let mut dues = Vec::new();
    for round in 0..100 {
        let after = leases[(round * 7919) % (count - 200)].id.clone();
        let filter = LeaseFilter { after: Some(after), limit: 100, ..LeaseFilter::default() };
        let began = Instant::now();
        let page = ledger.list(&filter).await.unwrap();
        pages.push(began.elapsed());
        assert_eq!(page.len(), 100);
        let began = Instant::now();
        let due = ledger.due(Timestamp::NEVER, 100).await.unwrap();
        dues.push(began.elapsed());
        assert_eq!(due.len(), 100);
    }
    for (what, mut times) in [("a page of 100", pages), ("due work, 100 rows", dues)] {
        times.sort();
        println!(
            "{what} among {count} open leases: median {:.2} ms, worst of 100 {:.2} ms",
            milliseconds(times[50]),
            milliseconds(times[99]),
        );
    }
}
