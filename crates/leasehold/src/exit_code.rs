//! Exit codes: one table for every verb.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | it was done |
//! | 1 | something was found: `check`, `doctor`, `ledger check` |
//! | 2 | the arguments or the configuration cannot be used; nothing was done |
//! | 3 | refused: not yours, not in this state, too late, a limit is reached; nothing was changed |
//! | 4 | there is no such lease |
//! | 5 | not known yet: a cleanup, a create or a command whose outcome is not proved |
//! | 6 | a safety stop waits for an operator |
//! | 124 | a time limit of the call has passed: `--timeout` of `run`, `exec` and `wait` |
//! | 125 | Leasehold failed; of `run`, `exec` and `check`, every failure of Leasehold |
//! | 126 | the command cannot be executed |
//! | 127 | the command was not found |
//! | 128 + n | the command, or Leasehold itself, was ended by signal n |
//!
//! Every other code of `run` and `exec` is the command's own.

use leasehold_core::catalogue::{self, ErrorType};
use leasehold_ports::{NotStarted, ProcessEnd, Signal};

/// What each code means, in words.
const MEANINGS: [(&str, &str); 13] = [
    ("0", "it was done"),
    ("1", "something was found"),
    ("2", "the arguments or the configuration cannot be used; nothing was done"),
    ("3", "refused: not yours, not in this state, too late, a limit is reached"),
    ("4", "there is no such lease"),
    ("5", "not known yet: a cleanup, a create or a command whose outcome is not proved"),
    ("6", "a safety stop waits for an operator"),
    ("124", "a time limit of the call has passed"),
    ("125", "Leasehold failed"),
    ("126", "the command cannot be executed"),
    ("127", "the command was not found"),
    ("128+n", "signal n ended the command, or asked Leasehold to stop"),
    ("other", "the command's own"),
];

/// With which codes a verb can end.
fn of_verb(verb: &str) -> &'static [&'static str] {
    match verb {
        "run" | "exec" => &["124", "125", "126", "127", "128+n", "other"],
        "acquire" => &["0", "2", "3", "5", "6", "125", "128+n"],
        "cp" => &["0", "2", "3", "4", "5", "6", "125", "128+n"],
        "wait" => &["0", "2", "3", "4", "124", "125", "128+n"],
        "ls" | "show" | "history" => &["0", "2", "4", "125"],
        "recover" | "sweep" => &["0", "2", "5", "125"],
        "check" | "doctor" | "ledger" => &["0", "1", "2", "125"],
        "metrics" => &["0", "2", "125"],
        "explain" | "config" | "completions" | "man" => &["0", "2"],
        _ => &["0", "2", "3", "4", "5", "6", "125"],
    }
}

/// The end of a verb's help.
pub(crate) fn help_of(verb: &str) -> String {
    list(MEANINGS.into_iter().filter(|(code, _)| of_verb(verb).contains(code)))
}

/// The codes of all verbs.
pub(crate) fn help() -> String {
    list(MEANINGS)
}

fn list(meanings: impl IntoIterator<Item = (&'static str, &'static str)>) -> String {
    let lines = meanings.into_iter().map(|(code, meaning)| format!("\n  {code:<5}  {meaning}"));
    format!("Exit codes:{}", lines.collect::<String>())
}

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExitCode(pub(crate) u8);

impl ExitCode {
    pub(crate) const DONE: ExitCode = ExitCode(0);
    pub(crate) const FOUND_SOMETHING: ExitCode = ExitCode(1);
    pub(crate) const USAGE: ExitCode = ExitCode(2);
    pub(crate) const REFUSED: ExitCode = ExitCode(3);
    pub(crate) const NO_SUCH_LEASE: ExitCode = ExitCode(4);
    pub(crate) const NOT_KNOWN_YET: ExitCode = ExitCode(5);
    pub(crate) const SAFETY_STOP: ExitCode = ExitCode(6);
    pub(crate) const TIMEOUT: ExitCode = ExitCode(124);
    pub(crate) const FAILED: ExitCode = ExitCode(125);
    pub(crate) const NOT_EXECUTABLE: ExitCode = ExitCode(126);
    pub(crate) const NOT_FOUND: ExitCode = ExitCode(127);

    /// 128 + n, as shells do.
    pub(crate) fn of_signal(signal: Signal) -> Self {
        Self(u8::try_from(128 + signal.0).unwrap_or(u8::MAX))
    }

    /// The command's own.
    pub(crate) fn of_command(end: ProcessEnd) -> Self {
        match end {
            ProcessEnd::Exited(code) => Self(code),
            ProcessEnd::Signaled(signal) => Self::of_signal(signal),
        }
    }

    /// Of a command that certainly did not start.
    pub(crate) const fn of_not_started(reason: &NotStarted) -> Self {
        match reason {
            NotStarted::NotFound { .. } => Self::NOT_FOUND,
            NotStarted::NotExecutable { .. } | NotStarted::NoDirectory { .. } => {
                Self::NOT_EXECUTABLE
            }
            NotStarted::StaleGrant { .. } => Self::FAILED,
        }
    }

    /// Of an error of the catalogue, for verbs that run no command.
    pub(crate) fn of_error(code: &str) -> Self {
        let Some(entry) = catalogue::find(code) else { return Self::FAILED };
        match entry.error_type {
            ErrorType::Validation => Self::USAGE,
            ErrorType::Permission
            | ErrorType::State
            | ErrorType::Conflict
            | ErrorType::Deadline
            | ErrorType::Limit => Self::REFUSED,
            ErrorType::NotFound => Self::NO_SUCH_LEASE,
            ErrorType::Unknown => Self::NOT_KNOWN_YET,
            ErrorType::Safety => Self::SAFETY_STOP,
            ErrorType::Unavailable => Self::FAILED,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.0.into()
    }
}
