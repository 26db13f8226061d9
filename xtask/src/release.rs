//! What ships holds nothing that is only for tests.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Texts that stand in the binary if a feature for tests was compiled in.
const FORBIDDEN: &[&str] = &["LEASEHOLD_CRASH_POINT", "LEASEHOLD_CLOCK_AHEAD"];

pub(crate) fn run() -> Result<()> {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--package", "leasehold"])
        .status()
        .context("cargo build")?;
    if !built.success() {
        bail!("the release binary does not build");
    }
    let folder = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let path = format!("{folder}/release/leasehold");
    let binary = fs::read(&path).with_context(|| path.clone())?;
    for text in FORBIDDEN {
        if binary.windows(text.len()).any(|window| window == text.as_bytes()) {
            bail!("{path} holds {text}: a feature for tests was compiled in");
        }
    }
    println!("{path}: {} bytes, nothing for tests in it", binary.len());
    Ok(())
}
