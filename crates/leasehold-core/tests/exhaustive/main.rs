//! An exhaustive search of a small world over the decision function that ships.
//!
//! Two owners with a lease each, two nodes, and a provider whose calls execute late, twice removed
//! from the decisions that asked for them: answers are lost, nodes die, sandboxes vanish, ids come
//! back. Breadth first, every order of everything, up to a bound. What must hold is judged on what
//! really exists at the instant at which the provider executes a call (`judge.rs`), never on what a
//! row says about itself.
//!
//! What the search shows is worth as much as it notices when something is missing: each guard of the
//! lifecycle, taken away, must lead to a broken promise, and so must a ledger that does not compare
//! and a keeper that does not fence.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what the search does not expect is a mistake of the search, and ends it"
)]

mod calls;
mod drain;
mod hash;
mod judge;
mod moves;
mod offers;
mod rows;
mod search;
mod trace;
mod world;

use leasehold_core::Guards;

use search::{Report, search};
use world::{Bounds, Left};

/// One lease, from its acquire on, and no mishap.
const QUIET: Bounds = Bounds {
    leases: 1,
    last_tick: 1,
    last_grant: 2,
    tethers: [None, None],
    left: NO_MISHAPS,
    compares: true,
    cleans_name_their_grant: true,
    begins_active: false,
    fences: true,
};

/// The same with one answer that never comes.
const LOSSY: Bounds = Bounds { left: Left { losses: 1, ..NO_MISHAPS }, ..QUIET };

const NO_MISHAPS: Left = Left {
    crashes: 0,
    losses: 0,
    refusals: 0,
    vanishings: 0,
    recyclings: 0,
    forgettings: 0,
    reads: 0,
    reopenings: 0,
    stale_reads: 0,
    renewals: 0,
};

const EVERY_MISHAP: Left = Left {
    crashes: 1,
    losses: 1,
    refusals: 1,
    vanishings: 1,
    recyclings: 1,
    forgettings: 1,
    reads: 2,
    reopenings: 1,
    stale_reads: 1,
    renewals: 1,
};

fn visit(name: &str, bounds: &Bounds, limit: usize) -> Report {
    let report = search(Guards::ALL, bounds, limit);
    let Report { states, depth, rows, complete, drained, counterexample } = &report;
    let end = if *complete { "all there are" } else { "the bound" };
    println!("{name}: states: {states} ({end}), depth: {depth}, rows: {rows}, ways out: {drained}");
    if let Some(counterexample) = counterexample {
        panic!("{name}: a promise is broken after {depth} moves\n{counterexample}");
    }
    report
}

/// Searches with something missing, and expects that somebody notices. Breadth first, so the way
/// that is printed is a shortest one.
fn expect_broken(name: &str, promise: &str, guards: Guards, bounds: &Bounds) {
    let report = search(guards, bounds, 2_000_000);
    let Some(counterexample) = report.counterexample else {
        panic!("without {name} nothing breaks in {} states", report.states);
    };
    println!("without {name}, after {} states:\n{counterexample}", report.states);
    assert!(counterexample.contains(promise), "{promise} should have broken");
}

#[test]
fn no_promise_is_broken_in_a_million_states() {
    let two = Bounds { leases: 2, tethers: [None, Some(1)], left: EVERY_MISHAP, ..QUIET };
    let mut states = 0;
    for (name, bounds, limit) in [
        ("one lease, quiet", QUIET, usize::MAX),
        ("one lease, a lost answer", LOSSY, usize::MAX),
        (
            "one lease, crashes and lost answers",
            Bounds {
                last_tick: 4,
                begins_active: true,
                left: Left { crashes: 1, losses: 1, ..NO_MISHAPS },
                ..QUIET
            },
            300_000,
        ),
        (
            "one lease, sandboxes that vanish and come back as strangers",
            Bounds {
                last_tick: 3,
                left: Left {
                    vanishings: 1,
                    recyclings: 1,
                    reads: 2,
                    reopenings: 1,
                    refusals: 1,
                    ..NO_MISHAPS
                },
                ..QUIET
            },
            300_000,
        ),
        ("two leases, every mishap", Bounds { last_tick: 3, ..two }, 200_000),
        (
            "two active leases, every mishap",
            Bounds { last_tick: 3, begins_active: true, ..two },
            1_000_000,
        ),
    ] {
        states += visit(name, &bounds, limit).states;
    }
    println!("states: {states}");
    assert!(states >= 1_000_000);
}

/// Every history of one lease over three ticks, with a lost answer: about sixteen million states.
#[test]
#[ignore = "takes minutes and 4 GiB; `cargo test -p leasehold-core --test exhaustive -- --ignored`"]
fn no_promise_is_broken_in_all_of_three_ticks() {
    for (name, bounds) in [("quiet", QUIET), ("a lost answer", LOSSY)] {
        let report = visit(name, &Bounds { last_tick: 2, ..bounds }, usize::MAX);
        assert!(report.complete);
    }
}

#[test]
fn each_guard_is_needed() {
    let forgetful = Bounds { left: Left { forgettings: 1, ..NO_MISHAPS }, last_tick: 3, ..QUIET };
    for (name, guard) in Guards::EACH {
        let (promise, bounds) = match name {
            "owner" => ("OWNERSHIP", QUIET),
            "grant" => ("GRANT", QUIET),
            "epoch" => ("ABSORBING", QUIET),
            "clean" => ("CLEAN HAND-ON", Bounds { begins_active: true, ..LOSSY }),
            "absorbing" => ("ABSORBING", QUIET),
            "two looks" => ("CONSERVATION", QUIET),
            "horizon" => ("TRUTHFUL ENDS", LOSSY),
            "late create" => ("CONSERVATION", forgetful),
            "deadline" => ("DEADLINE", QUIET),
            // The second defence is taken away too: a clean that names the grant that is over.
            "claim" => {
                let bounds =
                    Bounds { begins_active: true, cleans_name_their_grant: false, ..QUIET };
                ("LIVING", bounds)
            }
            other => panic!("say which promise depends on {other}"),
        };
        expect_broken(&format!("the guard {name:?}"), promise, Guards::all_but(guard), &bounds);
    }
}

#[test]
fn a_ledger_must_compare() {
    let bounds = Bounds {
        compares: false,
        begins_active: true,
        left: Left { stale_reads: 1, ..NO_MISHAPS },
        ..QUIET
    };
    expect_broken("a ledger that compares", "", Guards::ALL, &bounds);
}

#[test]
fn a_clean_must_raise_the_fence_first() {
    let bounds = Bounds { fences: false, begins_active: true, ..QUIET };
    expect_broken("a fence", "CLEAN HAND-ON", Guards::ALL, &bounds);
}

#[test]
fn a_clean_must_name_the_grant_that_is_over() {
    let bounds = Bounds {
        cleans_name_their_grant: false,
        begins_active: true,
        left: Left { crashes: 1, ..NO_MISHAPS },
        ..QUIET
    };
    expect_broken("a clean that names its grant", "LIVING", Guards::ALL, &bounds);
}
