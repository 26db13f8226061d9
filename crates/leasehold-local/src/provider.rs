//! The provider port, on top of the state directory and the inits.

use crate::birth::{BirthPlan, give_birth};
use crate::control::Control;
use crate::deadline::Deadline;
use crate::death::{self, Destroyed};
use crate::error::LocalError;
use crate::layout::{Found, ID_BYTES, StateDirectory};
use crate::liveness;
use crate::process::{self, unexpected};
use async_trait::async_trait;
use leasehold_core::{
    AccountId, CommandId, Evidence, Grant, MachineId, Marker, Pin, SandboxId, SandboxName, Spec,
};
use leasehold_init::protocol::{self, Answer, Refusal, Request};
use leasehold_ports::{
    AttachedProcess, Call, Capabilities, CleanStrategy, Clock, CommandRequest, CreateRequest,
    Created, Facts, Fence, FenceTag, Identity, InventoryEntry, InventoryPage, ObservedState,
    OutputOffsets, Preparation, Provider, ProviderError, Random, Removal, RunningProcess,
    StartError, Status,
};
use secrecy::ExposeSecret as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Sandboxes on one page of an inventory.
const PAGE: usize = 500;

/// Which program becomes the init of new sandboxes.
#[derive(Debug, Clone, Default)]
pub enum InitProgram {
    /// This program, whose `main` calls `leasehold_init::run_if_requested` first.
    #[default]
    ThisProgram,
    /// Another program that does.
    At(PathBuf),
}

impl InitProgram {
    fn path(&self) -> &Path {
        match self {
            // Not its name: the file may have been replaced by a newer one, or removed.
            Self::ThisProgram => Path::new("/proc/self/exe"),
            Self::At(path) => path,
        }
    }
}

/// Sandboxes on this machine.
#[derive(Clone)]
pub struct LocalProvider {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for LocalProvider {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LocalProvider")
            .field("state", &self.shared.state)
            .finish_non_exhaustive()
    }
}

/// What the provider's calls and its commands share.
pub(crate) struct Shared {
    state: StateDirectory,
    init_program: InitProgram,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    machine: Option<MachineId>,
}

impl LocalProvider {
    /// Opens the state directory at `path`, making it with mode 0700 if it is absent. Blocks for some file
    /// work. `machine` is this one, if it has a stable id.
    ///
    /// # Errors
    ///
    /// When the directory cannot be used, or another user could.
    pub fn open(
        path: &Path,
        init_program: InitProgram,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        machine: Option<MachineId>,
    ) -> Result<Self, LocalError> {
        let state = StateDirectory::open(path)?;
        Ok(Self { shared: Arc::new(Shared { state, init_program, clock, random, machine }) })
    }
}

impl Shared {
    /// Runs file work and process work where it may block.
    ///
    /// Work that has begun goes on when the caller is dropped, and ends by its deadline.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, LocalError> + Send + 'static,
    ) -> Result<T, LocalError> {
        let shared = Arc::clone(self);
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(result) => result,
            // The runtime is shutting down, or the work panicked: what came of it is not known.
            Err(error) => Err(LocalError::ConnectionLost(std::io::Error::other(error))),
        }
    }

    /// What is left of a call's time.
    pub(crate) fn left(&self, call: &Call) -> Duration {
        call.deadline.since(self.clock.now())
    }

    /// Waits for something that may have begun to have its effect, at most until the call's deadline.
    pub(crate) async fn within<T>(
        &self,
        call: &Call,
        what: &'static str,
        work: impl Future<Output = Result<T, LocalError>>,
    ) -> Result<T, LocalError> {
        tokio::select! {
            biased;
            result = work => result,
            () = self.clock.sleep(self.left(call)) => Err(LocalError::DeadlinePassed(what)),
        }
    }

    /// Connects to a sandbox's init. Every error means that nothing was asked of it.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        call: &Call,
    ) -> Result<Control, LocalError> {
        let id = sandbox.clone();
        let connecting = async {
            let (found, init) = self
                .blocking(move |shared| {
                    let found = shared.state.find(&id)?.ok_or(LocalError::NotFound)?;
                    if found.directory.is_being_destroyed() {
                        return Err(LocalError::BeingDestroyed);
                    }
                    let init = found.directory.init()?.ok_or(LocalError::InitEnded)?;
                    if init.boot_id != liveness::this_boot()? {
                        return Err(LocalError::InitEnded);
                    }
                    Ok((found, init))
                })
                .await?;
            Control::connect(&found, &init).await
        };
        if self.left(call).is_zero() {
            return Err(LocalError::TooLate);
        }
        match self.within(call, "connecting", connecting).await {
            Err(LocalError::DeadlinePassed(_)) => Err(LocalError::TooLate),
            Err(LocalError::ConnectionLost(source)) => Err(LocalError::Unreachable(source)),
            other => other,
        }
    }

    /// One question to a sandbox's init.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        request: Request,
        what: &'static str,
        call: &Call,
    ) -> Result<Answer, ProviderError> {
        let mut control = self.connect(sandbox, call).await?;
        Ok(self.within(call, what, control.ask(request)).await?)
    }

    fn entry(&self, found: &Found) -> Result<InventoryEntry, LocalError> {
        Ok(InventoryEntry {
            sandbox: found.record.id.clone(),
            name: Some(found.record.name.clone()),
            birth: found.record.birth()?,
            state: state_of(found)?,
            age: self.clock.now().since(found.record.created_at),
        })
    }
}

