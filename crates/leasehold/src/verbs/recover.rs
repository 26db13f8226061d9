//! `leasehold recover`: what is due is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::Args;
use leasehold_core::{Lease, LeaseId};
use leasehold_keeper::{Keeper, RecoveryScope};
use leasehold_ports::Ledger;
use serde_json::json;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;
use crate::views::{LeaseView, state_in_words};

/// More rounds than this mean that work comes in as fast as it is done.
const ROUNDS: u32 = 1_000;

/// Do what is due: end what has expired, finish what the dead left.
///
/// It never makes a sandbox. What cannot be done now is tried again at a later recover. While no
/// Leasehold process runs, nothing but the timers of local sandboxes enforces deadlines, and those know
/// only the end of a lease's life: run this from a timer.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold recover --dry-run
  */5 * * * * leasehold recover --quiet     (in a crontab)
  leasehold recover")]
pub(crate) struct RecoverArguments {
    /// Say what is due, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(
    arguments: &RecoverArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    if arguments.dry_run {
        return dry_run(installation).await;
    }
    let keeper = installation.keeper().await?;
    let report = recover(&keeper).await?;
    let failed: Vec<_> = report
        .failed
        .iter()
        .map(|(lease, failure)| {
            json!({ "lease": lease, "code": failure.code(), "message": failure.message() })
        })
        .collect();
    let value = json!({
        "worked_on": report.worked_on,
        "ended": report.ended,
        "failed": failed,
        "dead_nodes": report.dead_nodes,
    });
    installation.output.result(&value, || report.in_words())?;
    Ok(if report.failed.is_empty() { ExitCode::DONE } else { ExitCode::NOT_KNOWN_YET })
}

#[derive(Default)]
struct Report {
    worked_on: BTreeSet<LeaseId>,
    ended: BTreeSet<LeaseId>,
    failed: BTreeMap<LeaseId, Failure>,
    dead_nodes: u32,
}

/// Recovers, round after round, for as long as a round gets further: one takes a page of rows only,
/// and what it does can make more due.
async fn recover(keeper: &Keeper) -> Result<Report, Failure> {
    let mut report = Report::default();
    for _ in 0..ROUNDS {
        let round = keeper.recover(RecoveryScope::Everything).await?;
        report.dead_nodes += u32::try_from(round.dead_nodes.len()).unwrap_or(u32::MAX);
        let before = (report.ended.len(), report.worked_on.len());
        report.worked_on.extend(round.worked_on);
        report.ended.extend(round.ended);
        report.failed = round.failed.into_iter().map(|(id, error)| (id, error.into())).collect();
        if before == (report.ended.len(), report.worked_on.len()) {
            break;
        }
    }
    Ok(report)
}

impl Report {
    fn in_words(&self) -> String {
        if self.worked_on.is_empty() && self.failed.is_empty() {
            return "nothing was due\n".to_owned();
        }
        let mut rows = Vec::new();
        for lease in &self.worked_on {
            let what = if self.ended.contains(lease) { "ended" } else { "worked on" };
            rows.push(vec![lease.to_string(), what.to_owned(), String::new()]);
        }
        for (lease, failure) in &self.failed {
            let code = failure.code().unwrap_or_default();
            let why = format!("{} [{code}]; it is tried again", failure.message());
            rows.push(vec![lease.to_string(), "failed".to_owned(), why]);
        }
        table(&["LEASE", "WHAT", "WHY"], rows)
    }
}

async fn dry_run(installation: &Installation) -> Result<ExitCode, Failure> {
    let due = match installation.ledger_to_read()? {
        Some(ledger) => due(&*ledger, installation.configuration.settings.page).await?,
        None => Vec::new(),
    };
    let views: Vec<LeaseView> = due.iter().map(|lease| LeaseView::of(lease)).collect();
    installation.output.result(&json!({ "due": views }), || {
        if due.is_empty() {
            return "nothing is due\n".to_owned();
        }
        table(
            &["LEASE", "OWNER", "STATE"],
            due.iter().map(|lease| {
                vec![lease.id.to_string(), lease.owner.to_string(), state_in_words(lease)]
            }),
        )
    })?;
    Ok(ExitCode::DONE)
}

/// Rows that are due, and rows that dead processes left.
async fn due(ledger: &dyn Ledger, page: u32) -> Result<Vec<Arc<Lease>>, Failure> {
    let mut due: BTreeMap<LeaseId, Arc<Lease>> = BTreeMap::new();
    for row in ledger.due(ledger.now(), page).await? {
        due.insert(row.id.clone(), row);
    }
    for dead in ledger.nodes().await?.into_iter().filter(|node| node.proved_dead) {
        for row in ledger.rows_of_node(&dead.node).await? {
            due.insert(row.id.clone(), row);
        }
    }
    Ok(due.into_values().collect())
}
