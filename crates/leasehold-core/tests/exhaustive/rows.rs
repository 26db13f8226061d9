//! Rows of the ledger as the search keeps them: normalised, stored once and named by a number; and
//! the shipped decision function, asked once for each question.

use std::time::Duration;

use leasehold_core::{
    AccountId, AttemptState, BirthFingerprint, Caller, Change, Claim, CleanOutcome, Clocks,
    Context, CreateOutcome, Decision, DestroyOutcome, DestroyReason, Ending, Endpoint, Epoch,
    Evidence, Grant, Guards, Home, Input, Lease, LeaseId, Looked, Marker, NewLease, NodeId, Owner,
    PrepareOutcome, ProviderName, ReleaseGoal, ResumeOutcome, SandboxId, SandboxName, Spec, State,
    Step, Timestamp, decide_with, due_at, next_step,
};

use crate::hash::Quick;
use crate::world::{CLAIM, LAG, Node, PROVISIONING, Slot, Tick};

#[expect(
    clippy::disallowed_types,
    reason = "looked up by key only, never iterated: its order reaches no result"
)]
type Table<Key, Value> = std::collections::HashMap<Key, Value, Quick>;

/// A row, by number. Equal rows have equal numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId(u32);

impl RowId {
    /// No row.
    pub(crate) const NONE: RowId = RowId(0);

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn exists(self) -> bool {
        self != Self::NONE
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// The row's owner, with a grant.
    Owner(u8),
    /// Somebody else's owner, with a grant.
    Stranger(u8),
    Operator,
    Keeper,
}

/// An [`Input`] in the small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    SendCreate { slot: Slot, horizon: Tick },
    CreateMade { attempt: u8, id: u8, birth: Slot },
    CreateRefused { attempt: u8 },
    CreateLost { attempt: u8 },
    LookedFound { attempt: u8, id: u8, birth: Slot },
    LookedAbsent { attempt: u8, asked_at: Tick },
    LookedUnprovable { attempt: u8 },
    Prepared { current: bool },
    PrepareFailed { current: bool },
    Acknowledge,
    Renew { until: Tick },
    BeginCommands,
    CommandsEnded { definite: bool },
    Park,
    Destroy,
    Cleaned { current: bool },
    CleanUnconfirmed { current: bool },
    Resume,
    ResumeReady { current: bool },
    ResumeTransient { current: bool },
    ResumeStranger { current: bool },
    Destroyed { current: bool },
    DestroyAbsent { current: bool, asked_at: Tick },
    DestroyStranger { current: bool },
    DestroyUnproved { current: bool },
    SandboxAbsent { asked_at: Tick },
    SandboxPresent,
    Expire,
    TakeBack,
    NodeDied { node: Node },
    TakeOver,
    RenewClaim,
    Forget,
    Reopen { id: u8, birth: Slot },
}

/// A question to the decision function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) row: RowId,
    pub(crate) ask: Ask,
    pub(crate) who: Who,
    pub(crate) node: Node,
    pub(crate) now: Tick,
}

/// Its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    Refused,
    AlreadySo,
    Write { row: RowId, debt: RowId, new_epoch: bool },
}

/// What the search needs of a row, at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) state: State,
    pub(crate) open: bool,
    pub(crate) forgotten: bool,
    /// The provider's id and the birth of the pinned sandbox.
    pub(crate) pin: Option<(u8, Slot)>,
    pub(crate) attempt: Option<(u8, Slot, AttemptState)>,
    pub(crate) in_doubt: bool,
    pub(crate) grant: u8,
    pub(crate) claim: Option<(Node, Tick)>,
    pub(crate) busy: [bool; 2],
    pub(crate) tethered_to: Option<Node>,
    pub(crate) step: Option<Step>,
    pub(crate) retry_at: Tick,
    pub(crate) expires_at: u64,
    pub(crate) created_at: Tick,
}

pub(crate) struct Rows {
    guards: Guards,
    rows: Vec<Lease>,
    facts: Vec<Facts>,
    numbers: Table<Lease, RowId>,
    rulings: Table<Question, Ruling>,
    /// The first row that broke a rule of its own, with the rule.
    pub(crate) broken: Option<(RowId, String)>,
    nodes: [NodeId; 2],
}

