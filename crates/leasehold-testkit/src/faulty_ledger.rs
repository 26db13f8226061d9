//! A ledger with something between it and its keeper: time, failures, lost answers, and a judge who
//! sees what becomes durable in the instant it does.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{
    AcquireKey, Home, Lease, LeaseId, NodeId, Owner, Salvage, SandboxName, State, Timestamp,
};
use leasehold_ports::{
    BrakeState, EventPage, HomeAndSandbox, LeaseFilter, Ledger, LedgerError, LedgerMode,
    NodeRecord, Write,
};

use crate::judge::Judge;
use crate::random::RandomStream;
use crate::world::World;

/// Something that goes wrong with one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LedgerFault {
    /// Somebody else was faster.
    Conflict,
    /// It is not written, and the ledger says so.
    Unavailable,
    /// It is written, and the ledger says that it cannot be used.
    LostAnswer,
    /// It takes long.
    Slow,
}

impl LedgerFault {
    /// Every fault.
    pub const ALL: [LedgerFault; 4] = [
        LedgerFault::Conflict,
        LedgerFault::Unavailable,
        LedgerFault::LostAnswer,
        LedgerFault::Slow,
    ];

    const fn name(self) -> &'static str {
        match self {
            LedgerFault::Conflict => "conflict",
            LedgerFault::Unavailable => "unavailable",
            LedgerFault::LostAnswer => "lost_answer",
            LedgerFault::Slow => "slow",
        }
    }
}

/// How often each fault happened to the write of a row in each state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerCoverage {
    counts: [[u64; State::ALL.len()]; LedgerFault::ALL.len()],
}

impl Default for LedgerCoverage {
    fn default() -> Self {
        Self { counts: [[0; State::ALL.len()]; LedgerFault::ALL.len()] }
    }
}

impl LedgerCoverage {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &LedgerCoverage) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }

    /// How many faults there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Pairs that never happened.
    #[must_use]
    pub fn missing(&self) -> Vec<(LedgerFault, State)> {
        let pairs = LedgerFault::ALL
            .into_iter()
            .flat_map(|fault| State::ALL.into_iter().map(move |state| (fault, state)));
        pairs.filter(|&(fault, state)| self.counts[fault as usize][state as usize] == 0).collect()
    }
}

impl fmt::Display for LedgerCoverage {
    /// A table: faults down, the state that the row is written in across.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<16}", "")?;
        for state in State::ALL {
            write!(formatter, " {:>12}", state.to_string())?;
        }
        for fault in LedgerFault::ALL {
            write!(formatter, "\n{:<16}", fault.name())?;
            for state in State::ALL {
                write!(formatter, " {:>12}", self.counts[fault as usize][state as usize])?;
            }
        }
        Ok(())
    }
}

struct PlanState {
    stream: RandomStream,
    per_mille: u32,
    writes: u32,
    /// The number of a write, and how it goes wrong.
    scripted: Vec<(u32, LedgerFault)>,
    coverage: LedgerCoverage,
}

/// Which writes go wrong, and how. Shared by all nodes of a run.
pub struct LedgerFaultPlan {
    state: Mutex<PlanState>,
}

impl fmt::Debug for LedgerFaultPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LedgerFaultPlan")
    }
}

/// What happens to a write.
struct Fate {
    fault: Option<LedgerFault>,
    before: Option<Duration>,
    after: Option<Duration>,
}

