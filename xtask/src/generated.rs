//! Files that are made from the code.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) fn run(check: bool) -> Result<()> {
    let files = [
        ("docs/ERRORS.md", leasehold_core::catalogue::to_markdown()),
        ("docs/CLI.md", command_line()?),
    ];
    for (path, text) in files {
        if !check {
            fs::write(path, text).context(path)?;
            println!("wrote {path}");
        } else if fs::read_to_string(path).context(path)? == text {
            println!("{path} is current");
        } else {
            bail!("{path} is not current: run `cargo xtask generate`");
        }
    }
    Ok(())
}

/// The program itself knows its definitions best.
fn command_line() -> Result<String> {
    let printed = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--locked", "--package", "leasehold", "--"])
        .args(["man", "--markdown"])
        .output()
        .context("cargo run")?;
    if !printed.status.success() {
        bail!("leasehold man: {}", String::from_utf8_lossy(&printed.stderr));
    }
    String::from_utf8(printed.stdout).context("the manual is not UTF-8")
}
