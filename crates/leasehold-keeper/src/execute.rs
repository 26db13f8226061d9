//! Execute: one command under a grant, with its output as it comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Caller, CommandId, Grant, Input, Lease, LeaseId, Refusal, State, Step, Timestamp,
};
use leasehold_ports::{
    CommandRequest, Frame, ProcessControl, ProcessEnd, ProcessInput, ProviderError, RunningProcess,
    Signal, StartError, Work,
};
use secrecy::SecretString;
use tokio::sync::mpsc;

use crate::access::Access;
use crate::commands::{Registration, Running};
use crate::crash::Edge;
use crate::{Keeper, KeeperError, SeededBug};

/// How long after a command's exit its output may be silent before it counts as complete, although
/// a child that lives on holds the stream open.
const OUTPUT_GRACE: Duration = Duration::from_millis(100);

/// A command to be run.
#[derive(Clone, Debug)]
pub struct ExecuteRequest {
    /// What it does.
    pub work: Work,
    /// The directory to start in; none means the workspace.
    pub directory: Option<String>,
    /// Variables for this command.
    pub environment: BTreeMap<String, SecretString>,
    /// Whether input will be sent.
    pub input: bool,
}

/// What a running command reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEvent {
    /// A piece of output.
    Output(Frame),
    /// It has ended, and all of its output was reported.
    Ended(ProcessEnd),
}

/// A command that runs. It is over when [`Execution::next`] says so; dropped before that, the
/// command runs on until the lease is released.
pub struct Execution {
    keeper: Keeper,
    lease: LeaseId,
    grant: Grant,
    output: mpsc::Receiver<Frame>,
    output_open: bool,
    input: mpsc::Sender<ProcessInput>,
    control: Arc<dyn ProcessControl>,
    access: Access,
    registration: Registration,
    end: Option<ProcessEnd>,
    /// When to look at the gate next, however much output there is.
    look_at: Timestamp,
}

impl Keeper {
    /// Starts a command under the caller's grant.
    ///
    /// # Errors
    /// A refusal (nothing was sent), `NotStarted` (it certainly does not run), or `OutcomeUnknown`
    /// (it may run; it is not repeated, and the lease will not be handed on).
    pub async fn execute(
        &self,
        lease: &LeaseId,
        caller: &Caller,
        request: ExecuteRequest,
    ) -> Result<Execution, KeeperError> {
        self.refuse_draining()?;
        if matches!(&request.work, Work::Program(argv) if argv.is_empty()) {
            return Err(KeeperError::Invalid { problem: "a command has a program".to_owned() });
        }
        let mut bytes = [0; 10];
        self.inner.random.fill(&mut bytes);
        let command = CommandId::from_random(bytes);
        let skip_record = self.inner.seeded.has(SeededBug::StartBeforeDirty);
        // Dirty is on disk before anything is sent.
        let row = if skip_record {
            self.read(lease).await?
        } else {
            self.decide(lease, &Input::BeginCommands, caller).await?.lease
        };
        let mut registration = self.inner.commands.register(lease, &command);
        let ready = if self.inner.seeded.has(SeededBug::GateNotRead) {
            Ok(self.access(&row.home).await)
        } else {
            self.check_gate(&row, &registration, skip_record).await
        };
        let access = match ready {
            Ok(Ok(access)) => access,
            Ok(Err(error)) | Err(error) => {
                registration.ended();
                return Err(error);
            }
        };
        let Some(pin) = row.pin.clone() else {
            registration.ended();
            return Err(Refusal::NotReady { lease: lease.clone(), state: row.state }.into());
        };
        if let Err(source) = self.check_birth(&access, &pin).await {
            registration.ended();
            self.look_if_missing(row, &source).await;
            return Err(KeeperError::Step { lease: lease.clone(), step: Step::Start, source });
        }
        let start = CommandRequest {
            id: command,
            work: request.work,
            directory: request.directory,
            environment: request.environment,
            input: request.input,
            grant: row.grant,
        };
        let call = access.call(self, self.inner.settings.proof);
        let work = async {
            let left = call.deadline.since(self.inner.clock.now());
            tokio::select! {
                biased;
                started = access.provider.start(&pin.sandbox, &start, &call) => started,
                () = self.inner.clock.sleep(left) => Err(ProviderError::NoAnswer {
                    message: "none to the start of the command in time".to_owned(),
                    source: None,
                }.into()),
            }
        };
        let started = self.step(lease, Step::Start, work).await;
        self.point(lease, Step::Start, Edge::Recorded).await;
        let process = match started {
            Ok(process) => process,
            Err(StartError::NotStarted(reason)) => {
                registration.ended();
                return Err(reason.into());
            }
            Err(StartError::Provider(source)) if source.is_definite() => {
                registration.ended();
                self.look_if_missing(row, &source).await;
                let lease = lease.clone();
                return Err(KeeperError::Step { lease, step: Step::Start, source });
            }
            Err(StartError::Provider(source)) => {
                registration.in_doubt();
                return Err(KeeperError::OutcomeUnknown { lease: lease.clone(), source });
            }
        };
        let RunningProcess { output, input, control } = process;
        registration.started(Running { control: Arc::clone(&control), call });
        Ok(Execution {
            keeper: self.clone(),
            lease: lease.clone(),
            grant: row.grant,
            output,
            output_open: true,
            input,
            control,
            access,
            registration,
            end: None,
            look_at: self.inner.clock.now() + self.inner.settings.gate_poll,
        })
    }

