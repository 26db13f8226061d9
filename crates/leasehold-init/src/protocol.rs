//! What the manager and the init say to each other.
//!
//! Two conversations: the *birth* (a [`Setup`] on the first process's standard input, [`Report`]s on its
//! standard output), and the *control socket* (a [`Greeting`] from the init, then [`Call`]s, each answered
//! by one [`Reply`] with its serial, in any order). Types only; framing and sockets live elsewhere.
//!
//! Fields may be added with a default; a change of meaning raises [`PROTOCOL`], and the init keeps
//! understanding calls down to [`OLDEST_PROTOCOL`], since sandboxes outlive the manager that made them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the control protocol that this build speaks.
pub const PROTOCOL: u32 = 2;

/// The first version whose init keeps output: [`Start::keep_output`] and [`Request::Attach`].
pub const OUTPUT_PROTOCOL: u32 = 2;

/// The oldest version that an init of this build still understands.
pub const OLDEST_PROTOCOL: u32 = 1;

/// The control socket's name in the sandbox's directory.
pub const SOCKET_NAME: &str = "ctl.sock";

/// The file in the sandbox's directory that names its init (a `ProcessIdentity`), written before it runs.
pub const BIRTH_FILE: &str = "init.json";

/// The file in the sandbox's directory that holds marker and fence, out of the sandbox's reach.
pub const GUARD_FILE: &str = "guard.json";

/// The file in the sandbox's directory that says that its timer ended it (a [`TimerEnd`]).
pub const TIMER_FILE: &str = "timer.json";

/// The first [`PROTOCOL`] whose inits have a timer.
pub const TIMER_PROTOCOL: u32 = 2;

/// The sandbox's record; no init is born in a directory without one.
pub const RECORD_FILE: &str = "record.json";

/// The file whose presence says that the sandbox is being destroyed: no init is born any more.
pub const DESTROYING_FILE: &str = "destroying";

/// The file locked by whoever gives birth or destroys.
pub const LOCK_FILE: &str = "lock";

/// The folder that becomes the sandbox's `/workspace`.
pub const WORKSPACE_FOLDER: &str = "workspace";

/// The folder that becomes the sandbox's [`HOME`].
pub const HOME_FOLDER: &str = "home";

/// The folder that becomes the sandbox's `/tmp`.
pub const TEMPORARY_FOLDER: &str = "tmp";

/// The empty folder on which the root file system is put together.
pub const ROOT_FOLDER: &str = "root";

/// The working directory of commands unless they ask for another.
pub const WORKSPACE: &str = "/workspace";

/// The home directory inside a sandbox. It does not lie under `/home`: nothing of the host's is there, and
/// a program that looks for it shall find nothing rather than a look-alike.
pub const HOME: &str = "/sandbox-home";

/// The user and group id of commands inside a sandbox.
pub const INSIDE_ID: u32 = 1000;

/// The environment variable by which a command's processes are known.
pub const COMMAND_TAG: &str = "LEASEHOLD_COMMAND_ID";

/// What the first process needs to know. It runs in the sandbox's directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// The manager's [`PROTOCOL`].
    pub protocol: u32,
    /// The sandbox's id, told in every greeting.
    pub sandbox: String,
    /// The host name inside.
    pub host_name: String,
    /// The user and group on the host that [`INSIDE_ID`] stands for.
    pub outside: OutsideIds,
}

/// Who a sandbox's commands are on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideIds {
    /// The manager's own user and group: all that an ordinary user may map.
    Own {
        /// The manager's user id.
        user: u32,
        /// The manager's group id.
        group: u32,
    },
    /// A user and group that nothing else on the host has; the manager is root. Inside, root is mapped too,
    /// for the init and for the ownership of system files, but commands never become it.
    Separate {
        /// The user and group id on the host.
        id: u32,
    },
}

/// What is reported on the way to birth.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The init exists, and waits for its go-ahead.
    Born {
        /// Which process it is.
        init: crate::identity::ProcessIdentity,
    },
    /// The control socket listens.
    Ready,
    /// There will be no sandbox.
    Failed {
        /// What was being done, in words.
        step: String,
        /// The kernel's error number, where it gave one.
        errno: Option<i32>,
        /// The error in words.
        message: String,
    },
}

/// The first frame on every connection to the control socket, sent by the init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The init's [`PROTOCOL`].
    pub protocol: u32,
    /// The init's [`OLDEST_PROTOCOL`].
    pub oldest_protocol: u32,
    /// The sandbox's id.
    pub sandbox: String,
    /// The boot that it runs in.
    pub boot_id: String,
    /// The init's start time in clock ticks since boot.
    pub start_time: u64,
}

