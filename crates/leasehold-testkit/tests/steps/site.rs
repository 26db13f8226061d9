//! One run: a simulated provider, a ledger in memory, a judge, and nodes that can die.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::{Caller, Clocks, Lease, LeaseId, Owner};
use leasehold_keeper::{InstallationSecret, Keeper, Parts, Settings};
use leasehold_ledger::MemoryLedger;
use leasehold_ports::{Clock, LeaseFilter, Ledger};
use leasehold_testkit::SimulatedProvider;
use leasehold_testkit::credentials::SimulatedCredentials;
use leasehold_testkit::executor::{Executor, Join, Node, SimulatedClock, Spawner};
use leasehold_testkit::faults::FaultPlan;
use leasehold_testkit::faulty_ledger::{FaultyLedger, LedgerFaultPlan};
use leasehold_testkit::journal::Journal;
use leasehold_testkit::judge::Judge;
use leasehold_testkit::random::{Component, RandomStream, SimulatedRandom};
use leasehold_testkit::world::{World, WorldSettings};
use secrecy::SecretBox;

use crate::watch::{StartWatch, StepWatch, Trouble};

/// A keeper process.
#[derive(Clone)]
pub(crate) struct TestNode {
    pub(crate) keeper: Keeper,
    pub(crate) watch: Arc<StepWatch>,
    number: Node,
}

/// Everything of one run. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) world: Arc<World>,
    pub(crate) judge: Arc<Judge>,
    pub(crate) starts: Arc<StartWatch>,
    pub(crate) memory: Arc<MemoryLedger>,
    pub(crate) ledger_plan: Arc<LedgerFaultPlan>,
    seed: u64,
    clock: Arc<SimulatedClock>,
    spawner: Spawner,
    nodes: Arc<AtomicU32>,
    labels: Arc<AtomicU32>,
}

impl Site {
    pub(crate) fn new(seed: u64, settings: WorldSettings, executor: &Executor) -> Self {
        let journal = Arc::new(Journal::kept(executor.time()));
        let judge = Judge::new(settings.home.clone(), journal.clone());
        let faults = FaultPlan::new(RandomStream::new(seed, Component::ProviderFaults), 0);
        let world = World::new(seed, settings, executor, Arc::new(faults), journal);
        let starts = StartWatch::new(judge.clone());
        world.set_observer(starts.clone());
        let clock = executor.clock();
        let wall: Arc<dyn Clock> = clock.clone();
        Self {
            world,
            judge,
            starts,
            memory: Arc::new(MemoryLedger::new(wall)),
            ledger_plan: LedgerFaultPlan::new(RandomStream::new(seed, Component::LedgerFaults), 0),
            seed,
            clock,
            spawner: executor.spawner(),
            nodes: Arc::default(),
            labels: Arc::default(),
        }
    }

    /// Starts a keeper process that meets this trouble.
    pub(crate) async fn start_node(&self, trouble: Trouble) -> TestNode {
        let count = self.nodes.fetch_add(1, Ordering::Relaxed);
        let number = Node(count);
        let wall: Arc<dyn Clock> = self.clock.clone();
        let ledger = FaultyLedger::new(
            Arc::new(self.memory.share(wall.clone())),
            self.ledger_plan.clone(),
            self.world.clone(),
            self.judge.clone(),
        );
        let home = &self.world.settings().home;
        let place = (home.provider.clone(), home.endpoint.clone());
        let provider = SimulatedProvider::new(self.world.clone(), self.clock.clone(), number);
        let random = RandomStream::new(self.seed, Component::Keeper(count));
        let parts = Parts {
            ledger: Arc::new(ledger),
            clock: wall,
            random: Arc::new(SimulatedRandom::new(random)),
            credentials: Arc::new(SimulatedCredentials::new(home.endpoint.clone(), &["key-1"])),
            providers: BTreeMap::from([(place, Arc::new(provider) as _)]),
            secret: InstallationSecret::new(SecretBox::new(Box::new([7; 32]))),
            settings: Settings { clocks: clocks(), ..Settings::default() },
        };
        let watch = StepWatch::new(self.world.clone(), trouble);
        let keeper = Keeper::start_with(parts, &[], Some(watch.clone())).await;
        TestNode { keeper: keeper.expect("a ledger that can be written"), watch, number }
    }

    /// Does something as the node: its death drops it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        node: &TestNode,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Join<T> {
        self.spawner.spawn(node.number, Box::pin(work))
    }

    /// `kill -9` of the node, which the ledger can prove.
    pub(crate) async fn kill(&self, node: &TestNode) {
        self.world.journal().note(format_args!("{} dies", node.number));
        self.spawner.crash(node.number);
        self.pass(Duration::from_millis(1)).await;
        self.memory.mark_dead(node.keeper.node());
        self.judge.node_died(node.keeper.node());
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        self.world.time().sleep(time).await;
    }

    pub(crate) fn owner(&self) -> Caller {
        let owner = Owner::new("company-a", "production").expect("an owner");
        Caller::Owner { owner, grant: None }
    }

    /// A label that no command had before.
    pub(crate) fn new_label(&self) -> String {
        format!("c{}", self.labels.fetch_add(1, Ordering::Relaxed))
    }

    /// Every row, open or closed, oldest first.
    pub(crate) async fn rows(&self) -> Vec<Arc<Lease>> {
        let filter = LeaseFilter { closed: true, limit: u32::MAX, ..LeaseFilter::default() };
        let mut rows = self.memory.list(&filter).await.expect("a ledger that can be read");
        rows.sort_by_key(|row| row.created_at);
        rows
    }

    /// The lease that the run is about.
    pub(crate) async fn lease(&self) -> LeaseId {
        let rows = self.rows().await;
        rows.first().map(|row| row.id.clone()).expect("a lease that was acquired")
    }
}

/// Nothing but what a flow is about runs out.
pub(crate) fn clocks() -> Clocks {
    const DAY: Duration = Duration::from_secs(86_400);
    Clocks { idle_active: DAY, idle_parked: DAY, ..Clocks::default() }
}