fn state_of(found: &Found) -> Result<ObservedState, LocalError> {
    if found.directory.is_being_destroyed() {
        return Ok(ObservedState::Destroying);
    }
    let (alive, dead) = match found.directory.init()? {
        Some(init) => (liveness::lives(&init)?, ObservedState::Running),
        None => (liveness::lives(&found.record.maker)?, ObservedState::Creating),
    };
    Ok(if alive { dead } else { ObservedState::Failed })
}

/// Refuses what cannot be had here, rather than ignoring it.
fn check(spec: &Spec) -> Result<(), LocalError> {
    let unsuitable = |what: &str| Err(LocalError::Unsuitable(what.to_owned()));
    if spec.shape.is_some() {
        return unsuitable("local sandboxes have no shapes yet: leave the shape out");
    }
    if spec.image.is_some() {
        return unsuitable("local sandboxes have no images yet: leave the image out");
    }
    if spec.egress.as_ref().is_some_and(|allowed| !allowed.is_empty()) {
        return unsuitable(
            "local sandboxes have no network beside their own loopback: leave the egress list empty",
        );
    }
    Ok(())
}

fn fence_for_init(fence: &Fence) -> protocol::Fence {
    protocol::Fence { grant: fence.grant.0, tag: fence.tag.0.clone() }
}

