//! `leasehold release`: the owner is done.

use clap::Args;
use leasehold_core::{Input, ReleaseGoal};

use super::destroy;
use super::park;
use crate::arguments::LeaseArguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;

/// Be done with a lease: remove its sandbox, or keep it with --park.
///
/// Both stop everything that runs in the sandbox. A repeated release answers with the same receipt.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold release ls_lfhr
  leasehold release ls_lfhr --park
  leasehold release ls_lfhr --dry-run")]
pub(crate) struct ReleaseArguments {
    #[command(flatten)]
    lease: LeaseArguments,

    /// Keep the sandbox for the next use, as `leasehold park` does.
    #[arg(long)]
    park: bool,

    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(
    arguments: &ReleaseArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let caller = arguments.lease.caller(&installation.configuration.owner);
    if arguments.dry_run {
        let goal = if arguments.park { ReleaseGoal::Park } else { ReleaseGoal::Destroy };
        let input = Input::Release { goal };
        return destroy::dry_run(&arguments.lease.lease, &input, &caller, installation).await;
    }
    let keeper = installation.keeper().await?;
    let lease = lease_names::find(keeper.ledger(), &arguments.lease.lease).await?;
    if arguments.park {
        park::park(&keeper, &lease.id, &caller, installation).await
    } else {
        destroy::destroy(&keeper, &lease.id, &caller, installation).await
    }
}
