//! Many histories: run on all cores, reported in the order of their seeds.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::faults::Coverage;
use crate::faulty_ledger::LedgerCoverage;
use crate::history::{HistoryReport, HistorySettings, Tally, run_history};
use crate::judge::{Invariant, Violation};

/// How many failing seeds a suite keeps: the lowest.
const KEPT_FAILURES: usize = 20;

/// What came of a suite.
#[derive(Clone, Debug, Default)]
pub struct SuiteReport {
    /// How many histories were run.
    pub histories: u64,
    /// How many of them were not good.
    pub failed: u64,
    /// The first of those, with their journals.
    pub failures: Vec<HistoryReport>,
    /// What happened in all of them.
    pub tally: Tally,
    /// Histories with less in them than a history must have.
    pub meagre: u64,
    /// How often which fault met which operation.
    pub coverage: Coverage,
    /// How often which fault met the write of which state.
    pub ledger_coverage: LedgerCoverage,
    /// Steps of the executor.
    pub steps: u64,
}

impl SuiteReport {
    fn add(&mut self, report: &HistoryReport) {
        self.histories += 1;
        self.failed += u64::from(!report.is_good());
        self.meagre += u64::from(report.is_meagre());
        self.tally.add(report.tally);
        self.coverage.add(&report.coverage);
        self.ledger_coverage.add(&report.ledger_coverage);
        self.steps += report.steps;
    }

    fn merge(&mut self, other: SuiteReport) {
        self.histories += other.histories;
        self.failed += other.failed;
        self.meagre += other.meagre;
        self.tally.add(other.tally);
        self.coverage.add(&other.coverage);
        self.ledger_coverage.add(&other.ledger_coverage);
        self.steps += other.steps;
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|report| report.seed);
        self.failures.truncate(KEPT_FAILURES);
    }
}

impl fmt::Display for SuiteReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { calls, acquires, leases, successes, crashes } = self.tally;
        writeln!(
            formatter,
            "{} histories, {} failed: {calls} calls ({successes} did what was asked for), {acquires} \
             acquires, {leases} leases, {crashes} crashes, {} provider faults, {} ledger faults, {} \
             steps",
            self.histories,
            self.failed,
            self.coverage.total(),
            self.ledger_coverage.total(),
            self.steps
        )?;
        writeln!(formatter, "\nFaults at the provider, by operation:\n{}", self.coverage)?;
        writeln!(formatter, "\nFaults in the ledger, by state:\n{}", self.ledger_coverage)?;
        for failure in &self.failures {
            writeln!(formatter, "\n{failure}")?;
        }
        Ok(())
    }
}

/// Runs the histories of `seeds` on so many threads. `settings` says how each is run.
#[must_use]
pub fn run_suite(
    seeds: Range<u64>,
    threads: usize,
    settings: impl Fn(u64) -> HistorySettings + Sync,
) -> SuiteReport {
    let next = AtomicU64::new(seeds.start);
    let whole = Mutex::new(SuiteReport::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut part = SuiteReport::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let report = run_caught(&settings(seed));
                    part.add(&report);
                    if !report.is_good() && part.failures.len() < KEPT_FAILURES {
                        part.failures.push(run_caught(&settings(seed).with_journal()));
                    }
                }
                whole.lock().unwrap_or_else(PoisonError::into_inner).merge(part);
            });
        }
    });
    whole.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The lowest seed of `seeds` whose history is not good with `settings` and is without their
/// mistakes, with its journal.
#[must_use]
pub fn find_mistake(
    mut seeds: Range<u64>,
    settings: impl Fn(u64) -> HistorySettings,
) -> Option<HistoryReport> {
    let failing = seeds.find(|&seed| {
        !run_caught(&settings(seed)).is_good() && run_caught(&HistorySettings::new(seed)).is_good()
    })?;
    Some(run_caught(&settings(failing).with_journal()))
}

/// A panic in a history belongs to its seed, and ends only that history.
fn run_caught(settings: &HistorySettings) -> HistoryReport {
    catch_unwind(AssertUnwindSafe(|| run_history(settings))).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "a panic without a message".to_owned());
        HistoryReport {
            seed: settings.seed,
            violations: vec![Violation {
                invariant: Invariant::WayOut,
                report: format!("a panic: {message}"),
            }],
            tally: Tally::default(),
            coverage: Coverage::default(),
            ledger_coverage: LedgerCoverage::default(),
            steps: 0,
            journal: String::new(),
        }
    })
}