impl LedgerFaultPlan {
    /// So many writes in a thousand go wrong.
    #[must_use]
    pub fn new(stream: RandomStream, per_mille: u32) -> Arc<Self> {
        let coverage = LedgerCoverage::default();
        let (writes, scripted) = (0, Vec::new());
        let state = PlanState { stream, per_mille, writes, scripted, coverage };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Changes how many writes in a thousand go wrong.
    pub fn set_rate(&self, per_mille: u32) {
        self.lock().per_mille = per_mille;
    }

    /// Lets the write after the next `writes_before` go wrong like this.
    pub fn script(&self, writes_before: u32, fault: LedgerFault) {
        let mut plan = self.lock();
        let number = plan.writes + writes_before;
        plan.scripted.push((number, fault));
    }

    /// How many writes were tried so far.
    #[must_use]
    pub fn writes(&self) -> u32 {
        self.lock().writes
    }

    /// Forgets what was scripted and has not happened, and lets nothing go wrong any more.
    pub fn quiet(&self) {
        let mut plan = self.lock();
        plan.scripted.clear();
        plan.per_mille = 0;
    }

    /// What happened so far.
    #[must_use]
    pub fn coverage(&self) -> LedgerCoverage {
        self.lock().coverage.clone()
    }

    fn draw(&self, state: State) -> Fate {
        let mut plan = self.lock();
        let plan = &mut *plan;
        let per_mille = plan.per_mille;
        let number = plan.writes;
        plan.writes += 1;
        let scripted = plan.scripted.iter().position(|(wanted, _)| *wanted == number);
        let fault = match scripted {
            Some(found) => Some(plan.scripted.remove(found).1),
            None if plan.stream.happens(per_mille) => plan.stream.pick(&LedgerFault::ALL).copied(),
            None => None,
        };
        if let Some(fault) = fault {
            plan.coverage.counts[fault as usize][state as usize] += 1;
        }
        let longest = match fault {
            Some(LedgerFault::Slow) => Duration::from_secs(2),
            _ => Duration::from_millis(3),
        };
        // Most writes take no time that matters, but let others go first.
        let mut wait = || {
            let stream = &mut plan.stream;
            let takes_time = fault.is_some() || stream.happens(300);
            takes_time.then(|| stream.duration(Duration::ZERO, longest))
        };
        let (before, after) = (wait(), wait());
        Fate { fault, before, after }
    }

    /// Whether a read lets others go first.
    fn draw_yield(&self) -> bool {
        self.lock().stream.happens(250)
    }

    /// Whether a read fails: far more seldom than a write, since there are many more of them.
    fn draw_read(&self) -> Result<(), LedgerError> {
        let mut plan = self.lock();
        let per_mille = plan.per_mille / 8;
        if plan.stream.happens(per_mille) { Err(unavailable()) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, PlanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unavailable() -> LedgerError {
    LedgerError::Unavailable { problem: "it does not answer".to_owned(), source: None }
}

/// The ledger of one node.
pub struct FaultyLedger {
    inner: Arc<dyn Ledger>,
    plan: Arc<LedgerFaultPlan>,
    world: Arc<World>,
    judge: Arc<Judge>,
}

impl fmt::Debug for FaultyLedger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FaultyLedger")
    }
}

impl FaultyLedger {
    /// Puts `plan` and `judge` before `inner`, whose futures must be ready at the first poll: what
    /// the judge sees must be what is durable.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Ledger>,
        plan: Arc<LedgerFaultPlan>,
        world: Arc<World>,
        judge: Arc<Judge>,
    ) -> Self {
        Self { inner, plan, world, judge }
    }

    async fn wait(&self, duration: Option<Duration>) {
        match duration {
            Some(duration) => self.world.time().sleep(duration).await,
            None => self.world.time().yield_now().await,
        }
    }

    /// Writes, and shows the judge what is durable then.
    async fn write(&self, writes: Vec<Write>) -> Result<(), LedgerError> {
        let mut written = Vec::with_capacity(writes.len());
        let mut debts = Vec::new();
        for write in &writes {
            match write {
                Write::Insert { lease, .. } | Write::Update { lease, .. } => {
                    written.push(Arc::clone(lease));
                }
                Write::InsertDebt { lease, .. } => debts.push(lease.id.clone()),
            }
        }
        self.inner.commit(writes).await?;
        for debt in debts {
            // Left out if another row answers for the sandbox.
            written.extend(self.inner.get(&debt).await?);
        }
        let now = self.inner.now();
        self.world.inspect(|truth| self.judge.committed(truth, written, now));
        Ok(())
    }

    async fn before_read(&self) -> Result<(), LedgerError> {
        if self.plan.draw_yield() {
            self.world.time().yield_now().await;
        }
        self.plan.draw_read()
    }
}

#[async_trait]
impl Ledger for FaultyLedger {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn restored_at(&self) -> Option<Timestamp> {
        self.inner.restored_at()
    }

