//! `leasehold exec`: a command under a lease that lives on.

use clap::Args;

use crate::arguments::LeaseArguments;
use crate::command_arguments::CommandArguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::relay::{Patience, Relayed, Stop, feed_input, relay};
use crate::stop::StopSignals;

/// Run a command in the sandbox of a lease.
///
/// What the command leaves running in the background lives on until the lease is released. On Ctrl-C,
/// SIGTERM, SIGHUP or a time limit the command is ended with everything that it started, and the lease
/// stays.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold exec ls_lfhr -- make test
  leasehold exec ls_lfhr --directory src --timeout 10m -- sh -c 'make && make check'")]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    lease: LeaseArguments,

    #[command(flatten)]
    command: CommandArguments,
}

pub(crate) async fn run(
    arguments: &ExecArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let request = arguments.command.request()?;
    let input = request.input;
    let caller = arguments.lease.caller(&installation.configuration.owner);
    let mut signals = StopSignals::catch()?;
    let keeper = installation.keeper().await?;
    let lease = lease_names::find(keeper.ledger(), &arguments.lease.lease).await?.id.clone();
    let (started, asked) = signals.after(keeper.execute(&lease, &caller, request)).await;
    let relayed = match (started, asked) {
        (Err(error), _) => Err(error.into()),
        (Ok(_), Some(signal)) => Ok(Relayed::Stopped(Stop::Signal(signal))),
        (Ok(mut execution), None) => {
            if input {
                feed_input(execution.input());
            }
            let patience =
                Patience { timeout: arguments.command.timeout, grace: keeper.settings().grace };
            relay(&mut execution, patience, &*installation.clock, &mut signals).await
        }
    };
    match relayed {
        // Whatever was told to stop is ended, with its children, and how is recorded.
        Ok(Relayed::Stopped(_)) => keeper.drain().await,
        _ => keeper.settle_idle().await,
    }
    relayed?.exit_code()
}
