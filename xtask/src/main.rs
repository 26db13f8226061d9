//! `cargo xtask`: longer suites, and files that are generated from the code.
//!
//! What lives here: what CI and maintainers run beside `cargo test`. What may not live here:
//! anything that a user needs.

mod field_reports;
mod generated;
mod release;
mod simulate;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Longer suites and generated files")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the files that are generated from the code; with --check, say whether they are current.
    Generate {
        /// Write nothing; fail if a file is not current.
        #[arg(long)]
        check: bool,
    },
    /// Run many histories of the simulation, in release mode, on every core.
    Simulate {
        /// How many seeds.
        #[arg(long, default_value_t = 100_000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        first: u64,
    },
    /// Check that every test that docs/FIELD-REPORTS.md names has run and passed.
    FieldReports {
        /// What `cargo nextest run` or `cargo test` printed.
        #[arg(long)]
        results: std::path::PathBuf,
    },
    /// Build the release binary and check that nothing for tests is in it.
    Release,
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Generate { check } => generated::run(check),
        Task::Simulate { seeds, first } => simulate::run(seeds, first),
        Task::FieldReports { results } => field_reports::run(&results),
        Task::Release => release::run(),
    }
}
