//! A provider's endpoint with its truth, and what stands between it and the keepers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::{Home as Place, SandboxId, SandboxName};
use leasehold_ports::{Facts, InventoryEntry};
use leasehold_testkit::faults::{FaultPlan, Operation};
use leasehold_testkit::world::{GroundTruth, Mutation, Observer, Origin, SimulatedSandbox, World};

use super::stop::Hold;

/// Where a call is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before it is sent: nothing has happened.
    Request,
    /// When the provider has done it: the keeper has not heard of it.
    Answer,
}

/// What the provider tells of a sandbox's name and age, whatever is true.
#[derive(Default)]
struct Disguise {
    name: Option<SandboxName>,
    age: Option<Duration>,
}

#[derive(Clone, Copy, Default)]
struct UnderWay {
    now: usize,
    most: usize,
}

#[derive(Default)]
struct Between {
    sent: Vec<Operation>,
    holds: Vec<(Operation, Moment, Hold)>,
    disguises: BTreeMap<SandboxId, Disguise>,
    common_name: Option<SandboxName>,
    create_twice: bool,
    told_facts: Option<Facts>,
    clean_time: Duration,
    under_way: BTreeMap<Operation, UnderWay>,
}

/// One home. Shared by all nodes.
pub(crate) struct Home {
    pub(super) world: Arc<World>,
    pub(super) faults: Arc<FaultPlan>,
    between: Mutex<Between>,
    destroyed: Arc<Mutex<Vec<SandboxId>>>,
}

/// Notes what is destroyed, and passes everything on to the judge.
pub(super) struct Notes {
    destroyed: Arc<Mutex<Vec<SandboxId>>>,
    judge: Option<Arc<dyn Observer>>,
}

impl Observer for Notes {
    fn observe(&self, truth: &GroundTruth, mutation: &Mutation<'_>) {
        if let Mutation::Destroyed { sandbox } = mutation {
            lock(&self.destroyed).push(sandbox.id.clone());
        }
        if let Some(judge) = &self.judge {
            judge.observe(truth, mutation);
        }
    }
}

impl Home {
    pub(super) fn new(
        world: Arc<World>,
        faults: Arc<FaultPlan>,
        judge: Option<Arc<dyn Observer>>,
    ) -> Arc<Self> {
        let destroyed: Arc<Mutex<Vec<SandboxId>>> = Arc::default();
        world.set_observer(Arc::new(Notes { destroyed: destroyed.clone(), judge }));
        Arc::new(Self { world, faults, between: Mutex::default(), destroyed })
    }

    /// Its name in leases.
    pub(crate) fn place(&self) -> Place {
        self.world.settings().home.clone()
    }

    /// Which of its calls go wrong, and how.
    pub(crate) fn faults(&self) -> &FaultPlan {
        &self.faults
    }

    /// The truth behind it: strangers, keys, vanishing sandboxes.
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// How many calls of `operation` the keepers have sent.
    pub(crate) fn sent(&self, operation: Operation) -> usize {
        self.between().sent.iter().filter(|sent| **sent == operation).count()
    }

    /// How many calls of any kind the keepers have sent, reads too. (Signals and waits for commands
    /// are not counted.)
    pub(crate) fn sent_at_all(&self) -> usize {
        self.between().sent.len()
    }

    /// The most calls of `operation` that were ever under way at once.
    pub(crate) fn most_at_once(&self, operation: Operation) -> usize {
        self.between().under_way.get(&operation).map_or(0, |calls| calls.most)
    }

    /// Sandboxes that exist and that keepers had made, oldest first.
    pub(crate) fn alive(&self) -> Vec<SandboxId> {
        self.world.inspect(|truth| {
            let ours = truth.existing().filter(|sandbox| sandbox.origin == Origin::Keeper);
            ours.map(|sandbox| sandbox.id.clone()).collect()
        })
    }

    /// How many sandboxes keepers have ever had made.
    pub(crate) fn ever_made(&self) -> usize {
        self.world.inspect(|truth| {
            truth.sandboxes().iter().filter(|sandbox| sandbox.origin == Origin::Keeper).count()
        })
    }

    /// Whether this sandbox exists.
    pub(crate) fn exists(&self, sandbox: &SandboxId) -> bool {
        self.world.inspect(|truth| truth.existing().any(|other| &other.id == sandbox))
    }

    /// Looks at the newest sandbox under this id, existing or not.
    pub(crate) fn look<T>(
        &self,
        sandbox: &SandboxId,
        look: impl FnOnce(&SimulatedSandbox) -> T,
    ) -> T {
        self.world.inspect(|truth| {
            let found = truth.sandboxes().iter().rev().find(|other| &other.id == sandbox);
            look(found.expect("a sandbox that was made"))
        })
    }

