use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::random::Component;

fn executor(seed: u64) -> Executor {
    Executor::new(RandomStream::new(seed, Component::Executor))
}

#[test]
fn time_passes_only_when_everybody_waits() {
    let mut executor = executor(1);
    let time = executor.time();
    let elapsed = executor.block_on(async move {
        time.sleep(Duration::from_secs(3600)).await;
        time.elapsed()
    });
    assert_eq!(elapsed, Ok(Duration::from_secs(3600)));
}

#[test]
fn the_seed_chooses_among_ready_tasks() {
    let order = |seed| {
        let mut executor = executor(seed);
        let order = Arc::new(Mutex::new(Vec::new()));
        let joins: Vec<_> = (0..6)
            .map(|number| {
                let order = order.clone();
                executor.spawner().spawn(Node(0), async move {
                    order.lock().unwrap().push(number);
                })
            })
            .collect();
        executor
            .block_on(async move {
                for join in joins {
                    join.await.unwrap();
                }
            })
            .unwrap();
        std::mem::take(&mut *order.lock().unwrap())
    };
    assert_eq!(order(7), order(7));
    let different = (0..20).map(order).collect::<std::collections::BTreeSet<_>>();
    assert!(different.len() > 10, "20 seeds gave only {} orders", different.len());
}

#[test]
fn a_crash_drops_the_tasks_of_one_node_only() {
    let mut executor = executor(3);
    let spawner = executor.spawner();
    let time = executor.time();
    let ends = executor.block_on(async move {
        let wait = |seconds| {
            let time = time.clone();
            async move { time.sleep(Duration::from_secs(seconds)).await }
        };
        let short = spawner.spawn(Node(0), wait(1));
        let crashed = spawner.spawn(Node(0), wait(10));
        let other = spawner.spawn(Node(1), wait(10));
        time.sleep(Duration::from_secs(5)).await;
        spawner.crash(Node(0));
        (short.await, crashed.await, other.await, time.elapsed().as_secs())
    });
    assert_eq!(ends, Ok((Ok(()), Err(Dropped), Ok(()), 10)));
}

#[test]
fn a_dropped_sleep_takes_its_timer_out() {
    let mut executor = executor(4);
    let time = executor.time();
    let elapsed = executor
        .block_on({
            let time = time.clone();
            async move {
                let long = time.sleep(Duration::from_secs(100));
                let short = time.sleep(Duration::from_secs(1));
                futures_util::future::select(long, short).await;
            }
        })
        .map(|()| time.elapsed());
    assert_eq!(elapsed, Ok(Duration::from_secs(1)));
    assert!(!executor.advance(), "a timer was left behind");
}

#[test]
fn a_deadlock_and_a_livelock_are_told() {
    let stuck = executor(5).block_on(std::future::pending::<()>());
    assert_eq!(stuck, Err(Stuck::Deadlock { waiting: 1 }));

    let mut executor = executor(5);
    let time = executor.time();
    let stuck = executor.block_on(async move {
        loop {
            time.yield_now().await;
        }
    });
    assert!(matches!(stuck, Err(Stuck::Livelock { .. })), "{stuck:?}");
}

#[test]
fn a_wake_up_for_an_earlier_task_of_a_slot_is_ignored() {
    let mut executor = executor(6);
    let spawner = executor.spawner();
    let polls = Arc::new(AtomicU32::new(0));
    let counted = polls.clone();
    executor
        .block_on(async move {
            let stale = Arc::new(Mutex::new(None));
            let keep = stale.clone();
            let first = spawner.spawn(Node(0), async move {
                std::future::poll_fn(|context| {
                    *keep.lock().unwrap() = Some(context.waker().clone());
                    Poll::Ready(())
                })
                .await;
            });
            first.await.unwrap();
            let second = spawner.spawn(Node(0), async move {
                std::future::poll_fn(|context| {
                    if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(())
                })
                .await;
            });
            if let Some(waker) = stale.lock().unwrap().take() {
                waker.wake();
            }
            second.await.unwrap();
        })
        .unwrap();
    assert_eq!(polls.load(Ordering::Relaxed), 2);
}

#[test]
fn wall_clocks_jump_and_monotonic_time_does_not() {
    use leasehold_ports::Clock as _;
    let executor = executor(8);
    let (here, there) = (executor.clock(), executor.clock());
    let before = here.now();
    here.jump(-60_000);
    assert_eq!(before.since(here.now()), Duration::from_secs(60));
    assert_eq!(there.now(), before);
    assert_eq!(here.monotonic(), there.monotonic());
}
