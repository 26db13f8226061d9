//! From a request to a running program: the fork, and what the child does before it executes.
//!
//! The child reports a failure through a pipe that closes by itself when the program is executed. The init
//! never blocks on that pipe: hostile code can stop the child on its way, and would stop the init with it.

use crate::kernel::{self, Side};
use crate::protocol::{
    COMMAND_TAG, HOME, INSIDE_ID, NotStarted, OutsideIds, Start, Transfer, WORKSPACE,
};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Resource, Rlimit, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::collections::BTreeMap;
use std::ffi::{CString, NulError};
use std::os::fd::OwnedFd;

/// Where programs are looked for unless the request says otherwise.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How many descriptors a program may have until it asks for more: the limit that Linux starts with.
const USUAL_DESCRIPTORS: u64 = 1024;

/// A child on its way to its program.
pub(crate) struct Spawned {
    /// Its process id inside the sandbox.
    pub(crate) pid: Pid,
    /// Closes when the program runs, or brings a [`Failure`] first.
    pub(crate) progress: OwnedFd,
}

/// The standard streams of a command.
pub(crate) struct Streams(pub(crate) [OwnedFd; 3]);

/// Everything that the child needs, made before the fork.
struct Program {
    transfer: Option<Transfer>,
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
    streams: Streams,
    becomes_other_user: bool,
}

/// Forks a child that executes the command.
pub(crate) fn spawn(
    start: Start,
    streams: Streams,
    outside: OutsideIds,
) -> Result<Spawned, NotStarted> {
    let becomes_other_user = matches!(outside, OutsideIds::Separate { .. });
    let program = Program::new(start, streams, becomes_other_user)?;
    let (progress, report) = rustix::pipe::pipe_with(
        rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK,
    )
    .map_err(|error| kernel_refused("make a pipe", error))?;
    match kernel::fork() {
        Ok(Side::Parent(pid)) => Ok(Spawned { pid, progress }),
        Ok(Side::Child) => {
            let failure = program.execute();
            // The pipe is empty and has room; a reader that is gone is the init, and with it this process.
            let _ = rustix::io::write(&report, &failure.to_bytes());
            kernel::exit_now(127)
        }
        Err(error) => Err(NotStarted::Kernel {
            step: "fork".to_owned(),
            errno: error.raw_os_error().unwrap_or(0),
        }),
    }
}

impl Program {
    fn new(start: Start, streams: Streams, becomes_other_user: bool) -> Result<Self, NotStarted> {
        let environment = environment_of(&start);
        let name = match (start.argv.first(), &start.transfer) {
            (Some(name), None) if !name.is_empty() => name,
            (None, Some(_)) => "",
            (Some(_), Some(_)) => return Err(invalid("a program and a transfer")),
            _ => return Err(invalid("no program")),
        };
        let path = environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        if environment.keys().any(|name| name.is_empty() || name.contains('=')) {
            return Err(invalid("an environment name that is empty or holds '='"));
        }
        Ok(Self {
            transfer: start.transfer,
            candidates: c_strings(candidates(name, path)).map_err(|_| nul())?,
            directory: CString::new(start.directory.as_deref().unwrap_or(WORKSPACE))
                .map_err(|_| nul())?,
            environment: c_strings(
                environment.iter().map(|(name, value)| format!("{name}={value}")),
            )
            .map_err(|_| nul())?,
            arguments: c_strings(start.argv).map_err(|_| nul())?,
            streams,
            becomes_other_user,
        })
    }

    /// In the child: becomes the command. Returns only with what failed.
    fn execute(self) -> Failure {
        if let Err(failure) = self.prepare() {
            return failure;
        }
        if let Some(transfer) = &self.transfer {
            return match crate::files::perform(transfer) {
                Ok(never) => match never {},
                Err(error) => Failure { stage: Stage::Descriptors, errno: errno_of(error) },
            };
        }
        let mut last = Errno::NOENT;
        for candidate in &self.candidates {
            // Returns only with an error.
            let error = match nix::unistd::execve(candidate, &self.arguments, &self.environment) {
                Ok(never) => match never {},
                Err(error) => Errno::from_raw_os_error(error as i32),
            };
            match error {
                // As a shell does: go on along PATH, but remember that something was found there.
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::ACCESS => last = error,
                _ => return Failure { stage: Stage::Execute, errno: error },
            }
        }
        Failure { stage: Stage::Execute, errno: last }
    }

