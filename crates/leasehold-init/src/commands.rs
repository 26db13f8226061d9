//! The commands of this sandbox, running and ended: one id is started at most once.
//!
//! An ended command stays known until the fence rises above its grant, since until then a repeated `start`
//! must find it. What may not live here: sockets; a caller is a [`Caller`], to whom the server replies.

use crate::child::{FAILURE_BYTES, Failure, Spawned};
use crate::protocol::{Answer, End, NotStarted};
use rustix::io::Errno;
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many commands are remembered at once. An entry takes about 200 bytes.
const COMMAND_LIMIT: usize = 65_536;

/// Who waits for an answer: a connection and the serial of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) connection: u64,
    pub(crate) serial: u64,
}

/// An answer and who gets it.
pub(crate) type Answered = (Caller, Answer);

struct Command {
    pid: Pid,
    grant: u64,
    phase: Phase,
    end: Option<End>,
    waiting: Vec<Caller>,
}

enum Phase {
    /// The program does not run yet. Each caller learns what became of it; all but the first are repeats.
    Starting { progress: OwnedFd, callers: Vec<Caller> },
    /// The program runs or ran.
    Started,
    /// The program never ran.
    Failed(NotStarted),
}

/// All commands by id.
#[derive(Default)]
pub(crate) struct Commands {
    commands: BTreeMap<String, Command>,
    /// Main processes that have not been reaped.
    by_pid: BTreeMap<i32, String>,
    latest_grant: u64,
}

impl Commands {
    /// Whether the id was used; if so the caller is answered, now or when the start has come out.
    pub(crate) fn repeat(&mut self, id: &str, caller: Caller) -> Option<Option<Answered>> {
        let command = self.commands.get_mut(id)?;
        Some(match &mut command.phase {
            Phase::Starting { callers, .. } => {
                callers.push(caller);
                None
            }
            Phase::Started => Some((caller, started(command.pid, true))),
            Phase::Failed(reason) => Some((caller, Answer::NotStarted { reason: reason.clone() })),
        })
    }

    /// Whether no more can be remembered.
    pub(crate) fn is_full(&self) -> bool {
        self.commands.len() >= COMMAND_LIMIT
    }

    /// Adds a command that was forked.
    pub(crate) fn add(&mut self, id: String, grant: u64, spawned: Spawned, caller: Caller) {
        let Spawned { pid, progress } = spawned;
        self.latest_grant = self.latest_grant.max(grant);
        self.by_pid.insert(pid.as_raw_nonzero().get(), id.clone());
        let phase = Phase::Starting { progress, callers: vec![caller] };
        self.commands.insert(id, Command { pid, grant, phase, end: None, waiting: Vec::new() });
    }

    /// The pipes of the commands that are starting.
    pub(crate) fn starting(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.commands.iter().filter_map(|(id, command)| match &command.phase {
            Phase::Starting { progress, .. } => Some((id.as_str(), progress.as_fd())),
            _ => None,
        })
    }

    /// Looks how far a starting command has come, when its pipe is ready.
    pub(crate) fn progress(&mut self, id: &str) -> Vec<Answered> {
        let Some(command) = self.commands.get_mut(id) else { return Vec::new() };
        let Phase::Starting { progress, callers } = &mut command.phase else { return Vec::new() };
        let mut bytes = [0; FAILURE_BYTES];
        let failure = match rustix::io::read(&*progress, &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => return Vec::new(),
            // Closed without a word: the program runs, or the child was killed on its way, which counts as a
            // command that this signal ended.
            Ok(0) => None,
            Ok(FAILURE_BYTES) => Failure::from_bytes(bytes),
            Ok(_) | Err(_) => None,
        };
        let callers = std::mem::take(callers);
        let answer_for = |first: bool| match &failure {
            Some(failure) => Answer::NotStarted { reason: failure.reason() },
            None => started(command.pid, !first),
        };
        let answered = callers
            .iter()
            .enumerate()
            .map(|(index, caller)| (*caller, answer_for(index == 0)))
            .collect();
        command.phase = match failure {
            Some(failure) => Phase::Failed(failure.reason()),
            None => Phase::Started,
        };
        answered
    }

    /// The command whose main process this is, until it has been reaped.
    pub(crate) fn of_main_process(&self, pid: i32) -> Option<&str> {
        self.by_pid.get(&pid).map(String::as_str)
    }

    /// Whether a command has this id.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.commands.contains_key(id)
    }

    /// Notes that a process ended; says who waited for it. Processes that are no command's main one are orphans.
    pub(crate) fn reaped(&mut self, pid: i32, end: End) -> Vec<Answered> {
        let Some(command) = self.by_pid.remove(&pid).and_then(|id| self.commands.get_mut(&id))
        else {
            return Vec::new();
        };
        command.end = Some(end);
        command.waiting.drain(..).map(|caller| (caller, Answer::Ended { end })).collect()
    }

    /// Lets a caller wait for a command's end; `None` when there is no such command.
    pub(crate) fn wait(&mut self, id: &str, caller: Caller) -> Option<Option<Answered>> {
        let command = self.commands.get_mut(id)?;
        if let Some(end) = command.end {
            return Some(Some((caller, Answer::Ended { end })));
        }
        command.waiting.push(caller);
        Some(None)
    }

    /// The main process of a command if it has not been reaped, so that its id is certainly still its own.
    /// `None` when there is no such command.
    pub(crate) fn main_process(&self, id: &str) -> Option<Option<Pid>> {
        self.commands.get(id).map(|command| command.end.is_none().then_some(command.pid))
    }

    /// The latest grant of which a command was started; 0 before the first.
    pub(crate) const fn latest_grant(&self) -> u64 {
        self.latest_grant
    }

    /// How many main processes run.
    pub(crate) fn running(&self) -> usize {
        self.by_pid.len()
    }

    /// Forgets ended commands of grants below the fence, whose ids cannot be started any more.
    pub(crate) fn forget_below(&mut self, fence: u64) {
        self.commands.retain(|_, command| {
            command.end.is_none()
                || command.grant >= fence
                || matches!(command.phase, Phase::Starting { .. })
        });
    }

    /// Forgets that a connection waits.
    pub(crate) fn forget_caller(&mut self, connection: u64) {
        for id in self.by_pid.values() {
            if let Some(command) = self.commands.get_mut(id) {
                command.waiting.retain(|caller| caller.connection != connection);
            }
        }
    }
}

fn started(pid: Pid, repeated: bool) -> Answer {
    Answer::Started { pid: pid.as_raw_nonzero().get(), repeated }
}
