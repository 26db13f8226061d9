//! `leasehold ls`: leases, and what needs a person.

use std::sync::Arc;

use clap::Args;
use leasehold_core::{Lease, LeaseId, Owner, Timestamp};
use leasehold_ports::{LeaseFilter, Ledger, LedgerMode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;
use crate::times;
use crate::views::{LeaseView, reasons_to_look, state_in_words};

/// How many rows are read at once.
const PAGE: u32 = 1_000;

/// List leases.
///
/// Open ones, of every owner. With --json the answer is an object with a list under `leases`.
#[derive(Args, Debug)]
pub(crate) struct LsArguments {
    /// Only this owner's.
    #[arg(long, value_name = "COMPANY/ENVIRONMENT")]
    owner: Option<Owner>,

    /// Those that have ended too.
    #[arg(long, conflicts_with = "attention")]
    all: bool,

    /// Only what needs a person, and why.
    #[arg(long)]
    attention: bool,
}

/// Something about the whole ledger that needs a person.
#[derive(Debug, Serialize)]
pub(crate) struct LedgerNotice {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

pub(crate) async fn run(
    arguments: &LsArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let ledger = installation.ledger_to_read()?;
    let leases = match &ledger {
        Some(ledger) => read_all(&**ledger, arguments).await?,
        None => Vec::new(),
    };
    let now = ledger.as_ref().map_or_else(|| installation.clock.now(), |ledger| ledger.now());
    if arguments.attention {
        let notices = match &ledger {
            Some(ledger) => ledger_notices(&**ledger).await?,
            None => Vec::new(),
        };
        return show_attention(&leases, &notices, now, installation);
    }
    let views: Vec<LeaseView> = leases.iter().map(|lease| LeaseView::of(lease)).collect();
    installation.output.result(&json!({ "leases": views }), || as_table(&leases, now))?;
    Ok(ExitCode::DONE)
}

async fn read_all(
    ledger: &dyn Ledger,
    arguments: &LsArguments,
) -> Result<Vec<Arc<Lease>>, Failure> {
    let mut leases: Vec<Arc<Lease>> = Vec::new();
    let mut after: Option<LeaseId> = None;
    loop {
        let filter = LeaseFilter {
            owner: arguments.owner.clone(),
            closed: arguments.all,
            after: after.take(),
            limit: PAGE,
            ..LeaseFilter::default()
        };
        let page = ledger.list(&filter).await?;
        let last = page.len() < PAGE as usize;
        after = page.last().map(|lease| lease.id.clone());
        leases.extend(page);
        if last || after.is_none() {
            break;
        }
    }
    // The oldest first: ids are random.
    leases.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
    Ok(leases)
}

fn as_table(leases: &[Arc<Lease>], now: Timestamp) -> String {
    if leases.is_empty() {
        return "no leases\n".to_owned();
    }
    let rows = leases.iter().map(|lease| {
        let ends = match &lease.receipt {
            Some(receipt) => times::relative(receipt.at, now),
            None if lease.cleanup.is_some() => "being removed".to_owned(),
            None => times::relative(lease.expires_at(), now),
        };
        vec![
            lease.id.to_string(),
            lease.owner.to_string(),
            lease.home.provider.to_string(),
            state_in_words(lease),
            times::relative(lease.created_at, now),
            ends,
            if reasons_to_look(lease, now).is_empty() { "" } else { "attention" }.to_owned(),
        ]
    });
    table(&["LEASE", "OWNER", "PROVIDER", "STATE", "ACQUIRED", "ENDS", ""], rows)
}

fn show_attention(
    leases: &[Arc<Lease>],
    notices: &[LedgerNotice],
    now: Timestamp,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let waiting: Vec<(&Arc<Lease>, Vec<String>)> = leases
        .iter()
        .map(|lease| (lease, reasons_to_look(lease, now)))
        .filter(|(_, reasons)| !reasons.is_empty())
        .collect();
    let views: Vec<Value> = waiting
        .iter()
        .map(|(lease, reasons)| {
            let mut view = json!(LeaseView::of(lease));
            if let Value::Object(fields) = &mut view {
                fields.insert("reasons".to_owned(), json!(reasons));
            }
            view
        })
        .collect();
    installation.output.result(&json!({ "leases": views, "ledger": notices }), || {
        if waiting.is_empty() && notices.is_empty() {
            return "nothing needs a person\n".to_owned();
        }
        let of_ledger = notices.iter().map(|notice| {
            vec!["the ledger".to_owned(), notice.code.to_owned(), notice.message.clone()]
        });
        let of_leases = waiting.iter().flat_map(|(lease, reasons)| {
            reasons
                .iter()
                .map(|reason| vec![lease.id.to_string(), lease.state.to_string(), reason.clone()])
        });
        table(&["WHERE", "WHAT", "WHY"], of_ledger.chain(of_leases))
    })?;
    Ok(ExitCode::DONE)
}

/// What about the whole ledger needs a person: restored mode, the brake, damaged rows.
pub(crate) async fn ledger_notices(ledger: &dyn Ledger) -> Result<Vec<LedgerNotice>, Failure> {
    let mut notices = Vec::new();
    if let LedgerMode::Restored { why } = ledger.mode().await? {
        let message = format!("restored mode: {why}; look, then run `leasehold ledger accept`");
        notices.push(LedgerNotice { code: "ledger-restored", message });
    }
    let brake = ledger.brake().await?;
    if brake.on {
        let message = format!(
            "the brake is on after {} removals that nobody asked for; look, then run `leasehold \
             ledger unbrake`",
            brake.recent,
        );
        notices.push(LedgerNotice { code: "brake-on", message });
    }
    for (lease, problem) in ledger.damaged().await? {
        let message = format!("row {lease} cannot be read: {problem}");
        notices.push(LedgerNotice { code: "ledger-damaged-row", message });
    }
    Ok(notices)
}
