//! `leasehold ls`: leases, and what needs a person.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use leasehold_core::catalogue::codes;
use leasehold_core::{Kind, Lease, LeaseId, Owner, State, Timestamp};
use leasehold_ports::{LeaseFilter, Ledger, LedgerMode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;
use crate::times::{self, parse_duration};
use crate::views::{LeaseView, reasons_to_look, state_in_words};
use crate::{lease_names, scan, style, value_parsers};

/// List leases, and what needs a person
///
/// Open ones, of every owner, the oldest first; of the same age, by id. Filters add up. With --json
/// the answer is an object with a list under `leases`; with --quiet it is one id a line.
///
/// At most --limit leases are shown, and a note says when there are more; with --json the object has
/// the last id under `next` then. The next page begins with `--after ID`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold ls --owner acme/production
  leasehold ls --attention
  leasehold ls --state parked --older-than 2d --quiet
  leasehold ls --all --limit 100 --after ls_lfhrq2srghh3gumhrzga342jbu")]
pub(crate) struct LsArguments {
    /// Only this owner's
    #[arg(long, value_name = "COMPANY/ENVIRONMENT")]
    owner: Option<Owner>,

    /// Only those in this state; several may be given
    #[arg(long, value_name = "STATE", value_parser = value_parsers::state(), value_delimiter = ',')]
    state: Vec<State>,

    /// Only rows of this kind
    #[arg(long, value_name = "KIND", value_parser = value_parsers::kind())]
    kind: Option<Kind>,

    /// Only sandboxes of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Only sandboxes at this endpoint of a provider
    #[arg(long, value_name = "ENDPOINT")]
    endpoint: Option<String>,

    /// Only those that were acquired longer ago than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<Duration>,

    /// Only those that end within this time, or should have ended
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expiring_within: Option<Duration>,

    /// Those that have ended too
    #[arg(long, conflicts_with = "attention")]
    all: bool,

    /// Only those that have ended
    #[arg(long, conflicts_with_all = ["attention", "all", "state"])]
    closed: bool,

    /// Only what needs a person, and why
    #[arg(long)]
    attention: bool,

    /// How many leases are shown at the most
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000,
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Only those that come after this one
    #[arg(long, value_name = "LEASE")]
    after: Option<String>,
}

/// Something about the whole ledger that needs a person.
#[derive(Debug, Serialize)]
pub(crate) struct LedgerNotice {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The row that it is about, if it is about one.
    #[serde(skip)]
    pub(crate) lease: Option<String>,
}

/// A page of leases, and whether there are more.
#[derive(Default)]
struct Page {
    leases: Vec<Lease>,
    more: bool,
}

pub(crate) async fn run(
    arguments: &LsArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let ledger = installation.ledger_to_read()?;
    let now = ledger.as_ref().map_or_else(|| installation.clock.now(), |ledger| ledger.now());
    let page = match &ledger {
        Some(ledger) => read(&**ledger, arguments, now).await?,
        None => Page::default(),
    };
    if page.more && !installation.output.json {
        let last = page.leases.last().map_or("", |lease| lease.id.as_str());
        installation.output.note(&format!("there are more: repeat it with --after {last}"));
    }
    if arguments.attention {
        let notices = match &ledger {
            Some(ledger) => ledger_notices(&**ledger).await?,
            None => Vec::new(),
        };
        return show_attention(&page, &notices, now, installation);
    }
    let views: Vec<LeaseView> = page.leases.iter().map(LeaseView::of).collect();
    let value = with_next(json!({ "leases": views }), &page);
    installation
        .output
        .list(&value, page.leases.iter().map(|lease| &lease.id), || as_table(&page.leases, now))?;
    Ok(ExitCode::DONE)
}

/// Goes through all that the ledger has to offer, and keeps the first of them: in memory are no more
/// than are shown, however large the ledger is.
async fn read(
    ledger: &dyn Ledger,
    arguments: &LsArguments,
    now: Timestamp,
) -> Result<Page, Failure> {
    let after = match &arguments.after {
        Some(name) => {
            let lease = lease_names::find(ledger, name).await?;
            Some((lease.created_at, lease.id.clone()))
        }
        None => None,
    };
    let states = if arguments.closed { vec![State::Closed] } else { arguments.state.clone() };
    let filter = LeaseFilter {
        owner: arguments.owner.clone(),
        states,
        closed: arguments.all && arguments.state.is_empty(),
        ..LeaseFilter::default()
    };
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    // Ids are random, so the order of people is another than the ledger's.
    let mut kept: BTreeMap<(Timestamp, LeaseId), Lease> = BTreeMap::new();
    let mut more = false;
    scan::each(ledger, filter, |lease| {
        let place = (lease.created_at, lease.id.clone());
        if after.as_ref().is_some_and(|after| place <= *after) || !arguments.want(lease, now) {
            return;
        }
        if kept.len() == limit && kept.last_key_value().is_some_and(|(last, _)| place > *last) {
            more = true;
            return;
        }
        kept.insert(place, lease.clone());
        if kept.len() > limit {
            kept.pop_last();
            more = true;
        }
    })
    .await?;
    Ok(Page { leases: kept.into_values().collect(), more })
}

impl LsArguments {
    /// What the ledger's own filter cannot say.
    fn want(&self, lease: &Lease, now: Timestamp) -> bool {
        let kind = self.kind.is_none_or(|kind| lease.kind == kind);
        let home = &lease.home;
        let provider = self.provider.as_ref().is_none_or(|name| home.provider.as_str() == name);
        let endpoint = self.endpoint.as_ref().is_none_or(|text| home.endpoint.as_str() == text);
        let old = self.older_than.is_none_or(|age| now.since(lease.created_at) > age);
        let expiring = self.expiring_within.is_none_or(|time| {
            lease.expires_at() != Timestamp::NEVER && lease.expires_at() <= now + time
        });
        let attention = !self.attention || !reasons_to_look(lease, now).is_empty();
        kind && provider && endpoint && old && expiring && attention
    }
}

/// Programs learn from `next` that there is more; without it there is none.
fn with_next(mut value: Value, page: &Page) -> Value {
    if let (true, Some(last), Value::Object(fields)) = (page.more, page.leases.last(), &mut value) {
        fields.insert("next".to_owned(), json!(last.id));
    }
    value
}

/// Leases, for people.
pub(crate) fn as_table(leases: &[Lease], now: Timestamp) -> String {
    if leases.is_empty() {
        return "no leases\n".to_owned();
    }
    let rows = leases.iter().map(|lease| {
        let ends = match &lease.receipt {
            Some(receipt) => times::relative(receipt.at, now),
            None if lease.cleanup.is_some() => "being removed".to_owned(),
            None => times::relative(lease.expires_at(), now),
        };
        let look = if reasons_to_look(lease, now).is_empty() { "" } else { "attention" };
        let state = match lease.kind {
            Kind::Lease => state_in_words(lease),
            kind => format!("{} {kind}", state_in_words(lease)),
        };
        vec![
            lease.id.to_string(),
            lease.owner.to_string(),
            lease.home.provider.to_string(),
            state,
            times::relative(lease.created_at, now),
            ends,
            style::attention(look),
        ]
    });
    table(&["LEASE", "OWNER", "PROVIDER", "STATE", "ACQUIRED", "ENDS", ""], rows)
}

fn show_attention(
    page: &Page,
    notices: &[LedgerNotice],
    now: Timestamp,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let waiting: Vec<(&Lease, Vec<String>)> =
        page.leases.iter().map(|lease| (lease, reasons_to_look(lease, now))).collect();
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
    let value = with_next(json!({ "leases": views, "ledger": notices }), page);
    installation.output.list(&value, waiting.iter().map(|(lease, _)| &lease.id), || {
        if waiting.is_empty() && notices.is_empty() {
            return "nothing needs a person\n".to_owned();
        }
        let of_ledger = notices.iter().map(|notice| {
            let what = style::attention(notice.code);
            vec!["the ledger".to_owned(), what, notice.message.clone()]
        });
        let of_leases = waiting.iter().flat_map(|(lease, reasons)| {
            reasons
                .iter()
                .map(|reason| vec![lease.id.to_string(), state_in_words(lease), reason.clone()])
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
        notices.push(LedgerNotice { code: codes::LEDGER_RESTORED, message, lease: None });
    }
    let brake = ledger.brake().await?;
    if brake.on {
        let message = format!(
            "the brake is on after {} removals that nobody asked for; look, then run `leasehold \
             ledger unbrake`",
            brake.recent,
        );
        notices.push(LedgerNotice { code: codes::BRAKE_ON, message, lease: None });
    }
    for (lease, problem) in ledger.damaged().await? {
        let message = format!("row {lease} cannot be read: {problem}");
        let code = codes::LEDGER_DAMAGED_ROW;
        notices.push(LedgerNotice { code, message, lease: Some(lease) });
    }
    Ok(notices)
}
