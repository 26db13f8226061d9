//! `leasehold destroy --orphan`: a sandbox that no open lease names is removed, at a person's word.

use std::io::{self, IsTerminal as _, Write as _};

use leasehold_core::{LeaseId, SandboxId};
use leasehold_keeper::KeeperError;
use leasehold_ports::{
    Call, HomeAndSandbox, Ledger as _, LedgerError, Provider as _, ProviderError, Status,
};
use serde_json::json;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::state_directory::user_name;
use crate::views::ReceiptView;

/// Shows what was found under the id, asks, records it as a debt, and removes it.
pub(super) async fn run(
    sandbox: &SandboxId,
    yes: bool,
    dry_run: bool,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let found = look_at(sandbox, installation).await?;
    if dry_run {
        installation
            .output
            .result(&found.value, || format!("{}: it would be destroyed", found.text))?;
        return Ok(ExitCode::DONE);
    }
    if !yes {
        confirm(&found.text)?;
    }
    let keeper = installation.keeper().await?;
    let home = installation.local_home()?;
    let receipt = keeper.destroy_orphan(&home, sandbox, &user_name()).await.map_err(|error| {
        match error {
            // An operator may know which: it was acquired since the look.
            KeeperError::Ledger(LedgerError::PinTaken { lease }) => named_by(sandbox, &lease),
            error => error.into(),
        }
    })?;
    let receipt = ReceiptView::of(&receipt);
    let value = json!({ "sandbox": sandbox, "receipt": receipt });
    installation
        .output
        .result(&value, || format!("sandbox {sandbox} is {}: {}", receipt.ending, receipt.proof))?;
    Ok(ExitCode::DONE)
}

struct Found {
    value: serde_json::Value,
    text: String,
}

/// Reads what stands under the id, and whether the ledger knows it.
async fn look_at(sandbox: &SandboxId, installation: &Installation) -> Result<Found, Failure> {
    let ledger = installation.ledger()?;
    let place = HomeAndSandbox { home: installation.local_home()?, sandbox: sandbox.clone() };
    let rows = ledger.find_pinned(&place).await?;
    if let Some(row) = rows.iter().find(|row| row.is_open()) {
        return Err(named_by(sandbox, &row.id));
    }
    let deadline = installation.clock.now() + installation.configuration.settings.proof;
    let call = Call { credential: None, deadline };
    let status = installation.local_provider()?.status(sandbox, &call).await;
    let state = match status {
        Ok(Status::Present { state, .. }) => format!("{state:?}").to_lowercase(),
        Ok(Status::Absent(_) | Status::Destroyed(_)) => {
            let problem = "there is no such sandbox";
            return Err(Failure::bad_argument(&format!("orphan {sandbox}"), problem));
        }
        Err(error) => return Err(of_provider(&error)),
    };
    let known_as = rows.first().map(|row| row.id.clone());
    let known = match &known_as {
        Some(lease) => format!("it was lease {lease}"),
        None => "no lease of this ledger ever named it".to_owned(),
    };
    Ok(Found {
        value: json!({ "sandbox": sandbox, "state": state, "known_as": known_as }),
        text: format!("sandbox {sandbox} is {state}; {known}"),
    })
}

fn named_by(sandbox: &SandboxId, lease: &LeaseId) -> Failure {
    let problem = format!("lease {lease} names it: destroy that");
    Failure::bad_argument(&format!("orphan {sandbox}"), problem)
}

fn of_provider(error: &ProviderError) -> Failure {
    Failure::new(error.code(), error.to_string())
}

/// Asks on a terminal; anything but `yes` is a no.
fn confirm(what: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        let problem = format!("{what}. Nobody can be asked here: repeat it with --yes");
        return Err(Failure::bad_argument("destroy --orphan", problem));
    }
    let mut error = io::stderr();
    let _ = write!(error, "{what}.\nDestroy it, with everything in it? (yes/no) ");
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::bad_argument("the answer", error))?;
    if answer.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::bad_argument("the answer", "it was not yes, so nothing was done"))
}
