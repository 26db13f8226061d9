//! `leasehold ledger`: an operator looks after the ledger.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use leasehold_core::catalogue::codes;
use leasehold_ledger::SqliteLedger;
use leasehold_ports::{Ledger as _, LedgerMode};
use serde_json::json;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;
use crate::times::parse_duration;

/// Back up, check and compact the ledger; end a safety stop.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  leasehold ledger backup /backup/leasehold.sqlite
  leasehold ledger check
  leasehold ledger compact --older-than 90d")]
pub(crate) enum LedgerVerb {
    /// Write a whole and consistent copy to a file, while the ledger is in use.
    ///
    /// The installation's secret is not in it. Put back, a copy opens in restored mode: nothing is
    /// removed on its word until `leasehold ledger accept`.
    Backup {
        /// Where to; it must not exist.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Check the file, every row and every count. Exits with 1 if something is wrong.
    Check,
    /// Remove the histories of leases that ended long ago. The leases themselves stay on record.
    Compact {
        /// How long ago.
        #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = parse_duration)]
        older_than: Duration,
    },
    /// End restored mode: this ledger is the one that counts.
    ///
    /// First see that no other copy of it is in use, with `leasehold ls --attention` and `leasehold
    /// sweep`: two ledgers for the same sandboxes would remove each other's.
    Accept,
    /// Take the brake off, after a look at what was about to be removed.
    Unbrake,
}

pub(crate) async fn run(
    verb: &LedgerVerb,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let Some(ledger) = installation.ledger_to_read()? else {
        let path = installation.state.path().display();
        let message = format!("{path} cannot keep a ledger: none was made there yet");
        return Err(Failure::new(codes::LEDGER_UNSUITABLE, message));
    };
    let output = installation.output;
    match verb {
        LedgerVerb::Backup { file } => {
            if file.exists() {
                let problem = "it exists already, and a backup replaces nothing";
                return Err(Failure::bad_argument(&file.display().to_string(), problem));
            }
            ledger.backup(file).await?;
            output
                .result(&json!({ "backup": file }), || format!("written to {}", file.display()))?;
        }
        LedgerVerb::Check => return check(&ledger, installation).await,
        LedgerVerb::Compact { older_than } => {
            let removed = ledger.compact(*older_than).await?;
            let value = json!({ "events_removed": removed });
            output.result(&value, || format!("{removed} events removed"))?;
        }
        LedgerVerb::Accept => {
            let was = ledger.mode().await?;
            ledger.accept().await?;
            let changed = was != LedgerMode::Current;
            output.result(&json!({ "accepted": true, "changed": changed }), || {
                if changed { "accepted" } else { "it was not in restored mode" }.to_owned()
            })?;
        }
        LedgerVerb::Unbrake => {
            let was = ledger.brake().await?;
            ledger.release_brake().await?;
            output.result(&json!({ "brake_was_on": was.on }), || {
                if was.on { "the brake is off" } else { "the brake was not on" }.to_owned()
            })?;
        }
    }
    Ok(ExitCode::DONE)
}

async fn check(ledger: &SqliteLedger, installation: &Installation) -> Result<ExitCode, Failure> {
    let report = ledger.check().await?;
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|(row, problem)| json!({ "row": row, "problem": problem }))
        .collect();
    let value = json!({ "whole": report.is_whole(), "file": report.file, "rows": rows });
    installation.output.result(&value, || {
        if report.is_whole() {
            return "the ledger is whole\n".to_owned();
        }
        let file = report.file.iter().map(|problem| vec!["the file".to_owned(), problem.clone()]);
        let rows = report.rows.iter().map(|(row, problem)| vec![row.clone(), problem.clone()]);
        table(&["WHERE", "WHAT"], file.chain(rows))
    })?;
    Ok(if report.is_whole() { ExitCode::DONE } else { ExitCode::FOUND_SOMETHING })
}