    fn prepare(&self) -> Result<(), Failure> {
        use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
        let at = |stage| move |errno| Failure { stage, errno };
        kernel::reset_signals();
        rustix::process::setsid().map_err(at(Stage::Session))?;
        let [input, output, error] = &self.streams.0;
        dup2_stdin(input)
            .and_then(|()| dup2_stdout(output))
            .and_then(|()| dup2_stderr(error))
            .map_err(at(Stage::Streams))?;
        // The init has more than the usual limit, and programs that go by it would suffer.
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let usual =
            Some(limit.maximum.map_or(USUAL_DESCRIPTORS, |most| most.min(USUAL_DESCRIPTORS)));
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: usual, ..limit })
            .map_err(at(Stage::Limits))?;
        // A core dump is written by the host, to where the host says, with all secrets in it.
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(Resource::Core, none).map_err(at(Stage::Limits))?;
        rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
        self.drop_privileges().map_err(at(Stage::Privileges))?;
        kernel::close_descriptors_on_exec().map_err(errno_of).map_err(at(Stage::Descriptors))?;
        // As the command's user, who may not enter what only the init may.
        rustix::process::chdir(&self.directory).map_err(at(Stage::Directory))
    }

    fn drop_privileges(&self) -> Result<(), Errno> {
        rustix::thread::set_no_new_privs(true)?;
        rustix::thread::clear_ambient_capability_set()?;
        kernel::empty_bounding_set().map_err(errno_of)?;
        if self.becomes_other_user {
            rustix::thread::set_thread_groups(&[])?;
            let (user, group) = (Uid::from_raw(INSIDE_ID), Gid::from_raw(INSIDE_ID));
            rustix::thread::set_thread_res_gid(group, group, group)?;
            rustix::thread::set_thread_res_uid(user, user, user)?;
        }
        let none = CapabilitySet::empty();
        rustix::thread::set_capabilities(
            None,
            CapabilitySets { effective: none, permitted: none, inheritable: none },
        )
    }
}

fn environment_of(start: &Start) -> BTreeMap<String, String> {
    let mut environment: BTreeMap<String, String> = [
        ("PATH", DEFAULT_PATH),
        ("HOME", HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    environment.extend(start.environment.clone());
    environment.insert(COMMAND_TAG.to_owned(), start.command.clone());
    environment
}

fn candidates(name: &str, path: &str) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    path.split(':')
        .map(|folder| format!("{}/{name}", if folder.is_empty() { "." } else { folder }))
        .collect()
}

fn c_strings(texts: impl IntoIterator<Item = String>) -> Result<Vec<CString>, NulError> {
    texts.into_iter().map(CString::new).collect()
}

fn invalid(detail: &str) -> NotStarted {
    NotStarted::Invalid { detail: detail.to_owned() }
}

fn nul() -> NotStarted {
    invalid("a NUL byte")
}

fn kernel_refused(step: &str, error: Errno) -> NotStarted {
    NotStarted::Kernel { step: step.to_owned(), errno: error.raw_os_error() }
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Where a child failed, as it stands in the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    Session,
    Streams,
    Limits,
    Privileges,
    Descriptors,
    Directory,
    Execute,
}

const STAGES: [(Stage, &str); 7] = [
    (Stage::Session, "make a session"),
    (Stage::Streams, "take the streams"),
    (Stage::Limits, "set limits"),
    (Stage::Privileges, "drop privileges"),
    (Stage::Descriptors, "close descriptors"),
    (Stage::Directory, "enter the directory"),
    (Stage::Execute, "execute the program"),
];

/// What stopped a child before its program ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    stage: Stage,
    errno: Errno,
}

/// Bytes of a [`Failure`] in the pipe.
pub(crate) const FAILURE_BYTES: usize = 5;

impl Failure {
    fn to_bytes(self) -> [u8; FAILURE_BYTES] {
        let [a, b, c, d] = self.errno.raw_os_error().to_be_bytes();
        [self.stage as u8, a, b, c, d]
    }

    /// Reads a failure back; `None` for bytes that no child of ours writes.
    pub(crate) fn from_bytes(bytes: [u8; FAILURE_BYTES]) -> Option<Self> {
        let [stage, errno @ ..] = bytes;
        let (stage, _) = STAGES.get(usize::from(stage))?;
        Some(Self { stage: *stage, errno: Errno::from_raw_os_error(i32::from_be_bytes(errno)) })
    }

    /// What the manager is told.
    pub(crate) fn reason(self) -> NotStarted {
        let errno = self.errno.raw_os_error();
        match self.stage {
            Stage::Execute if self.errno == Errno::NOENT => NotStarted::NotFound,
            Stage::Execute => NotStarted::NotExecutable { errno },
            Stage::Directory => NotStarted::Directory { errno },
            stage => {
                let step = STAGES
                    .iter()
                    .find(|(other, _)| *other == stage)
                    .map_or("start", |(_, step)| step);
                NotStarted::Kernel { step: step.to_owned(), errno }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_survive_the_pipe() {
        for (stage, _) in STAGES {
            let failure = Failure { stage, errno: Errno::NOENT };
            assert_eq!(Failure::from_bytes(failure.to_bytes()), Some(failure));
        }
        assert_eq!(Failure::from_bytes([250, 0, 0, 0, 2]), None);
    }

    #[test]
    fn a_name_is_looked_up_in_the_path_and_a_path_is_not() {
        assert_eq!(candidates("a/b", "/x"), ["a/b"]);
        assert_eq!(candidates("b", "/x::/y"), ["/x/b", "./b", "/y/b"]);
    }

    #[test]
    fn nobody_can_take_over_the_tag_of_a_command() {
        let start = Start {
            command: "true-id".into(),
            argv: vec!["x".into()],
            directory: None,
            environment: [
                (COMMAND_TAG.to_owned(), "other".to_owned()),
                ("PATH".into(), "/p".into()),
            ]
            .into(),
            grant: 0,
            keep_output: false,
            transfer: None,
        };
        let environment = environment_of(&start);
        assert_eq!(environment[COMMAND_TAG], "true-id");
        assert_eq!(environment["PATH"], "/p");
        assert_eq!(environment["HOME"], HOME);
    }
}
