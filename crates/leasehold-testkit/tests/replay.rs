//! One seed is one history, byte for byte: without that, no failure could ever be looked into.

use leasehold_testkit::history::{HistorySettings, run_history};

#[test]
fn one_seed_replayed_a_thousand_times_gives_one_journal() {
    let settings = HistorySettings::new(7).with_journal();
    let first = run_history(&settings).journal;
    assert!(first.lines().count() > 100, "a history has more to tell:\n{first}");
    for replay in 1..1_000 {
        let again = run_history(&settings).journal;
        if again != first {
            let differ = first.lines().zip(again.lines()).position(|(one, other)| one != other);
            panic!("replay {replay} differs from line {differ:?} on");
        }
    }
}

#[test]
fn a_journal_changes_nothing() {
    for seed in 0..50 {
        let with = run_history(&HistorySettings::new(seed).with_journal());
        let without = run_history(&HistorySettings::new(seed));
        assert_eq!(with.steps, without.steps, "seed {seed}");
        assert_eq!(with.tally, without.tally, "seed {seed}");
        assert!(without.journal.is_empty());
    }
}

#[test]
fn different_seeds_are_different_histories() {
    let journals: std::collections::BTreeSet<String> = (0..50)
        .map(|seed| run_history(&HistorySettings::new(seed).with_journal()).journal)
        .collect();
    assert_eq!(journals.len(), 50);
}
