//! The stage of a history: one provider, one ledger, two nodes that crash and start again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::{AccountId, Clocks, LeaseId, Owner};
use leasehold_keeper::{InstallationSecret, Keeper, Parts, Settings};
use leasehold_ledger::{MemoryLedger, MemorySnapshot};
use leasehold_ports::{Clock, Ledger, LedgerMode, Limits, Provider};
use secrecy::SecretBox;
use tokio_util::sync::CancellationToken;

use super::book::Book;
use super::{HistorySettings, Tally};
use crate::credentials::SimulatedCredentials;
use crate::executor::{Executor, Node, SimulatedClock, Spawner};
use crate::faults::FaultPlan;
use crate::faulty_ledger::{FaultyLedger, LedgerFaultPlan};
use crate::journal::Journal;
use crate::judge::{Invariant, JUMP_GRACE, Judge, JudgeSnapshot};
use crate::random::{Component, RandomStream, SimulatedRandom};
use crate::simulated_provider::SimulatedProvider;
use crate::world::{World, WorldSettings};

/// How many nodes share the ledger.
pub(super) const NODES: usize = 2;

/// The key of another account, which callers sometimes have instead of the right one.
pub(super) const WRONG_KEY: &str = "key-b";

/// How many provider calls a node may make in a history, whatever goes wrong: some ten times what
/// most of them need.
const MOST_CALLS_OF_A_NODE: u32 = 5_000;

/// A keeper process that runs.
struct Running {
    keeper: Keeper,
    provider: SimulatedProvider,
    stop: CancellationToken,
}

/// A copy of the ledger, as an operator may put back later.
pub(super) struct Copy {
    ledger: MemorySnapshot,
    judge: JudgeSnapshot,
}

pub(super) struct Stage {
    settings: HistorySettings,
    pub(super) world: Arc<World>,
    pub(super) judge: Arc<Judge>,
    pub(super) journal: Arc<Journal>,
    pub(super) ledger_plan: Arc<LedgerFaultPlan>,
    pub(super) memory: MemoryLedger,
    pub(super) clock: Arc<SimulatedClock>,
    pub(super) credentials: Arc<SimulatedCredentials>,
    pub(super) spawner: Spawner,
    pub(super) owners: [Owner; 2],
    nodes: Mutex<[Option<Running>; NODES]>,
    dead: Mutex<Vec<leasehold_core::NodeId>>,
    starts: AtomicU32,
    book: Mutex<Book>,
    tally: Mutex<Tally>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::expect_used, reason = "constants that are valid")]
fn owner(company: &str, environment: &str) -> Owner {
    Owner::new(company, environment).expect("a valid owner")
}

impl Stage {
    #[expect(clippy::expect_used, reason = "constants that are valid")]
    pub(super) fn new(settings: &HistorySettings, executor: &Executor) -> Arc<Self> {
        let seed = settings.seed;
        // Drawn apart from what happens later, so that facts do not shift with the code.
        let mut facts = RandomStream::new(seed, Component::Facts);
        let time = executor.time();
        let journal =
            Arc::new(if settings.journal { Journal::kept(time) } else { Journal::forgetful(time) });
        let rate = facts.pick(&[60, 120, 200]).copied().unwrap_or(100);
        let faults = FaultPlan::new(RandomStream::new(seed, Component::ProviderFaults), rate);
        let ledger_rate = facts.pick(&[15, 40, 100]).copied().unwrap_or(40);
        let ledger_plan =
            LedgerFaultPlan::new(RandomStream::new(seed, Component::LedgerFaults), ledger_rate);
        let world_settings = WorldSettings::drawn(&mut facts);
        let home = world_settings.home.clone();
        let world = World::new(seed, world_settings, executor, Arc::new(faults), journal.clone());
        world.add_key("key-2", &home.account);
        world.add_key(WRONG_KEY, &AccountId::new("account-b").expect("a valid account"));
        let judge = Judge::new(home.clone(), journal.clone());
        world.set_observer(judge.clone());
        let clock = executor.clock();
        let wall: Arc<dyn Clock> = clock.clone();
        Arc::new(Self {
            settings: settings.clone(),
            memory: MemoryLedger::new(wall),
            credentials: Arc::new(SimulatedCredentials::new(home.endpoint, &["key-1"])),
            spawner: executor.spawner(),
            owners: [owner("company-a", "environment-1"), owner("company-a", "environment-2")],
            world,
            judge,
            journal,
            ledger_plan,
            clock,
            nodes: Mutex::default(),
            dead: Mutex::default(),
            starts: AtomicU32::new(0),
            book: Mutex::default(),
            tally: Mutex::default(),
        })
    }

    pub(super) fn settings(&self) -> &HistorySettings {
        &self.settings
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    pub(super) fn tally(&self) -> Tally {
        *lock(&self.tally)
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut lock(&self.tally));
    }