impl Rows {
    pub(crate) fn new(guards: Guards) -> Self {
        let nodes = [node_id(0), node_id(1)];
        let mut rows = Self {
            guards,
            rows: Vec::new(),
            facts: Vec::new(),
            numbers: Table::default(),
            rulings: Table::default(),
            broken: None,
            nodes,
        };
        // Number 0 is no row; something that is none has to stand there.
        rows.store(request(9, 0, 0, None));
        rows
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.len() - 1
    }

    pub(crate) fn facts(&self, row: RowId) -> &Facts {
        &self.facts[row.0 as usize]
    }

    pub(crate) fn lease(&self, row: RowId) -> &Lease {
        &self.rows[row.0 as usize]
    }

    pub(crate) fn requested(
        &mut self,
        owner: usize,
        node: Node,
        now: Tick,
        tether: Option<Node>,
    ) -> RowId {
        self.number(request(owner, node, now, tether))
    }

    /// Asks the shipped function.
    pub(crate) fn decide(&mut self, question: Question) -> Ruling {
        if let Some(ruling) = self.rulings.get(&question) {
            return *ruling;
        }
        let lease = self.lease(question.row);
        let caller = match question.who {
            Who::Owner(grant) => {
                Caller::Owner { owner: lease.owner.clone(), grant: Some(Grant(grant.into())) }
            }
            Who::Stranger(grant) => Caller::Owner {
                owner: owner(if lease.owner == owner(0) { 1 } else { 0 }),
                grant: Some(Grant(grant.into())),
            },
            Who::Operator => Caller::Operator("someone".to_owned()),
            Who::Keeper => Caller::Keeper,
        };
        let context = Context {
            now: at(question.now),
            node: &self.nodes[question.node as usize],
            caller: &caller,
            claim_for: ticks(CLAIM),
            calm: true,
        };
        let epoch = lease.epoch;
        let input = input(question.ask, question.now, epoch);
        let ruling = match decide_with(self.guards, lease, &input, context) {
            Err(_) => Ruling::Refused,
            Ok(Decision::AlreadySo) => Ruling::AlreadySo,
            Ok(Decision::Write(change)) => {
                let Change { lease, debt, events: _ } = *change;
                let new_epoch = lease.epoch != epoch;
                let row = self.number(lease);
                let debt = debt.map_or(RowId::NONE, |debt| self.number(*debt));
                Ruling::Write { row, debt, new_epoch }
            }
        };
        self.rulings.insert(question, ruling);
        ruling
    }

    fn number(&mut self, lease: Lease) -> RowId {
        let lease = normal(lease);
        match self.numbers.get(&lease) {
            Some(number) => *number,
            None => self.store(lease),
        }
    }

    fn store(&mut self, lease: Lease) -> RowId {
        let number = RowId(u32::try_from(self.rows.len()).unwrap());
        let rule = match lease.check() {
            Err(inconsistency) => Some(inconsistency.to_string()),
            // Whatever is open comes up again by itself: no row can be overlooked.
            Ok(())
                if lease.is_open() && due_at(&lease).is_none_or(|due| due == Timestamp::NEVER) =>
            {
                Some("an open row is due at some time".to_owned())
            }
            Ok(()) => None,
        };
        if let Some(rule) = rule {
            self.broken.get_or_insert((number, rule));
        }
        self.facts.push(facts(&lease));
        self.numbers.insert(lease.clone(), number);
        self.rows.push(lease);
        number
    }
}

/// Leaves out what no decision reads, so that rows that behave alike are one row.
///
/// - The version is only compared for equality, with what was read: the search keeps for each read
///   whether the row was written since.
/// - So is the epoch: the search keeps for each call whether it is the row's current one.
/// - Texts, counts and times of a removal or an end are for people.
fn normal(mut lease: Lease) -> Lease {
    let past = at(0);
    lease.version = 1;
    lease.epoch = Epoch(1);
    if let Some(cleanup) = &mut lease.cleanup {
        cleanup.reason = DestroyReason::OwnerAsked;
        cleanup.actor.clear();
        cleanup.since = past;
        cleanup.tries = 0;
        cleanup.problem = None;
    }
    if let Some(receipt) = &mut lease.receipt {
        receipt.evidence = Evidence::of("");
        receipt.actor.clear();
        receipt.at = past;
    }
    if matches!(lease.state, State::Destroying | State::Closed) {
        lease.created_at = past;
        lease.touched_at = past;
        lease.provisioning_until = past;
        lease.life_until = past;
    }
    if lease.state == State::Closed {
        lease.cleanup = None;
        lease.absent_since = None;
    }
    // Read only together with a step; every way into a step's state sets it, but for the first,
    // where it is past.
    if next_step(&lease).is_none() && lease.absent_since.is_none() {
        lease.retry_at = past;
    }
    lease
}

