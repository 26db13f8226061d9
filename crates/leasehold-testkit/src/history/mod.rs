//! One history: two owners and two keeper nodes on one ledger and one provider, with everything
//! going wrong that can, then quiet; all of it from one seed.
//!
//! A history has at least 30 calls, 4 acquires, 5 faults, and a crash with a restart. The
//! [`Judge`](crate::judge::Judge) watches it, and holds its end against the truth.

mod book;
mod calls;
mod events;
mod quiet;
mod schedule;
mod stage;

use std::fmt;

use leasehold_keeper::SeededBug;

use crate::executor::{Executor, Stuck};
use crate::faults::Coverage;
use crate::faulty_ledger::LedgerCoverage;
use crate::judge::{Invariant, Violation};
use crate::random::{Component, RandomStream};

/// Which history to run, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// What everything is drawn from.
    pub seed: u64,
    /// Whether to keep the journal.
    pub journal: bool,
    /// Mistakes to put into the keepers. Without the feature `seeded-bugs` they do nothing.
    pub bugs: Vec<SeededBug>,
    /// How many histories in a thousand put an old copy of the ledger back in their middle.
    pub restores_per_mille: u32,
}

impl HistorySettings {
    /// The history of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, journal: false, bugs: Vec::new(), restores_per_mille: 100 }
    }

    /// The same, with its journal kept.
    #[must_use]
    pub fn with_journal(mut self) -> Self {
        self.journal = true;
        self
    }
}

/// How much happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls of owners and operators.
    pub calls: u32,
    /// Acquires among them.
    pub acquires: u32,
    /// Leases of which a caller learnt.
    pub leases: u32,
    /// Calls that were answered with what was asked for.
    pub successes: u32,
    /// Crashes with a restart.
    pub crashes: u32,
}

impl Tally {
    /// Adds what happened in another history.
    pub const fn add(&mut self, other: Tally) {
        self.calls += other.calls;
        self.acquires += other.acquires;
        self.leases += other.leases;
        self.successes += other.successes;
        self.crashes += other.crashes;
    }
}

/// What came of a history.
#[derive(Clone, Debug)]
pub struct HistoryReport {
    /// Which one.
    pub seed: u64,
    /// What must never happen, and did.
    pub violations: Vec<Violation>,
    /// How much happened.
    pub tally: Tally,
    /// What went wrong at the provider.
    pub coverage: Coverage,
    /// What went wrong in the ledger.
    pub ledger_coverage: LedgerCoverage,
    /// How many steps the executor took.
    pub steps: u64,
    /// What happened, if it was kept.
    pub journal: String,
}

impl HistoryReport {
    /// Whether nothing happened that must not.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    /// Whether less happened than a history must have: 30 calls, 4 acquires, 5 faults, a crash.
    #[must_use]
    pub fn is_meagre(&self) -> bool {
        let Tally { calls, acquires, crashes, .. } = self.tally;
        calls < 30 || acquires < 4 || crashes < 1 || self.faults() < 5
    }

    /// How many faults there were, at the provider and in the ledger.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.coverage.total() + self.ledger_coverage.total()
    }
}

impl fmt::Display for HistoryReport {
    /// The violations, the end of the journal, and how to run it again.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LINES: usize = 120;
        writeln!(formatter, "seed {}:", self.seed)?;
        for violation in &self.violations {
            writeln!(formatter, "  {violation}")?;
        }
        let lines: Vec<&str> = self.journal.lines().collect();
        let first = lines
            .iter()
            .position(|line| line.contains("VIOLATION"))
            .unwrap_or(lines.len())
            .saturating_sub(LINES);
        for line in lines.iter().skip(first).take(LINES + 10) {
            writeln!(formatter, "    {line}")?;
        }
        write!(
            formatter,
            "replay: LEASEHOLD_SEED={} cargo test -p leasehold-testkit --test simulation replay -- \
             --ignored --nocapture",
            self.seed
        )
    }
}

/// Runs one history.
#[must_use]
pub fn run_history(settings: &HistorySettings) -> HistoryReport {
    let seed = settings.seed;
    let mut executor = Executor::new(RandomStream::new(seed, Component::Executor));
    let stage = stage::Stage::new(settings, &executor);
    let stream = RandomStream::new(seed, Component::History);
    let outcome = executor.block_on(schedule::play(stage.clone(), stream));
    if let Err(stuck) = &outcome {
        let report = match stuck {
            Stuck::Crashed => "the schedule itself was dropped".to_owned(),
            other => other.to_string(),
        };
        stage.judge.report(Invariant::WayOut, report);
    }
    let steps = executor.steps();
    executor.clear();
    HistoryReport {
        seed,
        violations: stage.judge.violations(),
        tally: stage.tally(),
        coverage: stage.world.faults().coverage(),
        ledger_coverage: stage.ledger_plan.coverage(),
        steps,
        journal: stage.journal.text(),
    }
}
