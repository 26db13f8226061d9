//! Lends sandboxes to AI agents, and always gets them back: the command line.
//!
//! What lives here: arguments, configuration, wiring, and words. What may not live here: a decision
//! about a lease, or a call to a provider that changes something; those are the keeper's.
//!
//! One verb is one file in [`verbs`]. A verb takes its arguments and the [`Installation`], and
//! returns how the process ends, or a [`Failure`] that has its entry in the catalogue of errors.

mod arguments;
mod clock;
mod command_arguments;
mod command_line;
mod configuration;
mod environment;
mod exit_code;
mod failure;
mod figures;
mod installation;
mod lease_names;
mod logging;
mod origin;
mod output;
mod reference;
mod relay;
mod scan;
mod state_directory;
mod stop;
mod style;
mod times;
mod transfer;
mod value_parsers;
mod verbs;
mod views;

use std::process::ExitCode as ProcessExitCode;

use clap::FromArgMatches as _;

use crate::arguments::{Arguments, Common, Verb};
use crate::configuration::Configuration;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::Output;
use crate::state_directory::StateDirectory;

fn main() -> ProcessExitCode {
    // First: this program is also the init of local sandboxes.
    leasehold_init::run_if_requested();
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return explain_usage(&error).into(),
    };
    logging::start(&arguments.common);
    let as_json = arguments.common.json;
    let fails_with_125 = arguments.verb.fails_with_125();
    let exit = run(arguments).unwrap_or_else(|failure| {
        let failure = if fails_with_125 { failure.of_command() } else { failure };
        failure.report(as_json);
        failure.exit_code()
    });
    exit.into()
}

fn parse() -> Result<Arguments, clap::Error> {
    let mut command = command_line::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Prints help, the version or what is wrong with the arguments.
fn explain_usage(error: &clap::Error) -> ExitCode {
    // If nobody reads it there is nobody to tell.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::DONE;
    }
    // The other codes of `run` and `exec` are their command's, 2 too.
    let command = command_line::command().ignore_errors(true);
    let verb = command
        .try_get_matches()
        .ok()
        .and_then(|matches| matches.subcommand_name().map(str::to_owned));
    match verb.as_deref() {
        Some("run" | "exec") => ExitCode::FAILED,
        _ => ExitCode::USAGE,
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let Arguments { common, verb } = arguments;
    let output = Output { json: common.json, quiet: common.quiet };
    match &verb {
        // These need no state directory, and must work where nothing else does.
        Verb::Explain(arguments) => return verbs::explain::run(arguments, output),
        Verb::Completions(arguments) => return verbs::completions::run(arguments, output),
        Verb::Man(arguments) => return verbs::man::run(arguments, output),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(dispatch(&common, verb, output));
    // Threads that still wait for a call or for input are no reason to stay.
    runtime.shutdown_background();
    exit
}

async fn dispatch(common: &Common, verb: Verb, output: Output) -> Result<ExitCode, Failure> {
    let variable = std::env::var_os(state_directory::VARIABLE);
    let state = StateDirectory::find(common.state_dir.as_deref(), variable)?;
    let configuration = Configuration::read(&state, common.config.as_deref())?;
    let installation = Installation::new(state, configuration, output);
    let exit = perform(verb, &installation).await;
    installation.leave().await;
    exit
}

async fn perform(verb: Verb, installation: &Installation) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Run(arguments) => verbs::run::run(&arguments, installation).await,
        Verb::Acquire(arguments) => verbs::acquire::run(&arguments, installation).await,
        Verb::Exec(arguments) => verbs::exec::run(&arguments, installation).await,
        Verb::Cp(arguments) => verbs::cp::run(&arguments, installation).await,
        Verb::Renew(arguments) => verbs::renew::run(&arguments, installation).await,
        Verb::Park(arguments) => verbs::park::run(&arguments, installation).await,
        Verb::Resume(arguments) => verbs::resume::run(&arguments, installation).await,
        Verb::Release(arguments) => verbs::release::run(&arguments, installation).await,
        Verb::Destroy(arguments) => verbs::destroy::run(&arguments, installation).await,
        Verb::Ls(arguments) => verbs::ls::run(&arguments, installation).await,
        Verb::Show(arguments) => verbs::show::run(&arguments, installation).await,
        Verb::History(arguments) => verbs::history::run(&arguments, installation).await,
        Verb::Wait(arguments) => verbs::wait::run(&arguments, installation).await,
        Verb::Template(verb) => verbs::template::run(&verb, installation).await,
        Verb::Check(arguments) => verbs::check::run(&arguments, installation).await,
        Verb::Metrics(arguments) => verbs::metrics::run(&arguments, installation).await,
        Verb::Completions(arguments) => verbs::completions::run(&arguments, installation.output),
        Verb::Man(arguments) => verbs::man::run(&arguments, installation.output),
        Verb::Recover(arguments) => verbs::recover::run(&arguments, installation).await,
        Verb::Sweep(arguments) => verbs::sweep::run(&arguments, installation).await,
        Verb::Forget(arguments) => verbs::forget::run(&arguments, installation).await,
        Verb::Ledger(verb) => verbs::ledger::run(&verb, installation).await,
        Verb::Explain(arguments) => verbs::explain::run(&arguments, installation.output),
        Verb::Doctor(arguments) => verbs::doctor::run(&arguments, installation).await,
        Verb::Config(verb) => verbs::config::run(&verb, installation),
    }
}
