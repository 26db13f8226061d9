//! What the cases stand on: a provider, time, names, and sandboxes that are removed at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{Either, select};
use leasehold_core::{AccountId, CommandId, Grant, Marker, SandboxId, SandboxName, Spec};
use leasehold_ports::{
    BirthKey, Call, Clock, CommandRequest, CreateRequest, Created, Credential, Fence, FenceTag,
    Preparation, ProcessEnd, Provider, ProviderError, Random, Removal, RunningProcess, StartError,
    Status, StreamKind, Work,
};
use secrecy::SecretString;

/// What a provider did that it may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        Self(format!("the provider failed: {error:?}"))
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self(format!("the command did not start: {error:?}"))
    }
}

/// Fails the case unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Failure(format!($($message)+)));
        }
    };
}
pub(super) use ensure;

/// A provider under test.
#[async_trait]
pub trait Bench: Send + Sync {
    /// It.
    fn provider(&self) -> Arc<dyn Provider>;

    /// The clock that deadlines are told by.
    fn clock(&self) -> Arc<dyn Clock>;

    /// For names and ids. Two runs against the same account must not draw the same.
    fn random(&self) -> Arc<dyn Random>;

    /// The key to use, if it needs one.
    fn credential(&self) -> Option<Credential> {
        None
    }

    /// The account that the key belongs to.
    fn account(&self) -> AccountId;

    /// What is asked for in every create.
    fn spec(&self) -> Spec {
        Spec::default()
    }

    /// How long anything may take that should happen soon.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// A sandbox that a case made.
pub struct TestSandbox<'a> {
    pub(super) bench: &'a dyn Bench,
    /// Its id and birth.
    pub created: Created,
    /// Its name.
    pub name: SandboxName,
    /// Its marker.
    pub marker: Marker,
}

impl fmt::Debug for TestSandbox<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("TestSandbox").field(&self.created).finish()
    }
}

/// A call with all the time that the bench allows.
pub(super) fn call(bench: &dyn Bench) -> Call {
    Call { credential: bench.credential(), deadline: bench.clock().now() + bench.patience() }
}

fn bytes<const LENGTH: usize>(bench: &dyn Bench) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bench.random().fill(&mut bytes);
    bytes
}

pub(super) fn new_name(bench: &dyn Bench) -> SandboxName {
    SandboxName::from_digest(&bytes(bench))
}

pub(super) fn new_command_id(bench: &dyn Bench) -> CommandId {
    CommandId::from_random(bytes(bench))
}

/// An id that no sandbox has.
pub(super) fn unknown_sandbox(bench: &dyn Bench) -> Result<SandboxId, Failure> {
    let name = new_name(bench);
    SandboxId::new(name.as_str()).map_err(|error| Failure(error.to_string()))
}

pub(super) fn fence(grant: u64) -> Fence {
    Fence { grant: Grant(grant), tag: FenceTag(format!("{grant:064x}")) }
}

pub(super) fn create_request(bench: &dyn Bench, name: &SandboxName) -> CreateRequest {
    CreateRequest {
        name: name.clone(),
        birth_key: BirthKey(SecretString::from("0123456789abcdef")),
        spec: bench.spec(),
    }
}

/// A new sandbox, not prepared.
pub(super) async fn bare(bench: &dyn Bench) -> Result<TestSandbox<'_>, Failure> {
    let name = new_name(bench);
    let request = create_request(bench, &name);
    let created = bench.provider().create(&request, &call(bench)).await?;
    Ok(TestSandbox { bench, created, name, marker: Marker::from_random(bytes(bench)) })
}

/// A new sandbox with its marker, fenced at grant 1.
pub(super) async fn prepared(bench: &dyn Bench) -> Result<TestSandbox<'_>, Failure> {
    let sandbox = bare(bench).await?;
    sandbox.prepare().await?;
    Ok(sandbox)
}

pub(super) fn command(bench: &dyn Bench, argv: &[&str]) -> CommandRequest {
    CommandRequest {
        id: new_command_id(bench),
        work: Work::Program(argv.iter().map(|word| (*word).to_owned()).collect()),
        directory: None,
        environment: BTreeMap::new(),
        input: false,
        grant: Grant(1),
    }
}

/// Everything that a command printed, and how it ended.
pub(super) struct Printed {
    pub(super) output: Vec<u8>,
    pub(super) error: Vec<u8>,
    pub(super) end: ProcessEnd,
}

/// `future`, or a failure when it takes longer than the bench's patience.
pub(super) async fn soon<T>(
    bench: &dyn Bench,
    what: &str,
    future: impl Future<Output = T> + Send,
) -> Result<T, Failure> {
    let clock = bench.clock();
    let sleep = std::pin::pin!(clock.sleep(bench.patience()));
    match select(std::pin::pin!(future), sleep).await {
        Either::Left((value, _)) => Ok(value),
        Either::Right(_) => Err(Failure(format!("{what} took longer than {:?}", bench.patience()))),
    }
}

/// Reads everything that a command prints, and waits for its end.
pub(super) async fn finish(
    bench: &dyn Bench,
    mut process: RunningProcess,
) -> Result<Printed, Failure> {
    // A command whose input was announced and is not sent waits for it.
    drop(process.input);
    let (mut output, mut error) = (Vec::new(), Vec::new());
    let mut collect = |stream: StreamKind, bytes: &Bytes| match stream {
        StreamKind::Output => output.extend_from_slice(bytes),
        StreamKind::Error => error.extend_from_slice(bytes),
    };
    while let Some(frame) = soon(bench, "the output", process.output.recv()).await? {
        collect(frame.stream, &frame.bytes);
    }
    let end = soon(bench, "the end", process.control.wait()).await??;
    Ok(Printed { output, error, end })
}

impl TestSandbox<'_> {
    pub(super) fn id(&self) -> &SandboxId {
        &self.created.sandbox
    }

    pub(super) async fn prepare(&self) -> Result<(), Failure> {
        let preparation = Preparation { marker: self.marker.clone(), fence: fence(1) };
        let provider = self.bench.provider();
        Ok(provider.prepare(self.id(), &preparation, &call(self.bench)).await?)
    }

    pub(super) async fn start(
        &self,
        request: &CommandRequest,
    ) -> Result<RunningProcess, StartError> {
        self.bench.provider().start(self.id(), request, &call(self.bench)).await
    }

    pub(super) async fn run(&self, argv: &[&str]) -> Result<Printed, Failure> {
        let process = self.start(&command(self.bench, argv)).await?;
        finish(self.bench, process).await
    }

    pub(super) async fn status(&self) -> Result<Status, Failure> {
        Ok(self.bench.provider().status(self.id(), &call(self.bench)).await?)
    }

    /// Removes it, and waits for the proof.
    pub(super) async fn remove(self) -> Result<(), Failure> {
        let removal = self.bench.provider().destroy(&self.created.pin(), &call(self.bench)).await?;
        match removal {
            Removal::Proved(_) => Ok(()),
            Removal::Absent(evidence) | Removal::Stranger(evidence) => {
                Err(Failure(format!("a removal did not find it: {evidence:?}")))
            }
            Removal::Accepted => self.await_absence().await,
        }
    }

    /// Reads until it is told to be gone.
    pub(super) async fn await_absence(&self) -> Result<(), Failure> {
        let clock = self.bench.clock();
        let waiting = async {
            loop {
                match self.status().await? {
                    Status::Destroyed(_) | Status::Absent(_) => return Ok(()),
                    Status::Present { .. } => clock.sleep(Duration::from_millis(100)).await,
                }
            }
        };
        soon(self.bench, "the removal", waiting).await?
    }
}