    /// A start that does not find its sandbox proves nothing. But it is a reason to take the first of
    /// the two looks that do; recovery takes the second.
    async fn look_if_missing(&self, row: Arc<Lease>, source: &ProviderError) {
        if !matches!(source, ProviderError::NotFound) {
            return;
        }
        let id = row.id.clone();
        if let Err(error) = self.look_again(row).await {
            tracing::warn!(lease = %id, code = error.code(), "{error}");
        }
    }

    /// Between the record and the start: is the gate still open for this grant? A gate that closes
    /// after this look finds the command registered, and waits for it.
    async fn check_gate(
        &self,
        row: &Lease,
        registration: &Registration,
        skip_record: bool,
    ) -> Result<Result<Access, KeeperError>, KeeperError> {
        let access = self.access(&row.home).await;
        let now = self.read(&row.id).await?;
        let recorded = skip_record || now.busy_nodes.contains(&self.inner.node);
        let open = now.state == State::Active
            && now.grant == row.grant
            && recorded
            && !registration.gate().is_cancelled();
        if open { Ok(access) } else { Err(gate_closed(&now)) }
    }
}

/// Why a lease takes no more commands under the grant.
fn gate_closed(row: &Lease) -> KeeperError {
    let lease = row.id.clone();
    let refusal = match (&row.receipt, &row.cleanup, row.state) {
        (Some(receipt), _, _) => Refusal::Gone { lease, ending: receipt.ending },
        (None, Some(cleanup), _) if cleanup.reason == leasehold_core::DestroyReason::Deadline => {
            Refusal::Expired { lease }
        }
        (None, Some(cleanup), _) => Refusal::Closing { lease, reason: cleanup.reason },
        (None, None, State::Active) => Refusal::StaleGrant { lease, presented: row.grant },
        (None, None, State::Parked) => Refusal::ResumeFirst { lease },
        (None, None, state) => Refusal::Busy { lease, state },
    };
    refusal.into()
}

impl Execution {
    /// Where input goes: bytes, then the end. Bounded; nobody reads it if none was announced.
    #[must_use]
    pub fn input(&self) -> mpsc::Sender<ProcessInput> {
        self.input.clone()
    }

