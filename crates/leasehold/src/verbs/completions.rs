//! `leasehold completions`: what a shell needs to complete verbs and options.

use clap::Args;
use clap_complete::Shell;

use crate::command_line;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;

/// Print a script with which a shell completes verbs and options
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold completions bash > /etc/bash_completion.d/leasehold
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish")]
pub(crate) struct CompletionsArguments {
    /// Which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments, output: Output) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    let mut command = command_line::command();
    clap_complete::generate(arguments.shell, &mut command, "leasehold", &mut script);
    output.text(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::DONE)
}
