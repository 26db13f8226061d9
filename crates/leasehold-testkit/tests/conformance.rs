//! The simulated provider passes the suite that real providers must pass, whatever its facts are.

use std::sync::Arc;

use leasehold_core::AccountId;
use leasehold_ports::{Clock, Credential, Provider, Random};
use leasehold_testkit::SimulatedProvider;
use leasehold_testkit::conformance::{self, Bench};
use leasehold_testkit::credentials::SimulatedCredentials;
use leasehold_testkit::executor::{Executor, Node, SimulatedClock, Stuck};
use leasehold_testkit::faults::FaultPlan;
use leasehold_testkit::journal::Journal;
use leasehold_testkit::random::{Component, RandomStream, SimulatedRandom};
use leasehold_testkit::world::{World, WorldSettings};

type Failed = (&'static str, conformance::Failure);

struct SimulatedBench {
    world: Arc<World>,
    provider: SimulatedProvider,
    clock: Arc<SimulatedClock>,
    random: Arc<SimulatedRandom>,
    credential: Credential,
}

impl Bench for SimulatedBench {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.provider.clone())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn random(&self) -> Arc<dyn Random> {
        self.random.clone()
    }

    fn credential(&self) -> Option<Credential> {
        Some(self.credential.clone())
    }

    fn account(&self) -> AccountId {
        self.world.settings().home.account.clone()
    }

    fn patience(&self) -> std::time::Duration {
        // The slowest removal takes 300 seconds of virtual time.
        std::time::Duration::from_secs(600)
    }
}

fn failures(seed: u64, settings: WorldSettings) -> Result<Vec<Failed>, Stuck> {
    let mut executor = Executor::new(RandomStream::new(seed, Component::Executor));
    let faults = FaultPlan::new(RandomStream::new(seed, Component::ProviderFaults), 0);
    let journal = Arc::new(Journal::kept(executor.time()));
    let endpoint = settings.home.endpoint.clone();
    let world = World::new(seed, settings, &executor, Arc::new(faults), journal.clone());
    let clock = executor.clock();
    let credentials = SimulatedCredentials::new(endpoint, &["key-1"]);
    let bench = SimulatedBench {
        provider: SimulatedProvider::new(world.clone(), clock.clone(), Node(0)),
        random: Arc::new(SimulatedRandom::new(RandomStream::new(seed, Component::Keeper(0)))),
        credential: credentials.all().remove(0),
        clock,
        world,
    };
    let failures = executor.block_on(async move { conformance::run_all(&bench).await })?;
    if !failures.is_empty() {
        println!("{}", journal.text());
    }
    Ok(failures)
}

#[test]
fn a_plain_provider_conforms() {
    assert_eq!(failures(1, WorldSettings::plain()), Ok(Vec::new()));
}

#[test]
fn a_provider_with_any_facts_conforms() {
    for seed in 0..200 {
        let settings = WorldSettings::drawn(&mut RandomStream::new(seed, Component::Facts));
        assert_eq!(failures(seed, settings), Ok(Vec::new()), "seed {seed}");
    }
}
