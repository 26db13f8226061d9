//! Histories of whole keepers.
use leasehold_testkit::history::{HistorySettings, run_history};

#[test]
fn some() {
    let seeds: u64 =
        std::env::var("LEASEHOLD_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    let start = std::time::Instant::now();
    let mut bad = 0;
    for seed in 0..seeds {
        let report = run_history(&HistorySettings::new(seed));
        if !report.is_good() {
            bad += 1;
            println!(
                "seed {seed}: {:?}",
                report.violations.iter().map(|v| v.to_string()).collect::<Vec<_>>()
            );
        }
        if seed == 7 {
            println!("{:?} steps {} faults {}", report.tally, report.steps, report.faults());
        }
    }
    println!("{bad} bad of {seeds} in {:?}", start.elapsed());
}

#[test]
#[ignore = "replays LEASEHOLD_SEED"]
fn replay() {
    let seed: u64 = std::env::var("LEASEHOLD_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let report = run_history(&HistorySettings::new(seed).with_journal());
    println!("{}", report.journal);
    for v in report.violations {
        println!("{v}");
    }
}
