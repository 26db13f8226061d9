//! What `run` and `exec` take: a command, and what it is given.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use leasehold_core::Spec;
use leasehold_keeper::ExecuteRequest;
use secrecy::{ExposeSecret as _, SecretString};

use crate::failure::Failure;
use crate::times::parse_duration;

/// A command, and what it is given.
#[derive(Args, Debug)]
pub(crate) struct CommandArguments {
    /// Give the command a variable: of this process by its NAME, or with a value.
    ///
    /// Prefer the name alone: a value in an argument can be read in the machine's list of processes.
    /// Values go to the command only, and are never recorded or logged.
    #[arg(short, long = "env", value_name = "NAME[=VALUE]")]
    environment: Vec<Variable>,

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

/// `NAME` or `NAME=VALUE`. Reading it cannot fail, so that no message repeats a value.
#[derive(Clone)]
struct Variable {
    name: String,
    value: Option<SecretString>,
}

impl FromStr for Variable {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once('=') {
            Some((name, value)) => Self { name: name.to_owned(), value: Some(value.into()) },
            None => Self { name: text.to_owned(), value: None },
        })
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl CommandArguments {
    /// What the keeper is asked to start.
    pub(crate) fn request(&self) -> Result<ExecuteRequest, Failure> {
        Ok(ExecuteRequest {
            work: leasehold_ports::Work::Program(self.command.clone()),
            directory: self.directory.clone().map(in_workspace),
            environment: self.environment()?,
            input: self.passes_input(),
        })
    }

    /// What a sandbox for this command is asked for.
    pub(crate) fn spec(&self) -> Spec {
        let environment_names =
            self.environment.iter().map(|variable| variable.name.clone()).collect();
        Spec { environment_names, ..Spec::default() }
    }

    fn environment(&self) -> Result<BTreeMap<String, SecretString>, Failure> {
        let mut environment = BTreeMap::new();
        for (index, variable) in self.environment.iter().enumerate() {
            let one = Spec { environment_names: [variable.name.clone()].into(), ..Spec::default() };
            if one.check().is_err() {
                // The text may be a value that was put in the wrong place: it is not repeated.
                let argument = format!("--env number {}", index + 1);
                let problem = "a variable's name has letters, digits and underscores";
                return Err(Failure::bad_argument(&argument, problem));
            }
            let value = match &variable.value {
                Some(value) => value.clone(),
                None => of_this_process(&variable.name)?,
            };
            if value.expose_secret().contains('\0') {
                let argument = format!("variable {}", variable.name);
                return Err(Failure::bad_argument(&argument, "its value holds a zero byte"));
            }
            environment.insert(variable.name.clone(), value);
        }
        Ok(environment)
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

fn of_this_process(name: &str) -> Result<SecretString, Failure> {
    let argument = format!("--env {name}");
    match std::env::var(name) {
        Ok(value) => Ok(value.into()),
        Err(std::env::VarError::NotPresent) => {
            Err(Failure::bad_argument(&argument, "this process has no such variable"))
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Failure::bad_argument(&argument, "its value is not UTF-8"))
        }
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
