//! `leasehold run`: acquire, execute, release.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use leasehold_archive::{PackOptions, UnpackOptions};
use leasehold_core::catalogue::codes;
use leasehold_core::{Caller, Lease};
use leasehold_init::protocol;
use leasehold_keeper::{AcquireRequest, Keeper};
use leasehold_ports::{Incoming, Outgoing, ProcessEnd, Signal};

use crate::arguments::OwnerArgument;
use crate::command_arguments::CommandArguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::relay::{Patience, Relayed, Stop, feed_input, relay};
use crate::stop::StopSignals;
use crate::times::parse_duration;
use crate::transfer::{Copied, Source, Target, Transfer};

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
  leasehold run --workspace project -- make
  leasehold run --keep -- sh -c 'echo data > file'")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    owner: OwnerArgument,

    /// How long the lease lives at the most. By default 1h, and at least the command's time limit.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lifetime: Option<Duration>,

    /// Copy a directory's contents in before the command, and out again if it exits with 0.
    ///
    /// The directory is then replaced as a whole, in one step; its links are kept as links. If the
    /// command fails, the directory stays as it was. If only the way out fails, the lease is kept, and
    /// the message says how to get the files. Should this process be killed, the sandbox lives until the
    /// lease's deadline, with the work in it.
    #[arg(long, value_name = "DIRECTORY")]
    workspace: Option<PathBuf>,

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
    let workspace = arguments.workspace.as_deref().map(Workspace::of).transpose()?;
    let mut signals = StopSignals::catch()?;
    let owner = installation.owner(arguments.owner.owner.as_ref());
    let keeper = installation.keeper_after_the_dead().await?;
    let acquire = keeper.acquire(AcquireRequest {
        owner: owner.clone(),
        home: installation.local_home()?,
        spec: arguments.command.spec()?,
        key: None,
        lifetime: arguments.lifetime(installation.configuration.lifetime),
        clocks: None,
        tethered: !arguments.keep && workspace.is_none(),
        delivered: true,
    });
    // An acquire that was dropped would have to be found again: it ends, within its limit.
    let (acquired, asked) = signals.after(acquire).await;
    let lease = acquired?;
    let caller = Caller::Owner { owner, grant: Some(lease.grant) };
    let ended = match asked {
        Some(signal) => Ok(Relayed::Stopped(Stop::Signal(signal))),
        None => {
            let mut transfer = Transfer {
                keeper: &keeper,
                lease: &lease.id,
                caller: &caller,
                output: installation.output,
                signals: &mut signals,
            };
            let begun = match &workspace {
                Some(workspace) => workspace.copy_in(&mut transfer).await,
                None => Ok(None),
            };
            match begun {
                Ok(Some(signal)) => Ok(Relayed::Stopped(Stop::Signal(signal))),
                Ok(None) => {
                    execute(&keeper, &lease, &caller, arguments, installation, &mut signals).await
                }
                Err(failure) => Err(failure),
            }
        }
    };
    if let (Some(workspace), Ok(Relayed::Ended(ProcessEnd::Exited(0)))) = (&workspace, &ended) {
        let mut transfer = Transfer {
            keeper: &keeper,
            lease: &lease.id,
            caller: &caller,
            output: installation.output,
            signals: &mut signals,
        };
        if let Err(failure) = workspace.copy_out(&mut transfer).await {
            keeper.drain().await;
            return Err(failure);
        }
    }
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

/// A directory of this machine that a command works on.
struct Workspace(PathBuf);

impl Workspace {
    fn of(path: &Path) -> Result<Self, Failure> {
        let unusable = |problem: &dyn std::fmt::Display| {
            Failure::bad_argument(&format!("--workspace {}", path.display()), problem)
        };
        let directory = path.canonicalize().map_err(|error| unusable(&error))?;
        if !directory.is_dir() || directory.parent().is_none() {
            return Err(unusable(&"give a directory, and not the root"));
        }
        Ok(Self(directory))
    }

    /// Copies the contents in; the signal, if one asked to stop meanwhile.
    async fn copy_in(&self, transfer: &mut Transfer<'_>) -> Result<Option<Signal>, Failure> {
        let target = Incoming { path: protocol::WORKSPACE.to_owned(), name: None };
        let source = Source::Path(self.0.clone());
        match transfer.copy_in(source, target, PackOptions::default()).await? {
            Copied::Done(_) => Ok(None),
            Copied::Stopped(signal) => Ok(Some(signal)),
        }
    }

    /// Replaces the directory by what is in the sandbox. If that fails, says how to get the files.
    async fn copy_out(&self, transfer: &mut Transfer<'_>) -> Result<(), Failure> {
        let source = Outgoing { path: protocol::WORKSPACE.to_owned(), ..Outgoing::default() };
        let target = Target::Replace(self.0.clone());
        let failure = match transfer.copy_out(source, target, UnpackOptions::default()).await {
            Ok(Copied::Done(_)) => return Ok(()),
            Ok(Copied::Stopped(_)) => {
                Failure::new(codes::TRANSFER_FAILED, "the copy out was told to stop")
            }
            Err(failure) => failure,
        };
        let lease = transfer.lease;
        Err(failure.with_more(&[
            format!("the directory is as it was, and lease {lease} is kept with the results"),
            format!("get them: leasehold cp {lease}:/workspace/. DIRECTORY"),
            format!("then release it: leasehold release {lease}"),
        ]))
    }
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
