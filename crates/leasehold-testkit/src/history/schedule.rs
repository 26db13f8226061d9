//! Who calls what when.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{AcquireKey, Grant};
use leasehold_ports::Signal;

use super::book::{KeyedAcquire, Known};
use super::calls::{self, Call, Patience};
use super::stage::{NODES, Stage, tag};
use super::{events, quiet};
use crate::executor::Join;
use crate::random::RandomStream;

/// How many calls a history has at the least, and when it ends although too little went wrong.
const LEAST_CALLS: u32 = 30;
const MOST_CALLS: u32 = 200;
/// How many faults there must be, and from which call on they are helped along.
const LEAST_FAULTS: u64 = 5;
const HELP_FROM: u32 = 40;
/// How many acquires come first, so that there is something to work on.
const FIRST_ACQUIRES: u32 = 4;

/// Plays a history to its end.
pub(super) async fn play(stage: Arc<Stage>, mut stream: RandomStream) {
    let works = [stream.happens(300), stream.happens(100)];
    for (node, works) in works.into_iter().enumerate() {
        stage.start_node(node, works).await;
    }
    let mut disturbances = events::Disturbances::drawn(stage.settings(), &mut stream);
    let mut under_way: Vec<Join<()>> = Vec::new();
    let mut number = 0;
    while number < LEAST_CALLS || (number < MOST_CALLS && faults(&stage) < LEAST_FAULTS) {
        if stage.keeper(0).is_none() && stage.keeper(1).is_none() {
            // Somebody starts a node again, or nobody could call.
            disturbances.settle(&stage, works).await;
        }
        let node = draw_node(&stage, &mut stream);
        let Some(keeper) = stage.keeper(node) else { continue };
        number += 1;
        if number == HELP_FROM {
            stage.world.faults().set_rate(500);
            stage.ledger_plan.set_rate(500);
        }
        let call = draw_call(&stage, &mut stream, number);
        stage.count(|tally| tally.calls += 1);
        let made = Box::pin(calls::make(stage.clone(), keeper, call, number));
        let join = stage.spawner.spawn(tag(node), made);
        // Half of the callers are waited for; the others call at the same time.
        if stream.happens(500) {
            let _ = join.await;
        } else {
            under_way.push(join);
        }
        disturbances.disturb(&stage, &mut stream, number, works).await;
        under_way.retain(|join| !join.is_ended());
        if under_way.len() > 4 {
            let _ = under_way.remove(0).await;
        }
        pass_time(&stage, &mut stream).await;
    }
    disturbances.settle(&stage, works).await;
    quiet::settle(&stage, under_way, &mut stream).await;
}

fn faults(stage: &Stage) -> u64 {
    stage.world.faults().coverage().total() + stage.ledger_plan.coverage().total()
}

/// Mostly moments, sometimes minutes: deadlines pass, retries come.
async fn pass_time(stage: &Stage, stream: &mut RandomStream) {
    let longest = match stream.below(100) {
        0..=39 => Duration::from_millis(20),
        40..=79 => Duration::from_secs(1),
        80..=95 => Duration::from_secs(30),
        _ => Duration::from_secs(400),
    };
    let duration = stream.duration(Duration::ZERO, longest);
    stage.world.time().sleep(duration).await;
}

fn draw_node(stage: &Stage, stream: &mut RandomStream) -> usize {
    let first = stream.index(NODES);
    if stage.keeper(first).is_some() { first } else { NODES - 1 - first }
}

