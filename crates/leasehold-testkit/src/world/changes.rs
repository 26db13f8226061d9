//! What calls change, and what happens by itself.

use std::sync::Arc;

use leasehold_core::{
    AccountId, BirthFingerprint, CommandId, Evidence, Grant, Marker, Pin, SandboxId, SandboxName,
};
use leasehold_ports::{
    CommandRequest, Created, Fence, FenceTag, NotStarted, Preparation, ProviderError, Removal,
    Signal, StartError, Work,
};

use super::programs::Program;
use super::reads::micros;
use super::sandbox::{SimulatedCommand, SimulatedProcess};
use super::{GroundTruth, Mutation, Origin, SimulatedSandbox, World};
use crate::faults::Fault;

/// The grant of a fence that a sandbox's own code writes.
pub(crate) const HOSTILE_GRANT: u64 = 1_000_000;

impl World {
    pub(crate) fn create(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        name: &SandboxName,
        fault: Option<Fault>,
    ) -> Result<Created, ProviderError> {
        let taken = truth.existing().any(|other| &other.name == name);
        if self.settings.capabilities.unique_names && taken {
            return Err(ProviderError::NameTaken);
        }
        let recycle = fault == Some(Fault::RecycledId);
        let sandbox = self.new_sandbox(truth, account, name.clone(), Origin::Keeper, recycle);
        let created = Created { sandbox: sandbox.id.clone(), birth: sandbox.birth.clone() };
        self.journal.note(format_args!("world made {} {name}", created.sandbox));
        truth.sandboxes.push(sandbox);
        if let Some(sandbox) = truth.sandboxes.last() {
            self.observed(truth, &Mutation::Created { sandbox });
        }
        Ok(created)
    }

    #[expect(clippy::expect_used, reason = "texts made of letters and digits are identifiers")]
    fn new_sandbox(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        name: SandboxName,
        origin: Origin,
        recycle: bool,
    ) -> SimulatedSandbox {
        let number = truth.next_number;
        truth.next_number += 1;
        let recycled = recycle.then(|| self.id_to_recycle(truth, account)).flatten();
        let id = recycled
            .unwrap_or_else(|| SandboxId::new(format!("sb-{number}")).expect("an identifier"));
        let init = SimulatedProcess { command: None, ends_at: None, stubborn: false };
        SimulatedSandbox {
            id,
            birth: BirthFingerprint::new(format!("birth-{number}")).expect("an identifier"),
            name,
            account: account.clone(),
            origin,
            marker: None,
            fence: None,
            created_micros: truth.now,
            failed: false,
            timer: None,
            destroying_from: None,
            gone_from: None,
            latest_grant: Grant(0),
            processes: vec![init],
            commands: Vec::new(),
        }
    }

    /// An id whose sandbox is long gone, and which no other has now.
    fn id_to_recycle(&self, truth: &mut GroundTruth, account: &AccountId) -> Option<SandboxId> {
        if !self.settings.facts.recycles_ids {
            return None;
        }
        let after = micros(self.settings.recycles_after);
        let now = truth.now;
        let free: Vec<SandboxId> = truth
            .sandboxes
            .iter()
            .filter(|old| old.gone_from.is_some_and(|gone| gone + after <= now))
            .filter(|old| &old.account == account && truth.find(account, &old.id).is_err())
            .map(|old| old.id.clone())
            .collect();
        truth.stream.pick(&free).cloned()
    }

    /// Somebody else with the same account makes a sandbox; under an id that was used before, if
    /// the provider gives ids again and one is free.
    #[expect(clippy::expect_used, reason = "texts made of letters and digits are identifiers")]
    pub fn stranger_creates(&self) -> SandboxId {
        let mut truth = self.truth();
        let number = truth.next_number;
        let name = SandboxName::new(format!("stranger-{number}")).expect("an identifier");
        let account = self.settings.home.account.clone();
        let sandbox = self.new_sandbox(&mut truth, &account, name, Origin::Stranger, true);
        let id = sandbox.id.clone();
        self.journal.note(format_args!("world a stranger made {id}"));
        truth.sandboxes.push(sandbox);
        id
    }

    /// A sandbox that the keeper made vanishes by itself; which one is drawn.
    pub fn one_vanishes(&self) {
        let mut truth = self.truth();
        let ours: Vec<SandboxId> = truth
            .existing()
            .filter(|sandbox| sandbox.origin == Origin::Keeper)
            .map(|sandbox| sandbox.id.clone())
            .collect();
        let account = self.settings.home.account.clone();
        if let Some(id) = truth.stream.pick(&ours).cloned() {
            self.vanish(&mut truth, &account, &id);
        }
    }

