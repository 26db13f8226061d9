//! Files that are made from the code.

use std::fs;

use anyhow::{Context, Result, bail};

pub(crate) fn run(check: bool) -> Result<()> {
    let path = "docs/ERRORS.md";
    let text = leasehold_core::catalogue::to_markdown();
    if !check {
        fs::write(path, text).context(path)?;
        println!("wrote {path}");
        return Ok(());
    }
    if fs::read_to_string(path).context(path)? != text {
        bail!("{path} is not current: run `cargo xtask generate`");
    }
    println!("{path} is current");
    Ok(())
}
