//! What makes sandboxes.

use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::catalogue::codes;
use leasehold_core::{
    AccountId, BirthFingerprint, CommandId, Evidence, Grant, MachineId, Marker, Pin, SandboxId,
    SandboxName, Spec, Timestamp,
};
use secrecy::SecretString;

use crate::credentials::Credential;
use crate::process::{
    AttachedProcess, CommandRequest, Fence, OutputOffsets, RunningProcess, StartError,
};

/// The circumstances of one provider call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The key to use, proved to belong to the home's account. None where the provider needs none.
    pub credential: Option<Credential>,
    /// When the caller gives up, by the clock. A provider stops trying then; what it has already
    /// asked for may still happen.
    pub deadline: Timestamp,
}

/// What a provider can do. The keeper chooses its strategy from these, never from a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// A live sandbox's name is unique, and a create under a taken name is refused.
    pub unique_names: bool,
    /// Sandboxes can be listed.
    pub list: bool,
    /// A sandbox can be frozen and thawed.
    pub suspend: bool,
    /// A sandbox can be copied.
    pub fork: bool,
    /// A sandbox ends by itself when its time is over, though nobody lives who would end it.
    pub timer: bool,
    /// How a sandbox is made clean.
    pub clean: CleanStrategy,
    /// A removal compares the birth in the instant of the removal. Where it cannot, and ids are
    /// given again, the keeper reads the birth just before; what happens between the two nobody sees.
    pub compares_births: bool,
}

/// How a provider makes a sandbox clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanStrategy {
    /// It kills everything that is not its own, and the kernel confirms it.
    WholeTree,
    /// Everything outside the baseline is killed until two looks agree.
    Baseline,
}

/// What is known about a provider's behaviour in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How long after a create call was given up a sandbox may still come of it.
    pub create_horizon: Duration,
    /// How long a by-id read may lag behind.
    pub read_lag: Duration,
    /// How long a listing may lag behind.
    pub list_lag: Duration,
    /// Whether an id may be given to another sandbox later.
    pub recycles_ids: bool,
    /// The time limit for one call.
    pub call_limit: Duration,
}

/// Where the proof of birth has room beside the name. Secret: whoever knows it can claim the birth.
#[derive(Clone, Debug)]
pub struct BirthKey(pub SecretString);

/// A sandbox to be made.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// Its unguessable name, used once.
    pub name: SandboxName,
    /// Goes along where the provider has room for it.
    pub birth_key: BirthKey,
    /// What is asked for.
    pub spec: Spec,
}

/// A sandbox that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The provider's id.
    pub sandbox: SandboxId,
    /// What tells it apart from another sandbox with the same id.
    pub birth: BirthFingerprint,
}

impl Created {
    /// What a row is bound to it by.
    #[must_use]
    pub fn pin(&self) -> Pin {
        Pin { sandbox: self.sandbox.clone(), birth: self.birth.clone() }
    }
}

/// The state of a sandbox as a provider tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObservedState {
    /// Being made.
    Creating,
    /// Running.
    Running,
    /// Frozen.
    Suspended,
    /// Being removed: still there.
    Destroying,
    /// Broken: still there.
    Failed,
}

/// What a by-id read answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is there.
    Present {
        /// In which state.
        state: ObservedState,
        /// Which one it is.
        birth: BirthFingerprint,
    },
    /// The provider says that it was removed. One such answer is a proof.
    Destroyed(Evidence),
    /// The provider does not find it. Two such answers, far enough apart, are a proof.
    Absent(Evidence),
}

/// What a removal answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Proved(Evidence),
    /// The provider accepted; reads will tell when it is gone.
    Accepted,
    /// The provider does not find it. Two such answers, far enough apart, are a proof.
    Absent(Evidence),
    /// Another sandbox stands under the id: its birth differs. Nothing was removed, and ours is gone.
    Stranger(Evidence),
}

/// One sandbox of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryEntry {
    /// The provider's id.
    pub sandbox: SandboxId,
    /// Its name, if it has one that could be ours.
    pub name: Option<SandboxName>,
    /// What tells it apart.
    pub birth: BirthFingerprint,
    /// Its state.
    pub state: ObservedState,
    /// How long ago it was made. Both times are the provider's, so that it does not matter how far
    /// its clock is from ours.
    pub age: Duration,
}

/// A page of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InventoryPage {
    /// The sandboxes on it.
    pub entries: Vec<InventoryEntry>,
    /// Where the next page begins; none after the last.
    pub next: Option<String>,
}

/// What makes a new sandbox usable, and recognisable.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// Written inside, to be read back at a resume.
    pub marker: Marker,
    /// The first fence.
    pub fence: Fence,
}

/// What is found inside a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The marker, if there is one.
    pub marker: Option<Marker>,
    /// The fence, if there is one. Whoever reads it checks its tag.
    pub fence: Option<Fence>,
}

