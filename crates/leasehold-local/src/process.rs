//! A command that runs: from the init's answer to the port's [`RunningProcess`].

use crate::control::Control;
use crate::error::{LocalError, in_words};
use crate::provider::Shared;
use crate::streams::{self, FRAMES_WAITING, INPUTS_WAITING, ManagerEnds};
use async_trait::async_trait;
use leasehold_core::{CommandId, Grant, SandboxId};
use leasehold_init::protocol::{
    self, Answer, End, OUTPUT_PROTOCOL, Offsets, Refusal, Request, Start,
};
use leasehold_ports::{
    AttachedProcess, Call, CommandRequest, Incoming, NotStarted, Outgoing, OutputOffsets,
    ProcessControl, ProcessEnd, ProviderError, RunningProcess, Signal, StartError, StreamKind,
    Work,
};
use secrecy::ExposeSecret as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// How long a command may take to end politely before it is killed, where the caller's time allows it.
const GRACE: Duration = Duration::from_secs(2);

/// How a command ended; an error in words when that cannot be learnt any more.
type Outcome = Result<ProcessEnd, String>;

/// Starts a command.
pub(crate) async fn start(
    shared: Arc<Shared>,
    sandbox: &SandboxId,
    request: &CommandRequest,
    call: &Call,
) -> Result<RunningProcess, StartError> {
    let mut control = shared.connect(sandbox, call).await.map_err(ProviderError::from)?;
    let (command_ends, manager_ends) = streams::make(request.input).map_err(|source| {
        ProviderError::from(LocalError::Kernel { action: "make pipes", source })
    })?;
    // What a transfer sends is of use to its own reader alone.
    let keep_output =
        control.protocol() >= OUTPUT_PROTOCOL && matches!(request.work, Work::Program(_));
    let start = Request::Start(Start {
        command: request.id.as_str().to_owned(),
        argv: match &request.work {
            Work::Program(argv) => argv.clone(),
            Work::Send(_) | Work::Receive(_) => Vec::new(),
        },
        directory: request.directory.clone(),
        environment: request
            .environment
            .iter()
            .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
            .collect(),
        grant: request.grant.0,
        keep_output,
        transfer: transfer_of(&request.work),
    });
    let command = request.id.as_str().to_owned();
    let asking = control.ask_with_end(start, &command_ends, command.clone());
    let (answer, end) =
        shared.within(call, "starting a command", asking).await.map_err(ProviderError::from)?;
    // The command has its own copies; ours would keep its output from ending.
    drop(command_ends);
    match answer {
        Answer::Started { .. } => {}
        Answer::NotStarted { reason } => return Err(refusal_of(reason, request)),
        other => return Err(unexpected(&other).into()),
    }
    let (outcome_sender, outcome) = watch::channel(None);
    tokio::spawn(watch_end(control, end, outcome_sender));
    let control = CommandControl { shared, sandbox: sandbox.clone(), command, outcome };
    Ok(running(manager_ends, keep_output, control))
}

/// Attaches to a command that was started earlier.
pub(crate) async fn attach(
    shared: Arc<Shared>,
    sandbox: &SandboxId,
    command: &CommandId,
    from: OutputOffsets,
    call: &Call,
) -> Result<AttachedProcess, ProviderError> {
    let mut control = shared.connect(sandbox, call).await?;
    let invalid = |message: String| Err(ProviderError::Invalid { message });
    if control.protocol() < OUTPUT_PROTOCOL {
        return invalid(
            "this sandbox was made by an older build, whose init keeps no output: make a new one"
                .to_owned(),
        );
    }
    let ([_, command_output, command_error], manager_ends) = streams::make(false)
        .map_err(|source| LocalError::Kernel { action: "make pipes", source })?;
    let pipes = [command_output, command_error];
    let command = command.as_str().to_owned();
    let request = Request::Attach {
        command: command.clone(),
        from: Offsets { output: from.output, error: from.error },
    };
    let asking = control.ask_with_end(request, &pipes, command.clone());
    let (answer, end) = shared.within(call, "attaching to a command", asking).await?;
    drop(pipes);
    let from = match answer {
        Answer::Attached { from } => OutputOffsets { output: from.output, error: from.error },
        Answer::Refused { reason: Refusal::UnknownCommand } => {
            return invalid(format!("the sandbox knows no command {command}"));
        }
        Answer::Refused { reason: Refusal::OutputNotKept } => {
            return invalid(format!("nothing that the command {command} wrote is kept any more"));
        }
        other => return Err(unexpected(&other)),
    };
    let (outcome_sender, outcome) = watch::channel(None);
    tokio::spawn(watch_end(control, end, outcome_sender));
    let control = CommandControl { shared, sandbox: sandbox.clone(), command, outcome };
    Ok(AttachedProcess { process: running(manager_ends, true, control), from })
}

/// Lets the streams flow.
fn running(ends: ManagerEnds, is_kept: bool, control: CommandControl) -> RunningProcess {
    let (frame_sender, output) = mpsc::channel(FRAMES_WAITING);
    for (kind, descriptor) in [(StreamKind::Output, ends.output), (StreamKind::Error, ends.error)] {
        let frames = frame_sender.clone();
        if is_kept {
            tokio::spawn(streams::deliver_kept(kind, descriptor, frames));
        } else {
            tokio::spawn(streams::deliver(kind, descriptor, frames, control.outcome.clone()));
        }
    }
    let (input, input_receiver) = mpsc::channel(INPUTS_WAITING);
    if let Some(descriptor) = ends.input {
        tokio::spawn(streams::feed(descriptor, input_receiver));
    }
    RunningProcess { output, input, control: Arc::new(control) }
}

