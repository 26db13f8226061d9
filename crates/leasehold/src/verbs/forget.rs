//! `leasehold forget`: an operator gives a lease up.

use clap::Args;
use leasehold_core::Input;
use serde_json::json;

use super::destroy::dry_run;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::views::ReceiptView;

/// Give a lease up without proof, on the record. For operators.
///
/// Its sandbox is not removed, and never will be by this ledger; if it still exists, it goes on. Use
/// it only for what cannot be proved gone, such as the sandboxes of an account that was closed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold forget ls_lfhr --why 'the account was closed' --dry-run")]
pub(crate) struct ForgetArguments {
    /// The lease: its id, or the beginning of it.
    #[arg(value_name = "LEASE")]
    lease: String,

    /// Why, for the record.
    #[arg(long, value_name = "REASON")]
    why: String,

    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(
    arguments: &ForgetArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    if arguments.why.trim().is_empty() {
        return Err(Failure::bad_argument("--why", "the record needs a reason"));
    }
    if arguments.dry_run {
        let input = Input::Forget { why: arguments.why.clone() };
        return dry_run(&arguments.lease, &input, &installation.operator(), installation).await;
    }
    let keeper = installation.keeper().await?;
    let lease = lease_names::find_id(keeper.ledger(), &arguments.lease).await?;
    let receipt = keeper.forget(&lease, &arguments.why, &installation.operator()).await?;
    let receipt = ReceiptView::of(&receipt);
    let value = json!({ "lease": lease, "receipt": receipt });
    installation
        .output
        .result(&value, || format!("{lease} is {}: {}", receipt.ending, receipt.proof))?;
    Ok(ExitCode::DONE)
}
