//! The commands that this node runs, or may run: what a release has to end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use leasehold_core::{CommandId, LeaseId};
use leasehold_ports::{Call, ProcessControl};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::lock;

/// All commands of this node, by lease.
#[derive(Default)]
pub(crate) struct Registry {
    leases: Mutex<BTreeMap<LeaseId, LeaseCommands>>,
    changed: Notify,
}

#[derive(Default)]
struct LeaseCommands {
    commands: BTreeMap<CommandId, Option<Running>>,
    /// A command's start or end was never learnt.
    in_doubt: bool,
    /// Cancelled when the gate is closed: streams end, and nothing more starts.
    gate: CancellationToken,
}

/// A command that was started.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) control: Arc<dyn ProcessControl>,
    pub(crate) call: Call,
}

/// What a closed gate leaves to be ended.
pub(crate) enum Remaining {
    /// Nothing of this node runs. `definite` if each end is certain.
    Nothing { definite: bool },
    /// These run.
    Commands(Vec<Running>),
    /// A start is under way; [`Registry::changed`] tells when it is not any more.
    Starting,
}

/// A command's place in the registry, from before its start on. Dropped without
/// [`Registration::ended`] it leaves a doubt: nobody learnt the command's end.
pub(crate) struct Registration {
    registry: Arc<Registry>,
    lease: LeaseId,
    command: CommandId,
    gate: CancellationToken,
    ended: bool,
}

impl Registry {
    /// Registers a command that is about to start.
    pub(crate) fn register(self: &Arc<Self>, lease: &LeaseId, command: &CommandId) -> Registration {
        let mut leases = lock(&self.leases);
        let commands = leases.entry(lease.clone()).or_default();
        commands.commands.insert(command.clone(), None);
        Registration {
            registry: Arc::clone(self),
            lease: lease.clone(),
            command: command.clone(),
            gate: commands.gate.clone(),
            ended: false,
        }
    }

    /// Ends the streams of the lease's commands here, and lets nothing more start.
    pub(crate) fn close_gate(&self, lease: &LeaseId) {
        if let Some(commands) = lock(&self.leases).get(lease) {
            commands.gate.cancel();
        }
    }

    /// What is left to be ended behind a closed gate.
    pub(crate) fn remaining(&self, lease: &LeaseId) -> Remaining {
        let leases = lock(&self.leases);
        let Some(commands) = leases.get(lease) else {
            return Remaining::Nothing { definite: true };
        };
        if commands.commands.values().any(Option::is_none) {
            return Remaining::Starting;
        }
        let running: Vec<Running> = commands.commands.values().flatten().cloned().collect();
        if running.is_empty() {
            Remaining::Nothing { definite: !commands.in_doubt }
        } else {
            Remaining::Commands(running)
        }
    }

    /// Takes note of commands that have ended while nobody was waiting for them.
    pub(crate) fn reap(&self, lease: &LeaseId) {
        let running: Vec<(CommandId, Running)> = lock(&self.leases)
            .get(lease)
            .into_iter()
            .flat_map(|commands| &commands.commands)
            .filter_map(|(id, running)| Some((id.clone(), running.clone()?)))
            .collect();
        for (id, running) in running {
            let Some(end) = running.control.wait().now_or_never() else { continue };
            if let Some(commands) = lock(&self.leases).get_mut(lease)
                && commands.commands.remove(&id).is_some()
            {
                commands.in_doubt |= end.is_err();
            }
        }
    }

    /// Forgets the lease's commands; whether every end was certain.
    pub(crate) fn forget(&self, lease: &LeaseId) -> bool {
        lock(&self.leases).remove(lease).is_none_or(|commands| !commands.in_doubt)
    }

    /// Leases on which nothing runs any more, but on which this node is recorded.
    pub(crate) fn idle_leases(&self) -> Vec<LeaseId> {
        lock(&self.leases)
            .iter()
            .filter(|(_, commands)| commands.commands.is_empty())
            .map(|(lease, _)| lease.clone())
            .collect()
    }

    /// Whether nothing of this node runs, or starts, on the lease.
    pub(crate) fn is_idle(&self, lease: &LeaseId) -> bool {
        lock(&self.leases).get(lease).is_none_or(|commands| commands.commands.is_empty())
    }

    /// Leases with commands here.
    pub(crate) fn leases(&self) -> Vec<LeaseId> {
        lock(&self.leases).keys().cloned().collect()
    }

    /// Resolves at the next change. Made before looking, it misses none.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }
}

impl Registration {
    /// Cancelled when the gate closes.
    pub(crate) fn gate(&self) -> &CancellationToken {
        &self.gate
    }

    /// The command was started.
    pub(crate) fn started(&self, running: Running) {
        if let Some(commands) = lock(&self.registry.leases).get_mut(&self.lease) {
            commands.commands.insert(self.command.clone(), Some(running));
        }
        self.registry.changed.notify_waiters();
    }

    /// The command's end, or that it never started, is certain.
    pub(crate) fn ended(&mut self) {
        self.ended = true;
        self.leave(false);
    }

    /// Nobody will learn whether it runs.
    pub(crate) fn in_doubt(&mut self) {
        self.ended = true;
        self.leave(true);
    }

    fn leave(&self, in_doubt: bool) {
        if let Some(commands) = lock(&self.registry.leases).get_mut(&self.lease)
            && commands.commands.remove(&self.command).is_some()
        {
            commands.in_doubt |= in_doubt;
        }
        self.registry.changed.notify_waiters();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let started = lock(&self.registry.leases)
            .get(&self.lease)
            .and_then(|commands| commands.commands.get(&self.command).map(Option::is_some));
        // A command that was started stays registered: a release ends it through its control. A
        // start whose answer nobody waits for any more is a doubt.
        if started == Some(false) {
            self.leave(true);
        }
    }
}
