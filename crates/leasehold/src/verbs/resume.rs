//! `leasehold resume`: a parked lease is taken up again.

use clap::Args;
use leasehold_core::Caller;

use crate::arguments::LeaseArguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::views::LeaseView;

/// Take a parked lease up again.
///
/// The sandbox proves that it is the one that was parked before it is used. A lease that is still
/// active is parked first, and what runs in its sandbox is stopped.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold resume ls_lfhr
  leasehold resume ls_lfhr --owner acme/production --grant 1")]
pub(crate) struct ResumeArguments {
    #[command(flatten)]
    lease: LeaseArguments,
}

pub(crate) async fn run(
    arguments: &ResumeArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let caller = arguments.lease.caller(&installation.configuration.owner);
    let keeper = installation.keeper().await?;
    let lease = lease_names::find(keeper.ledger(), &arguments.lease.lease).await?;
    let lease = keeper.resume(&lease.id, &caller, false).await?;
    // An answer that nobody reads is not acknowledged: it is parked again by and by.
    installation.output.result(&LeaseView::of(&lease), || {
        format!("{} is active: grant {}", lease.id, lease.grant)
    })?;
    if let Caller::Owner { owner, .. } = caller {
        let caller = Caller::Owner { owner, grant: Some(lease.grant) };
        if let Err(error) = keeper.acknowledge(&lease.id, &caller).await {
            installation.output.note(&format!("not acknowledged yet: {error}"));
        }
    }
    Ok(ExitCode::DONE)
}
