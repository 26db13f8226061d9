//! Files between this machine and a sandbox: one side is done here, the other is a command in the sandbox.
//!
//! What comes out of a sandbox is hostile: its files are confined by `leasehold-archive`, its words are
//! bounded and stripped of control characters.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, Bytes};
use indicatif::{ProgressBar, ProgressStyle};
use leasehold_archive::{
    ArchiveError, PackOptions, Placement, Progress, Summary, TREE, Trouble, UnpackOptions, Watch,
    receive, send,
};
use leasehold_core::catalogue::codes;
use leasehold_core::{Caller, LeaseId};
use leasehold_keeper::{CommandEvent, ExecuteRequest, Execution, Keeper};
use leasehold_ports::{Incoming, Outgoing, ProcessEnd, ProcessInput, Signal, StreamKind, Work};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::failure::Failure;
use crate::output::Output;
use crate::stop::StopSignals;

/// Bytes of one piece on its way.
const PIECE: usize = 64 * 1024;

/// Pieces that may wait for the slower side.
const PIECES_WAITING: usize = 8;

/// Bytes of the sandbox's words that are kept.
const WORDS: usize = 16 * 1024;

/// What is copied in.
pub(crate) enum Source {
    /// A file or directory.
    Path(PathBuf),
    /// A tar stream from standard input.
    StandardInput,
}

/// Where to it is copied out.
pub(crate) enum Target {
    /// As `cp -r` does; with the source's own name, if it is not its contents that are copied.
    Copy(PathBuf, Option<String>),
    /// A directory that is replaced, all of it or nothing.
    Replace(PathBuf),
    /// Standard output: the content of a file, or a tar stream of a tree.
    StandardOutput,
}

/// What came of a transfer.
pub(crate) enum Copied {
    /// All of it is there.
    Done(Summary),
    /// This process was asked to stop, and the transfer was ended.
    Stopped(Signal),
}

/// On whose behalf, and how it is shown.
pub(crate) struct Transfer<'a> {
    pub(crate) keeper: &'a Keeper,
    pub(crate) lease: &'a LeaseId,
    pub(crate) caller: &'a Caller,
    pub(crate) output: Output,
    pub(crate) signals: &'a mut StopSignals,
}

/// Set when the local side may stop.
type Flag = Arc<AtomicBool>;

