//! `leasehold acquire`: a lease that outlives this process.

use std::time::Duration;

use clap::Args;
use leasehold_core::{AcquireKey, Caller, Clocks, Lease, Spec};
use leasehold_keeper::{AcquireRequest, Keeper};

use crate::arguments::OwnerArgument;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::stop::StopSignals;
use crate::times::{self, parse_duration};
use crate::views::LeaseView;

/// Acquire a sandbox, and print its lease.
///
/// The lease is this owner's until it is released or destroyed, or a deadline passes: the end of its
/// life, or the idle time without a command. While no Leasehold process runs, the sandbox's
/// own timer ends its processes after the end of its life; the next `leasehold recover` does the rest.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold acquire --for 2h
  leasehold acquire --owner acme/production --key run-7 --quiet")]
pub(crate) struct AcquireArguments {
    #[command(flatten)]
    owner: OwnerArgument,

    /// How long the lease lives. By default 1h; `leasehold renew` moves its end.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lifetime: Option<Duration>,

    /// How long the lease may go without a command. By default 15m.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    idle: Option<Duration>,

    /// Your own name for this acquire. Repeated with the same key it is the same acquire, so that a
    /// lost answer makes no second sandbox.
    #[arg(long, value_name = "KEY")]
    key: Option<AcquireKey>,
}

pub(crate) async fn run(
    arguments: &AcquireArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let mut signals = StopSignals::catch()?;
    let owner = installation.owner(arguments.owner.owner.as_ref());
    let keeper = installation.keeper_after_the_dead().await?;
    let usual = installation.configuration.settings.clocks;
    let clocks = Clocks { idle_active: arguments.idle.unwrap_or(usual.idle_active), ..usual };
    let acquire = keeper.acquire(AcquireRequest {
        owner: owner.clone(),
        home: installation.local_home()?,
        spec: Spec::default(),
        key: arguments.key.clone(),
        lifetime: arguments.lifetime.unwrap_or(installation.configuration.lifetime),
        clocks: Some(clocks),
        tethered: false,
        // Only once it is printed: a lease that nobody knows of must not count as somebody's.
        delivered: false,
    });
    let (acquired, asked) = signals.after(acquire).await;
    let lease = acquired?;
    let caller = Caller::Owner { owner, grant: Some(lease.grant) };
    if let Some(signal) = asked {
        give_back(&keeper, &lease, &caller, arguments).await?;
        return Ok(ExitCode::of_signal(signal));
    }
    let view = LeaseView::of(&lease);
    if let Err(failure) = installation.output.result(&view, || lease.id.to_string()) {
        give_back(&keeper, &lease, &caller, arguments).await?;
        return Err(failure);
    }
    let now = keeper.ledger().now();
    installation.output.note(&format!(
        "the lease ends {} at the latest, and after {} without a command",
        times::relative(lease.life_until, now),
        times::short(lease.clocks.idle_active),
    ));
    match keeper.acknowledge(&lease.id, &caller).await {
        Ok(_) => {}
        // It is in the caller's hands; the first use acknowledges it too.
        Err(error) => installation.output.note(&format!("not acknowledged yet: {error}")),
    }
    Ok(ExitCode::DONE)
}

/// Removes a lease whose answer did not arrive. One with a key stays for a while: its caller can ask
/// again.
async fn give_back(
    keeper: &Keeper,
    lease: &Lease,
    caller: &Caller,
    arguments: &AcquireArguments,
) -> Result<(), Failure> {
    if arguments.key.is_none() {
        keeper.destroy(&lease.id, caller).await?;
    }
    Ok(())
}
