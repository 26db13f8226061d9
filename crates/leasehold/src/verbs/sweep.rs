//! `leasehold sweep`: the ledger against what there is.

use clap::Args;
use serde_json::json;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;

/// Compare the ledger with the sandboxes that there are.
///
/// It reports each sandbox that no open lease names. One that an ended lease or an attempt of this
/// ledger made is removed at the next `leasehold recover`. Everything else is left alone: `leasehold
/// destroy --orphan` is for a person.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold sweep --dry-run
  leasehold sweep")]
pub(crate) struct SweepArguments {
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(
    arguments: &SweepArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let keeper = installation.keeper().await?;
    let here = [installation.local_home()?];
    let report =
        if arguments.dry_run { keeper.survey(&here).await } else { keeper.sweep(&here).await }?;
    let orphans: Vec<_> = report
        .orphans
        .iter()
        .map(|orphan| {
            json!({
                "sandbox": orphan.entry.sandbox,
                "home": orphan.home.to_string(),
                "state": format!("{:?}", orphan.entry.state).to_lowercase(),
                "age_seconds": orphan.entry.age.as_secs(),
                "known_as": orphan.known_as,
            })
        })
        .collect();
    let incomplete: Vec<_> = report
        .incomplete
        .iter()
        .map(|(home, error)| {
            json!({ "home": home.to_string(), "code": error.code(), "message": error.to_string() })
        })
        .collect();
    let failed: Vec<_> = report
        .failed
        .iter()
        .map(|(lease, error)| {
            json!({ "lease": lease, "code": error.code(), "message": error.to_string() })
        })
        .collect();
    let value = json!({
        "seen": report.seen,
        "reopened": report.reopened,
        "failed": failed,
        "orphans": orphans,
        "incomplete": incomplete,
    });
    installation.output.result(&value, || {
        let mut rows = Vec::new();
        for lease in &report.reopened {
            let next = if arguments.dry_run {
                "was found again: its removal would be decided".to_owned()
            } else {
                "was found again: `leasehold recover` removes it".to_owned()
            };
            rows.push(vec![lease.to_string(), next]);
        }
        for (lease, error) in &report.failed {
            rows.push(vec![
                lease.to_string(),
                format!("left as it is: {error} [{}]", error.code()),
            ]);
        }
        for orphan in &report.orphans {
            let what = match &orphan.known_as {
                Some(lease) => format!("no open lease names it; it was {lease}, and left alone"),
                None => "no lease names it".to_owned(),
            };
            rows.push(vec![orphan.entry.sandbox.to_string(), what]);
        }
        for (home, error) in &report.incomplete {
            let what = format!("{error} [{}]: nothing follows from it", error.code());
            rows.push(vec![home.to_string(), what]);
        }
        let seen = format!("{} sandboxes were looked at\n", report.seen);
        if rows.is_empty() { seen } else { format!("{seen}{}", table(&["WHAT", "FOUND"], rows)) }
    })?;
    Ok(if report.incomplete.is_empty() && report.failed.is_empty() {
        ExitCode::DONE
    } else {
        ExitCode::NOT_KNOWN_YET
    })
}
