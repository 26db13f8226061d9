//! The few programs that simulated sandboxes know: enough for the conformance suite, which speaks
//! to real sandboxes in the same words, and for histories.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use leasehold_ports::{CommandRequest, Frame, NotStarted, ProcessEnd, Signal, StreamKind, Work};
use secrecy::{ExposeSecret as _, SecretString};

/// The directories that every simulated sandbox has.
const DIRECTORIES: [&str; 3] = ["/", "/tmp", "/workspace"];

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it prints, at once.
    pub frames: Vec<Frame>,
    /// How it ends by itself.
    pub end: ProcessEnd,
    /// After what time; none means that it runs until it is terminated.
    pub runs_for: Option<Duration>,
    /// A child that outlives it, and for how long; none inside means until it is terminated.
    pub background: Option<Option<Duration>>,
    /// Whether it ignores polite signals.
    pub ignores_terminate: bool,
    /// Whether it prints what it reads, and ends when that ends.
    pub echoes_input: bool,
}

impl Program {
    fn exits(code: u8) -> Self {
        Self {
            frames: Vec::new(),
            end: ProcessEnd::Exited(code),
            runs_for: Some(Duration::from_millis(2)),
            background: None,
            ignores_terminate: false,
            echoes_input: false,
        }
    }

    fn sleeps(seconds: &str) -> Option<Self> {
        let seconds: f64 = seconds.parse().ok()?;
        let runs_for = Duration::try_from_secs_f64(seconds).ok()?;
        Some(Self { runs_for: Some(runs_for), ..Self::exits(0) })
    }

    fn prints(stream: StreamKind, text: &str) -> Self {
        let frame = Frame { stream, bytes: Bytes::from(format!("{text}\n")) };
        Self { frames: vec![frame], ..Self::exits(0) }
    }

    /// What a request starts.
    ///
    /// # Errors
    /// [`NotStarted::NotFound`] for a program that simulated sandboxes do not know,
    /// [`NotStarted::NoDirectory`] for a directory that they do not have.
    pub fn of(request: &CommandRequest) -> Result<Self, NotStarted> {
        if let Some(directory) = &request.directory
            && !DIRECTORIES.contains(&directory.as_str())
        {
            return Err(NotStarted::NoDirectory { directory: directory.clone() });
        }
        let input = request.input;
        let words: Vec<&str> = match &request.work {
            Work::Program(argv) => argv.iter().map(String::as_str).collect(),
            // Simulated sandboxes have no files.
            Work::Send(_) | Work::Receive(_) => Vec::new(),
        };
        let program = match words.as_slice() {
            ["true"] => Some(Self::exits(0)),
            ["false"] => Some(Self::exits(1)),
            ["cat"] if input => Some(Self { echoes_input: true, runs_for: None, ..Self::exits(0) }),
            ["cat"] => Some(Self::exits(0)),
            ["sleep", seconds] => Self::sleeps(seconds),
            ["echo", rest @ ..] => Some(Self::prints(StreamKind::Output, &rest.join(" "))),
            ["sh", "-c", script] => Self::of_script(script, &request.environment),
            _ => None,
        };
        program.ok_or_else(|| NotStarted::NotFound { program: request.work.name().to_owned() })
    }

    /// A script is one of a few known forms, not shell.
    fn of_script(script: &str, environment: &BTreeMap<String, SecretString>) -> Option<Self> {
        let mut program = Self::exits(0);
        for part in script.split("; ") {
            let part = match part.split_once(" & ") {
                Some((child, rest)) => {
                    let seconds = child.strip_prefix("setsid ").unwrap_or(child);
                    let seconds = seconds.strip_prefix("sleep ")?;
                    program.background = Some(Self::sleeps(seconds)?.runs_for);
                    rest
                }
                None => part,
            };
            let words: Vec<&str> = part.split(' ').collect();
            match words.as_slice() {
                ["exit", code] => program.end = ProcessEnd::Exited(code.parse().ok()?),
                ["sleep", seconds] => program.runs_for = Self::sleeps(seconds)?.runs_for,
                ["trap", "''", "TERM"] => program.ignores_terminate = true,
                ["kill", "-9", "$$"] => program.end = ProcessEnd::Signaled(Signal::KILL),
                ["echo", text @ .., ">&2"] => {
                    program.frames.extend(Self::prints(StreamKind::Error, &text.join(" ")).frames);
                }
                ["echo", variable] if variable.starts_with('$') => {
                    let value = environment.get(&variable[1..]);
                    let text = value.map_or("", |value| value.expose_secret());
                    program.frames.extend(Self::prints(StreamKind::Output, text).frames);
                }
                ["echo", text @ ..] => {
                    program.frames.extend(Self::prints(StreamKind::Output, &text.join(" ")).frames);
                }
                _ => return None,
            }
        }
        Some(program)
    }
}
