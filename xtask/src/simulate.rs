//! Many histories, on every core.

use std::process::{Child, Command};

use anyhow::{Context, Result, bail};

pub(crate) fn run(seeds: u64, first: u64, jobs: u64) -> Result<()> {
    let jobs = jobs.clamp(1, seeds.max(1));
    // Built once, so that the jobs do not wait for each other's build.
    let mut build = test_command();
    if !build.arg("--no-run").status().context("cargo test")?.success() {
        bail!("the simulation does not build");
    }
    let share = seeds.div_ceil(jobs);
    let mut children = Vec::new();
    for job in 0..jobs {
        let from = first + job * share;
        let count = share.min((first + seeds).saturating_sub(from));
        let child = test_command()
            .args(["--", "--nocapture", "--exact", "every_history_keeps_the_promises"])
            .env("LEASEHOLD_FIRST_SEED", from.to_string())
            .env("LEASEHOLD_SEEDS", count.to_string())
            .spawn()
            .context("cargo test")?;
        children.push(child);
    }
    let failed = children
        .into_iter()
        .map(|mut child: Child| child.wait())
        .filter(|status| !matches!(status, Ok(status) if status.success()))
        .count();
    if failed > 0 {
        bail!("{failed} of {jobs} jobs found a violation");
    }
    println!("{seeds} histories from seed {first} on: no violation");
    Ok(())
}

fn test_command() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "test",
        "--release",
        "--locked",
        "--package",
        "leasehold-testkit",
        "--test",
        "simulation",
    ]);
    command
}