/// Why a provider call did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The name is taken. Nothing was made.
    #[error("the name is taken at the provider")]
    NameTaken,
    /// A limit of the account or the machine is reached. Nothing happened.
    #[error("a limit at the provider is reached: {message}")]
    LimitReached {
        /// Which, in the provider's words.
        message: String,
    },
    /// The request will never be accepted as it is. Nothing happened.
    #[error("the provider refuses the request: {message}")]
    Invalid {
        /// Why.
        message: String,
    },
    /// The sandbox is not in a state for this now. Nothing happened; it may work later.
    #[error("the sandbox is busy: {message}")]
    Busy {
        /// Why.
        message: String,
    },
    /// The key is not accepted. Nothing happened, and nothing may be concluded.
    #[error("the key is not accepted by the provider")]
    Unauthorized,
    /// The sandbox was not found by a call other than a read or a removal. Proves nothing alone.
    #[error("the sandbox was not found")]
    NotFound,
    /// The provider cannot do this at all.
    #[error("this provider cannot {operation}")]
    Unsupported {
        /// What.
        operation: &'static str,
    },
    /// The provider could not be reached, so nothing happened.
    #[error("the provider could not be reached: {message}")]
    Unreachable {
        /// Why.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// No usable answer came. The call may have had its effect, or have it later.
    #[error("no answer from the provider: {message}")]
    NoAnswer {
        /// What went wrong.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl ProviderError {
    /// Its code in the catalogue.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            ProviderError::NameTaken => codes::PROVIDER_NAME_TAKEN,
            ProviderError::Invalid { .. } => codes::PROVIDER_REFUSED,
            ProviderError::LimitReached { .. } => codes::PROVIDER_LIMIT,
            ProviderError::Busy { .. } => codes::PROVIDER_BUSY,
            ProviderError::Unauthorized => codes::PROVIDER_UNAUTHORIZED,
            ProviderError::NotFound => codes::PROVIDER_NOT_FOUND,
            ProviderError::Unsupported { .. } => codes::PROVIDER_UNSUPPORTED,
            ProviderError::Unreachable { .. } => codes::PROVIDER_UNREACHABLE,
            ProviderError::NoAnswer { .. } => codes::PROVIDER_NO_ANSWER,
        }
    }

    /// Whether the call certainly had, and will have, no effect.
    #[must_use]
    pub const fn is_definite(&self) -> bool {
        !matches!(self, ProviderError::NoAnswer { .. })
    }
}

/// What makes sandboxes at one endpoint.
///
/// Every operation may be repeated: a repeated one has the effect of one. A future may be dropped at
/// any await; then the call is one whose answer was lost.
#[async_trait]
pub trait Provider: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// How it behaves in time.
    fn facts(&self) -> Facts;

    /// The machine that its sandboxes live on, where they cannot be reached from another and it is
    /// known. A home that names another machine is not this provider's: what is not found here may
    /// well be there.
    fn machine(&self) -> Option<MachineId>;

    /// Whose account the call's key belongs to. Asked before any other answer is interpreted.
    async fn account(&self, call: &Call) -> Result<AccountId, ProviderError>;

    /// Makes a sandbox under a name that is used once.
    async fn create(&self, request: &CreateRequest, call: &Call) -> Result<Created, ProviderError>;

    /// Everything that bears the name, from a full listing that began after the call.
    async fn find_by_name(
        &self,
        name: &SandboxName,
        call: &Call,
    ) -> Result<Vec<InventoryEntry>, ProviderError>;

    /// One page of the account's sandboxes. Lists never decide about life or death.
    async fn list(&self, from: Option<&str>, call: &Call) -> Result<InventoryPage, ProviderError>;

    /// The authoritative read, by id.
    async fn status(&self, sandbox: &SandboxId, call: &Call) -> Result<Status, ProviderError>;

    /// Makes workspace, marker, fence and baseline.
    async fn prepare(
        &self,
        sandbox: &SandboxId,
        preparation: &Preparation,
        call: &Call,
    ) -> Result<(), ProviderError>;

    /// Reads marker and fence from inside.
    async fn identify(&self, sandbox: &SandboxId, call: &Call) -> Result<Identity, ProviderError>;

    /// Raises the fence. One that stands higher already stays.
    async fn raise_fence(
        &self,
        sandbox: &SandboxId,
        fence: &Fence,
        call: &Call,
    ) -> Result<(), ProviderError>;

    /// Lets the sandbox end by itself once `left` is over, counted from this call; none means never.
    /// It only moves later: where it would end later already, that stays. So a call that comes late
    /// takes nothing back that was promised since. Only with [`Capabilities::timer`].
    async fn extend_timer(
        &self,
        sandbox: &SandboxId,
        left: Option<Duration>,
        call: &Call,
    ) -> Result<(), ProviderError>;

    /// Ends everything outside the baseline, and returns when that is confirmed. `over` is the last
    /// grant that is over. Once a command of a later one was started in the sandbox, `Busy` is the
    /// answer and nothing is ended: a call that comes late, whose node may be dead, harms nobody.
    async fn clean(
        &self,
        sandbox: &SandboxId,
        over: Grant,
        call: &Call,
    ) -> Result<(), ProviderError>;

    /// Starts a command.
    async fn start(
        &self,
        sandbox: &SandboxId,
        request: &CommandRequest,
        call: &Call,
    ) -> Result<RunningProcess, StartError>;

    /// Gives the output of a command that was started earlier, from a place on, and power over it. With
    /// a reader attached a command whose kept output is full waits; with none the oldest goes.
    ///
    /// # Errors
    /// [`ProviderError::Invalid`] when nothing of that command is kept.
    async fn attach(
        &self,
        _sandbox: &SandboxId,
        _command: &CommandId,
        _from: OutputOffsets,
        _call: &Call,
    ) -> Result<AttachedProcess, ProviderError> {
        Err(ProviderError::Unsupported { operation: "give a command's output again" })
    }

    /// Removes the sandbox that has this id and this birth. With
    /// [`Capabilities::compares_births`] one of another birth is left alone, whenever it came there.
    async fn destroy(&self, pin: &Pin, call: &Call) -> Result<Removal, ProviderError>;
}
