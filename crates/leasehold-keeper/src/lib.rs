//! The engine: the only code that calls providers to change something.
//!
//! What lives here: one file for each operation on a lease, over the ports. A caller's request goes
//! to the pure core for a decision, the decision to the ledger with one compare-and-set, and only
//! then does anything happen at the provider; what came of it goes the same way.
//!
//! What may not live here: a rule about what may become of a lease (that is `leasehold-core`'s), a
//! provider's name, a front end's words, a clock, randomness, a runtime. Nothing here spawns: the
//! future of an operation is the operation, and [`Keeper::work`] is the future of everything that
//! nobody waits for.
//!
//! # Cancellation
//! Every future may be dropped at any await. That is never worse than a crash of the process at that
//! point: what was intended is on record, and [`Keeper::recover`] finishes it once the claim of the
//! step has run out. Every wait has a deadline.

mod access;
mod acquire;
mod attempt;
mod commands;
mod crash;
mod decide;
mod destroy;
mod error;
mod execute;
mod grants;
mod park;
mod prepare;
mod recover;
mod resume;
mod salvage;
mod secrets;
mod seeded;
mod settings;
mod step;
mod sweep;
mod timer;
mod traced;
mod turns;
mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::{Endpoint, LeaseId, NodeId, ProviderName, Timestamp};
use leasehold_ports::{Clock, Credentials, Ledger, Provider, Random};
use tokio_util::sync::CancellationToken;

pub use acquire::AcquireRequest;
#[cfg(feature = "crash-points")]
pub use crash::crash_points;
#[doc(hidden)]
pub use crash::{Edge, StepObserver};
pub use error::KeeperError;
pub use execute::{CommandEvent, ExecuteRequest, Execution};
pub use park::Parked;
pub use recover::{Recovery, RecoveryScope};
pub use secrets::InstallationSecret;
pub use seeded::SeededBug;
pub use settings::Settings;
pub use sweep::{Orphan, SweepReport};

/// What a keeper is made of.
pub struct Parts {
    /// The durable record.
    pub ledger: Arc<dyn Ledger>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Keys.
    pub credentials: Arc<dyn Credentials>,
    /// What makes sandboxes, by name and endpoint.
    pub providers: BTreeMap<(ProviderName, Endpoint), Arc<dyn Provider>>,
    /// What proves names and fences to be this installation's.
    pub secret: InstallationSecret,
    /// Limits and times.
    pub settings: Settings,
}

/// The engine. One running keeper is a *node*; several may share a ledger.
///
/// Cheap to clone; all clones are the same node.
#[derive(Clone)]
pub struct Keeper {
    inner: Arc<Inner>,
}

struct Inner {
    node: NodeId,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    credentials: Arc<dyn Credentials>,
    providers: BTreeMap<(ProviderName, Endpoint), Arc<dyn Provider>>,
    secret: InstallationSecret,
    settings: Settings,
    /// Accounts that keys were proved to belong to.
    accounts: Mutex<access::ProvedAccounts>,
    /// Commands that this node runs, or may run.
    commands: Arc<commands::Registry>,
    /// Acquires that a task of this node leads on.
    turns: Arc<turns::Turns>,
    /// Set once this node takes no more work.
    draining: CancellationToken,
    setbacks: Mutex<recover::Setbacks>,
    seeded: seeded::SeededBugs,
    observer: Option<Arc<dyn StepObserver>>,
}

impl Keeper {
    /// Registers a new node with the ledger.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub async fn start(parts: Parts) -> Result<Self, KeeperError> {
        Self::start_with(parts, &[], None).await
    }

    /// [`Keeper::start`] with mistakes put in (none of them exists without the feature
    /// `seeded-bugs`), and somebody who is told of each step.
    #[doc(hidden)]
    pub async fn start_with(
        parts: Parts,
        bugs: &[SeededBug],
        observer: Option<Arc<dyn StepObserver>>,
    ) -> Result<Self, KeeperError> {
        let mut bytes = [0; 10];
        parts.random.fill(&mut bytes);
        let node = NodeId::from_random(bytes);
        parts.ledger.register_node(&node).await?;
        let traced = |provider| Arc::new(traced::Traced(provider)) as Arc<dyn Provider>;
        Ok(Self {
            inner: Arc::new(Inner {
                node,
                ledger: parts.ledger,
                clock: parts.clock,
                random: parts.random,
                credentials: parts.credentials,
                providers: parts
                    .providers
                    .into_iter()
                    .map(|(place, provider)| (place, traced(provider)))
                    .collect(),
                secret: parts.secret,
                settings: parts.settings,
                accounts: Mutex::default(),
                commands: Arc::default(),
                turns: Arc::default(),
                setbacks: Mutex::default(),
                draining: CancellationToken::new(),
                seeded: seeded::SeededBugs::new(bugs),
                observer,
            }),
        })
    }

    /// This node.
    #[must_use]
    pub fn node(&self) -> &NodeId {
        &self.inner.node
    }

    /// The ledger, for reading.
    #[must_use]
    pub fn ledger(&self) -> &dyn Ledger {
        &*self.inner.ledger
    }

    /// Limits and times in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    fn now(&self) -> Timestamp {
        self.inner.ledger.now()
    }

    fn new_lease_id(&self) -> LeaseId {
        let mut bytes = [0; 16];
        self.inner.random.fill(&mut bytes);
        LeaseId::from_random(bytes)
    }
}

/// Locks; a panic elsewhere does not make what is behind these locks wrong.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
