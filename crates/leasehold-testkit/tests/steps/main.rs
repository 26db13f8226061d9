//! Every step twice, and failing at every step.
//!
//! Generated from the list of the lifecycle's steps: for each flow and each step that it reaches,
//! the node dies or stands still at each edge of the step, the step is done again by another, and
//! the step's call or a write goes wrong in every way that it can. A step that no flow reaches, or
//! that lacks an edge, fails the test; so a new one is tested without anybody thinking of it.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod flows;
mod rest;
mod site;
mod watch;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::Step;
use leasehold_keeper::Edge;
use leasehold_testkit::executor::Executor;
use leasehold_testkit::faults::{Coverage, Fault, Operation};
use leasehold_testkit::faulty_ledger::LedgerFault;
use leasehold_testkit::random::{Component, RandomStream};
use leasehold_testkit::world::WorldSettings;

use crate::flows::Flow;
use crate::rest::{Portrait, insist, is_final, recover_past_claims, settle, use_and_end};
use crate::site::Site;
use crate::watch::Trouble;

/// Under how many seeds each trouble is met: latencies and the order of tasks differ.
const SEEDS: u64 = 3;

/// What happens to the flow's call.
#[derive(Clone, Copy, Debug)]
enum Story {
    /// Nothing.
    Smooth,
    /// Its node dies there.
    Dies(Step, Edge),
    /// Its node stands still there, until another has gone on with everything; then it goes on too.
    IsOvertaken(Step, Edge),
    /// The provider's call of the step goes wrong.
    Fails(Step, Fault),
    /// A write goes wrong, counted from the call on.
    WriteFails(u32, LedgerFault),
}

impl Story {
    const fn trouble(self) -> Trouble {
        match self {
            Story::Dies(step, edge) | Story::IsOvertaken(step, edge) => Trouble::Halt(step, edge),
            Story::Fails(step, fault) => Trouble::Fail(step, fault),
            Story::Smooth | Story::WriteFails(..) => Trouble::None,
        }
    }

    /// Whether the story harms a sandbox, so that its owner may not be able to use it.
    const fn harms_sandbox(self) -> bool {
        let Story::Fails(_, fault) = self else { return false };
        matches!(
            fault,
            Fault::Vanished | Fault::Failed | Fault::MarkerTampered | Fault::HostileFence
        )
    }
}

/// What came of a story.
struct Told {
    portrait: Portrait,
    points: Vec<(Step, Edge)>,
    writes: u32,
    /// Whether the trouble came.
    met: bool,
    coverage: Coverage,
}

/// A plain provider, and one that is slow, lags and forgets, and gives ids again.
fn providers() -> [WorldSettings; 2] {
    let mut awkward = WorldSettings::plain();
    awkward.facts.recycles_ids = true;
    awkward.facts.read_lag = Duration::from_secs(2);
    awkward.facts.list_lag = Duration::from_secs(10);
    awkward.always_slow_destroy = true;
    awkward.ended_readable = Duration::ZERO;
    awkward.needs_key = true;
    [WorldSettings::plain(), awkward]
}

/// Tells a story under a seed, to its end: everything is proved to be gone then.
fn tell(flow: Flow, story: Story, settings: &WorldSettings, seed: u64) -> Told {
    let mut executor = Executor::new(RandomStream::new(seed, Component::Executor));
    let site = Site::new(seed, settings.clone(), &executor);
    let played = AssertUnwindSafe(|| executor.block_on(play(site.clone(), flow, story)));
    match catch_unwind(played) {
        Ok(told) => told.expect("a story that ends"),
        Err(panic) => {
            let journal = site.world.journal().text();
            println!("{journal}\n{flow:?}, {story:?}, seed {seed}");
            resume_unwind(panic)
        }
    }
}

