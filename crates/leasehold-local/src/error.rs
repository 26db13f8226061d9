//! What can go wrong on this machine, and what the keeper may conclude from it.

use leasehold_init::framing::FrameError;
use leasehold_ports::ProviderError;
use std::io;
use std::path::PathBuf;

/// Why a sandbox could not be made, used or ended.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// Another sandbox has the name.
    #[error("another sandbox has this name")]
    NameTaken,
    /// There is no such sandbox in this state directory.
    #[error("there is no such sandbox")]
    NotFound,
    /// The sandbox is being destroyed.
    #[error("the sandbox is being destroyed")]
    BeingDestroyed,
    /// The sandbox's init has ended, and with it every process; the sandbox can only be destroyed.
    #[error("the sandbox's init has ended; destroy the sandbox")]
    InitEnded,
    /// The sandbox's timer ended it, and with it every process; it can only be destroyed.
    #[error("the sandbox's time was over, and its timer ended it; destroy the sandbox")]
    TimerDue,
    /// Something in a request cannot be had here.
    #[error("{0}")]
    Unsuitable(String),
    /// A file or folder of the state directory.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A record is not what was written.
    #[error("the record {} is damaged", path.display())]
    DamagedRecord {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The state directory belongs to another user, or others may enter it.
    #[error("the state directory {} must belong to this user and have mode 0700", path.display())]
    ExposedDirectory {
        /// Where it is.
        path: PathBuf,
    },
    /// The init program could not be executed.
    #[error("cannot execute the init program {}", program.display())]
    InitProgram {
        /// Which program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The init was executed and failed before it served. Nothing of it is left.
    #[error("the sandbox's init cannot {step}: {message}")]
    Birth {
        /// What it was doing.
        step: String,
        /// The kernel's error number.
        errno: Option<i32>,
        /// The error in words.
        message: String,
    },
    /// The init ended, or something other than an init answered, before it served.
    #[error(
        "the init program ended without a report; it must call leasehold_init::run_if_requested first"
    )]
    NoReport,
    /// The control socket is served by a process that is not the recorded init. Nothing was sent to it.
    #[error("the control socket is served by another process than the sandbox's init")]
    Impostor,
    /// The control socket could not be reached. Nothing was sent.
    #[error("the sandbox's init cannot be reached")]
    Unreachable(#[source] io::Error),
    /// The connection broke after a request was sent: what came of it is not known.
    #[error("the connection to the sandbox's init broke")]
    ConnectionLost(#[source] io::Error),
    /// The init said something that this build does not understand.
    #[error("the sandbox's init gave an unexpected answer")]
    UnexpectedAnswer,
    /// A frame could not be made or read.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The deadline passed before anything had an effect.
    #[error("the deadline passed before the sandbox's init was reached")]
    TooLate,
    /// The deadline passed; what was asked may still happen.
    #[error("the deadline passed while {0}")]
    DeadlinePassed(&'static str),
    /// The kernel refused something.
    #[error("cannot {action}")]
    Kernel {
        /// What was being done.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl LocalError {
    pub(crate) fn kernel(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Kernel { action, source: errno.into() }
    }
}

/// Resources that run out and come back.
fn is_limit(errno: Option<i32>) -> bool {
    use rustix::io::Errno;
    [
        Errno::AGAIN,
        Errno::NOMEM,
        Errno::NOSPC,
        Errno::MFILE,
        Errno::NFILE,
        Errno::DQUOT,
        Errno::USERS,
    ]
    .iter()
    .any(|limit| errno == Some(limit.raw_os_error()))
}

/// The whole chain of an error in one line; the port's errors carry texts, not types.
pub(crate) fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl From<LocalError> for ProviderError {
    fn from(error: LocalError) -> Self {
        let message = in_words(&error);
        match &error {
            LocalError::NameTaken => Self::NameTaken,
            LocalError::NotFound => Self::NotFound,
            LocalError::BeingDestroyed => Self::Busy { message },
            // ENOSPC from the namespaces themselves is a setting (max_user_namespaces = 0), not a shortage.
            LocalError::Birth { step, errno, .. }
                if step == "make namespaces" || !is_limit(*errno) =>
            {
                Self::Invalid { message }
            }
            LocalError::Birth { .. } => Self::LimitReached { message },
            LocalError::Unsuitable(_)
            | LocalError::InitProgram { .. }
            | LocalError::NoReport
            | LocalError::ExposedDirectory { .. } => Self::Invalid { message },
            LocalError::File { source, .. } | LocalError::Kernel { source, .. }
                if is_limit(source.raw_os_error()) =>
            {
                Self::LimitReached { message }
            }
            LocalError::InitEnded
            | LocalError::TimerDue
            | LocalError::Impostor
            | LocalError::Unreachable(_)
            | LocalError::TooLate
            | LocalError::DamagedRecord { .. }
            | LocalError::File { .. }
            | LocalError::Kernel { .. } => {
                Self::Unreachable { message, source: Some(Box::new(error)) }
            }
            LocalError::ConnectionLost(_)
            | LocalError::UnexpectedAnswer
            | LocalError::Frame(_)
            | LocalError::DeadlinePassed(_) => {
                Self::NoAnswer { message, source: Some(Box::new(error)) }
            }
        }
    }
}
