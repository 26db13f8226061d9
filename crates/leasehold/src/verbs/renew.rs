//! `leasehold renew`: a lease's end is moved.

use std::time::Duration;

use clap::Args;

use crate::arguments::LeaseArguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::times::parse_duration;
use crate::views::LeaseView;

/// Move the end of a lease.
///
/// A lease whose deadline has passed is not renewed, and none beyond its longest life.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold renew ls_lfhr --for 2h")]
pub(crate) struct RenewArguments {
    #[command(flatten)]
    lease: LeaseArguments,

    /// How long it lives from now on.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lifetime: Duration,
}

pub(crate) async fn run(
    arguments: &RenewArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let caller = arguments.lease.caller(&installation.configuration.owner);
    let keeper = installation.keeper().await?;
    let lease = lease_names::find(keeper.ledger(), &arguments.lease.lease).await?;
    let life_until = keeper.ledger().now() + arguments.lifetime;
    let lease = keeper.renew(&lease.id, life_until, &caller).await?;
    installation.output.result(&LeaseView::of(&lease), || {
        format!("{} lives until {}", lease.id, lease.life_until)
    })?;
    Ok(ExitCode::DONE)
}