    pub(crate) fn vanish(&self, truth: &mut GroundTruth, account: &AccountId, id: &SandboxId) {
        let now = truth.now;
        let Ok(found) = truth.find(account, id) else { return };
        truth.sandboxes[found].begin_removal(now, now);
        self.journal.note(format_args!("world {id} vanished"));
    }

    pub(crate) fn fail(&self, truth: &mut GroundTruth, account: &AccountId, id: &SandboxId) {
        let Ok(found) = truth.find(account, id) else { return };
        truth.sandboxes[found].failed = true;
        self.journal.note(format_args!("world {id} failed"));
    }

    /// The code in the sandbox writes a marker of its own.
    #[expect(clippy::expect_used, reason = "a constant that is an identifier")]
    pub(crate) fn tamper_marker(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
    ) {
        let Ok(found) = truth.find(account, id) else { return };
        truth.sandboxes[found].marker = Some(Marker::new("tampered").expect("an identifier"));
        self.journal.note(format_args!("world {id} tampered with its marker"));
    }

    /// The code in the sandbox writes a fence of its own.
    pub(crate) fn raise_hostile_fence(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
    ) {
        let Ok(found) = truth.find(account, id) else { return };
        let hostile = Fence { grant: Grant(HOSTILE_GRANT), tag: FenceTag("00".repeat(32)) };
        truth.sandboxes[found].fence = Some(hostile);
        self.journal.note(format_args!("world {id} raised a fence of its own"));
    }

    fn usable(
        &self,
        truth: &GroundTruth,
        account: &AccountId,
        id: &SandboxId,
    ) -> Result<usize, ProviderError> {
        let found = truth.find(account, id)?;
        if truth.sandboxes[found].is_usable(truth.now) {
            Ok(found)
        } else {
            Err(ProviderError::Busy { message: "not running".to_owned() })
        }
    }

    pub(crate) fn prepare(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
        preparation: &Preparation,
    ) -> Result<(), ProviderError> {
        let found = self.usable(truth, account, id)?;
        let sandbox = &mut truth.sandboxes[found];
        sandbox.marker = Some(preparation.marker.clone());
        sandbox.raise_fence(&preparation.fence);
        self.observed(truth, &Mutation::Prepared { sandbox: &truth.sandboxes[found] });
        Ok(())
    }

    pub(crate) fn raise_fence(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
        fence: &Fence,
    ) -> Result<(), ProviderError> {
        let found = self.usable(truth, account, id)?;
        truth.sandboxes[found].raise_fence(fence);
        self.observed(truth, &Mutation::FenceRaised { sandbox: &truth.sandboxes[found] });
        Ok(())
    }

    /// Lets the sandbox end at `end`, in microseconds of the run, unless it would end later already.
    pub(crate) fn extend_timer(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
        end: u64,
    ) -> Result<(), ProviderError> {
        let found = self.usable(truth, account, id)?;
        let timer = &mut truth.sandboxes[found].timer;
        *timer = Some(timer.map_or(end, |standing| standing.max(end)));
        Ok(())
    }

    /// Ends what timers have ended by now.
    pub(super) fn let_timers_end(&self, truth: &mut GroundTruth) {
        let now = truth.now;
        for found in 0..truth.sandboxes.len() {
            let sandbox = &mut truth.sandboxes[found];
            let Some(at) = sandbox.timer.filter(|at| *at <= now) else { continue };
            sandbox.timer = None;
            if sandbox.destroying_from.is_none() && sandbox.exists(now) {
                sandbox.end_by_timer(at);
                self.journal.note(format_args!("world the timer of {} ended it", sandbox.id));
                let sandbox = &truth.sandboxes[found];
                self.observed(truth, &Mutation::TimerEnded { sandbox, at });
            }
        }
    }

    /// Ends everything that is not the sandbox's own, unless a command of a later grant than `over`
    /// was started. False if something does not end.
    pub(crate) fn clean(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
        over: Grant,
    ) -> Result<bool, ProviderError> {
        let found = self.usable(truth, account, id)?;
        let now = truth.now;
        let latest = truth.sandboxes[found].latest_grant;
        if latest > over {
            return Err(ProviderError::Busy { message: format!("grant {latest} is in use") });
        }
        let ran = truth.sandboxes[found].running_commands(now).next().is_some();
        let all_ended = truth.sandboxes[found].end_commands(None, now);
        let ended = ran.then_some(latest);
        self.observed(truth, &Mutation::Cleaned { sandbox: &truth.sandboxes[found], ended });
        Ok(all_ended)
    }

