//! `leasehold run`: acquire, execute, release.

use std::time::Duration;

use clap::Args;
use leasehold_core::{Caller, Lease};
use leasehold_keeper::{AcquireRequest, Keeper};

use crate::arguments::OwnerArgument;
use crate::command_arguments::CommandArguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::relay::{Patience, Relayed, Stop, feed_input, relay};
use crate::stop::StopSignals;
use crate::times::parse_duration;

/// What a lease lives longer than its command's time limit: for its acquire and its release.
const MARGIN: Duration = Duration::from_secs(60);

/// Run a command in a new sandbox, and remove the sandbox.
///
/// Output is passed on as it comes. When the command ends, and also on Ctrl-C, SIGTERM or SIGHUP, the
/// sandbox is removed with everything that still runs in it. Should this process be killed, the next
/// `leasehold run`, `acquire` or `recover` removes what it left.
///
/// Inside there are the machine's programs, read-only, an empty workspace, and no network but a
/// loopback of its own.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold run -- echo hello
  leasehold run --env TOKEN --timeout 10m -- make test
  leasehold run --keep -- sh -c 'echo data > file'")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    owner: OwnerArgument,

    /// How long the lease lives at the most. By default 1h, and at least the command's time limit.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lifetime: Option<Duration>,

    /// Keep the sandbox: leave the lease active when the command has ended.
    #[arg(long)]
    keep: bool,

    #[command(flatten)]
    command: CommandArguments,
}

impl RunArguments {
    fn lifetime(&self, usual: Duration) -> Duration {
        let for_command = self.command.timeout.map_or(Duration::ZERO, |limit| limit + MARGIN);
        self.lifetime.unwrap_or_else(|| usual.max(for_command))
    }
}

pub(crate) async fn run(
    arguments: &RunArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    // What cannot be asked for is noticed before anything is made.
    arguments.command.request()?;
    let mut signals = StopSignals::catch()?;
    let owner = installation.owner(arguments.owner.owner.as_ref());
    let keeper = installation.keeper_after_the_dead().await?;
    let acquire = keeper.acquire(AcquireRequest {
        owner: owner.clone(),
        home: installation.local_home()?,
        spec: arguments.command.spec(),
        key: None,
        lifetime: arguments.lifetime(installation.configuration.lifetime),
        clocks: None,
        tethered: !arguments.keep,
        delivered: true,
    });
    // An acquire that was dropped would have to be found again: it ends, within its limit.
    let (acquired, asked) = signals.after(acquire).await;
    let lease = acquired?;
    let caller = Caller::Owner { owner, grant: Some(lease.grant) };
    let ended = match asked {
        Some(signal) => Ok(Relayed::Stopped(Stop::Signal(signal))),
        None => execute(&keeper, &lease, &caller, arguments, installation, &mut signals).await,
    };
    if arguments.keep {
        keeper.drain().await;
        installation.output.note(&format!("kept: lease {}", lease.id));
        return ended?.exit_code();
    }
    let (released, _) = signals.after(keeper.destroy(&lease.id, &caller)).await;
    if let (Err(_), Err(error)) = (&ended, &released) {
        // The first failure is the one to report, but this one has to be known too.
        installation.output.note(&format!("{error} [{}]", error.code()));
    }
    let ended = ended?;
    // The command's own code would say that all went well.
    released?;
    ended.exit_code()
}

async fn execute(
    keeper: &Keeper,
    lease: &Lease,
    caller: &Caller,
    arguments: &RunArguments,
    installation: &Installation,
    signals: &mut StopSignals,
) -> Result<Relayed, Failure> {
    let request = arguments.command.request()?;
    let input = request.input;
    let mut execution = keeper.execute(&lease.id, caller, request).await?;
    if input {
        feed_input(execution.input());
    }
    let patience = Patience { timeout: arguments.command.timeout, grace: keeper.settings().grace };
    relay(&mut execution, patience, &*installation.clock, signals).await
}