/// One request of the manager.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The protocol version that the caller speaks.
    pub protocol: u32,
    /// Comes back in the reply.
    pub serial: u64,
    /// What is asked.
    pub request: Request,
}

/// The answer to one [`Call`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The call's serial.
    pub serial: u64,
    /// What came of it.
    pub answer: Answer,
}

/// The number of a caller's grant with the tag that authenticates it to those who hold the secret.
///
/// The init compares numbers and keeps the tag; it cannot check the tag, and need not: the socket is out of
/// the sandbox's reach. The keeper checks the tag when it reads the fence back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The grant.
    pub grant: u64,
    /// Authenticates the grant.
    pub tag: String,
}

const fn everything() -> u64 {
    u64::MAX
}

/// What the manager can ask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Request {
    /// How the sandbox does. Answer: [`Answer::Status`].
    Status,
    /// Start a command; its standard input, output and error travel with the frame as three descriptors.
    /// Answer: [`Answer::Started`] or [`Answer::NotStarted`].
    Start(Start),
    /// Send a signal to a command's main process. Answer: [`Answer::Done`] or [`Answer::Refused`].
    Signal {
        /// The command's id.
        command: String,
        /// The signal's number.
        signal: i32,
    },
    /// Wait for a command's main process. Answer: [`Answer::Ended`], when it has ended.
    Wait {
        /// The command's id.
        command: String,
    },
    /// End everything that a command started: TERM, after the grace KILL, until two looks agree that
    /// nothing is left. Answer: [`Answer::Terminated`].
    Terminate {
        /// The command's id.
        command: String,
        /// Milliseconds between TERM and KILL; 0 kills at once.
        grace_ms: u64,
        /// Milliseconds after which it is given up as unconfirmed.
        limit_ms: u64,
    },
    /// Kill every process but the init until none is left. Answer: [`Answer::Done`], once that is so; or
    /// [`Answer::Refused`].
    Clean {
        /// The last grant that is over: once a command of a later one was started, nothing is killed.
        /// Managers that do not know of this ask for everything.
        #[serde(default = "everything")]
        over: u64,
    },
    /// Set the marker and the first fence. Answer: [`Answer::Done`] or [`Answer::Refused`].
    Prepare {
        /// What proves that this is the sandbox that the record means.
        marker: String,
        /// The first fence.
        fence: Fence,
    },
    /// Raise the fence; never lowers it. Answer: [`Answer::Done`] or [`Answer::Refused`].
    RaiseFence {
        /// The new fence.
        fence: Fence,
    },
    /// Read marker and fence back. Answer: [`Answer::Guard`].
    Inspect,
    /// Let the init end the sandbox by itself, no sooner than at this moment. It only moves later: an
    /// earlier one changes nothing. Answer: [`Answer::Done`] or [`Answer::Refused`].
    ExtendTimer {
        /// Milliseconds since boot, time asleep included; none means never.
        at_boot_ms: Option<u64>,
    },
    /// Read a command's output, from offsets on; two pipes for output and error travel with the frame as
    /// descriptors, and end where the output does. Since version 2. Answer: [`Answer::Attached`] or
    /// [`Answer::Refused`].
    Attach {
        /// The command's id.
        command: String,
        /// Where to begin.
        from: Offsets,
    },
}

/// Places in a command's output: bytes since its start, for each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offsets {
    /// In standard output.
    pub output: u64,
    /// In standard error.
    pub error: u64,
}

/// What is understood of a call that is of no known version.
#[derive(Debug, Clone, Deserialize)]
pub struct UnknownCall {
    /// The protocol version that the caller speaks.
    pub protocol: u32,
    /// Comes back in the refusal.
    pub serial: u64,
}

/// A command to start.
#[derive(Clone, Serialize, Deserialize)]
pub struct Start {
    /// Names the command; one id is started at most once.
    pub command: String,
    /// Program and arguments; empty for a transfer. A program without a slash is looked up in the
    /// command's `PATH`.
    pub argv: Vec<String>,
    /// Working directory inside the sandbox; [`WORKSPACE`] when absent.
    pub directory: Option<String>,
    /// Environment, on top of the sandbox's few defaults.
    pub environment: BTreeMap<String, String>,
    /// The grant under which it is started.
    pub grant: u64,
    /// Whether the init keeps what it writes, for [`Request::Attach`]; the descriptors for output and error
    /// are then its first readers. Since version 2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_output: bool,
    /// What is done instead of executing a program. An init that does not know of this refuses the
    /// start, since there is no program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<Transfer>,
}

