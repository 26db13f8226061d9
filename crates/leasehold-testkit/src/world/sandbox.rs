//! A simulated sandbox, and the processes in it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::{
    AccountId, BirthFingerprint, CommandId, Grant, Marker, SandboxId, SandboxName,
};
use leasehold_ports::{Fence, Frame, ObservedState, ProcessEnd, Signal};
use tokio::sync::Notify;

/// Who had a sandbox made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A create call of a keeper.
    Keeper,
    /// Somebody else with the same account. A keeper may not touch it.
    Stranger,
}

/// A process that no command may outlive, or a child that may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SimulatedProcess {
    /// The command that started it; none for the sandbox's own, the baseline.
    pub(crate) command: Option<CommandId>,
    /// When it ends by itself, in microseconds of the run.
    pub(crate) ends_at: Option<u64>,
    /// Whether only the end of the sandbox ends it.
    pub(crate) stubborn: bool,
}

impl SimulatedProcess {
    fn is_alive(&self, now: u64) -> bool {
        self.ends_at.is_none_or(|end| end > now)
    }
}

#[derive(Clone, Copy, Debug)]
struct CommandEnding {
    at: Option<u64>,
    how: ProcessEnd,
}

/// A command that was started, shared with everybody who waits for it.
#[derive(Debug)]
pub(crate) struct SimulatedCommand {
    pub(crate) id: CommandId,
    pub(crate) frames: Vec<Frame>,
    pub(crate) stubborn: bool,
    pub(crate) ignores_terminate: bool,
    pub(crate) echoes_input: bool,
    ending: Mutex<CommandEnding>,
    pub(crate) ended: Notify,
}

impl SimulatedCommand {
    pub(crate) fn new(
        id: CommandId,
        frames: Vec<Frame>,
        ends_at: Option<u64>,
        how: ProcessEnd,
    ) -> Self {
        Self {
            id,
            frames,
            stubborn: false,
            ignores_terminate: false,
            echoes_input: false,
            ending: Mutex::new(CommandEnding { at: ends_at, how }),
            ended: Notify::new(),
        }
    }

    fn ending(&self) -> MutexGuard<'_, CommandEnding> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it ends, as far as is known.
    pub(crate) fn ends_at(&self) -> Option<u64> {
        self.ending().at
    }

    /// How it ended, if it has by then.
    pub(crate) fn end(&self, now: u64) -> Option<ProcessEnd> {
        let ending = self.ending();
        ending.at.is_some_and(|at| at <= now).then_some(ending.how)
    }

    fn end_by(&self, signal: Signal, now: u64) {
        self.end_as(ProcessEnd::Signaled(signal), now);
    }

    fn end_as(&self, how: ProcessEnd, now: u64) {
        {
            let mut ending = self.ending();
            if ending.at.is_some_and(|at| at <= now) {
                return;
            }
            *ending = CommandEnding { at: Some(now), how };
        }
        self.ended.notify_waiters();
    }
}

/// A sandbox as it truly is.
#[derive(Debug)]
pub struct SimulatedSandbox {
    /// The provider's id.
    pub id: SandboxId,
    /// What tells it apart from another with the same id.
    pub birth: BirthFingerprint,
    /// Its name.
    pub name: SandboxName,
    /// Whose it is.
    pub account: AccountId,
    /// Who had it made.
    pub origin: Origin,
    /// What is written inside as its marker.
    pub marker: Option<Marker>,
    /// The fence inside.
    pub fence: Option<Fence>,
    pub(crate) created_micros: u64,
    pub(crate) failed: bool,
    /// When its timer ends it, in microseconds of the run; none before it is first set.
    pub(crate) timer: Option<u64>,
    pub(crate) destroying_from: Option<u64>,
    pub(crate) gone_from: Option<u64>,
    /// The latest grant of which a command was started.
    pub(crate) latest_grant: Grant,
    pub(crate) processes: Vec<SimulatedProcess>,
    pub(crate) commands: Vec<Arc<SimulatedCommand>>,
}

/// What a read sees that looks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    NotYet,
    Present(ObservedState),
    Gone { for_micros: u64 },
}

