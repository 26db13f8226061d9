//! The judge: compares the durable record with the truth at the provider, at the instant anything
//! changes on either side.
//!
//! It knows what no keeper can know (what truly exists, who truly asked), and holds every change
//! against the invariants of the design: *living*, *conservation*, *clean hand-on*, *truthful
//! ends*, *once*. It never looks at what a keeper means to do, only at what was written and what was
//! carried out.

mod commits;
mod ends;
mod executions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::{Grant, Home, Lease, LeaseId, NodeId, Pin, SandboxName, Timestamp};

use crate::journal::Journal;
use crate::world::{GroundTruth, Mutation, Observer, micros};

/// For how long the keepers of a history let nothing expire after the clock jumped.
pub(crate) const JUMP_GRACE: Duration = Duration::from_secs(300);

/// By how much the ledger's time may change against the true one without having jumped.
const NO_JUMP: Duration = Duration::from_secs(30);

/// What a violation breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Only the owner uses, releases or destroys.
    Ownership,
    /// A destroy executes only on a pinned row in destroying, entered lawfully, and that sandbox is
    /// never handed out again.
    Living,
    /// Every existing sandbox that we made is named by exactly one open row or a kept tombstone.
    Conservation,
    /// With a new grant nothing of an older one runs, or starts later.
    CleanHandOn,
    /// A closed row's sandbox does not exist, and none of its attempts can still make one.
    TruthfulEnds,
    /// One sandbox for each attempt; "not started" is never said of a command that did.
    Once,
    /// A key goes only where it was given for.
    Secrets,
    /// Everything settles once nothing goes wrong any more.
    WayOut,
    /// Nobody asks a provider again and again without a pause.
    Pace,
}

impl fmt::Display for Invariant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Invariant::Ownership => "ownership",
            Invariant::Living => "living",
            Invariant::Conservation => "conservation",
            Invariant::CleanHandOn => "clean hand-on",
            Invariant::TruthfulEnds => "truthful ends",
            Invariant::Once => "once",
            Invariant::Secrets => "secrets",
            Invariant::WayOut => "way out",
            Invariant::Pace => "pace",
        })
    }
}

/// Something that must never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it breaks.
    pub invariant: Invariant,
    /// What happened.
    pub report: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.invariant, self.report)
    }
}

/// A copy of the record as the judge holds it, to go with a copy of a ledger.
#[derive(Clone, Debug)]
pub struct JudgeSnapshot {
    rows: BTreeMap<LeaseId, Arc<Lease>>,
}

#[derive(Default)]
struct State {
    /// The durable record.
    rows: BTreeMap<LeaseId, Arc<Lease>>,
    /// Sandboxes whose removal was decided since the last restore.
    condemned: BTreeSet<Pin>,
    /// Those whose removal was decided under a record that a restore has undone since.
    condemned_before_restore: BTreeSet<Pin>,
    /// Names of attempts of a record that a restore has undone since.
    names_before_restore: BTreeSet<SandboxName>,
    /// The newest grant that was given for each sandbox.
    grants: BTreeMap<Pin, Grant>,
    /// Names under which a sandbox was made.
    made: BTreeSet<SandboxName>,
    /// Leases whose end an owner or an operator asked for.
    end_asked: BTreeSet<LeaseId>,
    /// The end of its life that each lease was promised, by its row and in microseconds of the run.
    promised: BTreeMap<LeaseId, (Timestamp, u64)>,
    /// How far the ledger's time was ahead of the true one at the last commit, and since when, in
    /// microseconds of the run.
    ahead: (Duration, u64),
    /// Nodes that truly died.
    dead: BTreeSet<NodeId>,
    /// Labels of commands that started, and of those of which a keeper said that they did not.
    started: BTreeSet<String>,
    said_not_started: BTreeSet<String>,
    restored: bool,
    violations: Vec<Violation>,
}

impl State {
    fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.rows.values().map(Arc::as_ref)
    }

    /// Notes how far the ledger's time is ahead.
    fn note_time(&mut self, truth: &GroundTruth, now: Timestamp) {
        let ahead = now.since(truth.timestamp());
        if ahead.abs_diff(self.ahead.0) > NO_JUMP {
            self.ahead = (ahead, truth.now());
        }
    }

    /// Whether a deadline had passed at that moment by the ledger's time, which may be ahead: then it
    /// counts once it has been so for as long as keepers distrust a jump.
    fn had_passed(&self, deadline: Timestamp, truth: &GroundTruth, at: u64) -> bool {
        let (ahead, since) = self.ahead;
        let ago = Duration::from_micros(truth.now() - at);
        let distrusted = at < since + micros(JUMP_GRACE);
        !distrusted && deadline + ago <= truth.timestamp() + ahead + NO_JUMP
    }
}

