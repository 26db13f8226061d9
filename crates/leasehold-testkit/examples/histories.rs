//! Runs histories on one core and tells how many a second:
//! `cargo run --release -p leasehold-testkit --example histories [COUNT [FIRST]]`.
#![expect(clippy::disallowed_methods, reason = "a measurement needs the real time")]

use std::time::Instant;

use leasehold_testkit::history::HistorySettings;
use leasehold_testkit::suite::run_suite;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next = |otherwise| arguments.next().and_then(Result::ok).unwrap_or(otherwise);
    let count = next(20_000);
    let first = next(0);
    let start = Instant::now();
    let report = run_suite(first..first + count, 1, HistorySettings::new);
    let elapsed = start.elapsed();
    println!("{report}");
    println!(
        "{:.0} histories a second ({:.1} us each, {:.2} us a step)",
        count as f64 / elapsed.as_secs_f64(),
        elapsed.as_secs_f64() * 1e6 / count as f64,
        elapsed.as_secs_f64() * 1e6 / report.steps as f64
    );
    if report.failed > 0 {
        std::process::exit(1);
    }
}