    /// How many commands run in it.
    pub(crate) fn running_commands(&self, sandbox: &SandboxId) -> usize {
        let now = self.world.time().micros();
        self.look(sandbox, |sandbox| sandbox.running_commands(now).count())
    }

    /// The sandboxes whose removal the provider carried out, in that order.
    pub(crate) fn destroyed(&self) -> Vec<SandboxId> {
        lock(&self.destroyed).clone()
    }

    /// Stops the next call of `operation` at that moment.
    pub(crate) fn hold(&self, operation: Operation, moment: Moment) -> Hold {
        let hold = Hold::new();
        self.between().holds.push((operation, moment, hold.clone()));
        hold
    }

    /// From now on listings and searches tell this name for the sandbox: it was renamed.
    pub(crate) fn rename(&self, sandbox: &SandboxId, name: &SandboxName) {
        self.between().disguises.entry(sandbox.clone()).or_default().name = Some(name.clone());
    }

    /// From now on listings and searches tell this age.
    pub(crate) fn tell_age(&self, sandbox: &SandboxId, age: Duration) {
        self.between().disguises.entry(sandbox.clone()).or_default().age = Some(age);
    }

    /// From now on every sandbox is asked for under this one name: the function that makes names
    /// collides.
    pub(crate) fn let_names_collide(&self, name: &SandboxName) {
        self.between().common_name = Some(name.clone());
    }

    /// The next create is sent twice, as by a transport that repeats what got no answer; the keeper
    /// hears the second answer only.
    pub(crate) fn repeat_next_create(&self) {
        self.between().create_twice = true;
    }

    /// From now on the provider tells these facts about itself, and goes on behaving as before.
    pub(crate) fn tell_facts(&self, facts: Facts) {
        self.between().told_facts = Some(facts);
    }

    /// From now on making a sandbox clean takes this time.
    pub(crate) fn slow_clean(&self, time: Duration) {
        self.between().clean_time = time;
    }

    fn between(&self) -> MutexGuard<'_, Between> {
        lock(&self.between)
    }

    /// Notes a call, until what it returns is dropped.
    pub(super) fn note_sent(&self, operation: Operation) -> impl Drop + '_ {
        let mut between = self.between();
        between.sent.push(operation);
        let calls = between.under_way.entry(operation).or_default();
        calls.now += 1;
        calls.most = calls.most.max(calls.now);
        CallUnderWay { home: self, operation }
    }

    pub(super) fn told_facts(&self) -> Facts {
        self.between().told_facts.unwrap_or(self.world.settings().facts)
    }

    pub(super) fn clean_time(&self) -> Duration {
        self.between().clean_time
    }

    pub(super) fn takes_create_twice(&self) -> bool {
        std::mem::take(&mut self.between().create_twice)
    }

    /// The name under which the provider is asked for this one.
    pub(super) fn name_at_provider(&self, name: &SandboxName) -> SandboxName {
        self.between().common_name.clone().unwrap_or_else(|| name.clone())
    }

    pub(super) fn take_hold(&self, operation: Operation, moment: Moment) -> Option<Hold> {
        let mut between = self.between();
        let found = between.holds.iter().position(|(of, at, _)| (*of, *at) == (operation, moment));
        found.map(|found| between.holds.remove(found).2)
    }

    pub(super) fn told(&self, mut entry: InventoryEntry) -> InventoryEntry {
        if let Some(disguise) = self.between().disguises.get(&entry.sandbox) {
            entry.name = disguise.name.clone().or(entry.name);
            entry.age = disguise.age.unwrap_or(entry.age);
        }
        entry
    }

    /// Whether names and ages are told that are not true.
    pub(super) fn is_disguised(&self) -> bool {
        !self.between().disguises.is_empty()
    }

    /// Whether a sandbox that was renamed bears the name.
    pub(super) fn is_taken_by_a_disguise(&self, name: &SandboxName) -> bool {
        let bears: Vec<SandboxId> = {
            let between = self.between();
            let bears =
                between.disguises.iter().filter(|(_, other)| other.name.as_ref() == Some(name));
            bears.map(|(id, _)| id.clone()).collect()
        };
        self.world.settings().capabilities.unique_names && bears.iter().any(|id| self.exists(id))
    }
}

struct CallUnderWay<'a> {
    home: &'a Home,
    operation: Operation,
}

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.home.between().under_way.get_mut(&self.operation) {
            calls.now -= 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
