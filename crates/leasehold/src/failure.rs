//! What a user is told when something went wrong: a stable code, a message, the next step.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use leasehold_core::catalogue::{self, codes};
use leasehold_core::{Lease, LeaseId, Refusal, State};
use leasehold_keeper::KeeperError;
use leasehold_ports::{LedgerError, Signal};

use crate::exit_code::ExitCode;
use crate::times;

/// Why a verb did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the catalogue.
    Error(Box<CatalogueError>),
    /// Nobody reads the output any more. That is no error: the process ends as if by SIGPIPE.
    OutputClosed,
}

/// An error that has its entry in the catalogue.
#[derive(Debug)]
pub(crate) struct CatalogueError {
    code: &'static str,
    message: String,
    /// Lines that belong to the message, such as the candidates for a prefix.
    details: Vec<String>,
    exit: ExitCode,
    /// The lease that it is about, for the log.
    lease: Option<String>,
    /// Whether its line is in the log already: the keeper writes that of a refusal.
    logged: bool,
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self::with_details(code, message, Vec::new())
    }

    pub(crate) fn with_details(
        code: &'static str,
        message: impl Into<String>,
        details: Vec<String>,
    ) -> Self {
        let (message, exit) = (message.into(), ExitCode::of_error(code));
        let error = CatalogueError { code, message, details, exit, lease: None, logged: false };
        Self::Error(Box::new(error))
    }

    /// The same failure, which is about this lease.
    fn about(mut self, lease: Option<&str>) -> Self {
        if let Self::Error(error) = &mut self {
            error.lease = lease.map(str::to_owned);
        }
        self
    }

    /// The same failure, with more lines that say what to do.
    pub(crate) fn with_more(mut self, lines: &[String]) -> Self {
        if let Self::Error(error) = &mut self {
            error.details.extend_from_slice(lines);
        }
        self
    }

    /// An argument, or something else that the caller chose, that cannot be used.
    pub(crate) fn bad_argument(argument: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(codes::BAD_ARGUMENT, format!("{argument} cannot be used: {problem}"))
    }

    /// No row of the ledger has the id, or one that begins so.
    pub(crate) fn no_such_lease(lease: &str) -> Self {
        Self::new(codes::NO_SUCH_LEASE, format!("there is no lease {lease} in this ledger"))
            .about(Some(lease))
    }

    /// The time limit of a command has passed.
    pub(crate) fn command_timeout(limit: Duration) -> Self {
        Self::timeout("the command", limit)
    }

    /// The time limit of a wait for a lease has passed.
    pub(crate) fn wait_timeout(lease: &Lease, until: State, limit: Duration) -> Self {
        let Lease { id, state, .. } = lease;
        Self::timeout(&format!("the wait for lease {id}, {state}, to be {until}"), limit)
            .about(Some(id.as_str()))
    }

    fn timeout(operation: &str, limit: Duration) -> Self {
        let message = format!("{operation} took longer than its limit of {}", times::short(limit));
        let mut failure = Self::new(codes::TIMEOUT, message);
        if let Self::Error(error) = &mut failure {
            error.exit = ExitCode::TIMEOUT;
        }
        failure
    }

    /// The same failure, of a verb whose other exit codes mean something else.
    pub(crate) fn of_command(mut self) -> Self {
        if let Self::Error(error) = &mut self
            && !matches!(
                error.exit,
                ExitCode::TIMEOUT | ExitCode::NOT_EXECUTABLE | ExitCode::NOT_FOUND
            )
        {
            error.exit = ExitCode::FAILED;
        }
        self
    }

    /// Its code in the catalogue, if it is an error.
    pub(crate) fn code(&self) -> Option<&'static str> {
        match self {
            Self::Error(error) => Some(error.code),
            Self::OutputClosed => None,
        }
    }

    /// Its message, for a line of a report.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Error(error) => &error.message,
            Self::OutputClosed => "nobody reads the output",
        }
    }

    /// How the process ends.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Error(error) => error.exit,
            Self::OutputClosed => ExitCode::of_signal(Signal(PIPE)),
        }
    }

    /// Tells the user, on standard error, and the log. If that is closed too there is nobody to tell.
    pub(crate) fn report(&self, as_json: bool) {
        let Self::Error(error) = self else { return };
        error.log();
        let text = if as_json { error.to_json() } else { error.to_text() };
        let _ = io::Write::write_all(&mut anstream::stderr(), text.as_bytes());
    }
}

/// SIGPIPE.
const PIPE: i32 = 13;

impl CatalogueError {
    fn next_step(&self) -> Option<&'static str> {
        catalogue::find(self.code).map(catalogue::Entry::next_step)
    }

    /// One line for each failure, and none twice.
    fn log(&self) {
        if !self.logged {
            let (code, lease, next) = (self.code, self.lease.as_deref(), self.next_step());
            tracing::error!(code, lease, next, "{}", self.message);
        }
    }

    fn to_text(&self) -> String {
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let code = self.code;
        let mut text = format!("{red}error[{code}]{red:#}: {}\n", self.message);
        for detail in &self.details {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {detail}");
        }
        if let Some(next) = self.next_step() {
            let _ = writeln!(text, "  next: {next}");
        }
        let _ = writeln!(text, "  more: run `leasehold explain {code}`");
        text
    }

    fn to_json(&self) -> String {
        let value = serde_json::json!({
            "error": {
                "code": self.code,
                "message": self.message,
                "details": self.details,
                "next": self.next_step(),
                "exit_code": self.exit.0,
            },
        });
        format!("{value}\n")
    }
}

/// The error and its causes in one line, without saying anything twice.
fn in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            let _ = write!(text, ": {next}");
        }
        cause = error.source();
    }
    text
}

impl From<KeeperError> for Failure {
    fn from(error: KeeperError) -> Self {
        let code = error.code();
        let failure = match &error {
            KeeperError::NoSuchLease { lease } => Self::no_such_lease(lease.as_str()),
            KeeperError::CleanupUnconfirmed { retry_at, .. } => {
                let next = format!("it is tried again from {retry_at} on");
                let recover = "`leasehold recover` does so; nobody gets the sandbox".to_owned();
                Self::with_details(code, in_one_line(&error), vec![next, recover])
            }
            KeeperError::NotStarted(reason) => {
                let mut failure = Self::new(code, in_one_line(&error));
                if let Self::Error(error) = &mut failure {
                    error.exit = ExitCode::of_not_started(reason);
                }
                failure
            }
            _ => Self::new(code, in_one_line(&error)),
        };
        let mut failure = failure.about(error.lease());
        if let (Self::Error(told), KeeperError::Refused(_)) = (&mut failure, &error) {
            told.logged = true;
        }
        failure
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Self::new(error.code(), in_one_line(&error)).about(error.lease())
    }
}

/// A refusal that the keeper did not give, of what was only to be tried.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string()).about(Some(refusal.lease().as_str()))
    }
}

/// An error of writing the output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::bad_argument("standard output", error)
        }
    }
}

/// The failure of looking for a lease of which several could be meant.
pub(crate) fn ambiguous(prefix: &str, candidates: &[(LeaseId, String)], more: bool) -> Failure {
    let count =
        if more { format!("more than {}", candidates.len()) } else { candidates.len().to_string() };
    let message = format!("{count} leases begin with {prefix}: give more characters");
    let mut details: Vec<String> =
        candidates.iter().map(|(lease, what)| format!("{lease}  {what}")).collect();
    if more {
        details.push("…".to_owned());
    }
    Failure::with_details(codes::AMBIGUOUS_LEASE_ID, message, details)
}
