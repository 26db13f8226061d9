//! Commands in a sandbox: what is asked, what comes back, how it ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use leasehold_core::catalogue::codes;
use leasehold_core::{CommandId, Grant};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::provider::{Call, ProviderError};

/// Proves that a fence was written by this installation: a keyed digest of sandbox, marker and
/// grant, as lower-case hexadecimal. The sandbox's code is hostile and cannot make one.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FenceTag(pub String);

impl fmt::Debug for FenceTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FenceTag")
    }
}

/// The authenticated grant number kept inside a sandbox. A command that presents a lower one does
/// not start: the sandbox can check what a provider cannot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The lowest grant whose commands may start.
    pub grant: Grant,
    /// Who says so.
    pub tag: FenceTag,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Runs a program with arguments. No shell is added.
    Program(Vec<String>),
    /// Sends a file or a tree of the sandbox as its output: a transfer's stream, as
    /// `leasehold_archive::send` writes it. Runs as the sandbox's user and reads what that may read.
    /// What goes wrong stands in words in its error stream, and as kind in its exit code
    /// (`leasehold_archive::Trouble`); both are the word of a process in the sandbox.
    Send(Outgoing),
    /// Receives a transfer's stream as its input, and puts it where `cp -r` would. Fails as `Send`.
    Receive(Incoming),
}

/// Which files are sent, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// The file or directory inside the sandbox; relative to the command's directory.
    pub path: String,
    /// Patterns of what is left out, in the language of gitignore.
    pub exclude: Vec<String>,
    /// Whether links are sent as what they lead to, as long as that is inside the tree.
    pub follow_links: bool,
}

/// Where what comes is put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    /// The file or directory inside the sandbox; relative to the command's directory.
    pub path: String,
    /// The source's own name, under which it goes into a directory that exists; none means that the
    /// contents of a tree go to the path itself.
    pub name: Option<String>,
}

impl Work {
    /// What it says of itself where a program's name would stand.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Work::Program(argv) => argv.first().map_or("", String::as_str),
            Work::Send(_) => "a transfer out of the sandbox",
            Work::Receive(_) => "a transfer into the sandbox",
        }
    }
}

/// A command to be started.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// Its id. A repeated start with the same id is the same command, never a second one.
    pub id: CommandId,
    /// What it does.
    pub work: Work,
    /// The directory to start in, absolute inside the sandbox; none means the workspace.
    pub directory: Option<String>,
    /// Variables beside the sandbox's own. Values never reach an argument list, a log or a record.
    pub environment: BTreeMap<String, SecretString>,
    /// Whether input will be sent. If not, the command reads the end of its input at once.
    pub input: bool,
    /// The grant under which it may start.
    pub grant: Grant,
}

/// Which stream of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A piece of output, in the order in which it was read. The order *between* the two streams is
/// the provider's best effort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Of which stream.
    pub stream: StreamKind,
    /// The bytes, as they came: not whole lines, not whole characters.
    pub bytes: Bytes,
}

/// A piece of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessInput {
    /// Bytes for standard input.
    Bytes(Bytes),
    /// The end of standard input.
    End,
}

/// A signal, by its POSIX number on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signal(pub i32);

impl Signal {
    /// SIGINT.
    pub const INTERRUPT: Signal = Signal(2);
    /// SIGKILL.
    pub const KILL: Signal = Signal(9);
    /// SIGTERM.
    pub const TERMINATE: Signal = Signal(15);
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEnd {
    /// It exited, with this code (0 to 255).
    Exited(u8),
    /// A signal ended it.
    Signaled(Signal),
}

/// Why a command certainly did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStarted {
    /// There is no such program. Shells say 127.
    #[error("there is no program {program:?} in the sandbox")]
    NotFound {
        /// What was asked for.
        program: String,
    },
    /// The program cannot be executed. Shells say 126.
    #[error("{program:?} cannot be executed: {problem}")]
    NotExecutable {
        /// What was asked for.
        program: String,
        /// What the system said.
        problem: String,
    },
    /// The directory does not exist.
    #[error("there is no directory {directory:?} in the sandbox")]
    NoDirectory {
        /// What was asked for.
        directory: String,
    },
    /// The fence in the sandbox is above the command's grant.
    #[error("the sandbox's fence is at grant {fence}: this command's grant is no longer current")]
    StaleGrant {
        /// Where the fence stands.
        fence: Grant,
    },
}

impl NotStarted {
    /// Its code in the catalogue.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            NotStarted::NotFound { .. } => codes::PROGRAM_NOT_FOUND,
            NotStarted::NotExecutable { .. } => codes::PROGRAM_NOT_EXECUTABLE,
            NotStarted::NoDirectory { .. } => codes::NO_DIRECTORY,
            NotStarted::StaleGrant { .. } => codes::STALE_FENCE,
        }
    }
}

/// Why a start has no process to show.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It certainly did not start.
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
    /// The provider failed. [`ProviderError::is_definite`] tells whether it may have started.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// A command that was started.
///
/// Dropping it ends nothing by itself: the keeper ends commands through [`ProcessControl`].
pub struct RunningProcess {
    /// Its output. Bounded: a reader that stops makes the command wait. Ends when both streams have
    /// ended, or when the connection was lost; [`ProcessControl::wait`] tells which.
    pub output: mpsc::Receiver<Frame>,
    /// Its input; bounded. Nobody reads it if the request said that no input would be sent.
    pub input: mpsc::Sender<ProcessInput>,
    /// Signals, waiting, ending.
    pub control: Arc<dyn ProcessControl>,
}

impl fmt::Debug for RunningProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunningProcess").finish_non_exhaustive()
    }
}

/// Places in a command's output: bytes since its start, for each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutputOffsets {
    /// In standard output.
    pub output: u64,
    /// In standard error.
    pub error: u64,
}

/// A command that was started earlier, maybe by another process, with its output from a place on.
#[derive(Debug)]
pub struct AttachedProcess {
    /// The command. It takes no input.
    pub process: RunningProcess,
    /// Where its output begins. What lies between the place that was asked for and this one is not kept
    /// any more.
    pub from: OutputOffsets,
}

/// Power over one command.
#[async_trait]
pub trait ProcessControl: Send + Sync {
    /// Sends a signal to the command itself. No error if it has ended.
    async fn signal(&self, signal: Signal, call: &Call) -> Result<(), ProviderError>;

    /// Waits until the command has ended. May be called again, and by several.
    ///
    /// # Errors
    /// If the connection was lost before the end was learnt: the command's end is unknown then.
    async fn wait(&self) -> Result<ProcessEnd, ProviderError>;

    /// Ends the command and every process that it started, first politely, then not, and returns
    /// when that is confirmed.
    ///
    /// # Errors
    /// If it cannot be confirmed within the call's deadline.
    async fn terminate(&self, call: &Call) -> Result<(), ProviderError>;
}
