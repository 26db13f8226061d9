//! `leasehold wait`: until a lease is where somebody wants it.

use std::time::Duration;

use clap::Args;
use leasehold_core::{Lease, Refusal, State};
use leasehold_ports::Ledger;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::stop::StopSignals;
use crate::times::parse_duration;
use crate::views::LeaseView;
use crate::{lease_names, value_parsers};

/// The first time between two looks at the ledger; each is twice the one before.
const FIRST: Duration = Duration::from_millis(20);

/// The longest time between two looks.
const LONGEST: Duration = Duration::from_secs(1);

/// Wait until a lease is in a state
///
/// It reads the ledger, and does nothing for the lease: somebody else has to release it, or run
/// `leasehold recover`. Where the state cannot be reached any more it is refused at once. Ctrl-C
/// ends the wait and nothing else.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold wait ls_lfhr
  leasehold wait ls_lfhr --until active --timeout 5m")]
pub(crate) struct WaitArguments {
    /// The lease: its id, or the beginning of it
    #[arg(value_name = "LEASE")]
    lease: String,

    /// For which state
    #[arg(long, value_name = "STATE", default_value = "closed",
        value_parser = value_parsers::state())]
    until: State,

    /// Wait no longer than this, and exit with 124
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

pub(crate) async fn run(
    arguments: &WaitArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let mut signals = StopSignals::catch()?;
    let Some(ledger) = installation.ledger_to_read()? else {
        return Err(Failure::no_such_lease(&arguments.lease));
    };
    let id = lease_names::find(&*ledger, &arguments.lease).await?.id.clone();
    let began = installation.clock.monotonic();
    tracing::info!(lease = %id, until = %arguments.until, "waiting");
    let mut pause = FIRST;
    loop {
        let Some(lease) = ledger.get(&id).await? else {
            return Err(Failure::no_such_lease(id.as_str()));
        };
        if lease.state == arguments.until {
            let text = || format!("{id} is {}", lease.state);
            installation.output.result(&LeaseView::of(&lease), text)?;
            return Ok(ExitCode::DONE);
        }
        refuse_hopeless(&lease, arguments.until)?;
        if let Some(limit) = arguments.timeout {
            let waited = installation.clock.monotonic().saturating_sub(began);
            if waited >= limit {
                return Err(Failure::wait_timeout(&lease, arguments.until, limit));
            }
            pause = pause.min(limit - waited);
        }
        tokio::select! {
            biased;
            signal = signals.next() => return Ok(ExitCode::of_signal(signal)),
            () = installation.clock.sleep(pause) => pause = (pause * 2).min(LONGEST),
        }
    }
}

/// A removal is never undone, and nobody is made to wait for what will not come.
fn refuse_hopeless(lease: &Lease, until: State) -> Result<(), Refusal> {
    let id = lease.id.clone();
    match (&lease.receipt, &lease.cleanup) {
        (Some(receipt), _) => Err(Refusal::Gone { lease: id, ending: receipt.ending }),
        (None, Some(cleanup)) if until != State::Closed => {
            Err(Refusal::Closing { lease: id, reason: cleanup.reason })
        }
        _ => Ok(()),
    }
}