impl SimulatedSandbox {
    pub(crate) fn view(&self, at: u64) -> View {
        if at < self.created_micros {
            return View::NotYet;
        }
        match self.gone_from {
            Some(gone) if gone <= at => return View::Gone { for_micros: at - gone },
            _ => {}
        }
        View::Present(if self.destroying_from.is_some_and(|from| from <= at) {
            ObservedState::Destroying
        } else if self.failed {
            ObservedState::Failed
        } else {
            ObservedState::Running
        })
    }

    /// Whether it exists at `now`: while it is being removed it does.
    #[must_use]
    pub fn exists(&self, now: u64) -> bool {
        self.gone_from.is_none_or(|gone| gone > now)
    }

    /// Whether commands can be started in it.
    pub(crate) fn is_usable(&self, now: u64) -> bool {
        self.view(now) == View::Present(ObservedState::Running)
    }

    /// Commands whose processes run at `now`: nothing may, when a new grant is given.
    pub fn running_commands(&self, now: u64) -> impl Iterator<Item = &CommandId> {
        self.processes
            .iter()
            .filter(move |process| process.is_alive(now))
            .filter_map(|process| process.command.as_ref())
    }

    pub(crate) fn command(&self, id: &CommandId) -> Option<&Arc<SimulatedCommand>> {
        self.commands.iter().find(|command| &command.id == id)
    }

    /// Ends everything of one command, or of all. False if something does not end.
    pub(crate) fn end_commands(&mut self, only: Option<&CommandId>, now: u64) -> bool {
        let concerns = |command: &CommandId| only.is_none_or(|only| only == command);
        for process in &mut self.processes {
            let ours = process.command.as_ref().is_some_and(concerns);
            if ours && !process.stubborn && process.is_alive(now) {
                process.ends_at = Some(now);
            }
        }
        for command in self.commands.iter().filter(|command| concerns(&command.id)) {
            if !command.stubborn {
                command.end_by(Signal::KILL, now);
            }
        }
        let left = self.running_commands(now).any(concerns);
        !left
    }

    /// A command that reads its input has read the end of it.
    pub(crate) fn input_ended(&mut self, id: &CommandId, now: u64) {
        let Some(command) = self.command(id).cloned() else { return };
        if command.ends_at().is_none() && !command.stubborn {
            command.end_as(ProcessEnd::Exited(0), now);
            self.end_first_process(id, now);
        }
    }

    /// The first process of a command is the command itself.
    fn end_first_process(&mut self, id: &CommandId, now: u64) {
        let first = self.processes.iter_mut().find(|process| process.command.as_ref() == Some(id));
        if let Some(process) = first.filter(|process| process.is_alive(now)) {
            process.ends_at = Some(now);
        }
    }

    /// One signal to the command itself, not to its children.
    pub(crate) fn signal(&mut self, id: &CommandId, signal: Signal, now: u64) {
        let Some(command) = self.command(id).cloned() else { return };
        if command.stubborn || (command.ignores_terminate && signal != Signal::KILL) {
            return;
        }
        command.end_by(signal, now);
        self.end_first_process(id, now);
    }

    /// Its timer ends everything in it, the stubborn too. It is still there, and of no use.
    pub(crate) fn end_by_timer(&mut self, at: u64) {
        self.failed = true;
        self.end_everything(at);
    }

    /// It is being removed: nothing runs in it any more.
    pub(crate) fn begin_removal(&mut self, now: u64, gone_from: u64) {
        self.destroying_from.get_or_insert(now);
        self.gone_from = Some(gone_from);
        self.end_everything(now);
    }

    fn end_everything(&mut self, now: u64) {
        for process in self.processes.iter_mut().filter(|process| process.is_alive(now)) {
            process.ends_at = Some(now);
        }
        for command in &self.commands {
            command.end_by(Signal::KILL, now);
        }
    }

    pub(crate) fn raise_fence(&mut self, fence: &Fence) {
        if self.fence.as_ref().is_none_or(|standing| standing.grant < fence.grant) {
            self.fence = Some(fence.clone());
        }
    }
}
