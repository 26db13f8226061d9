//! How fast the executor is beside a tokio runtime with a paused clock, on the same trivial
//! workload: one run is 8 tasks that each wait 40 times for a drawn time. Run it with
//! `cargo run --release -p leasehold-testkit --example executor_comparison`.
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement needs the real time, and the runtime that it compares with"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold_testkit::executor::{Executor, Node};
use leasehold_testkit::random::{Component, RandomStream};

const RUNS: u64 = 2_000;
const TASKS: u64 = 8;
const WAITS: u64 = 40;

/// The times that a task waits, in milliseconds: the tokio timer knows nothing shorter.
fn waits(seed: u64, task: u64) -> Vec<Duration> {
    let number = u32::try_from(task).unwrap_or(0);
    let mut stream = RandomStream::new(seed, Component::Keeper(number));
    (0..WAITS).map(|_| Duration::from_millis(1 + stream.below(50))).collect()
}

fn ours(seed: u64, done: &Arc<AtomicU64>) {
    let mut executor = Executor::new(RandomStream::new(seed, Component::Executor));
    let (spawner, time) = (executor.spawner(), executor.time());
    let done = done.clone();
    let run = executor.block_on(async move {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (time, done) = (time.clone(), done.clone());
                spawner.spawn(Node(0), async move {
                    for wait in waits(seed, task) {
                        time.sleep(wait).await;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for task in tasks {
            let _ = task.await;
        }
    });
    assert!(run.is_ok());
}

fn theirs(seed: u64, done: &Arc<AtomicU64>) {
    let Ok(runtime) =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()
    else {
        return;
    };
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let done = done.clone();
                tokio::spawn(async move {
                    for wait in waits(seed, task) {
                        tokio::time::sleep(wait).await;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for task in tasks {
            let _ = task.await;
        }
    });
}

fn measure(name: &str, run: impl Fn(u64, &Arc<AtomicU64>)) -> Duration {
    let done = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    for seed in 0..RUNS {
        run(seed, &done);
    }
    let elapsed = start.elapsed();
    assert_eq!(done.load(Ordering::Relaxed), RUNS * TASKS * WAITS);
    println!("{name}: {:.1} us a run", elapsed.as_secs_f64() * 1e6 / RUNS as f64);
    elapsed
}

fn main() {
    // Interleaved and repeated, so that whatever else the machine does strikes both.
    for _ in 0..3 {
        let ours = measure("the testkit's executor", ours);
        let theirs = measure("tokio, current thread, paused", theirs);
        println!("ratio: {:.2}", theirs.as_secs_f64() / ours.as_secs_f64());
    }
}
