//! What `run` and `exec` take: a command, and what it is given.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use leasehold_core::Spec;
use leasehold_keeper::ExecuteRequest;

use crate::environment::EnvironmentArguments;
use crate::failure::Failure;
use crate::times::parse_duration;

/// A command, and what it is given.
#[derive(Args, Debug)]
pub(crate) struct CommandArguments {
    #[command(flatten)]
    environment: EnvironmentArguments,

    /// Where the command starts, inside the sandbox; relative to the workspace.
    #[arg(short = 'w', long, value_name = "DIRECTORY")]
    directory: Option<String>,

    /// End the command after this time, and exit with 124.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// Pass on standard input from a terminal too. What is piped or redirected is passed on anyway.
    #[arg(short = 'i', long, conflicts_with = "no_stdin")]
    stdin: bool,

    /// Pass on no standard input: the command reads its end at once.
    #[arg(short = 'n', long)]
    no_stdin: bool,

    /// The program and its arguments. No shell is added: for one, say `sh -c '...'`.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

impl CommandArguments {
    /// What the keeper is asked to start.
    pub(crate) fn request(&self) -> Result<ExecuteRequest, Failure> {
        Ok(ExecuteRequest {
            work: leasehold_ports::Work::Program(self.command.clone()),
            directory: self.directory.clone().map(in_workspace),
            environment: self.environment.read()?,
            input: self.passes_input(),
        })
    }

    /// What a sandbox for this command is asked for.
    pub(crate) fn spec(&self) -> Result<Spec, Failure> {
        let environment_names = self.environment.read()?.into_keys().collect();
        Ok(Spec { environment_names, ..Spec::default() })
    }

    /// Whether standard input is passed on: if it was asked for, or if it is a pipe, a socket or a
    /// file. Another device, like `/dev/null`, has nothing to pass on.
    fn passes_input(&self) -> bool {
        if self.stdin || self.no_stdin {
            return self.stdin;
        }
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return false;
        }
        rustix::fs::fstat(&stdin).is_ok_and(|metadata| {
            let kind = rustix::fs::FileType::from_raw_mode(metadata.st_mode);
            kind.is_fifo() || kind.is_socket() || kind.is_file()
        })
    }
}

/// Providers take absolute directories only.
fn in_workspace(directory: String) -> String {
    if directory.starts_with('/') {
        directory
    } else {
        format!("{}/{directory}", leasehold_init::protocol::WORKSPACE)
    }
}