    /// The next piece of output, or the end. May be dropped and called again; nothing is lost.
    ///
    /// # Errors
    /// A refusal when the lease was released, expired or taken over meanwhile: the command has been
    /// ended, or is being ended. `OutcomeUnknown` when its end could not be learnt.
    pub async fn next(&mut self) -> Result<CommandEvent, KeeperError> {
        loop {
            let clock = &self.keeper.inner.clock;
            let until_look = self.look_at.since(clock.now());
            let woken = if until_look.is_zero() && self.end.is_none() {
                Woken::Look
            } else {
                let silence = async {
                    match self.end {
                        Some(_) => clock.sleep(OUTPUT_GRACE).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = self.registration.gate().cancelled() => Woken::GateClosed,
                    frame = self.output.recv(), if self.output_open => Woken::Frame(frame),
                    end = self.control.wait(), if self.end.is_none() => Woken::End(end),
                    () = silence, if self.output_open => Woken::Frame(None),
                    () = clock.sleep(until_look), if self.end.is_none() => Woken::Look,
                }
            };
            match woken {
                Woken::Frame(Some(frame)) => return Ok(CommandEvent::Output(frame)),
                Woken::Frame(None) => self.output_open = false,
                Woken::End(Ok(end)) => self.end = Some(end),
                Woken::End(Err(source)) => {
                    self.registration.in_doubt();
                    return Err(KeeperError::OutcomeUnknown { lease: self.lease.clone(), source });
                }
                Woken::GateClosed => {
                    let row = self.keeper.read(&self.lease).await?;
                    return Err(gate_closed(&row));
                }
                Woken::Look => {
                    self.look_at = clock.now() + self.keeper.inner.settings.gate_poll;
                    self.look_at_gate().await?;
                }
            }
            if let (Some(end), false) = (self.end, self.output_open) {
                self.registration.ended();
                if matches!(end, ProcessEnd::Signaled(_)) {
                    self.refuse_end_by_closing().await?;
                }
                return Ok(CommandEvent::Ended(end));
            }
        }
    }

    /// A command that a signal ended may have been ended with its lease: then that is what its
    /// caller is told, not a signal.
    async fn refuse_end_by_closing(&self) -> Result<(), KeeperError> {
        match self.keeper.read(&self.lease).await {
            Ok(row) if row.state != State::Active || row.grant != self.grant => {
                Err(gate_closed(&row))
            }
            _ => Ok(()),
        }
    }

    /// What a caller awaits that can take no more output for now, instead of [`Execution::next`]:
    /// keeps the lease from going idle and watches its gate. Ends only when the command may not go
    /// on, with the reason. May be dropped at any time.
    pub async fn hold(&self) -> KeeperError {
        loop {
            self.keeper.inner.clock.sleep(self.keeper.inner.settings.gate_poll).await;
            if let Err(reason) = self.look_at_gate().await {
                return reason;
            }
        }
    }

    /// Keeps the lease from going idle, and ends the command if the gate was closed elsewhere.
    async fn look_at_gate(&self) -> Result<(), KeeperError> {
        let row = match self.keeper.read(&self.lease).await {
            Ok(row) => row,
            // A ledger that cannot be read for a moment is no reason to end a command.
            Err(error) => {
                tracing::warn!(lease = %self.lease, code = error.code(), "{error}");
                return Ok(());
            }
        };
        if row.state == State::Active && row.grant == self.grant {
            let touched = self.keeper.decide(&self.lease, &Input::Touch, &Caller::Keeper).await;
            match touched {
                Err(KeeperError::Refused(Refusal::Expired { .. })) => {
                    // Whoever notices a deadline first carries it out.
                    let _ = self.keeper.decide(&self.lease, &Input::Expire, &Caller::Keeper).await;
                }
                _ => return Ok(()),
            }
        }
        self.keeper.close_gate_here(&row);
        self.keeper.end_commands_here(&self.lease).await;
        let row = self.keeper.read(&self.lease).await?;
        Err(gate_closed(&row))
    }

    /// Sends a signal to the command.
    ///
    /// # Errors
    /// If it could not be sent.
    pub async fn signal(&self, signal: Signal) -> Result<(), KeeperError> {
        let call = self.access.call(&self.keeper, self.keeper.inner.settings.proof);
        let sent = self.keeper.limited(&call, self.control.signal(signal, &call)).await;
        sent.map_err(|source| self.failed(source))
    }

    /// Ends the command and everything that it started, and returns when that is confirmed.
    ///
    /// # Errors
    /// If it cannot be confirmed: the lease will not be handed on then.
    pub async fn terminate(&mut self) -> Result<(), KeeperError> {
        let call = self.access.call(&self.keeper, self.keeper.inner.settings.drain);
        let ended = self.keeper.limited(&call, self.control.terminate(&call)).await;
        match ended {
            Ok(()) => {
                self.registration.ended();
                Ok(())
            }
            Err(source) => {
                self.registration.in_doubt();
                Err(self.failed(source))
            }
        }
    }

    fn failed(&self, source: ProviderError) -> KeeperError {
        KeeperError::Step { lease: self.lease.clone(), step: Step::Start, source }
    }
}

enum Woken {
    GateClosed,
    Frame(Option<Frame>),
    End(Result<ProcessEnd, ProviderError>),
    Look,
}
