//! Between a command and this process: output as it comes, input as it is given, and the end.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use leasehold_keeper::{CommandEvent, Execution};
use leasehold_ports::{Clock, Frame, ProcessEnd, ProcessInput, Signal, StreamKind};
use tokio::sync::{mpsc, oneshot};

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::stop::StopSignals;

/// How many pieces of output may wait for a slow reader before the command has to.
const FRAMES_WAITING: usize = 8;

/// How much input is read at once.
const INPUT_PIECE: usize = 64 * 1024;

/// SIGPIPE.
const PIPE: Signal = Signal(13);

/// How a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relayed {
    /// The command has ended, and all of its output was written.
    Ended(ProcessEnd),
    /// Something else ended the relay; the command may still run.
    Stopped(Stop),
}

/// What ends a relay before the command ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// This process was asked to stop.
    Signal(Signal),
    /// The command's time limit has passed.
    Timeout(Duration),
    /// Nobody reads the output any more.
    OutputClosed,
}

impl Stop {
    /// What the command is told.
    const fn as_signal(self) -> Signal {
        match self {
            Stop::Signal(signal) => signal,
            Stop::Timeout(_) => Signal::TERMINATE,
            Stop::OutputClosed => PIPE,
        }
    }
}

impl Relayed {
    /// How the process ends. A command that was told to stop counts as stopped, whatever it made of
    /// that.
    ///
    /// # Errors
    /// If a time limit has passed, or nobody reads the output any more.
    pub(crate) fn exit_code(self) -> Result<ExitCode, Failure> {
        match self {
            Relayed::Ended(end) => Ok(ExitCode::of_command(end)),
            Relayed::Stopped(Stop::Signal(signal)) => Ok(ExitCode::of_signal(signal)),
            Relayed::Stopped(Stop::Timeout(limit)) => Err(Failure::command_timeout(limit)),
            Relayed::Stopped(Stop::OutputClosed) => Err(Failure::OutputClosed),
        }
    }
}

/// How long a command may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Its time limit, if it has one.
    pub(crate) timeout: Option<Duration>,
    /// How long it may go on after it was told to stop.
    pub(crate) grace: Duration,
}

enum Woken {
    Asked(Signal),
    TimeOver,
    Room(Result<(), ()>),
    Event(Result<CommandEvent, Failure>),
}

/// Passes on what the command writes until it ends, or until it was told to stop and its grace is
/// over. A second signal ends the grace.
pub(crate) async fn relay(
    execution: &mut Execution,
    patience: Patience,
    clock: &dyn Clock,
    signals: &mut StopSignals,
) -> Result<Relayed, Failure> {
    let mut stop: Option<Stop> = None;
    let mut timer: Pin<Box<dyn Future<Output = ()> + Send + '_>> = match patience.timeout {
        Some(timeout) => clock.sleep(timeout),
        None => Box::pin(std::future::pending()),
    };
    let mut writer = Writer::default();
    let mut waiting: Option<Frame> = None;
    loop {
        let full = waiting.is_some();
        let woken = tokio::select! {
            biased;
            signal = signals.next() => Woken::Asked(signal),
            () = &mut timer => Woken::TimeOver,
            room = writer.write(&mut waiting), if full => Woken::Room(room),
            event = next(execution, full) => Woken::Event(event),
        };
        let reason = match woken {
            Woken::Event(Ok(CommandEvent::Output(frame))) => {
                waiting = Some(frame);
                continue;
            }
            Woken::Event(Ok(CommandEvent::Ended(end))) => {
                let written = finish(writer, signals).await?;
                return Ok(match stop.or(written) {
                    Some(stop) => Relayed::Stopped(stop),
                    None => Relayed::Ended(end),
                });
            }
            Woken::Event(Err(failure)) => {
                finish(writer, signals).await?;
                return Err(failure);
            }
            Woken::Room(Ok(())) => continue,
            Woken::Room(Err(())) => Stop::OutputClosed,
            Woken::Asked(signal) => Stop::Signal(signal),
            Woken::TimeOver => Stop::Timeout(patience.timeout.unwrap_or_default()),
        };
        match stop {
            Some(first) if reason != Stop::OutputClosed => return Ok(Relayed::Stopped(first)),
            Some(_) => {}
            None => {
                stop = Some(reason);
                if let Err(error) = execution.signal(reason.as_signal()).await {
                    tracing::debug!(code = error.code(), "{error}");
                }
                timer = clock.sleep(patience.grace);
            }
        }
    }
}

/// The command's next event; while there is no room for more output, only that it may not go on.
async fn next(execution: &mut Execution, full: bool) -> Result<CommandEvent, Failure> {
    let event = if full { Err(execution.hold().await) } else { execution.next().await };
    event.map_err(Failure::from)
}

/// Waits until everything is written, or a signal says that nobody wants to wait.
async fn finish(writer: Writer, signals: &mut StopSignals) -> Result<Option<Stop>, Failure> {
    tokio::select! {
        biased;
        signal = signals.next() => Ok(Some(Stop::Signal(signal))),
        written = writer.finish() => match written {
            Ok(()) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Some(Stop::OutputClosed)),
            Err(error) => Err(error.into()),
        },
    }
}

/// Writes output in a thread of its own, so that a slow reader blocks neither signals nor time
/// limits. The thread begins with the first output: many commands have none.
#[derive(Default)]
struct Writer {
    thread: Option<(mpsc::Sender<Frame>, oneshot::Receiver<io::Result<()>>)>,
}

impl Writer {
    /// Takes the frame as soon as there is room for it. May be dropped before. An error means that
    /// the thread has ended, since nobody reads.
    async fn write(&mut self, frame: &mut Option<Frame>) -> Result<(), ()> {
        let (sender, _) = self.thread.get_or_insert_with(start_writing);
        match sender.reserve().await {
            Ok(permit) => {
                if let Some(frame) = frame.take() {
                    permit.send(frame);
                }
                Ok(())
            }
            Err(_) => {
                *frame = None;
                Err(())
            }
        }
    }

    async fn finish(self) -> io::Result<()> {
        let Some((sender, done)) = self.thread else { return Ok(()) };
        drop(sender);
        done.await.unwrap_or_else(|_| Err(io::Error::other("the writing thread died")))
    }
}

fn start_writing() -> (mpsc::Sender<Frame>, oneshot::Receiver<io::Result<()>>) {
    let (sender, mut frames) = mpsc::channel::<Frame>(FRAMES_WAITING);
    let (done, written) = oneshot::channel();
    thread::spawn(move || {
        let mut write = || -> io::Result<()> {
            // Past the buffers of the standard library: output is written as it came.
            let mut output = unbuffered(io::stdout().as_fd())?;
            let mut error = unbuffered(io::stderr().as_fd())?;
            while let Some(frame) = frames.blocking_recv() {
                match frame.stream {
                    StreamKind::Output => output.write_all(&frame.bytes)?,
                    StreamKind::Error => error.write_all(&frame.bytes)?,
                }
            }
            Ok(())
        };
        let _ = done.send(write());
    });
    (sender, written)
}

fn unbuffered(stream: impl AsFd) -> io::Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

/// Passes on this process's standard input until it ends. The thread may be left behind in its read:
/// it holds nothing, and the end of the process is its end.
pub(crate) fn feed_input(input: mpsc::Sender<ProcessInput>) {
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut piece = vec![0; INPUT_PIECE];
        loop {
            let input_piece = match stdin.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => Bytes::copy_from_slice(piece.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            if input.blocking_send(ProcessInput::Bytes(input_piece)).is_err() {
                return;
            }
        }
        let _ = input.blocking_send(ProcessInput::End);
    });
}