fn draw_call(stage: &Stage, stream: &mut RandomStream, number: u32) -> Call {
    if number <= FIRST_ACQUIRES {
        return draw_acquire(stage, stream);
    }
    let drawn = stream.below(100);
    if drawn < 8 {
        return draw_acquire(stage, stream);
    }
    if drawn < 12 {
        return Call::Recover;
    }
    if drawn < 15 {
        return Call::Sweep;
    }
    let lease = stage.book().draw(stream);
    let Some(lease) = lease else { return draw_acquire(stage, stream) };
    match drawn {
        15..=20 => {
            let call = draw_use(stage, stream, lease);
            Call::Foreign(Box::new(call))
        }
        21..=26 if lease.grant > Grant(1) => {
            let stale = Known { grant: Grant(lease.grant.0 - 1), ..lease };
            Call::Stale(Box::new(draw_use(stage, stream, stale)))
        }
        _ => draw_use(stage, stream, lease),
    }
}

/// Something that an owner does with a lease.
fn draw_use(stage: &Stage, stream: &mut RandomStream, lease: Known) -> Call {
    match stream.below(100) {
        0..=37 => draw_execute(stage, stream, lease),
        38..=43 => Call::Acknowledge { lease },
        44..=51 => {
            let by = stream.duration(Duration::from_secs(1), Duration::from_secs(3_000));
            Call::Renew { lease, by }
        }
        52..=69 => Call::Park { lease },
        70..=87 => Call::Resume { lease, delivered: stream.happens(300) },
        88..=94 => Call::Destroy { lease, with_grant: stream.happens(800) },
        95..=96 => Call::OperatorDestroys { lease },
        97 => Call::Promote { lease },
        98 if stream.happens(500) => Call::Forget { lease },
        _ => draw_execute(stage, stream, lease),
    }
}

fn draw_execute(stage: &Stage, stream: &mut RandomStream, lease: Known) -> Call {
    let label = stage.book().new_label();
    let script = match stream.below(100) {
        0..=34 => format!("echo c{label}"),
        35..=54 => format!("sleep 2; echo c{label}"),
        55..=69 => format!("sleep 1000 & echo c{label}"),
        70..=79 => format!("sleep 12; echo c{label}"),
        80..=89 => format!("trap '' TERM; sleep 20; echo c{label}"),
        90..=94 => format!("exit 3; echo c{label}"),
        // A program that the sandbox does not know.
        _ => format!("nonsense c{label}"),
    };
    let patience = match stream.below(100) {
        0..=59 => Patience::UntilEnd,
        60..=74 => Patience::None,
        75..=84 => {
            Patience::Signals(if stream.happens(500) { Signal::TERMINATE } else { Signal::KILL })
        }
        _ => Patience::Terminates(stream.duration(Duration::ZERO, Duration::from_secs(4))),
    };
    Call::Execute { lease, script, patience }
}

#[expect(clippy::expect_used, reason = "texts made of letters and digits are identifiers")]
fn draw_acquire(stage: &Stage, stream: &mut RandomStream) -> Call {
    stage.count(|tally| tally.acquires += 1);
    let lifetime = stream.duration(Duration::from_secs(100), Duration::from_secs(3_600));
    let mut book = stage.book();
    let repeats = !book.keys.is_empty() && stream.happens(350);
    let keyed = repeats.then(|| stream.index(book.keys.len()));
    let owner = keyed.map_or_else(|| stream.index(2), |keyed| book.keys[keyed].owner);
    let shape = match keyed {
        // Now and then the same key is used for something else: a conflict.
        Some(keyed) if !stream.happens(150) => book.keys[keyed].shape.clone(),
        _ => stream.happens(300).then(|| format!("s-{}", stream.below(1_000_000))),
    };
    let mut request = calls::acquire_request(stage, owner, shape.clone(), lifetime);
    request.delivered = stream.happens(400);
    request.tethered = stream.happens(100);
    let keyed = match keyed {
        Some(keyed) => Some(keyed),
        None if stream.happens(600) => {
            let key = AcquireKey::new(format!("key-{}", book.keys.len())).expect("an identifier");
            book.keys.push(KeyedAcquire { key, owner, shape, lease: None });
            Some(book.keys.len() - 1)
        }
        None => None,
    };
    request.key = keyed.map(|keyed| book.keys[keyed].key.clone());
    Call::Acquire { owner, request: Box::new(request), keyed }
}
