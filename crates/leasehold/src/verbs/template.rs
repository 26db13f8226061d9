//! `leasehold template`: parked leases that are kept for good, to be forked from.

use clap::{Args, Subcommand};
use leasehold_core::{Caller, DestroyReason, Input, Kind, LeaseId};
use leasehold_ports::{LeaseFilter, Ledger};
use serde_json::json;

use super::{destroy, ls};
use crate::arguments::{LeaseArguments, OwnerArgument};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::views::LeaseView;
use crate::{lease_names, scan};

/// Keep a parked lease as a template, list templates, remove them
///
/// A template is a parked sandbox without a deadline, which is never used itself. The sandboxes of
/// this machine cannot be forked yet, so a template of theirs can only be kept.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  leasehold park ls_lfhr && leasehold template make ls_lfhr
  leasehold template ls
  leasehold template rm ls_lfhr --dry-run")]
pub(crate) enum TemplateVerb {
    /// Make a parked lease a template
    ///
    /// It has no deadline from then on, and does not become a lease again.
    Make(LeaseArguments),
    /// List templates, the oldest first
    Ls {
        #[command(flatten)]
        owner: OwnerArgument,
        /// Those of every owner
        #[arg(long, conflicts_with = "owner")]
        all: bool,
    },
    /// Remove a template, with proof
    ///
    /// As `leasehold destroy` does, but nothing that is not a template.
    Rm(RemoveArguments),
}

/// Which template is removed, and on whose behalf.
#[derive(Args, Debug)]
pub(crate) struct RemoveArguments {
    /// The template: its id, or the beginning of it
    #[arg(value_name = "TEMPLATE")]
    template: String,

    #[command(flatten)]
    owner: OwnerArgument,

    /// Remove it as the operator of this installation, whoever owns it. That goes on record
    #[arg(long, conflicts_with = "owner")]
    as_operator: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(
    verb: &TemplateVerb,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    match verb {
        TemplateVerb::Make(arguments) => make(arguments, installation).await,
        TemplateVerb::Ls { owner, all } => list(owner, *all, installation).await,
        TemplateVerb::Rm(arguments) => remove(arguments, installation).await,
    }
}

async fn make(
    arguments: &LeaseArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let caller = arguments.caller(&installation.configuration.owner);
    let keeper = installation.keeper().await?;
    let lease = lease_names::find(keeper.ledger(), &arguments.lease).await?;
    let template = keeper.promote(&lease.id, &caller).await?;
    let text = || format!("{} is a template: it is kept until it is removed", template.id);
    installation.output.result(&LeaseView::of(&template), text)?;
    Ok(ExitCode::DONE)
}

async fn list(
    owner: &OwnerArgument,
    all: bool,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let ledger = installation.ledger_to_read()?;
    let owner = (!all).then(|| installation.owner(owner.owner.as_ref()));
    let mut templates = Vec::new();
    if let Some(ledger) = &ledger {
        let filter = LeaseFilter { owner, ..LeaseFilter::default() };
        scan::each(&**ledger, filter, |row| {
            if row.kind == Kind::Template {
                templates.push(row.clone());
            }
        })
        .await?;
    }
    templates.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
    let now = ledger.as_ref().map_or_else(|| installation.clock.now(), |ledger| ledger.now());
    let views: Vec<LeaseView> = templates.iter().map(LeaseView::of).collect();
    let ids = templates.iter().map(|template| &template.id);
    installation.output.list(&json!({ "templates": views }), ids, || {
        if templates.is_empty() {
            "no templates\n".to_owned()
        } else {
            ls::as_table(&templates, now)
        }
    })?;
    Ok(ExitCode::DONE)
}

async fn remove(
    arguments: &RemoveArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let (caller, reason) = if arguments.as_operator {
        (installation.operator(), DestroyReason::OperatorAsked)
    } else {
        let owner = installation.owner(arguments.owner.owner.as_ref());
        (Caller::Owner { owner, grant: None }, DestroyReason::OwnerAsked)
    };
    let Some(ledger) = installation.ledger_to_read()? else {
        return Err(Failure::no_such_lease(&arguments.template));
    };
    let template = find_template(&*ledger, &arguments.template).await?;
    drop(ledger);
    if arguments.dry_run {
        let input = Input::Destroy { reason };
        return destroy::dry_run(template.as_str(), &input, &caller, installation).await;
    }
    let keeper = installation.keeper().await?;
    destroy::destroy(&keeper, &template, &caller, installation).await
}

/// A template never becomes anything else, so the look may be older than the removal.
async fn find_template(ledger: &dyn Ledger, name: &str) -> Result<LeaseId, Failure> {
    let row = lease_names::find(ledger, name).await?;
    if row.kind == Kind::Template {
        return Ok(row.id.clone());
    }
    let problem = format!("it is no template: `leasehold destroy {}` removes a lease", row.id);
    Err(Failure::bad_argument(&format!("template {name}"), problem))
}
