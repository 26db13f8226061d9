//! `leasehold destroy`: a sandbox is removed, with proof.

use std::time::Duration;

use clap::Args;
use leasehold_core::{
    Caller, Context, Decision, DestroyReason, Input, LeaseId, NodeId, SandboxId, decide,
};
use leasehold_keeper::Keeper;
use leasehold_ports::Ledger as _;
use serde_json::json;

use super::orphan;
use crate::arguments::OwnerArgument;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::views::{LeaseView, ReceiptView};

/// Remove a sandbox, with proof.
///
/// Legal in every state of a lease. Once decided it is never undone: a removal that cannot be proved
/// yet goes on at every `leasehold recover`, and nobody gets the sandbox meanwhile.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold destroy ls_lfhr --dry-run
  leasehold destroy ls_lfhr --as-operator
  leasehold destroy --orphan SANDBOX")]
pub(crate) struct DestroyArguments {
    /// The lease: its id, or the beginning of it.
    #[arg(value_name = "LEASE", required_unless_present = "orphan")]
    lease: Option<String>,

    #[command(flatten)]
    owner: OwnerArgument,

    /// The number that the acquire or the resume gave; a call with an older one is refused.
    #[arg(long, value_name = "NUMBER")]
    grant: Option<u64>,

    /// Destroy it as the operator of this installation, whoever owns it. That goes on record.
    #[arg(long, conflicts_with_all = ["owner", "grant"])]
    as_operator: bool,

    /// Destroy a sandbox that no open lease names, as `leasehold sweep` reports them. For operators.
    #[arg(long, value_name = "SANDBOX", conflicts_with_all = ["lease", "owner", "grant"])]
    orphan: Option<SandboxId>,

    /// Do not ask before an orphan is destroyed.
    #[arg(long, requires = "orphan")]
    yes: bool,

    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(
    arguments: &DestroyArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let name = match (&arguments.orphan, &arguments.lease) {
        (Some(sandbox), _) => {
            let (yes, dry_run) = (arguments.yes, arguments.dry_run);
            return orphan::run(sandbox, yes, dry_run, installation).await;
        }
        (None, Some(name)) => name,
        // The parser asks for one of them.
        (None, None) => return Err(Failure::bad_argument("LEASE", "it is missing")),
    };
    let caller = if arguments.as_operator {
        installation.operator()
    } else {
        Caller::Owner {
            owner: installation.owner(arguments.owner.owner.as_ref()),
            grant: arguments.grant.map(leasehold_core::Grant),
        }
    };
    if arguments.dry_run {
        let reason = if arguments.as_operator {
            DestroyReason::OperatorAsked
        } else {
            DestroyReason::OwnerAsked
        };
        return dry_run(name, &Input::Destroy { reason }, &caller, installation).await;
    }
    let keeper = installation.keeper().await?;
    let lease = lease_names::find_id(keeper.ledger(), name).await?;
    destroy(&keeper, &lease, &caller, installation).await
}

/// Destroys, and shows the receipt. `release` does the same.
pub(crate) async fn destroy(
    keeper: &Keeper,
    lease: &LeaseId,
    caller: &Caller,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let receipt = ReceiptView::of(&keeper.destroy(lease, caller).await?);
    let value = json!({ "lease": lease, "receipt": receipt });
    installation
        .output
        .result(&value, || format!("{lease} is {}: {}", receipt.ending, receipt.proof))?;
    Ok(ExitCode::DONE)
}

/// Says what the request would come to. The function that decides is the one that the keeper asks;
/// only nothing is written, and nothing is done.
pub(crate) async fn dry_run(
    name: &str,
    input: &Input,
    caller: &Caller,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let Some(ledger) = installation.ledger_to_read()? else {
        return Err(Failure::no_such_lease(name));
    };
    let lease = lease_names::find(&*ledger, name).await?;
    let node = NodeId::from_random([0; 10]);
    let context =
        Context { now: ledger.now(), node: &node, caller, claim_for: Duration::ZERO, calm: true };
    let (would, text) = match decide(&lease, input, context)? {
        Decision::Write(change) => {
            let state = change.lease.state;
            let sandbox = match &lease.pin {
                Some(pin) => format!("sandbox {}", pin.sandbox),
                None => "whatever its create made".to_owned(),
            };
            (
                json!(state),
                format!("{} would go from {} to {state}, with {sandbox}", lease.id, lease.state),
            )
        }
        Decision::AlreadySo => {
            (json!(null), format!("{} is {} already: nothing would change", lease.id, lease.state))
        }
    };
    let value = json!({ "lease": LeaseView::of(&lease), "would_become": would });
    installation.output.result(&value, || text)?;
    Ok(ExitCode::DONE)
}