fn facts(lease: &Lease) -> Facts {
    let number = |text: &str| text[1..].parse::<u8>().unwrap();
    let node = |id: &NodeId| number(id.as_str());
    let mut busy = [false; 2];
    for id in &lease.busy_nodes {
        busy[node(id) as usize] = true;
    }
    Facts {
        state: lease.state,
        open: lease.is_open(),
        forgotten: lease.receipt.as_ref().is_some_and(|r| r.ending == Ending::Forgotten),
        pin: lease
            .pin
            .as_ref()
            .map(|pin| (number(pin.sandbox.as_str()), number(pin.birth.as_str()))),
        attempt: lease
            .attempt
            .as_ref()
            .map(|a| (u8::try_from(a.number).unwrap(), number(a.name.as_str()), a.state)),
        in_doubt: lease.has_attempt_in_doubt(),
        grant: u8::try_from(lease.grant.0).unwrap(),
        claim: lease.claim.as_ref().map(|claim| (node(&claim.node), tick(claim.until))),
        busy,
        tethered_to: lease.tether.as_ref().map(node),
        step: next_step(lease),
        retry_at: tick(lease.retry_at),
        expires_at: lease.expires_at().as_millis(),
        created_at: tick(lease.created_at),
    }
}

fn input(ask: Ask, now: Tick, row: Epoch) -> Input {
    // Epochs only rise, so every one that is not the row's is as good as any other.
    let epoch = |current: bool| if current { row } else { Epoch(0) };
    let evidence = || Evidence::of("seen");
    let problem = || "a problem".to_owned();
    let debt = || LeaseId::new("debt").unwrap();
    let (lag, soon) = (ticks(LAG), at(now + 1));
    match ask {
        Ask::SendCreate { slot, horizon } => Input::SendCreate {
            name: SandboxName::new(format!("n{slot}")).unwrap(),
            horizon: at(horizon),
            debt: debt(),
        },
        Ask::CreateMade { attempt, id, birth } => Input::CreateEnded {
            attempt: attempt.into(),
            outcome: CreateOutcome::Made { sandbox: sandbox(id), birth: fingerprint(birth) },
            debt: debt(),
        },
        Ask::CreateRefused { attempt } => Input::CreateEnded {
            attempt: attempt.into(),
            outcome: CreateOutcome::Refused { problem: problem(), again: attempt == 1 },
            debt: debt(),
        },
        Ask::CreateLost { attempt } => Input::CreateEnded {
            attempt: attempt.into(),
            outcome: CreateOutcome::Lost { problem: problem(), look_at: at(now) },
            debt: debt(),
        },
        Ask::LookedFound { attempt, id, birth } => Input::AttemptLooked {
            attempt: attempt.into(),
            looked: Looked::Found { sandbox: sandbox(id), birth: fingerprint(birth) },
        },
        Ask::LookedAbsent { attempt, asked_at } => Input::AttemptLooked {
            attempt: attempt.into(),
            looked: Looked::Absent { asked_at: at(asked_at), lag },
        },
        Ask::LookedUnprovable { attempt } => Input::AttemptLooked {
            attempt: attempt.into(),
            looked: Looked::Unprovable { problem: problem(), retry_at: soon },
        },
        Ask::Prepared { current } => Input::PrepareEnded {
            epoch: epoch(current),
            outcome: PrepareOutcome::Ready { grant: Grant(1), delivered: false },
        },
        Ask::PrepareFailed { current } => {
            Input::PrepareEnded { epoch: epoch(current), outcome: PrepareOutcome::Failed }
        }
        Ask::Acknowledge => Input::Acknowledge,
        Ask::Renew { until } => Input::Renew { life_until: at(until) },
        Ask::BeginCommands => Input::BeginCommands,
        Ask::CommandsEnded { definite } => Input::CommandsEnded { definite },
        Ask::Park => Input::Release { goal: ReleaseGoal::Park },
        Ask::Destroy => Input::Destroy { reason: DestroyReason::OwnerAsked },
        Ask::Cleaned { current } => {
            Input::CleanEnded { epoch: epoch(current), outcome: CleanOutcome::Clean }
        }
        Ask::CleanUnconfirmed { current } => {
            Input::CleanEnded { epoch: epoch(current), outcome: CleanOutcome::Unconfirmed }
        }
        Ask::Resume => Input::Resume { least_life: Duration::ZERO },
        Ask::ResumeReady { current } => Input::ResumeEnded {
            epoch: epoch(current),
            outcome: ResumeOutcome::Ready { grant: Grant(0), delivered: false },
        },
        Ask::ResumeTransient { current } => Input::ResumeEnded {
            epoch: epoch(current),
            outcome: ResumeOutcome::Transient { problem: problem() },
        },
        Ask::ResumeStranger { current } => Input::ResumeEnded {
            epoch: epoch(current),
            outcome: ResumeOutcome::Stranger { evidence: evidence() },
        },
        Ask::Destroyed { current } => Input::DestroyEnded {
            epoch: epoch(current),
            outcome: DestroyOutcome::Proved(evidence()),
        },
        Ask::DestroyAbsent { current, asked_at } => Input::DestroyEnded {
            epoch: epoch(current),
            outcome: DestroyOutcome::Absent { evidence: evidence(), asked_at: at(asked_at), lag },
        },
        Ask::DestroyStranger { current } => Input::DestroyEnded {
            epoch: epoch(current),
            outcome: DestroyOutcome::Stranger(evidence()),
        },
        Ask::DestroyUnproved { current } => Input::DestroyEnded {
            epoch: epoch(current),
            outcome: DestroyOutcome::Unproved {
                problem: problem(),
                retry_at: soon,
                attention: None,
            },
        },
        Ask::SandboxAbsent { asked_at } => {
            Input::SandboxAbsent { evidence: evidence(), asked_at: at(asked_at), lag }
        }
        Ask::SandboxPresent => Input::SandboxPresent,
        Ask::Expire => Input::Expire,
        Ask::TakeBack => Input::TakeBack,
        Ask::NodeDied { node } => Input::NodeDied { node: node_id(node) },
        Ask::TakeOver => Input::TakeOver,
        Ask::RenewClaim => Input::RenewClaim,
        Ask::Forget => Input::Forget { why: problem() },
        Ask::Reopen { id, birth } => Input::Reopen {
            sandbox: sandbox(id),
            birth: fingerprint(birth),
            proof: "swept".to_owned(),
        },
    }
}