    fn last_jump(&self) -> Option<std::time::Duration> {
        self.inner.last_jump()
    }

    async fn mode(&self) -> Result<LedgerMode, LedgerError> {
        self.inner.mode().await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), LedgerError> {
        let first = writes.first().map(|write| match write {
            Write::Insert { lease, .. }
            | Write::Update { lease, .. }
            | Write::InsertDebt { lease, .. } => (lease.state, lease.id.clone()),
        });
        let Some((state, lease)) = first else { return Ok(()) };
        let Fate { fault, before, after } = self.plan.draw(state);
        if let Some(fault) = fault {
            self.world.journal().note(format_args!("ledger [{}] {lease} {state}", fault.name()));
        }
        self.wait(before).await;
        match fault {
            Some(LedgerFault::Conflict) => return Err(LedgerError::Conflict { lease }),
            Some(LedgerFault::Unavailable) => return Err(unavailable()),
            _ => {}
        }
        let written = self.write(writes).await;
        self.wait(after).await;
        match fault {
            Some(LedgerFault::LostAnswer) => written.and(Err(unavailable())),
            _ => written,
        }
    }

    async fn get(&self, lease: &LeaseId) -> Result<Option<Arc<Lease>>, LedgerError> {
        self.before_read().await?;
        self.inner.get(lease).await
    }

    async fn find_key(
        &self,
        owner: &Owner,
        home: &Home,
        key: &AcquireKey,
    ) -> Result<Option<Arc<Lease>>, LedgerError> {
        self.before_read().await?;
        self.inner.find_key(owner, home, key).await
    }

    async fn find_pinned(&self, place: &HomeAndSandbox) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.before_read().await?;
        self.inner.find_pinned(place).await
    }

    async fn find_attempt(
        &self,
        home: &Home,
        name: &SandboxName,
    ) -> Result<Option<Arc<Lease>>, LedgerError> {
        self.before_read().await?;
        self.inner.find_attempt(home, name).await
    }

    async fn list(&self, filter: &LeaseFilter) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.before_read().await?;
        self.inner.list(filter).await
    }

    async fn homes(&self) -> Result<Vec<Home>, LedgerError> {
        self.before_read().await?;
        self.inner.homes().await
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.before_read().await?;
        self.inner.due(now, limit).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError> {
        self.inner.next_due().await
    }

    async fn damaged(&self) -> Result<Vec<(String, String)>, LedgerError> {
        self.inner.damaged().await
    }

    async fn salvage(&self, lease: &LeaseId) -> Result<Option<Salvage>, LedgerError> {
        self.before_read().await?;
        self.inner.salvage(lease).await
    }

    async fn events(
        &self,
        lease: &LeaseId,
        after: u64,
        limit: u32,
    ) -> Result<EventPage, LedgerError> {
        self.before_read().await?;
        self.inner.events(lease, after, limit).await
    }

    async fn register_node(&self, node: &NodeId) -> Result<(), LedgerError> {
        self.inner.register_node(node).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, LedgerError> {
        self.before_read().await?;
        self.inner.nodes().await
    }

    async fn rows_of_node(&self, node: &NodeId) -> Result<Vec<Arc<Lease>>, LedgerError> {
        self.before_read().await?;
        self.inner.rows_of_node(node).await
    }

    async fn remove_node(&self, node: &NodeId) -> Result<(), LedgerError> {
        self.before_read().await?;
        self.inner.remove_node(node).await
    }

    async fn brake(&self) -> Result<BrakeState, LedgerError> {
        self.inner.brake().await
    }

    async fn release_brake(&self) -> Result<(), LedgerError> {
        self.inner.release_brake().await
    }

    async fn accept(&self) -> Result<(), LedgerError> {
        self.inner.accept().await
    }
}
