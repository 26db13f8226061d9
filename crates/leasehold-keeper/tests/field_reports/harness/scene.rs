//! The scene: ledger, homes, nodes, time.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{Endpoint, Lease, LeaseId, ProviderName, Spec, State, Timestamp};
use leasehold_keeper::{AcquireRequest, InstallationSecret, Keeper, Parts, Settings};
use leasehold_ledger::MemoryLedger;
use leasehold_ports::{Credentials, LeaseFilter, Ledger, Provider};
use leasehold_testkit::SimulatedProvider;
use leasehold_testkit::executor::{Executor, Join, Node, SimulatedClock, Spawner, VirtualTime};
use leasehold_testkit::faults::FaultPlan;
use leasehold_testkit::faulty_ledger::{FaultyLedger, LedgerFaultPlan};
use leasehold_testkit::journal::Journal;
use leasehold_testkit::judge::Judge;
use leasehold_testkit::random::{Component, RandomStream, SimulatedRandom};
use leasehold_testkit::world::{Observer, World, WorldSettings};
use secrecy::SecretBox;
use tokio_util::sync::CancellationToken;

use super::between::Between;
use super::home::Home;
use super::keys::Keys;
use super::ledger::StoppableLedger;
use super::node::TestNode;

/// What a scenario starts from.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The provider, its facts and capabilities.
    pub(crate) world: WorldSettings,
    /// Limits and times of the nodes.
    pub(crate) settings: Settings,
    /// Other homes of the same kind, by endpoint.
    pub(crate) more_endpoints: Vec<&'static str>,
    /// Whether the judge watches. It knows one home only, and no provider that lies about itself.
    pub(crate) judged: bool,
    /// Under how many seeds it is played.
    pub(crate) seeds: u64,
    /// The most steps of the executor for each.
    pub(crate) steps: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            world: WorldSettings::plain(),
            settings: Settings::default(),
            more_endpoints: Vec::new(),
            judged: true,
            seeds: 8,
            steps: Executor::STEP_LIMIT,
        }
    }
}

/// Plays a scenario under each seed.
///
/// # Panics
/// If it panics, does not come to its end, or the judge finds a promise broken; the seed and what
/// happened are printed then.
#[expect(clippy::needless_pass_by_value, reason = "a scenario's setup is written in its place")]
pub(crate) fn play<F>(setup: Setup, scenario: impl Fn(Scene) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for seed in 1..=setup.seeds {
        let mut executor = Executor::new(RandomStream::new(seed, Component::Executor));
        executor.set_step_limit(setup.steps);
        let scene = Scene::set(seed, &setup, &executor);
        let tell = TellOnPanic { seed, journal: scene.stage.journal.clone() };
        let played = executor.block_on(scenario(scene.clone()));
        assert_eq!(played, Ok(()), "the scenario came to no end");
        if setup.judged {
            assert_eq!(scene.stage.judge.violations(), [], "the judge found");
        }
        drop(tell);
    }
}

struct TellOnPanic {
    seed: u64,
    journal: Arc<Journal>,
}

impl Drop for TellOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = self.journal.text();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines.len().saturating_sub(200);
            eprintln!("seed {}; the last of {} lines:", self.seed, lines.len());
            eprintln!("{}", lines[last..].join("\n"));
        }
    }
}

/// Everything that a scenario plays with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Scene {
    stage: Arc<Stage>,
}

struct Stage {
    seed: u64,
    settings: Settings,
    spawner: Spawner,
    time: VirtualTime,
    journal: Arc<Journal>,
    judge: Arc<Judge>,
    memory: MemoryLedger,
    no_ledger_faults: Arc<LedgerFaultPlan>,
    homes: Vec<Arc<Home>>,
    keys: Arc<Keys>,
    next_node: AtomicU32,
    /// A clock for each node that may start.
    clocks: Mutex<Vec<Arc<SimulatedClock>>>,
}

/// The most nodes that a scenario starts.
const MOST_NODES: usize = 64;