    /// The keeper of a node, if that runs.
    pub(super) fn keeper(&self, node: usize) -> Option<Keeper> {
        lock(&self.nodes)[node].as_ref().map(|running| running.keeper.clone())
    }

    /// Starts a node. `works` if it also does by itself what nobody waits for.
    pub(super) async fn start_node(&self, node: usize, works: bool) {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        let tag = tag(node);
        let wall: Arc<dyn Clock> = self.clock.clone();
        let shared: Arc<dyn Ledger> = Arc::new(self.memory.share(wall.clone()));
        let ledger = FaultyLedger::new(
            shared,
            self.ledger_plan.clone(),
            self.world.clone(),
            self.judge.clone(),
        );
        let provider = SimulatedProvider::new(self.world.clone(), self.clock.clone(), tag);
        let home = &self.world.settings().home;
        let place = (home.provider.clone(), home.endpoint.clone());
        let port: Arc<dyn Provider> = Arc::new(provider.clone());
        let random = RandomStream::new(self.settings.seed, Component::Keeper(number));
        let parts = Parts {
            ledger: Arc::new(ledger),
            clock: wall,
            random: Arc::new(SimulatedRandom::new(random)),
            credentials: self.credentials.clone(),
            providers: BTreeMap::from([(place, port)]),
            secret: InstallationSecret::new(SecretBox::new(Box::new([7; 32]))),
            settings: keeper_settings(),
        };
        let Ok(keeper) = Keeper::start_with(parts, &self.settings.bugs, None).await else { return };
        self.journal.note(format_args!("{tag} started as {}", keeper.node()));
        let stop = CancellationToken::new();
        if works {
            let (keeper, stop) = (keeper.clone(), stop.clone());
            self.spawner.spawn_detached(tag, async move { Box::pin(keeper.work(&stop)).await });
        }
        lock(&self.nodes)[node] = Some(Running { keeper, provider, stop });
    }

    /// Kills a node as a power cut would. `proved` if the ledger can tell at once that it is dead.
    pub(super) fn crash_node(&self, node: usize, proved: bool) {
        let Some(running) = lock(&self.nodes)[node].take() else { return };
        let tag = tag(node);
        self.journal.note(format_args!("{tag} crashes (proved {proved})"));
        running.provider.note_crash();
        self.spawner.crash(tag);
        self.judge.node_died(running.keeper.node());
        let id = running.keeper.node().clone();
        if proved {
            self.memory.mark_dead(&id);
        } else {
            lock(&self.dead).push(id);
        }
        self.count(|tally| tally.crashes += 1);
    }

    /// Holds against a node how often it has asked its provider.
    pub(super) fn check_pace(&self) {
        for running in lock(&self.nodes).iter().flatten() {
            let calls = running.provider.calls();
            if calls > MOST_CALLS_OF_A_NODE {
                let report = format!("{} made {calls} provider calls", running.keeper.node());
                self.judge.report(Invariant::Pace, report);
            }
        }
    }

    /// Every crash is proved by now: locks are free, machines have started again.
    pub(super) fn prove_deaths(&self) {
        for node in lock(&self.dead).drain(..) {
            self.memory.mark_dead(&node);
        }
    }

    /// Ends what nodes do by themselves.
    pub(super) fn stop_work(&self) {
        for running in lock(&self.nodes).iter().flatten() {
            running.stop.cancel();
        }
    }

    pub(super) fn copy_ledger(&self) -> Copy {
        self.journal.note(format_args!("ledger copied"));
        Copy { ledger: self.memory.snapshot(), judge: self.judge.snapshot() }
    }

    /// Puts a copy back. No node may run.
    pub(super) fn restore_ledger(&self, copy: &Copy) {
        self.memory.restore(&copy.ledger);
        self.judge.restore(&copy.judge);
        self.memory.set_mode(LedgerMode::Restored { why: "its generation is behind".to_owned() });
    }

    /// What a caller who may end the lease is about to ask.
    pub(super) fn end_asked(&self, lease: &LeaseId) {
        self.judge.end_was_asked(lease);
    }
}

/// The tasks of a node.
pub(super) fn tag(node: usize) -> Node {
    Node(u32::try_from(node).unwrap_or(0))
}

/// Times in proportion to a history of some tens of minutes.
fn keeper_settings() -> Settings {
    Settings {
        clocks: Clocks {
            provisioning: Duration::from_secs(60),
            idle_active: Duration::from_secs(300),
            idle_parked: Duration::from_secs(1_200),
            longest_life: Duration::from_secs(3_600),
        },
        limits: Limits { per_owner: 8, per_home: 14 },
        least_life: Duration::from_secs(10),
        longest_retry: Duration::from_secs(120),
        jump_grace: JUMP_GRACE,
        ..Settings::default()
    }
}