    pub(crate) fn start(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
        request: &CommandRequest,
        fault: Option<Fault>,
    ) -> Result<Arc<SimulatedCommand>, StartError> {
        let found = self.usable(truth, account, id)?;
        let now = truth.now;
        let sandbox = &mut truth.sandboxes[found];
        if let Some(known) = sandbox.command(&request.id) {
            return Ok(known.clone());
        }
        if let Some(fence) = &sandbox.fence
            && request.grant < fence.grant
        {
            return Err(NotStarted::StaleGrant { fence: fence.grant }.into());
        }
        let program = Program::of(request)?;
        let stubborn = fault == Some(Fault::Stubborn);
        let ends_at = program.runs_for.map(|runs_for| now.saturating_add(micros(runs_for)));
        let ends_at = if stubborn { None } else { ends_at };
        let command = Some(request.id.clone());
        sandbox.latest_grant = sandbox.latest_grant.max(request.grant);
        sandbox.processes.push(SimulatedProcess { command: command.clone(), ends_at, stubborn });
        if let Some(runs_for) = program.background {
            let ends_at = runs_for.map(|runs_for| now.saturating_add(micros(runs_for)));
            sandbox.processes.push(SimulatedProcess { command, ends_at, stubborn: false });
        }
        let mut command =
            SimulatedCommand::new(request.id.clone(), program.frames, ends_at, program.end);
        command.stubborn = stubborn;
        command.ignores_terminate = program.ignores_terminate;
        command.echoes_input = program.echoes_input && request.input;
        let command = Arc::new(command);
        sandbox.commands.push(command.clone());
        self.journal.note(format_args!("world started {} in {id}", request.id));
        let sandbox = &truth.sandboxes[found];
        let label = match &request.work {
            Work::Program(argv) => argv.last().map_or("", String::as_str),
            transfer => transfer.name(),
        };
        let started =
            Mutation::Started { sandbox, command: &request.id, grant: request.grant, label };
        self.observed(truth, &started);
        Ok(command)
    }

    pub(crate) fn input_ended(&self, account: &AccountId, id: &SandboxId, command: &CommandId) {
        let mut truth = self.truth();
        let now = truth.now;
        if let Ok(found) = truth.find(account, id) {
            truth.sandboxes[found].input_ended(command, now);
        }
    }

    pub(crate) fn signal(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
        command: &CommandId,
        signal: Signal,
    ) -> Result<(), ProviderError> {
        let now = truth.now;
        if let Ok(found) = truth.find(account, id) {
            truth.sandboxes[found].signal(command, signal, now);
        }
        Ok(())
    }

    /// Ends a command and its children. False if something does not end.
    pub(crate) fn terminate(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        id: &SandboxId,
        command: &CommandId,
    ) -> Result<bool, ProviderError> {
        let now = truth.now;
        match truth.find(account, id) {
            Ok(found) => Ok(truth.sandboxes[found].end_commands(Some(command), now)),
            Err(_) => Ok(true),
        }
    }

    pub(crate) fn destroy(
        &self,
        truth: &mut GroundTruth,
        account: &AccountId,
        pin: &Pin,
        fault: Option<Fault>,
    ) -> Removal {
        let (now, id) = (truth.now, &pin.sandbox);
        let Ok(found) = truth.find(account, id) else {
            let known = truth.sandboxes.iter().rev().find(|sandbox| &sandbox.id == id);
            let readable = known
                .filter(|sandbox| &sandbox.account == account)
                .and_then(|sandbox| sandbox.gone_from)
                .is_some_and(|gone| now - gone < self.ended_readable());
            return if readable {
                Removal::Proved(Evidence::of("delete answered: destroyed"))
            } else {
                Removal::Absent(Evidence::of("delete answered 404"))
            };
        };
        let other = truth.sandboxes[found].birth != pin.birth;
        if other && self.settings.capabilities.compares_births {
            return Removal::Stranger(Evidence::of("delete answered: another birth"));
        }
        if truth.sandboxes[found].destroying_from.is_some() {
            return Removal::Accepted;
        }
        self.journal.note(format_args!("world destroys {id}"));
        self.observed(truth, &Mutation::Destroyed { sandbox: &truth.sandboxes[found] });
        if self.settings.always_slow_destroy || fault == Some(Fault::SlowDestroy) {
            let gone_from = now + micros(self.settings.slow_destroy);
            truth.sandboxes[found].begin_removal(now, gone_from);
            return Removal::Accepted;
        }
        truth.sandboxes[found].begin_removal(now, now);
        Removal::Proved(Evidence::of("delete answered 204"))
    }
}
