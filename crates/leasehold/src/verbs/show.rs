//! `leasehold show`: all that is known of one lease.

use clap::Args;
use leasehold_ports::Ledger as _;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::output::table;
use crate::views::{LeaseView, reasons_to_look};

/// Show all that is known of a lease.
///
/// Nothing is asked of the provider, and nothing is changed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold show ls_lfhr")]
pub(crate) struct ShowArguments {
    /// The lease: its id, or the beginning of it.
    #[arg(value_name = "LEASE")]
    lease: String,
}

pub(crate) async fn run(
    arguments: &ShowArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let Some(ledger) = installation.ledger_to_read()? else {
        return Err(Failure::no_such_lease(&arguments.lease));
    };
    let lease = lease_names::find(&*ledger, &arguments.lease).await?;
    let view = LeaseView::of(&lease);
    let mut lines = view.lines();
    lines.extend(
        reasons_to_look(&lease, ledger.now()).into_iter().map(|reason| ("needs a person", reason)),
    );
    installation.output.result(&view, || {
        let rows = lines.into_iter().map(|(name, value)| vec![name.to_owned(), value]);
        table(&["FIELD", "VALUE"], rows)
    })?;
    Ok(ExitCode::DONE)
}
