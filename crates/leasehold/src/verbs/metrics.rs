//! `leasehold metrics`: the ledger in numbers, for Prometheus.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use leasehold_core::catalogue::codes;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::figures::Figures;
use crate::installation::Installation;

/// Print figures of the ledger for Prometheus
///
/// In the text format. Run it from a timer with --output for node_exporter's textfile collector. It
/// reads every row, those of ended leases too, and changes nothing.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold metrics
  leasehold metrics --output /var/lib/node_exporter/leasehold.prom")]
pub(crate) struct MetricsArguments {
    /// Write to this file instead, which readers find whole or not at all
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Also count the open leases of each owner, who can be many
    #[arg(long)]
    by_owner: bool,
}

pub(crate) async fn run(
    arguments: &MetricsArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let Some(ledger) = installation.ledger_to_read()? else {
        let path = installation.state.path().display();
        let message = format!("{path} cannot keep a ledger: none was made there yet");
        return Err(Failure::new(codes::LEDGER_UNSUITABLE, message));
    };
    let (size, format) = (installation.state.ledger_size(), ledger.format());
    let figures = Figures::read(&*ledger, size, format, arguments.by_owner).await?;
    let text = figures.into_text().map_err(io::Error::other)?;
    match &arguments.output {
        Some(path) => replace(path, &text)
            .map_err(|error| Failure::bad_argument(&path.display().to_string(), error))?,
        None => installation.output.text(&text)?,
    }
    Ok(ExitCode::DONE)
}

/// Puts a new file in the place of the old one. A draft of an earlier process that died is replaced.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let mut draft = std::ffi::OsString::from(".");
    draft.push(name);
    // Not `.prom`: nobody reads it before it has its name.
    draft.push(format!(".{}.new", std::process::id()));
    let draft = path.with_file_name(draft);
    let written = File::create(&draft).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    });
    if written.is_err() {
        // What could not be put in place is of no use; the first error is the one to report.
        let _ = fs::remove_file(&draft);
    }
    written
}