impl Scene {
    fn set(seed: u64, setup: &Setup, executor: &Executor) -> Self {
        let time = executor.time();
        let journal = Arc::new(Journal::kept(time.clone()));
        let judge = Judge::new(setup.world.home.clone(), journal.clone());
        let endpoints =
            setup.more_endpoints.iter().map(|text| Endpoint::new(text).expect("an endpoint"));
        let first = setup.world.home.endpoint.clone();
        let homes =
            std::iter::once(first).chain(endpoints).enumerate().map(|(number, endpoint)| {
                let mut world = setup.world.clone();
                world.home.endpoint = endpoint;
                let stream = RandomStream::new(seed, Component::ProviderFaults);
                let faults = Arc::new(FaultPlan::new(stream, 0));
                let world = World::new(seed, world, executor, faults.clone(), journal.clone());
                let watches = setup.judged && number == 0;
                let observer: Option<Arc<dyn Observer>> = watches.then(|| judge.clone() as _);
                Home::new(world, faults, observer)
            });
        let homes: Vec<Arc<Home>> = homes.collect();
        let keys = Arc::new(Keys::default());
        if setup.world.needs_key {
            for home in &homes {
                keys.give(&home.place().endpoint, "key-1");
            }
        }
        let ledger_faults = RandomStream::new(seed, Component::LedgerFaults);
        Self {
            stage: Arc::new(Stage {
                seed,
                settings: setup.settings,
                spawner: executor.spawner(),
                time,
                journal,
                judge,
                memory: MemoryLedger::new(executor.clock()),
                no_ledger_faults: LedgerFaultPlan::new(ledger_faults, 0),
                homes,
                keys,
                next_node: AtomicU32::new(0),
                clocks: Mutex::new((0..MOST_NODES).map(|_| executor.clock()).collect()),
            }),
        }
    }

    /// The home of most leases here.
    pub(crate) fn home(&self) -> &Home {
        &self.stage.homes[0]
    }

    /// The home at one of [`Setup::more_endpoints`], counted from 1.
    pub(crate) fn other_home(&self, number: usize) -> &Home {
        &self.stage.homes[number]
    }

    /// The keys at hand.
    pub(crate) fn keys(&self) -> &Keys {
        &self.stage.keys
    }

    /// The ledger itself.
    pub(crate) fn ledger(&self) -> &MemoryLedger {
        &self.stage.memory
    }

    /// Starts a keeper process.
    pub(crate) async fn start_node(&self) -> TestNode {
        self.start_node_with(self.stage.settings, &[]).await
    }

    /// Starts a keeper process with settings of its own, which knows no provider at these homes
    /// (counted from 0).
    pub(crate) async fn start_node_with(&self, settings: Settings, without: &[usize]) -> TestNode {
        let stage = &self.stage;
        let number = stage.next_node.fetch_add(1, Ordering::Relaxed);
        let clock = {
            let mut clocks = stage.clocks.lock().unwrap_or_else(PoisonError::into_inner);
            clocks.pop().expect("fewer nodes than clocks")
        };
        let mut providers: BTreeMap<(ProviderName, Endpoint), Arc<dyn Provider>> = BTreeMap::new();
        let mut simulated = Vec::new();
        for (index, home) in stage.homes.iter().enumerate() {
            if without.contains(&index) {
                continue;
            }
            let provider = SimulatedProvider::new(home.world.clone(), clock.clone(), Node(number));
            simulated.push(provider.clone());
            let place = home.place();
            let between = Between { home: home.clone(), provider };
            providers.insert((place.provider, place.endpoint), Arc::new(between));
        }
        let watched = FaultyLedger::new(
            Arc::new(stage.memory.share(clock.clone())),
            stage.no_ledger_faults.clone(),
            stage.homes[0].world.clone(),
            stage.judge.clone(),
        );
        let ledger = Arc::new(StoppableLedger::new(Arc::new(watched)));
        let random = RandomStream::new(stage.seed, Component::Keeper(number));
        let parts = Parts {
            ledger: ledger.clone(),
            clock: clock.clone(),
            random: Arc::new(SimulatedRandom::new(random)),
            credentials: stage.keys.clone() as Arc<dyn Credentials>,
            providers,
            secret: InstallationSecret::new(SecretBox::new(Box::new([7; 32]))),
            settings,
        };
        let keeper = Keeper::start(parts).await.expect("a ledger that can be written");
        TestNode {
            keeper,
            number: Node(number),
            clock,
            ledger,
            providers: simulated,
            judge: stage.judge.clone(),
        }
    }

