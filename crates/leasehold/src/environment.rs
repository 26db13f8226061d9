//! Variables for a command: from this process or from a private file, never from an argument.
//!
//! Arguments are in the machine's list of processes, for everybody to read, and in the histories of shells.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use leasehold_core::Spec;
use secrecy::{ExposeSecret as _, SecretString};

use crate::failure::Failure;

/// Bytes that a file of variables may have.
const FILE_BYTES: u64 = 1 << 20;

/// Variables for a command.
#[derive(Args, Debug)]
pub(crate) struct EnvironmentArguments {
    /// Give the command a variable of this process, by its NAME.
    ///
    /// A value in an argument could be read in the machine's list of processes, so NAME=VALUE is refused.
    /// Values go to the command only, and are never recorded or logged.
    #[arg(short, long = "env", value_name = "NAME")]
    environment: Vec<Variable>,

    /// Give the command the variables of a file: a line NAME=VALUE for each, and `#` before comments.
    ///
    /// The value is all that stands behind the first `=`, without quotes or escapes. Only its owner may be
    /// allowed to read the file: `chmod 600 FILE`. A variable that --env names too is this process's.
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
}

/// The text of an argument. Reading it cannot fail, and it is never shown: a value may have been put there.
#[derive(Clone)]
struct Variable(SecretString);

impl FromStr for Variable {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.into()))
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Variable")
    }
}

impl EnvironmentArguments {
    /// The variables with their values.
    pub(crate) fn read(&self) -> Result<BTreeMap<String, SecretString>, Failure> {
        let mut environment = BTreeMap::new();
        for path in &self.env_file {
            read_file(path, &mut environment)?;
        }
        for (index, variable) in self.environment.iter().enumerate() {
            let argument = format!("--env number {}", index + 1);
            let name = variable.0.expose_secret();
            if name.contains('=') {
                let problem = "a value in an argument can be read by everybody on this machine: export the \
                    variable and give its NAME alone, or put the line into a file for --env-file";
                return Err(Failure::bad_argument(&argument, problem));
            }
            check_name(&argument, name)?;
            environment.insert(name.to_owned(), of_this_process(name)?);
        }
        Ok(environment)
    }
}

/// Refuses what is no name, without repeating it: it may be a value in the wrong place.
fn check_name(argument: &str, name: &str) -> Result<(), Failure> {
    let one = Spec { environment_names: [name.to_owned()].into(), ..Spec::default() };
    one.check().map_err(|_| {
        let problem = "a variable's name has letters, digits and underscores";
        Failure::bad_argument(argument, problem)
    })
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

fn read_file(path: &Path, environment: &mut BTreeMap<String, SecretString>) -> Result<(), Failure> {
    let argument = format!("--env-file {}", path.display());
    let unusable = |problem: &dyn fmt::Display| Failure::bad_argument(&argument, problem);
    let file = File::open(path).map_err(|error| unusable(&error))?;
    // Of the open file: its name could mean another one a moment later.
    let stat = rustix::fs::fstat(&file).map_err(|error| unusable(&error))?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(unusable(&"it is not a regular file"));
    }
    if stat.st_mode & 0o077 != 0 {
        let mode = stat.st_mode & 0o777;
        let problem = format!("others than its owner may use it (mode {mode:04o}): chmod 600 it");
        return Err(unusable(&problem));
    }
    let mut text = String::new();
    let read = file.take(FILE_BYTES + 1).read_to_string(&mut text);
    // What was read, if anything, is as secret as the whole.
    let text = SecretString::from(text);
    read.map_err(|error| unusable(&error))?;
    let text = text.expose_secret();
    if text.len() as u64 > FILE_BYTES {
        return Err(unusable(&"it has more than 1 MiB"));
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        let Some((name, value)) = line.split_once('=') else {
            return Err(unusable(&format!("line {number} is not NAME=VALUE")));
        };
        check_name(&format!("line {number} of {}", path.display()), name)?;
        if value.contains('\0') {
            return Err(unusable(&format!("the value in line {number} holds a zero byte")));
        }
        environment.insert(name.to_owned(), value.into());
    }
    Ok(())
}
