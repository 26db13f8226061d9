//! `leasehold park`: the owner is done for now.

use clap::Args;
use leasehold_core::{Caller, LeaseId};
use leasehold_keeper::{Keeper, Parked};

use crate::arguments::LeaseArguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::views::{LeaseView, ReceiptView};

/// Stop what runs in a sandbox, and keep it for the next use.
///
/// A sandbox in which something might still run is not kept: it is removed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold park ls_lfhr")]
pub(crate) struct ParkArguments {
    #[command(flatten)]
    lease: LeaseArguments,
}

pub(crate) async fn run(
    arguments: &ParkArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let caller = arguments.lease.caller(&installation.configuration.owner);
    let keeper = installation.keeper().await?;
    let lease = lease_names::find(keeper.ledger(), &arguments.lease.lease).await?;
    park(&keeper, &lease.id, &caller, installation).await
}

/// Parks, and says what came of it. `release --park` does the same.
pub(crate) async fn park(
    keeper: &Keeper,
    lease: &LeaseId,
    caller: &Caller,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    match keeper.park(lease, caller).await? {
        Parked::Kept(lease) => installation.output.result(&LeaseView::of(&lease), || {
            let until = lease.expires_at().to_string();
            format!("{} is parked, until {until} at the latest", lease.id)
        })?,
        Parked::Removed(receipt) => {
            installation.output.result(&ReceiptView::of(&receipt), || {
                let ReceiptView { ending, proof, .. } = ReceiptView::of(&receipt);
                format!("{lease} could not be parked clean and is {ending}: {proof}")
            })?;
        }
    }
    Ok(ExitCode::DONE)
}
