//! The truth about a simulated provider: its accounts and keys, its sandboxes, the commands in
//! them, and the calls that are still on their way.
//!
//! What a keeper sees of it goes through a [`SimulatedProvider`](crate::SimulatedProvider), with
//! lags and faults; what an [`Observer`] sees is the truth, at the instant a call is carried out.

mod changes;
mod programs;
mod reads;
mod sandbox;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_core::{
    AccountId, BirthFingerprint, CommandId, Grant, SandboxId, SandboxName, Timestamp,
};
use leasehold_ports::{Call, ProviderError};
use secrecy::ExposeSecret as _;

pub(crate) use changes::HOSTILE_GRANT;
pub use programs::Program;
pub(crate) use reads::micros;
pub(crate) use sandbox::SimulatedCommand;
pub use sandbox::{Origin, SimulatedSandbox};
pub use settings::WorldSettings;

use crate::executor::{Executor, Spawner, VirtualTime};
use crate::faults::FaultPlan;
use crate::journal::Journal;
use crate::random::{Component, RandomStream};

/// A change at the provider, as it is carried out.
#[derive(Debug)]
pub enum Mutation<'a> {
    /// A sandbox was made.
    Created {
        /// It.
        sandbox: &'a SimulatedSandbox,
    },
    /// Marker and fence were written.
    Prepared {
        /// In it.
        sandbox: &'a SimulatedSandbox,
    },
    /// The fence was raised, or found higher.
    FenceRaised {
        /// In it.
        sandbox: &'a SimulatedSandbox,
    },
    /// What was not of its own was ended.
    Cleaned {
        /// In it.
        sandbox: &'a SimulatedSandbox,
        /// The latest grant of which a command was started, if any command ran.
        ended: Option<Grant>,
    },
    /// A command was started.
    Started {
        /// In it.
        sandbox: &'a SimulatedSandbox,
        /// Which command.
        command: &'a CommandId,
        /// Under which grant.
        grant: Grant,
        /// Its last argument, by which tests know it.
        label: &'a str,
    },
    /// A removal begins.
    Destroyed {
        /// Of it.
        sandbox: &'a SimulatedSandbox,
    },
    /// A sandbox's timer ended it.
    TimerEnded {
        /// It.
        sandbox: &'a SimulatedSandbox,
        /// When, in microseconds of the run.
        at: u64,
    },
    /// A key was sent to an endpoint that it was not given for.
    KeyStrayed,
}

/// Sees every change as it is carried out: the judge.
pub trait Observer: Send + Sync {
    /// Called in the instant of the change, with the truth just before a removal and just after
    /// anything else. May not call the world.
    fn observe(&self, truth: &GroundTruth, mutation: &Mutation<'_>);
}

/// A key, and what it is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    account: AccountId,
    valid: bool,
}

/// What is true at the provider.
#[derive(Debug)]
pub struct GroundTruth {
    now: u64,
    timestamp: Timestamp,
    sandboxes: Vec<SimulatedSandbox>,
    keys: BTreeMap<String, Key>,
    creates_on_their_way: Arc<Mutex<Vec<SandboxName>>>,
    next_number: u32,
    stream: RandomStream,
}

impl GroundTruth {
    /// Microseconds since the run began.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The true wall-clock time.
    #[must_use]
    pub const fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Every sandbox that ever was, oldest first.
    #[must_use]
    pub fn sandboxes(&self) -> &[SimulatedSandbox] {
        &self.sandboxes
    }

    /// Those that exist.
    pub fn existing(&self) -> impl Iterator<Item = &SimulatedSandbox> {
        self.sandboxes.iter().filter(|sandbox| sandbox.exists(self.now))
    }

    /// Whether a create under this name may still make a sandbox.
    #[must_use]
    pub fn may_still_create(&self, name: &SandboxName) -> bool {
        let names = self.creates_on_their_way.lock().unwrap_or_else(PoisonError::into_inner);
        names.contains(name)
    }

    /// The newest sandbox that was ever given the id.
    pub(crate) fn birth_behind(&self, id: &SandboxId) -> Option<BirthFingerprint> {
        let newest = self.sandboxes.iter().rev().find(|sandbox| &sandbox.id == id)?;
        Some(newest.birth.clone())
    }

    fn find(&self, account: &AccountId, id: &SandboxId) -> Result<usize, ProviderError> {
        self.sandboxes
            .iter()
            .rposition(|sandbox| {
                &sandbox.id == id && &sandbox.account == account && sandbox.exists(self.now)
            })
            .ok_or(ProviderError::NotFound)
    }
}

/// A create that was sent. When this is dropped it has arrived, or never will.
pub(crate) struct CreateOnItsWay {
    name: SandboxName,
    names: Arc<Mutex<Vec<SandboxName>>>,
}

impl Drop for CreateOnItsWay {
    fn drop(&mut self) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = names.iter().position(|other| other == &self.name) {
            names.swap_remove(found);
        }
    }
}

