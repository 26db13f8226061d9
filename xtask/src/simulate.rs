//! Many histories, in release mode, on every core.

use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) fn run(seeds: u64, first: u64) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(["test", "--release", "--locked", "--package", "leasehold-testkit"])
        .args(["--test", "simulation", "--", "--nocapture"])
        .env("LEASEHOLD_FIRST_SEED", first.to_string())
        .env("LEASEHOLD_SEEDS", seeds.to_string())
        .status()
        .context("cargo test")?;
    if !status.success() {
        bail!("a history broke a promise, or a fault met no step");
    }
    println!("{seeds} histories from seed {first} on: no violation");
    Ok(())
}
