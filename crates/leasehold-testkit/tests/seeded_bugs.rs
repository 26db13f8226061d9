//! Mistakes that are put into the keeper are found: a judge that finds nothing proves nothing.
#![cfg(feature = "seeded-bugs")]

use leasehold_keeper::SeededBug;
use leasehold_testkit::history::HistorySettings;
use leasehold_testkit::suite::find_mistake;

/// Within how many seeds each must be found.
const SEEDS: u64 = 20_000;

/// Mistakes that break an invariant. Those that are missing here (`late create`, `claim`,
/// `GateNotRead`, `NoDrain`) take one of two defences away, and the other one holds: a debt row, the
/// epoch, the fence in the sandbox, the busy nodes of the row.
const BUGS: [SeededBug; 14] = [
    SeededBug::Guard("owner"),
    SeededBug::Guard("grant"),
    SeededBug::Guard("epoch"),
    SeededBug::Guard("clean"),
    SeededBug::Guard("absorbing"),
    SeededBug::Guard("two looks"),
    SeededBug::Guard("horizon"),
    SeededBug::Guard("deadline"),
    SeededBug::AccountNotProved,
    SeededBug::StartBeforeDirty,
    SeededBug::MarkerNotRead,
    SeededBug::BirthNotRead,
    SeededBug::ListBelieved,
    SeededBug::RenewalWithoutTimer,
];

#[test]
fn each_mistake_is_found() {
    let mut missed = Vec::new();
    for bug in BUGS {
        let settings = |seed| HistorySettings { bugs: vec![bug], ..HistorySettings::new(seed) };
        match find_mistake(0..SEEDS, settings) {
            Some(report) => println!("{bug:?}: seed {}: {}", report.seed, report.violations[0]),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
