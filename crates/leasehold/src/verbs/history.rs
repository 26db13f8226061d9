//! `leasehold history`: what happened in the life of a lease.

use clap::Args;
use leasehold_ports::Ledger as _;
use serde_json::{Value, json};

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::output::table;
use crate::views::{event_details, event_to_json};

/// How many events are read at once.
const PAGE: u32 = 1_000;

/// Show what happened in the life of a lease, the oldest first.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold history ls_lfhr")]
pub(crate) struct HistoryArguments {
    /// The lease: its id, or the beginning of it.
    #[arg(value_name = "LEASE")]
    lease: String,
}

pub(crate) async fn run(
    arguments: &HistoryArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let Some(ledger) = installation.ledger_to_read()? else {
        return Err(Failure::no_such_lease(&arguments.lease));
    };
    let lease = lease_names::find_id(&*ledger, &arguments.lease).await?;
    let mut events: Vec<Value> = Vec::new();
    let mut older_removed = false;
    let mut after = 0;
    loop {
        let page = ledger.events(&lease, after, PAGE).await?;
        older_removed |= page.older_removed;
        let Some(last) = page.events.last() else { break };
        after = last.sequence;
        events.extend(page.events.iter().map(|one| event_to_json(one.sequence, &one.event)));
        if page.events.len() < PAGE as usize {
            break;
        }
    }
    let value = json!({ "lease": lease, "events": events, "older_removed": older_removed });
    installation.output.result(&value, || {
        let text = |event: &Value, name: &str| {
            event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let rows = events.iter().map(|event| {
            vec![
                text(event, "at"),
                text(event, "actor"),
                text(event, "event"),
                event_details(event),
            ]
        });
        let shown = table(&["AT", "WHO", "WHAT", ""], rows);
        if older_removed {
            format!("older events were removed by retention\n{shown}")
        } else {
            shown
        }
    })?;
    Ok(ExitCode::DONE)
}