#[async_trait]
impl Provider for LocalProvider {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            unique_names: true,
            list: true,
            suspend: false,
            fork: false,
            timer: true,
            clean: CleanStrategy::WholeTree,
            compares_births: true,
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            // A create whose caller is gone goes on until the deadline that it was given, at most.
            create_horizon: Duration::from_secs(30),
            read_lag: Duration::ZERO,
            list_lag: Duration::ZERO,
            recycles_ids: false,
            call_limit: Duration::from_secs(30),
        }
    }

    fn machine(&self) -> Option<MachineId> {
        self.shared.machine.clone()
    }

    async fn account(&self, _call: &Call) -> Result<AccountId, ProviderError> {
        let user = rustix::process::geteuid().as_raw();
        AccountId::new(format!("uid-{user}"))
            .map_err(|error| ProviderError::Invalid { message: error.to_string() })
    }

    async fn create(&self, request: &CreateRequest, call: &Call) -> Result<Created, ProviderError> {
        check(&request.spec)?;
        let mut random = [0; ID_BYTES + 16];
        self.shared.random.fill(&mut random);
        let plan = BirthPlan {
            name: request.name.clone(),
            birth_key_digest: BirthPlan::digest_birth_key(request.birth_key.0.expose_secret()),
            created_at: self.shared.clock.now(),
            random,
        };
        let limit = call.deadline.min(plan.created_at + self.facts().create_horizon);
        let record = self
            .shared
            .blocking(move |shared| {
                let deadline = Deadline::at(limit, shared.clock.as_ref());
                give_birth(&shared.state, shared.init_program.path(), plan, deadline)
            })
            .await?;
        Ok(Created { birth: record.birth()?, sandbox: record.id })
    }

    async fn find_by_name(
        &self,
        name: &SandboxName,
        _call: &Call,
    ) -> Result<Vec<InventoryEntry>, ProviderError> {
        let name = name.clone();
        let entry = self
            .shared
            .blocking(move |shared| {
                shared.state.find_by_name(&name)?.map(|found| shared.entry(&found)).transpose()
            })
            .await?;
        Ok(entry.into_iter().collect())
    }

    async fn list(&self, from: Option<&str>, _call: &Call) -> Result<InventoryPage, ProviderError> {
        let from = from.map(str::to_owned);
        let page = self
            .shared
            .blocking(move |shared| {
                let names = shared.state.directories(from.as_deref())?;
                let mut page = InventoryPage::default();
                for name in names.iter().take(PAGE) {
                    // One that is gone meanwhile is no part of the inventory.
                    if let Some(found) = shared.state.read(name)? {
                        page.entries.push(shared.entry(&found)?);
                    }
                }
                page.next = names.get(PAGE - 1).filter(|_| names.len() > PAGE).cloned();
                Ok(page)
            })
            .await?;
        Ok(page)
    }

    async fn status(&self, sandbox: &SandboxId, _call: &Call) -> Result<Status, ProviderError> {
        let id = sandbox.clone();
        let status = self
            .shared
            .blocking(move |shared| match shared.state.find(&id)? {
                Some(found) => {
                    Ok(Status::Present { state: state_of(&found)?, birth: found.record.birth()? })
                }
                None => Ok(Status::Absent(no_record())),
            })
            .await?;
        Ok(status)
    }

    async fn prepare(
        &self,
        sandbox: &SandboxId,
        preparation: &Preparation,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let request = Request::Prepare {
            marker: preparation.marker.as_str().to_owned(),
            fence: fence_for_init(&preparation.fence),
        };
        match self.shared.ask(sandbox, request, "writing the marker", call).await? {
            Answer::Done => Ok(()),
            Answer::Refused { reason: Refusal::MarkerDiffers } => {
                Err(ProviderError::Invalid { message: "the sandbox has another marker".to_owned() })
            }
            // As in `raise_fence`: a fence that stands higher stays, and the marker is the same.
            Answer::Refused { reason: Refusal::StaleFence { .. } } => Ok(()),
            other => Err(refusal(&other)),
        }
    }

    async fn identify(&self, sandbox: &SandboxId, call: &Call) -> Result<Identity, ProviderError> {
        match self.shared.ask(sandbox, Request::Inspect, "reading the marker", call).await? {
            Answer::Guard { marker, fence } => {
                let marker = marker.map(Marker::new).transpose();
                Ok(Identity {
                    marker: marker
                        .map_err(|error| ProviderError::Invalid { message: error.to_string() })?,
                    fence: fence
                        .map(|fence| Fence { grant: Grant(fence.grant), tag: FenceTag(fence.tag) }),
                })
            }
            other => Err(refusal(&other)),
        }
    }

    async fn raise_fence(
        &self,
        sandbox: &SandboxId,
        fence: &Fence,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let request = Request::RaiseFence { fence: fence_for_init(fence) };
        match self.shared.ask(sandbox, request, "raising the fence", call).await? {
            // One that stands higher already stays.
            Answer::Done | Answer::Refused { reason: Refusal::StaleFence { .. } } => Ok(()),
            other => Err(refusal(&other)),
        }
    }

    async fn extend_timer(
        &self,
        sandbox: &SandboxId,
        left: Option<Duration>,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let mut control = self.shared.connect(sandbox, call).await?;
        if !control.has_timer() {
            // Its init was born before there were timers: it never ends by itself, so not too early.
            return Ok(());
        }
        let at_boot_ms = left.map(boot_millis);
        let request = Request::ExtendTimer { at_boot_ms };
        match self.shared.within(call, "setting the timer", control.ask(request)).await? {
            Answer::Done => Ok(()),
            other => Err(refusal(&other)),
        }
    }

    async fn clean(
        &self,
        sandbox: &SandboxId,
        over: Grant,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let request = Request::Clean { over: over.0 };
        let what = "waiting for the sandbox's processes to end";
        match self.shared.ask(sandbox, request, what, call).await? {
            Answer::Done => Ok(()),
            Answer::Refused { reason: Refusal::LaterGrant { started } } => {
                Err(ProviderError::Busy { message: format!("grant {started} is in use") })
            }
            other => Err(refusal(&other)),
        }
    }

    async fn start(
        &self,
        sandbox: &SandboxId,
        request: &CommandRequest,
        call: &Call,
    ) -> Result<RunningProcess, StartError> {
        process::start(Arc::clone(&self.shared), sandbox, request, call).await
    }

    async fn attach(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        from: OutputOffsets,
        call: &Call,
    ) -> Result<AttachedProcess, ProviderError> {
        process::attach(Arc::clone(&self.shared), sandbox, command, from, call).await
    }

    async fn destroy(&self, pin: &Pin, call: &Call) -> Result<Removal, ProviderError> {
        let (pin, deadline) = (pin.clone(), call.deadline);
        let destroyed = self
            .shared
            .blocking(move |shared| {
                death::destroy(&shared.state, &pin, Deadline::at(deadline, shared.clock.as_ref()))
            })
            .await?;
        Ok(match destroyed {
            Destroyed::Proved(gone) => Removal::Proved(Evidence::of(gone.proof())),
            Destroyed::Absent => Removal::Absent(no_record()),
            Destroyed::Stranger => {
                Removal::Stranger(Evidence::of("the record is of another birth"))
            }
        })
    }
}

/// The moment that lies `left` ahead, in milliseconds since boot.
fn boot_millis(left: Duration) -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = now.tv_sec.cast_unsigned().saturating_add(left.as_secs());
    // The part of a millisecond is rounded up: never sooner than was asked for.
    let millis = now.tv_nsec.cast_unsigned() / 1_000_000 + u64::from(left.subsec_millis()) + 2;
    seconds.saturating_mul(1000).saturating_add(millis)
}

fn no_record() -> Evidence {
    Evidence::of("no sandbox with this id in the state directory")
}

fn refusal(answer: &Answer) -> ProviderError {
    match answer {
        Answer::Refused { reason: Refusal::NotWritten { message } } => {
            ProviderError::LimitReached {
                message: format!("the guard file cannot be written: {message}"),
            }
        }
        other => unexpected(other),
    }
}