fn transfer_of(work: &Work) -> Option<protocol::Transfer> {
    match work {
        Work::Program(_) => None,
        Work::Send(Outgoing { path, exclude, follow_links }) => Some(protocol::Transfer::Send {
            path: path.clone(),
            exclude: exclude.clone(),
            follow_links: *follow_links,
        }),
        Work::Receive(Incoming { path, name }) => {
            Some(protocol::Transfer::Receive { path: path.clone(), name: name.clone() })
        }
    }
}

/// Waits for the command's end, which was asked for together with its start.
async fn watch_end(mut control: Control, asked: u64, outcome: watch::Sender<Option<Outcome>>) {
    let end = match control.answer(asked).await {
        Ok(Answer::Ended { end }) => Ok(end_of(end)),
        Ok(other) => Err(format!(
            "the sandbox's init does not know how the command ended ({})",
            kind_of(&other)
        )),
        Err(error) => Err(in_words(&error)),
    };
    outcome.send_replace(Some(end));
}

fn end_of(end: End) -> ProcessEnd {
    match end {
        // The kernel passes on eight bits of an exit status.
        End::Exited(status) => ProcessEnd::Exited(u8::try_from(status & 0xff).unwrap_or(u8::MAX)),
        End::Signaled(signal) => ProcessEnd::Signaled(Signal(signal)),
    }
}

fn refusal_of(reason: protocol::NotStarted, request: &CommandRequest) -> StartError {
    use protocol::NotStarted as Reason;
    let program = request.work.name().to_owned();
    let directory = request.directory.clone().unwrap_or_else(|| protocol::WORKSPACE.to_owned());
    let in_words = |errno| io::Error::from_raw_os_error(errno).to_string();
    match reason {
        Reason::StaleGrant { fence } => NotStarted::StaleGrant { fence: Grant(fence) }.into(),
        Reason::NotFound => NotStarted::NotFound { program }.into(),
        Reason::NotExecutable { errno } => {
            NotStarted::NotExecutable { program, problem: in_words(errno) }.into()
        }
        Reason::Directory { errno }
            if io::Error::from_raw_os_error(errno).kind() == io::ErrorKind::NotFound =>
        {
            NotStarted::NoDirectory { directory }.into()
        }
        Reason::Directory { errno } => {
            let problem = format!("cannot enter {directory}: {}", in_words(errno));
            NotStarted::NotExecutable { program, problem }.into()
        }
        Reason::Cleaning => {
            ProviderError::Busy { message: "its processes are being ended".to_owned() }.into()
        }
        Reason::TooManyCommands => {
            ProviderError::LimitReached { message: "too many commands under one grant".to_owned() }
                .into()
        }
        Reason::Invalid { detail } => ProviderError::Invalid { message: detail }.into(),
        Reason::Kernel { step, errno } => {
            ProviderError::LimitReached { message: format!("cannot {step}: {}", in_words(errno)) }
                .into()
        }
    }
}

/// Which answer it was; what it holds is nobody's business here.
fn kind_of(answer: &Answer) -> &'static str {
    match answer {
        Answer::Refused { reason: Refusal::UnknownCommand } => "unknown command",
        Answer::Refused { .. } => "refused",
        _ => "unexpected answer",
    }
}

pub(crate) fn unexpected(answer: &Answer) -> ProviderError {
    let source = Box::new(LocalError::UnexpectedAnswer);
    ProviderError::NoAnswer {
        message: format!("{source} ({})", kind_of(answer)),
        source: Some(source),
    }
}

/// Power over one command, through new connections, so that it works while another waits.
struct CommandControl {
    shared: Arc<Shared>,
    sandbox: SandboxId,
    command: String,
    outcome: watch::Receiver<Option<Outcome>>,
}

#[async_trait]
impl ProcessControl for CommandControl {
    async fn signal(&self, signal: Signal, call: &Call) -> Result<(), ProviderError> {
        let request = Request::Signal { command: self.command.clone(), signal: signal.0 };
        match self.shared.ask(&self.sandbox, request, "sending a signal", call).await? {
            // A command that the init has forgotten ended long ago.
            Answer::Done | Answer::Refused { reason: Refusal::Ended | Refusal::UnknownCommand } => {
                Ok(())
            }
            Answer::Refused { reason: Refusal::NoSuchSignal } => {
                Err(ProviderError::Invalid { message: format!("there is no signal {}", signal.0) })
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn wait(&self) -> Result<ProcessEnd, ProviderError> {
        let mut outcome = self.outcome.clone();
        let lost = |message: String| ProviderError::NoAnswer { message, source: None };
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(end))) => Ok(*end),
            Ok(Some(Err(message))) => Err(lost(message.clone())),
            // The task that watches was dropped together with its runtime.
            Ok(None) | Err(_) => Err(lost("nobody waits for the command any more".to_owned())),
        }
    }

    async fn terminate(&self, call: &Call) -> Result<(), ProviderError> {
        let left = self.shared.left(call);
        // Half of the time at most is for asking: killing needs some too.
        let grace = GRACE.min(left / 2);
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Terminate {
            command: self.command.clone(),
            grace_ms: millis(grace),
            limit_ms: millis(left),
        };
        match self.shared.ask(&self.sandbox, request, "ending a command", call).await? {
            Answer::Terminated { confirmed: true } => Ok(()),
            Answer::Terminated { confirmed: false } => {
                Err(LocalError::DeadlinePassed("waiting for a command's processes to end").into())
            }
            other => Err(unexpected(&other)),
        }
    }
}
