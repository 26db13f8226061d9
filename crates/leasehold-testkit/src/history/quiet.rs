//! The end of a history: nothing goes wrong any more, and everything must come to rest.

use std::sync::Arc;
use std::time::Duration;

use leasehold_keeper::RecoveryScope;
use leasehold_ports::Ledger as _;

use super::stage::{NODES, Stage, tag};
use crate::executor::Join;
use crate::random::RandomStream;

/// The time in which everything must have come to rest.
const LONGEST_UNREST: Duration = Duration::from_secs(3 * 3_600);
/// The shortest and the longest time between two passes of recovery.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// Lets everything come to rest, and holds the rest against the truth.
pub(super) async fn settle(
    stage: &Arc<Stage>,
    under_way: Vec<Join<()>>,
    stream: &mut RandomStream,
) {
    stage.journal.note(format_args!("quiet"));
    stage.world.faults().quiet();
    stage.ledger_plan.quiet();
    stage.credentials.set(&["key-1"]);
    stage.prove_deaths();
    // From here on recovery is called for; loops that look every few seconds at hours of quiet
    // would only cost time.
    stage.stop_work();
    let _ = stage.memory.accept().await;
    for call in under_way {
        let _ = call.await;
    }
    // What calls of the time before left on its way arrives by now.
    recover_until_rest(stage).await;
    let settings = stage.world.settings();
    stage.world.time().sleep(settings.longest_lateness + settings.facts.create_horizon).await;
    sweep(stage).await;
    recover_until_rest(stage).await;
    stage.world.inspect(|truth| stage.judge.final_check(truth));
    stage.check_pace();
    if stream.happens(300) {
        expire_everything(stage).await;
    }
}

/// Nobody calls any more: in the end nothing is left but what has no deadline.
async fn expire_everything(stage: &Arc<Stage>) {
    stage.journal.note(format_args!("nobody calls any more"));
    // The longest life of a lease, and a little; the ledger's time stands still for as long as a
    // clock that was set back has to catch up.
    let behind = u64::try_from(-stage.clock.offset_millis()).unwrap_or(0);
    let longest = Duration::from_secs(3_700) + Duration::from_millis(behind);
    stage.world.time().sleep(longest).await;
    // Meanwhile strangers got ids that were free: nothing of theirs may be removed.
    for _ in 0..3 {
        stage.world.stranger_creates();
    }
    recover_until_rest(stage).await;
    stage.world.inspect(|truth| stage.judge.final_check_of_expiry(truth));
}

async fn recover_until_rest(stage: &Arc<Stage>) {
    let limit = stage.world.time().elapsed() + LONGEST_UNREST;
    let mut shortest = SHORTEST_PAUSE;
    for pass in 0.. {
        if stage.world.time().elapsed() > limit {
            return;
        }
        let _ = stage.memory.release_brake().await;
        let node = pass % NODES;
        let Some(keeper) = stage.keeper(node) else { continue };
        let recovered = stage.spawner.spawn(tag(node), async move {
            let _ = Box::pin(keeper.recover(RecoveryScope::Everything)).await;
        });
        let _ = recovered.await;
        let due = stage.memory.next_due().await.ok().flatten();
        let now = stage.memory.now();
        if stage.judge.is_settled() && due.is_none_or(|due| due > now) {
            return;
        }
        let pause = due.map_or(LONGEST_PAUSE, |due| due.since(now));
        // What another node has claimed is due all the time, and not for this one.
        let pause = pause.clamp(shortest, LONGEST_PAUSE);
        shortest = (shortest * 2).min(LONGEST_PAUSE);
        stage.world.time().sleep(pause).await;
    }
}

async fn sweep(stage: &Arc<Stage>) {
    let Some(keeper) = stage.keeper(0) else { return };
    let home = stage.world.settings().home.clone();
    let swept = stage.spawner.spawn(tag(0), async move {
        let _ = Box::pin(keeper.sweep(&[home])).await;
    });
    let _ = swept.await;
}
