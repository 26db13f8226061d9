//! What the tests of local sandboxes share: a provider on a fresh state directory, and commands in one line.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of this module")]

pub mod leaks;
pub mod users;

use leasehold_core::{CommandId, Grant, Marker, Pin, SandboxId, SandboxName, Spec, Timestamp};
use leasehold_local::{InitProgram, LocalProvider};
use leasehold_ports::{
    BirthKey, Call, Clock, CommandRequest, CreateRequest, Created, Fence, FenceTag, Preparation,
    ProcessEnd, Provider, ProviderError, Random, RunningProcess, StartError, Status, StreamKind,
    Work,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Real time.
pub struct SystemClock;

#[async_trait::async_trait]
#[expect(clippy::disallowed_methods, reason = "tests of real processes need real time")]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap())
    }

    fn monotonic(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The operating system's randomness.
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).unwrap();
    }
}

/// The init program of this package, or its copy for a user who cannot reach the original.
pub fn init_program() -> PathBuf {
    std::env::var_os(users::INIT_VARIABLE)
        .map_or_else(|| env!("CARGO_BIN_EXE_leasehold-init").into(), PathBuf::from)
}

/// Opens a provider on a state directory.
pub fn provider_at(path: &Path) -> LocalProvider {
    let init = InitProgram::At(init_program());
    LocalProvider::open(path, init, Arc::new(SystemClock), Arc::new(SystemRandom), None).unwrap()
}

/// A call that gives up after some seconds.
pub fn call_for(seconds: u64) -> Call {
    Call { credential: None, deadline: SystemClock.now() + Duration::from_secs(seconds) }
}

/// A call with ample time: no test waits for it to run out.
pub fn call() -> Call {
    call_for(30)
}