/// Whose call it is, once its key was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Authorised {
    pub(crate) account: AccountId,
}

/// A simulated provider, all of it.
pub struct World {
    settings: WorldSettings,
    time: VirtualTime,
    spawner: Spawner,
    journal: Arc<Journal>,
    faults: Arc<FaultPlan>,
    observer: OnceLock<Arc<dyn Observer>>,
    latency: Mutex<RandomStream>,
    truth: Mutex<GroundTruth>,
}

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("World").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl World {
    /// A world without sandboxes; its home's account has the key `key-1`.
    #[must_use]
    pub fn new(
        seed: u64,
        settings: WorldSettings,
        executor: &Executor,
        faults: Arc<FaultPlan>,
        journal: Arc<Journal>,
    ) -> Arc<Self> {
        let time = executor.time();
        let truth = GroundTruth {
            now: time.micros(),
            timestamp: time.timestamp(),
            sandboxes: Vec::with_capacity(16),
            keys: BTreeMap::new(),
            creates_on_their_way: Arc::default(),
            next_number: 1,
            stream: RandomStream::new(seed, Component::World),
        };
        let world = Arc::new(Self {
            time,
            spawner: executor.spawner(),
            journal,
            faults,
            observer: OnceLock::new(),
            latency: Mutex::new(RandomStream::new(seed, Component::Latency)),
            truth: Mutex::new(truth),
            settings,
        });
        world.add_key("key-1", &world.settings.home.account);
        world
    }

    /// Lets `observer` see every change. Once for each world; a second one is ignored.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        let _ = self.observer.set(observer);
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &WorldSettings {
        &self.settings
    }

    /// The true time.
    #[must_use]
    pub const fn time(&self) -> &VirtualTime {
        &self.time
    }

    /// Which calls go wrong.
    #[must_use]
    pub fn faults(&self) -> &FaultPlan {
        &self.faults
    }

    /// What happened.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) const fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Looks at the truth. `look` may not call the world.
    pub fn inspect<T>(&self, look: impl FnOnce(&GroundTruth) -> T) -> T {
        look(&self.truth())
    }

    /// A key for `account`.
    pub fn add_key(&self, key: &str, account: &AccountId) {
        let key_of_account = Key { account: account.clone(), valid: true };
        self.truth().keys.insert(key.to_owned(), key_of_account);
    }

    /// The key is not accepted any more, or accepted again.
    pub fn set_key_valid(&self, key: &str, valid: bool) {
        self.journal.note(format_args!("world key {key} valid={valid}"));
        if let Some(key) = self.truth().keys.get_mut(key) {
            key.valid = valid;
        }
    }

    /// The truth, brought up to the present.
    pub(crate) fn truth(&self) -> MutexGuard<'_, GroundTruth> {
        let mut truth = self.truth.lock().unwrap_or_else(PoisonError::into_inner);
        truth.now = self.time.micros();
        truth.timestamp = self.time.timestamp();
        self.let_timers_end(&mut truth);
        truth
    }

    /// How long a request or an answer is on its way: mostly short.
    pub(crate) fn draw_latency(&self) -> Duration {
        let longest = self.settings.longest_latency;
        let mut stream = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let most = if stream.happens(900) { longest / 8 } else { longest };
        stream.duration(Duration::ZERO, most)
    }

    /// How long after its caller gave up a call is carried out.
    pub(crate) fn draw_lateness(&self, longest: Duration) -> Duration {
        let mut stream = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        stream.duration(Duration::ZERO, longest)
    }

    /// Whether a request still arrives whose sender has died.
    pub(crate) fn draw_arrival(&self) -> bool {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).happens(700)
    }

    /// Looks at the key of a call. Only then does any other answer mean something.
    pub(crate) fn authorise(
        &self,
        truth: &GroundTruth,
        call: &Call,
    ) -> Result<Authorised, ProviderError> {
        let Some(credential) = &call.credential else {
            if self.settings.needs_key {
                return Err(ProviderError::Unauthorized);
            }
            return Ok(Authorised { account: self.settings.home.account.clone() });
        };
        if credential.endpoint != self.settings.home.endpoint {
            self.observed(truth, &Mutation::KeyStrayed);
            return Err(ProviderError::Unauthorized);
        }
        match truth.keys.get(credential.secret.expose_secret()) {
            Some(key) if key.valid => Ok(Authorised { account: key.account.clone() }),
            _ => Err(ProviderError::Unauthorized),
        }
    }

    /// Notes that a create under this name has been sent.
    pub(crate) fn create_sent(&self, name: &SandboxName) -> CreateOnItsWay {
        let names = self.truth().creates_on_their_way.clone();
        names.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        CreateOnItsWay { name: name.clone(), names }
    }

    pub(crate) fn observed(&self, truth: &GroundTruth, mutation: &Mutation<'_>) {
        if let Some(observer) = self.observer.get() {
            observer.observe(truth, mutation);
        }
    }
}