async fn play(site: Site, flow: Flow, story: Story) -> Told {
    let helper = site.start_node(Trouble::None).await;
    let node = site.start_node(story.trouble()).await;
    flow.prepare(&site, &helper).await;
    let writes_before = site.ledger_plan.writes();
    if let Story::WriteFails(number, fault) = story {
        site.ledger_plan.script(number, fault);
    }
    let mut call = site.spawn(&node, flow.call(site.clone(), node.keeper.clone()));
    let stands = matches!(story, Story::Dies(..) | Story::IsOvertaken(..));
    let ended = match select(&mut call, std::pin::pin!(node.watch.met.cancelled())).await {
        Either::Left((ended, _)) => Some(ended),
        Either::Right(_) if stands => None,
        Either::Right(((), call)) => Some(call.await),
    };
    let writes = site.ledger_plan.writes() - writes_before;
    match ended {
        // The node is not heard of any more.
        None => {
            if matches!(story, Story::Dies(..)) {
                site.kill(&node).await;
            }
            if flow.may_be_repeated() {
                insist(&site, flow, &helper, story.harms_sandbox()).await;
            }
            recover_past_claims(&site, &helper).await;
            node.watch.go_on.cancel();
            // What it makes of it does not matter any more: its caller has gone.
            let _ = call.await;
        }
        Some(Ok(Err(error))) if !is_final(&error) => {
            insist(&site, flow, &helper, story.harms_sandbox()).await
        }
        Some(_) => {}
    }
    settle(&site, &helper).await;
    let told = Told {
        portrait: Portrait::of(&site).await,
        points: node.watch.seen(),
        writes,
        met: node.watch.met.is_cancelled(),
        coverage: site.world.faults().coverage(),
    };
    use_and_end(&site, &helper, story.harms_sandbox()).await;
    told
}

/// Each flow at each provider under each seed, told first without trouble.
fn each_flow(mut then: impl FnMut(Flow, &WorldSettings, u64, &Told)) {
    for flow in Flow::ALL {
        for settings in &providers() {
            for seed in 0..SEEDS {
                let smooth = tell(flow, Story::Smooth, settings, seed);
                then(flow, settings, seed, &smooth);
            }
        }
    }
}

fn every_point() -> BTreeSet<(Step, Edge)> {
    Step::ALL.into_iter().flat_map(|step| Edge::ALL.map(|edge| (step, edge))).collect()
}

fn distinct<T: Ord + Copy>(all: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    all.into_iter().collect()
}

#[test]
fn a_step_that_is_done_twice_is_as_one_that_is_done_once() {
    let mut reached = BTreeSet::new();
    let mut told = 0;
    each_flow(|flow, settings, seed, smooth| {
        for (step, edge) in distinct(smooth.points.iter().copied()) {
            for story in [Story::Dies(step, edge), Story::IsOvertaken(step, edge)] {
                let twice = tell(flow, story, settings, seed);
                assert!(twice.met, "{flow:?}, {story:?}: it never came there");
                told += 1;
                reached.insert((step, edge));
                // Done, and nothing of it on record: whoever comes next does it again.
                if edge == Edge::Done {
                    assert_eq!(twice.portrait, smooth.portrait, "{flow:?}, {story:?}, {seed}");
                }
            }
        }
    });
    println!("{told} stories");
    let missed: Vec<_> = every_point().difference(&reached).copied().collect();
    assert!(missed.is_empty(), "no flow comes to {missed:?}");
}

#[test]
fn a_step_may_fail_in_every_way_and_nothing_is_lost() {
    let mut coverage = Coverage::default();
    let mut told = 0;
    each_flow(|flow, settings, seed, smooth| {
        for step in distinct(smooth.points.iter().map(|(step, _)| *step)) {
            let operation = Operation::of_step(step);
            let possible = |fault: &Fault| *fault != Fault::Crash && fault.applies_to(operation);
            for fault in Fault::ALL.into_iter().filter(possible) {
                coverage.add(&tell(flow, Story::Fails(step, fault), settings, seed).coverage);
                told += 1;
            }
        }
    });
    println!("{told} stories");
    let essence: Vec<Operation> = Step::ALL.into_iter().map(Operation::of_step).collect();
    let mut missed = coverage.missing();
    missed.retain(|(fault, operation)| *fault != Fault::Crash && essence.contains(operation));
    assert!(missed.is_empty(), "no step has met {missed:?}");
}

#[test]
fn a_write_may_fail_in_every_way_and_nothing_is_lost() {
    let mut told = 0;
    each_flow(|flow, settings, seed, smooth| {
        assert!(smooth.writes > 0 || smooth.points.is_empty(), "{flow:?} writes nothing");
        for number in 0..smooth.writes {
            for fault in LedgerFault::ALL {
                tell(flow, Story::WriteFails(number, fault), settings, seed);
                told += 1;
            }
        }
    });
    println!("{told} stories");
}