/// A name that no other test of this process uses.
pub fn fresh_name() -> SandboxName {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    SandboxName::new(format!(
        "test-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ))
    .unwrap()
}

/// A command id that no other test of this process uses.
pub fn fresh_command() -> CommandId {
    let mut bytes = [0; 10];
    SystemRandom.fill(&mut bytes);
    CommandId::from_random(bytes)
}

pub fn create_request(name: SandboxName) -> CreateRequest {
    CreateRequest { name, birth_key: BirthKey("birth key".into()), spec: Spec::default() }
}

pub fn fence(grant: u64) -> Fence {
    Fence { grant: Grant(grant), tag: FenceTag(format!("tag of {grant}")) }
}

pub fn preparation(grant: u64) -> Preparation {
    Preparation { marker: Marker::new("the-marker").unwrap(), fence: fence(grant) }
}

/// A program with arguments, under grant 0, with no input.
pub fn command(argv: &[&str]) -> CommandRequest {
    CommandRequest {
        id: fresh_command(),
        work: Work::Program(argv.iter().map(|&argument| argument.to_owned()).collect()),
        directory: None,
        environment: BTreeMap::new(),
        input: false,
        grant: Grant(0),
    }
}

/// A shell script.
pub fn script(text: &str) -> CommandRequest {
    command(&["/bin/sh", "-c", text])
}

/// What a command wrote, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub output: String,
    pub error: String,
    pub end: ProcessEnd,
}

/// A sandbox on a state directory of its own.
pub struct Sandbox {
    // First, since fields are dropped in order: it finds the inits by the directory that `state` removes.
    _rescue: Rescue,
    pub state: tempfile::TempDir,
    pub provider: LocalProvider,
    pub created: Created,
}

/// Ends the inits of a state directory when a test panics: their directory goes with the test.
pub struct Rescue(pub PathBuf);

impl Drop for Rescue {
    fn drop(&mut self) {
        for (pid, _) in
            leaks::inits(&self.0).intersection(&leaks::process_table().into_keys().collect())
        {
            let pid = rustix::process::Pid::from_raw(*pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Sandbox {
    /// A new one. `None` where this machine allows none: the test is skipped then.
    pub async fn new() -> Option<Self> {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("state");
        let provider = provider_at(&path);
        let created =
            created_or_skip(provider.create(&create_request(fresh_name()), &call()).await)?;
        Some(Self { state, provider, created, _rescue: Rescue(path) })
    }

    pub fn id(&self) -> &SandboxId {
        &self.created.sandbox
    }

    /// The sandbox's directory on the host.
    pub fn directory(&self) -> PathBuf {
        let (directory, _) = self.id().as_str().split_once('-').unwrap();
        self.state.path().join("state").join(directory)
    }

    pub async fn start(&self, request: &CommandRequest) -> Result<RunningProcess, StartError> {
        self.provider.start(self.id(), request, &call()).await
    }

    /// Runs a command to its end.
    pub async fn run(&self, request: &CommandRequest) -> Ran {
        collect(self.start(request).await.unwrap()).await
    }

    /// Runs a script that must succeed, and gives what it wrote, without the last line's end.
    pub async fn output_of(&self, text: &str) -> String {
        let ran = self.run(&script(text)).await;
        assert_eq!(ran.end, ProcessEnd::Exited(0), "{text}: {ran:?}");
        ran.output.trim_end().to_owned()
    }

    pub async fn clean(&self) -> Result<(), ProviderError> {
        self.provider.clean(self.id(), Grant(1), &call()).await
    }

    /// Destroys it; it must be proved.
    pub async fn destroy(self) -> tempfile::TempDir {
        let removal = self.provider.destroy(&self.created.pin(), &call()).await.unwrap();
        assert!(matches!(removal, leasehold_ports::Removal::Proved(_)), "{removal:?}");
        self.state
    }
}

/// What a row would be bound to a sandbox by.
pub async fn pin_of(provider: &LocalProvider, sandbox: &SandboxId) -> Pin {
    match provider.status(sandbox, &call()).await.unwrap() {
        Status::Present { birth, .. } => Pin { sandbox: sandbox.clone(), birth },
        other => panic!("{sandbox} is {other:?}"),
    }
}

/// Reads a command to its end.
pub async fn collect(mut process: RunningProcess) -> Ran {
    let (mut output, mut error) = (Vec::new(), Vec::new());
    while let Some(frame) = process.output.recv().await {
        match frame.stream {
            StreamKind::Output => output.extend_from_slice(&frame.bytes),
            StreamKind::Error => error.extend_from_slice(&frame.bytes),
        }
    }
    let end = process.control.wait().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { output: text(output), error: text(error), end }
}

/// Reads output until a line arrives that starts with `prefix`, and gives the rest of it. Tests wait for such
/// a line instead of for a time.
pub async fn wait_for_line(process: &mut RunningProcess, prefix: &str) -> String {
    let mut text = String::new();
    loop {
        let found = text
            .split_inclusive('\n')
            .find_map(|line| line.strip_suffix('\n')?.strip_prefix(prefix));
        if let Some(rest) = found {
            return rest.to_owned();
        }
        let frame =
            process.output.recv().await.unwrap_or_else(|| panic!("no line {prefix:?} in {text:?}"));
        text.push_str(std::str::from_utf8(&frame.bytes).unwrap());
    }
}

/// The sandbox that was made; `None`, with a word about it, where this machine allows no namespaces. Where
/// everything must be tested (`CI=true`) that is a failure.
pub fn created_or_skip(created: Result<Created, ProviderError>) -> Option<Created> {
    match created {
        Err(ProviderError::Invalid { message })
            if message.contains("namespaces") || message.contains("map user") =>
        {
            skip(&message);
            None
        }
        other => Some(other.unwrap()),
    }
}

/// Says that a test cannot run here, which no continuous integration may hear.
pub fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
    assert!(
        !std::env::var("CI").is_ok_and(|value| value == "true"),
        "nothing may be skipped here: {reason}"
    );
}