    /// Does something as the node: a crash of the node drops it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        node: &TestNode,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Join<T> {
        self.stage.spawner.spawn(node.number, work)
    }

    /// Lets the node do what nobody waits for, until the token is cancelled.
    pub(crate) fn start_work(&self, node: &TestNode) -> CancellationToken {
        let stop = CancellationToken::new();
        let (keeper, stopped) = (node.keeper.clone(), stop.clone());
        self.stage.spawner.spawn_detached(node.number, async move { keeper.work(&stopped).await });
        stop
    }

    /// `kill -9` of the node on a machine that lives on: its death can be proved.
    pub(crate) async fn kill(&self, node: &TestNode) {
        self.lose(node).await;
        self.prove_dead(node);
    }

    /// From now on the ledger can prove that the node that was lost is dead.
    pub(crate) fn prove_dead(&self, node: &TestNode) {
        self.stage.memory.mark_dead(node.keeper.node());
        self.stage.judge.node_died(node.keeper.node());
    }

    /// The node is gone, and nobody can tell: only its claims run out.
    pub(crate) async fn lose(&self, node: &TestNode) {
        self.stage.journal.note(format_args!("{} crashes", node.number));
        for provider in &node.providers {
            provider.note_crash();
        }
        self.stage.spawner.crash(node.number);
        self.pass(Duration::from_millis(1)).await;
    }

    /// What happened so far, line by line.
    pub(crate) fn journal(&self) -> String {
        self.stage.journal.text()
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        self.stage.time.sleep(time).await;
    }

    /// The true time.
    pub(crate) fn now(&self) -> Timestamp {
        self.stage.time.timestamp()
    }

    /// The time since the scenario began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.stage.time.elapsed()
    }

    /// What owner A asks for: a sandbox at [`Scene::home`] for a day, without a key.
    pub(crate) fn request(&self) -> AcquireRequest {
        AcquireRequest {
            owner: "company-a/production".parse().expect("an owner"),
            home: self.home().place(),
            spec: Spec::default(),
            key: None,
            lifetime: Duration::from_secs(24 * 60 * 60),
            clocks: None,
            tethered: false,
            delivered: true,
        }
    }

    /// The row.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) async fn row(&self, lease: &LeaseId) -> Lease {
        let row = self.stage.memory.get(lease).await.expect("a ledger that can be read");
        row.map(Arc::unwrap_or_clone).unwrap_or_else(|| panic!("there is no row {lease}"))
    }

    /// Every row, open or closed.
    pub(crate) async fn all_rows(&self) -> Vec<Lease> {
        let filter = LeaseFilter { closed: true, limit: u32::MAX, ..LeaseFilter::default() };
        let rows = self.stage.memory.list(&filter).await.expect("a ledger that can be read");
        rows.into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// Every open row.
    pub(crate) async fn open_rows(&self) -> Vec<Lease> {
        self.all_rows().await.into_iter().filter(Lease::is_open).collect()
    }

    /// Starts a fresh node and lets it work until every open row is at rest; then what exists is
    /// what the rows name.
    ///
    /// # Panics
    /// If that takes more than a day.
    pub(crate) async fn settle(&self) {
        let node = self.start_node().await;
        let stop = self.start_work(&node);
        for _ in 0..24 * 60 {
            let rows = self.open_rows().await;
            if rows.iter().all(|row| matches!(row.state, State::Active | State::Parked)) {
                break;
            }
            self.pass(Duration::from_secs(60)).await;
        }
        stop.cancel();
        self.home().world.inspect(|truth| self.stage.judge.final_check(truth));
    }
}