/// Files to be sent or received by a child of the init, which runs as a command does but executes
/// nothing. It ends with 0, or with the exit status of a [`leasehold_archive::Trouble`] after a line of
/// words on its standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transfer", rename_all = "snake_case")]
pub enum Transfer {
    /// A file or tree, to standard output, by [`leasehold_archive::send`].
    Send {
        /// Which one; relative to the working directory.
        path: String,
        /// Patterns of what is left out.
        exclude: Vec<String>,
        /// Whether links are sent as what they lead to.
        follow_links: bool,
    },
    /// A file or tree from standard input, by [`leasehold_archive::receive`].
    Receive {
        /// Where it goes; relative to the working directory.
        path: String,
        /// The source's own name, for a directory that exists.
        name: Option<String>,
    },
}

impl std::fmt::Debug for Start {
    // Arguments and values may be secrets: only their number is told.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Start")
            .field("command", &self.command)
            .field("arguments", &self.argv.len())
            .field("environment", &self.environment.len())
            .field("grant", &self.grant)
            .field("transfer", &self.transfer.is_some())
            .finish_non_exhaustive()
    }
}

/// What the init answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Status`].
    Status {
        /// Processes besides the init.
        processes: u64,
        /// Commands whose main process runs.
        running_commands: u64,
        /// Whether a whole-tree kill is under way.
        cleaning: bool,
    },
    /// The command runs, or has run.
    Started {
        /// Its process id inside the sandbox.
        pid: i32,
        /// Whether an earlier call had started it; the descriptors of this call were then closed unused.
        repeated: bool,
    },
    /// The command does not run, and never did under this id.
    NotStarted {
        /// Why.
        reason: NotStarted,
    },
    /// How the command's main process ended.
    Ended {
        /// How.
        end: End,
    },
    /// What came of a termination.
    Terminated {
        /// Whether two looks agreed that nothing of the command is left.
        confirmed: bool,
    },
    /// To [`Request::Inspect`].
    Guard {
        /// The marker, once prepared.
        marker: Option<String>,
        /// The fence, once prepared.
        fence: Option<Fence>,
    },
    /// The output comes.
    Attached {
        /// Where it begins; what is missing from the place asked for is not kept any more.
        from: Offsets,
    },
    /// It is done.
    Done,
    /// It was not done, and changed nothing.
    Refused {
        /// Why.
        reason: Refusal,
    },
}

/// Why a command was provably not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum NotStarted {
    /// Its grant lies below the fence.
    StaleGrant {
        /// The fence's grant.
        fence: u64,
    },
    /// The program does not exist.
    NotFound,
    /// The program exists but cannot be executed.
    NotExecutable {
        /// The kernel's error number.
        errno: i32,
    },
    /// The working directory cannot be entered.
    Directory {
        /// The kernel's error number.
        errno: i32,
    },
    /// A whole-tree kill is under way.
    Cleaning,
    /// Too many commands were started under one grant for the init to remember them all.
    TooManyCommands,
    /// The request itself is impossible: no program, a NUL byte, descriptors missing.
    Invalid {
        /// What is wrong.
        detail: String,
    },
    /// The kernel refused a step before the program.
    Kernel {
        /// Which step.
        step: String,
        /// The kernel's error number.
        errno: i32,
    },
}

/// What an init whose timer came due writes down before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerEnd {
    /// When it was due, in milliseconds since boot.
    pub due_boot_ms: u64,
    /// When it ended the sandbox, in milliseconds since boot.
    pub ended_boot_ms: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It exited with this status.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Refusal {
    /// The caller's protocol version is not understood.
    Protocol,
    /// No command has this id.
    UnknownCommand,
    /// Nothing of what this command wrote is kept (any more).
    OutputNotKept,
    /// The request itself is impossible: descriptors missing, or of the wrong kind.
    Invalid {
        /// What is wrong.
        detail: String,
    },
    /// The command's main process has ended.
    Ended,
    /// The fence stands higher.
    StaleFence {
        /// The fence's grant.
        fence: u64,
    },
    /// Another marker was set before.
    MarkerDiffers,
    /// The guard could not be written down, so it was not changed either.
    NotWritten {
        /// The error in words.
        message: String,
    },
    /// A command of a later grant was started than the one that is over.
    LaterGrant {
        /// The latest.
        started: u64,
    },
    /// There is no such signal.
    NoSuchSignal,
    /// The kernel refused.
    Kernel {
        /// The kernel's error number.
        errno: i32,
    },
}