/// The judge of one run.
pub struct Judge {
    home: Home,
    journal: Arc<Journal>,
    state: Mutex<State>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Judge({} violations)", self.lock().violations.len())
    }
}

impl Judge {
    /// Judges what happens in `home`.
    #[must_use]
    pub fn new(home: Home, journal: Arc<Journal>) -> Arc<Self> {
        Arc::new(Self { home, journal, state: Mutex::default() })
    }

    /// What was found so far.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// Whether nothing was found so far.
    #[must_use]
    pub fn is_content(&self) -> bool {
        self.lock().violations.is_empty()
    }

    /// Somebody who may asked for the end of the lease: from here on its removal is lawful.
    pub fn end_was_asked(&self, lease: &LeaseId) {
        self.lock().end_asked.insert(lease.clone());
    }

    /// The node truly died.
    pub fn node_died(&self, node: &NodeId) {
        self.lock().dead.insert(node.clone());
    }

    /// A keeper told a caller that the command with this label certainly did not start. The label
    /// is the command's last argument, and used once.
    pub fn said_not_started(&self, label: &str) {
        let mut state = self.lock();
        if state.started.contains(label) {
            let report = format!("a command that started was said not to: {label}");
            self.violated(&mut state, Invariant::Once, report);
        }
        state.said_not_started.insert(label.to_owned());
    }

    /// Whether the command with this label ever started.
    #[must_use]
    pub fn has_started(&self, label: &str) -> bool {
        self.lock().started.contains(label)
    }

    /// What only the one who runs the test can see.
    pub fn report(&self, invariant: Invariant, report: String) {
        self.violated(&mut self.lock(), invariant, report);
    }

    /// A copy of the record, to go with a copy of the ledger.
    #[must_use]
    pub fn snapshot(&self) -> JudgeSnapshot {
        JudgeSnapshot { rows: self.lock().rows.clone() }
    }

    /// The ledger was put back as it was. What was decided since counts as decided, but not as
    /// known.
    pub fn restore(&self, snapshot: &JudgeSnapshot) {
        let mut state = self.lock();
        let lost = std::mem::replace(&mut state.rows, snapshot.rows.clone());
        let names = lost.into_values().filter_map(|row| Some(row.attempt.as_ref()?.name.clone()));
        state.names_before_restore.extend(names);
        let condemned = std::mem::take(&mut state.condemned);
        state.condemned_before_restore.extend(condemned);
        let rows: Vec<Pin> =
            state.leases().filter(|row| is_condemned(row)).filter_map(pin).collect();
        state.condemned.extend(rows);
        state.grants.clear();
        state.restored = true;
        self.journal.note(format_args!("ledger restored"));
    }

    /// The durable row.
    #[must_use]
    pub fn row(&self, lease: &LeaseId) -> Option<Arc<Lease>> {
        self.lock().rows.get(lease).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn violated(&self, state: &mut State, invariant: Invariant, report: String) {
        self.journal.note(format_args!("VIOLATION {invariant}: {report}"));
        state.violations.push(Violation { invariant, report });
    }
}

impl Observer for Judge {
    fn observe(&self, truth: &GroundTruth, mutation: &Mutation<'_>) {
        self.executed(truth, mutation);
    }
}

fn is_condemned(row: &Lease) -> bool {
    row.state == leasehold_core::State::Destroying
}

fn pin(row: &Lease) -> Option<Pin> {
    row.pin.clone()
}

/// Whether the row and the sandbox mean each other.
fn is_pinned_to(row: &Lease, sandbox: &crate::world::SimulatedSandbox) -> bool {
    row.pin.as_ref().is_some_and(|pin| pin.sandbox == sandbox.id && pin.birth == sandbox.birth)
}

fn pin_of(sandbox: &crate::world::SimulatedSandbox) -> Pin {
    Pin { sandbox: sandbox.id.clone(), birth: sandbox.birth.clone() }
}