fn request(lease: usize, node: Node, now: Tick, tether: Option<Node>) -> Lease {
    let new = NewLease {
        id: LeaseId::new(format!("lease{lease}")).unwrap(),
        owner: owner(lease),
        home: Home {
            provider: ProviderName::new("model").unwrap(),
            endpoint: Endpoint::new("model:world").unwrap(),
            account: AccountId::new("account").unwrap(),
            machine: None,
        },
        spec: Spec::default(),
        intent: None,
        marker: Marker::new("marker").unwrap(),
        clocks: Clocks {
            provisioning: ticks(PROVISIONING),
            idle_active: ticks(2),
            idle_parked: ticks(3),
            longest_life: ticks(6),
        },
        lifetime: ticks(5),
        tether: tether.map(node_id),
        claim: Claim { node: node_id(node), until: at(now + CLAIM) },
    };
    Lease::request(new, at(now))
}

fn owner(index: usize) -> Owner {
    Owner::new("company", if index == 0 { "red" } else { "blue" }).unwrap()
}

fn node_id(node: Node) -> NodeId {
    NodeId::new(format!("w{node}")).unwrap()
}

fn sandbox(id: u8) -> SandboxId {
    SandboxId::new(format!("s{id}")).unwrap()
}

fn fingerprint(birth: Slot) -> BirthFingerprint {
    BirthFingerprint::new(format!("b{birth}")).unwrap()
}

fn at(tick: Tick) -> Timestamp {
    Timestamp::from_millis(tick.into())
}

fn ticks(count: Tick) -> Duration {
    Duration::from_millis(count.into())
}

fn tick(time: Timestamp) -> Tick {
    Tick::try_from(time.as_millis()).unwrap()
}