impl Transfer<'_> {
    /// Copies into the sandbox.
    pub(crate) async fn copy_in(
        &mut self,
        source: Source,
        target: Incoming,
        options: PackOptions,
    ) -> Result<Copied, Failure> {
        let mut execution = self.start(Work::Receive(target), true).await?;
        let input = execution.input();
        let (flag, bar) = (Flag::default(), self.bar());
        let local = {
            let flag = Arc::clone(&flag);
            spawn_blocking(move || {
                let mut output = InputWriter { input, piece: Vec::new() };
                let summary = bar.watching(&flag, |watch| match source {
                    Source::Path(path) => send(path, &mut output, &options, watch),
                    Source::StandardInput => from_standard_input(&mut output),
                })?;
                output.finish().map_err(ArchiveError::Output)?;
                Ok(summary)
            })
        };
        let ended = self.follow(&mut execution, local, &flag, None).await;
        self.settle(ended).await
    }

    /// Copies out of the sandbox.
    pub(crate) async fn copy_out(
        &mut self,
        source: Outgoing,
        target: Target,
        options: UnpackOptions,
    ) -> Result<Copied, Failure> {
        let mut execution = self.start(Work::Send(source), false).await?;
        let (sender, pieces) = mpsc::channel(PIECES_WAITING);
        let (flag, bar) = (Flag::default(), self.bar());
        let local = {
            let flag = Arc::clone(&flag);
            spawn_blocking(move || {
                let input = PieceReader { pieces, piece: Bytes::new(), ended: false };
                bar.watching(&flag, |watch| match target {
                    Target::Copy(path, name) => {
                        let placement = Placement::Copy { name: name.as_deref() };
                        receive(path, placement, input, &options, watch)
                    }
                    Target::Replace(path) => {
                        receive(path, Placement::Replace, input, &options, watch)
                    }
                    Target::StandardOutput => to_standard_output(input),
                })
            })
        };
        let ended = self.follow(&mut execution, local, &flag, Some(sender)).await;
        self.settle(ended).await
    }

    async fn start(&mut self, work: Work, input: bool) -> Result<Execution, Failure> {
        let request = ExecuteRequest { work, directory: None, environment: BTreeMap::new(), input };
        Ok(self.keeper.execute(self.lease, self.caller, request).await?)
    }

    fn bar(&self) -> Bar {
        Bar::new(self.output.quiet || self.output.json)
    }

    /// Until both sides have ended, one has failed, or a signal comes. A side that fails ends the other.
    async fn follow(
        &mut self,
        execution: &mut Execution,
        mut local: JoinHandle<Result<Summary, ArchiveError>>,
        flag: &Flag,
        pieces: Option<mpsc::Sender<Piece>>,
    ) -> Result<Copied, Failure> {
        let mut words = Vec::new();
        let mut waiting: Option<Bytes> = None;
        let mut done: Option<Result<Summary, ArchiveError>> = None;
        let end = loop {
            let full = waiting.is_some();
            tokio::select! {
                biased;
                signal = self.signals.next() => {
                    flag.store(true, Ordering::Relaxed);
                    execution.terminate().await?;
                    return Ok(Copied::Stopped(signal));
                }
                ended = &mut local, if done.is_none() => {
                    let ended = joined(ended);
                    // A stream that broke is the other side's doing, which will say why.
                    let own = !matches!(&ended, Ok(_) | Err(ArchiveError::Output(_)));
                    if own || (pieces.is_some() && ended.is_err()) {
                        execution.terminate().await?;
                        return ended.map(Copied::Done).map_err(|error| failure_here(&error));
                    }
                    done = Some(ended);
                }
                room = reserve(pieces.as_ref()), if full => {
                    // Without room the local side has ended, and is looked at next.
                    if let (Some(permit), Some(bytes)) = (room, waiting.take()) {
                        permit.send(Piece::Bytes(bytes));
                    }
                }
                event = next(execution, full) => match event? {
                    CommandEvent::Output(frame) if frame.stream == StreamKind::Error => {
                        let room = WORDS.saturating_sub(words.len()).min(frame.bytes.len());
                        words.extend_from_slice(frame.bytes.get(..room).unwrap_or_default());
                    }
                    CommandEvent::Output(frame) => {
                        waiting = pieces.is_some().then_some(frame.bytes);
                    }
                    CommandEvent::Ended(end) => break end,
                },
            }
        };
        let words = printable(&words);
        if end != ProcessEnd::Exited(0) {
            flag.store(true, Ordering::Relaxed);
            drop(pieces);
            if done.is_none() {
                // What it had begun is cleared away before anybody is told.
                let _ = local.await;
            }
            return Err(failure_inside(end, &words));
        }
        if let Some(pieces) = pieces {
            // If nobody takes it, the local side has ended, and says why.
            let _ = pieces.send(Piece::End).await;
        }
        let done = match done {
            Some(done) => done,
            None => joined(local.await),
        };
        let summary = done.map_err(|error| failure_here(&error))?;
        for line in words.lines() {
            self.output.note(line);
        }
        for notice in &summary.notices {
            self.output.note(&format!("{:?}: {}", notice.path, notice.reason));
        }
        Ok(Copied::Done(summary))
    }

    /// Leaves nothing of a transfer that was stopped.
    async fn settle(&self, ended: Result<Copied, Failure>) -> Result<Copied, Failure> {
        if matches!(ended, Ok(Copied::Done(_))) {
            self.keeper.settle_idle().await;
        }
        ended
    }
}

fn joined(
    ended: Result<Result<Summary, ArchiveError>, tokio::task::JoinError>,
) -> Result<Summary, ArchiveError> {
    ended.unwrap_or_else(|error| Err(ArchiveError::Input(io::Error::other(error))))
}

async fn reserve(pieces: Option<&mpsc::Sender<Piece>>) -> Option<mpsc::Permit<'_, Piece>> {
    pieces?.reserve().await.ok()
}

/// The transfer's next event; while there is no room for more, only that it may not go on.
async fn next(execution: &mut Execution, full: bool) -> Result<CommandEvent, Failure> {
    let event = if full { Err(execution.hold().await) } else { execution.next().await };
    event.map_err(Failure::from)
}

/// What kind of trouble has which code: the only place that says so.
const fn code_of(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Refused => codes::TRANSFER_REFUSED,
        Trouble::Cap => codes::TRANSFER_LIMIT,
        Trouble::Damaged => codes::TRANSFER_DAMAGED,
        Trouble::Failed | Trouble::Cancelled => codes::TRANSFER_FAILED,
    }
}

