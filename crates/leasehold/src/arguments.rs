//! The command line. Each verb's own arguments stand in its file, beside what it does with them.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use leasehold_core::{Caller, Grant, Owner};

use crate::verbs;

/// Lends sandboxes to AI agents, and always gets them back.
///
/// A lease is the right of one owner to one sandbox, until a deadline. What may exist is on record
/// before it is made, so that no crash, race or mistake loses a sandbox, ends a living one, or hands
/// one to somebody else.
///
/// No Leasehold process runs between your commands. The processes of a local sandbox end by themselves
/// after the end of its lease's life; idle times, files and records wait for the next
/// `leasehold recover`. Run it from a timer.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options that every verb takes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Common {
    /// Where the ledger and the sandboxes of this machine are kept.
    ///
    /// By default LEASEHOLD_STATE_DIR; without it /var/lib/leasehold for root, and
    /// .local/state/leasehold in the home directory of the passwd entry for everybody else.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) state_dir: Option<PathBuf>,

    /// The configuration to use instead of leasehold.toml in the state directory.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Write results to standard output, and errors to standard error, as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Write nothing but results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Log to standard error; -vv and -vvv log more.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// How log lines are written.
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What Leasehold can be asked to do. Its words for the help stand on each verb's arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(verbs::run::RunArguments),
    Acquire(verbs::acquire::AcquireArguments),
    Exec(verbs::exec::ExecArguments),
    Cp(verbs::cp::CpArguments),
    Renew(verbs::renew::RenewArguments),
    Park(verbs::park::ParkArguments),
    Resume(verbs::resume::ResumeArguments),
    Release(verbs::release::ReleaseArguments),
    Destroy(verbs::destroy::DestroyArguments),
    Ls(verbs::ls::LsArguments),
    Show(verbs::show::ShowArguments),
    History(verbs::history::HistoryArguments),
    Wait(verbs::wait::WaitArguments),
    #[command(subcommand)]
    Template(verbs::template::TemplateVerb),
    Check(verbs::check::CheckArguments),
    Metrics(verbs::metrics::MetricsArguments),
    Completions(verbs::completions::CompletionsArguments),
    Man(verbs::man::ManArguments),
    Recover(verbs::recover::RecoverArguments),
    Sweep(verbs::sweep::SweepArguments),
    Forget(verbs::forget::ForgetArguments),
    #[command(subcommand)]
    Ledger(verbs::ledger::LedgerVerb),
    Explain(verbs::explain::ExplainArguments),
    Doctor(verbs::doctor::DoctorArguments),
    #[command(subcommand)]
    Config(verbs::config::ConfigVerb),
}

impl Verb {
    /// Whether every failure of Leasehold is 125: the other codes are the command's, or what a check
    /// has found.
    pub(crate) const fn fails_with_125(&self) -> bool {
        matches!(self, Verb::Run(_) | Verb::Exec(_) | Verb::Check(_))
    }
}

/// For whom a call is made.
#[derive(Args, Debug)]
pub(crate) struct OwnerArgument {
    /// For whom: company and environment. By default local/USER, or what the configuration says.
    #[arg(long, value_name = "COMPANY/ENVIRONMENT")]
    pub(crate) owner: Option<Owner>,
}

/// A lease, and on whose behalf it is used.
#[derive(Args, Debug)]
pub(crate) struct LeaseArguments {
    /// The lease: its id, or the beginning of it.
    #[arg(value_name = "LEASE")]
    pub(crate) lease: String,

    #[command(flatten)]
    pub(crate) owner: OwnerArgument,

    /// The number that the acquire or the resume gave; a call with an older one is refused.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) grant: Option<u64>,
}

impl LeaseArguments {
    /// The caller, with the owner that counts where none was named.
    pub(crate) fn caller(&self, usual: &Owner) -> Caller {
        Caller::Owner {
            owner: self.owner.owner.clone().unwrap_or_else(|| usual.clone()),
            grant: self.grant.map(Grant),
        }
    }
}
