//! `leasehold check`: is there something that a person should be woken for?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use leasehold_core::catalogue::codes;
use leasehold_core::{Attention, Lease, LeaseId, Timestamp, due_at};
use leasehold_ports::{LeaseFilter, Ledger};
use serde::Serialize;
use serde_json::json;

use super::ls::ledger_notices;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;
use crate::times::{self, parse_duration};
use crate::{scan, style};

/// How many leases a finding names.
const NAMED: usize = 5;

/// Say whether something is wrong, by the exit code: for alerts
///
/// It reads the ledger only, and never acts. It finds removals that stay unproved, work that nobody
/// does, leases that need a person, restored mode, the brake, and rows that cannot be read; each with
/// the command to run next.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold check
  leasehold check --quiet --max-cleanup-age 30m || page-somebody
  leasehold check --json")]
pub(crate) struct CheckArguments {
    /// How long a removal may stay unproved
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    max_cleanup_age: Duration,

    /// How long due work may wait for a `leasehold recover`
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = parse_duration)]
    max_overdue: Duration,
}

/// Something that a person should know of.
#[derive(Debug, Serialize)]
struct Finding {
    code: &'static str,
    message: String,
    /// How many leases it is about; none if it is about the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// The longest overdue of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leases: Vec<LeaseId>,
    next: String,
}

pub(crate) async fn run(
    arguments: &CheckArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let ledger = installation.ledger_to_read()?;
    let findings = match &ledger {
        Some(ledger) => look(&**ledger, arguments).await?,
        None => Vec::new(),
    };
    let well = findings.is_empty();
    let value = json!({ "healthy": well, "ledger": ledger.is_some(), "findings": findings });
    let output = installation.output;
    // Whoever wants to hear nothing but results wants to hear nothing of health.
    if output.json || !output.quiet || !well {
        output.result(&value, || match (&ledger, well) {
            (None, _) => {
                let place = installation.state.path().display();
                format!("nothing is wrong: there is no ledger in {place} yet")
            }
            (Some(_), true) => "nothing is wrong".to_owned(),
            (Some(_), false) => in_words(&findings),
        })?;
    }
    Ok(if well { ExitCode::DONE } else { ExitCode::FOUND_SOMETHING })
}

fn in_words(findings: &[Finding]) -> String {
    table(
        &["WHAT", "FOUND", "NEXT"],
        findings.iter().map(|finding| {
            vec![style::bad(finding.code), finding.message.clone(), format!("`{}`", finding.next)]
        }),
    )
}

async fn look(ledger: &dyn Ledger, arguments: &CheckArguments) -> Result<Vec<Finding>, Failure> {
    let now = ledger.now();
    let mut seen = Seen::default();
    scan::each(ledger, LeaseFilter::default(), |lease| seen.see(lease, now, arguments)).await?;
    let mut findings: Vec<Finding> = Vec::new();
    for notice in ledger_notices(ledger).await? {
        let next = match (notice.code, &notice.lease) {
            (codes::LEDGER_RESTORED, _) => "leasehold ledger accept".to_owned(),
            (codes::BRAKE_ON, _) => "leasehold ls --attention".to_owned(),
            (_, Some(lease)) => format!("leasehold destroy {lease} --as-operator"),
            (_, None) => "leasehold ledger check".to_owned(),
        };
        let (code, message) = (notice.code, notice.message);
        findings.push(Finding { code, message, count: None, leases: Vec::new(), next });
    }
    findings.extend(seen.findings(now, arguments));
    Ok(findings)
}

/// The leases of one finding: their number, and those for which it has been so the longest.
#[derive(Default)]
struct Tally {
    count: u64,
    first: BTreeSet<(Timestamp, LeaseId)>,
}

impl Tally {
    fn add(&mut self, since: Timestamp, lease: &Lease) {
        self.count += 1;
        self.first.insert((since, lease.id.clone()));
        if self.first.len() > NAMED {
            self.first.pop_last();
        }
    }

    fn finding(
        &self,
        code: &'static str,
        next: impl FnOnce(&LeaseId) -> String,
        message: impl FnOnce(&str, Timestamp) -> String,
    ) -> Option<Finding> {
        let (since, longest) = self.first.first()?;
        let count = self.count;
        let leases = if count == 1 { "1 lease".to_owned() } else { format!("{count} leases") };
        Some(Finding {
            code,
            message: message(&leases, *since),
            count: Some(count),
            leases: self.first.iter().map(|(_, lease)| lease.clone()).collect(),
            next: next(longest),
        })
    }
}

/// What was seen on the way through the open leases.
#[derive(Default)]
struct Seen {
    old_cleanups: Tally,
    overdue: Tally,
    attention: BTreeMap<Attention, Tally>,
}

impl Seen {
    fn see(&mut self, lease: &Lease, now: Timestamp, arguments: &CheckArguments) {
        if let Some(cleanup) = &lease.cleanup
            && now.since(cleanup.since) > arguments.max_cleanup_age
        {
            self.old_cleanups.add(cleanup.since, lease);
        }
        if let Some(due) = due_at(lease)
            && now.since(due) > arguments.max_overdue
        {
            self.overdue.add(due, lease);
        }
        for attention in &lease.attention {
            self.attention.entry(*attention).or_default().add(lease.created_at, lease);
        }
    }

    fn findings(&self, now: Timestamp, arguments: &CheckArguments) -> Vec<Finding> {
        let show = |lease: &LeaseId| format!("leasehold show {lease}");
        let limit = times::short(arguments.max_cleanup_age);
        let old = self.old_cleanups.finding(codes::CLEANUP_UNCONFIRMED, show, |leases, since| {
            let age = times::short(now.since(since));
            format!("{leases}: the removal is unproved for more than {limit}, the longest {age}")
        });
        let recover = |_: &LeaseId| "leasehold recover".to_owned();
        let limit = times::short(arguments.max_overdue);
        let overdue = self.overdue.finding(codes::WORK_OVERDUE, recover, |leases, since| {
            let age = times::short(now.since(since));
            format!("{leases}: due for more than {limit}, the longest {age}; nobody does it")
        });
        let attention = self.attention.iter().filter_map(|(attention, tally)| {
            tally.finding(codes::LEASE_ATTENTION, show, |leases, _| {
                format!("{leases}: {}", attention.name())
            })
        });
        old.into_iter().chain(overdue).chain(attention).collect()
    }
}