/// The failure of the side on this machine.
pub(crate) fn failure_here(error: &ArchiveError) -> Failure {
    match error {
        ArchiveError::Output(source) if source.kind() == io::ErrorKind::BrokenPipe => {
            Failure::OutputClosed
        }
        _ => Failure::new(code_of(error.trouble()), error.to_string()),
    }
}

/// The failure of the side in the sandbox, in its own words.
fn failure_inside(end: ProcessEnd, words: &str) -> Failure {
    let trouble = match end {
        ProcessEnd::Exited(status) => Trouble::of_exit_status(status),
        ProcessEnd::Signaled(_) => None,
    };
    let Some(trouble) = trouble else {
        let problem = match end {
            ProcessEnd::Exited(status) => format!("it exited with {status}"),
            ProcessEnd::Signaled(signal) => format!("signal {} ended it", signal.0),
        };
        let message = format!("the transfer's process in the sandbox failed: {problem}");
        return Failure::new(codes::TRANSFER_FAILED, message);
    };
    Failure::new(code_of(trouble), format!("in the sandbox: {}", words.trim_end()))
}

/// Words of the sandbox without what a terminal would obey.
fn printable(words: &[u8]) -> String {
    String::from_utf8_lossy(words)
        .chars()
        .map(|one| if one.is_control() && one != '\n' { '\u{fffd}' } else { one })
        .collect()
}

/// A piece of what comes out.
enum Piece {
    Bytes(Bytes),
    /// The sandbox's side has ended well: what came is all.
    End,
}

/// Pieces as a stream that breaks unless it was ended.
struct PieceReader {
    pieces: mpsc::Receiver<Piece>,
    piece: Bytes,
    ended: bool,
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.ended {
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.piece = bytes,
                Some(Piece::End) => self.ended = true,
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let count = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

/// A stream as pieces of input.
struct InputWriter {
    input: mpsc::Sender<ProcessInput>,
    piece: Vec<u8>,
}

impl InputWriter {
    fn put(&self, input: ProcessInput) -> io::Result<()> {
        self.input.blocking_send(input).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Says that what was written is all.
    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.put(ProcessInput::End)
    }
}

impl Write for InputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if piece.is_empty() { Ok(()) } else { self.put(ProcessInput::Bytes(piece.into())) }
    }
}

fn from_standard_input(output: &mut InputWriter) -> Result<Summary, ArchiveError> {
    output.write_all(TREE).map_err(ArchiveError::Output)?;
    let mut input = io::stdin().lock();
    let mut piece = vec![0; PIECE];
    loop {
        match input.read(&mut piece) {
            Ok(0) => return Ok(Summary::default()),
            Ok(count) => output
                .write_all(piece.get(..count).unwrap_or_default())
                .map_err(ArchiveError::Output)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ArchiveError::Input(error)),
        }
    }
}

fn to_standard_output(input: PieceReader) -> Result<Summary, ArchiveError> {
    let mut input = BufReader::with_capacity(PIECE, input);
    input.read_until(b'\n', &mut Vec::new()).map_err(ArchiveError::Input)?;
    let mut output = io::stdout().lock();
    loop {
        let bytes = input.fill_buf().map_err(ArchiveError::Input)?;
        if bytes.is_empty() {
            break;
        }
        output.write_all(bytes).map_err(ArchiveError::Output)?;
        let count = bytes.len();
        input.consume(count);
    }
    output.flush().map_err(ArchiveError::Output)?;
    Ok(Summary::default())
}

/// How far the local side is, on a terminal.
struct Bar(ProgressBar);

impl Bar {
    /// On standard error, if that is a terminal.
    fn new(hidden: bool) -> Self {
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::no_length() };
        let style = ProgressStyle::with_template(
            "{spinner} {binary_bytes} ({binary_bytes_per_sec}), {msg} entries",
        );
        Self(match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    fn watching<T>(self, flag: &AtomicBool, work: impl FnOnce(&mut Watch<'_>) -> T) -> T {
        let mut report = |progress: Progress| {
            if !self.0.is_hidden() {
                self.0.set_position(progress.bytes);
                self.0.set_message(progress.entries.to_string());
            }
        };
        let result = work(&mut Watch::none().cancelled_by(flag).reporting_to(&mut report));
        self.0.finish_and_clear();
        result
    }
}
