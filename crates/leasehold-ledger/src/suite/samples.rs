//! Leases and writes for tests, each as short as the test that needs it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    AccountId, AcquireKey, Attempt, AttemptState, BirthFingerprint, Claim, Cleanliness, Cleanup,
    Clocks, DestroyReason, Ending, Endpoint, EventKind, Evidence, Grant, Home, IntentDigest,
    KeyedIntent, Kind, Lease, LeaseId, Marker, NewLease, NodeId, Owner, Pin, ProviderName, Receipt,
    SandboxId, SandboxName, Spec, State, Timestamp,
};
use leasehold_ports::{Clock, HomeAndSandbox, Ledger, LedgerError, Limits, Write};

use super::{Subject, TestClock};

/// When tests begin.
pub const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Limits that are never reached.
pub const NO_LIMITS: Option<Limits> = None;

/// A ledger and its clock, at [`NOW`].
pub fn opened(subject: &dyn Subject) -> (Arc<dyn Ledger>, Arc<TestClock>) {
    let clock = TestClock::at(NOW);
    (subject.open(Arc::clone(&clock) as Arc<dyn Clock>), clock)
}

pub fn owner(environment: &str) -> Owner {
    Owner::new("company", environment).unwrap()
}

pub fn home(account: &str) -> Home {
    Home {
        provider: ProviderName::new("simulated").unwrap(),
        endpoint: Endpoint::new("https://sandboxes.example").unwrap(),
        account: AccountId::new(account).unwrap(),
        machine: None,
    }
}

pub fn id(text: &str) -> LeaseId {
    LeaseId::new(text).unwrap()
}

pub fn node(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

pub fn key(text: &str) -> AcquireKey {
    AcquireKey::new(text).unwrap()
}

pub fn name(text: &str) -> SandboxName {
    SandboxName::new(text).unwrap()
}

pub fn place(lease: &Lease) -> HomeAndSandbox {
    let pin = lease.pin.clone().unwrap();
    HomeAndSandbox { home: lease.home.clone(), sandbox: pin.sandbox }
}

/// A lease of `company/environment` in the home `account`, just requested by the node `creator`.
pub fn requested(lease: &str) -> Lease {
    let claim = Claim { node: node("creator"), until: NOW + Duration::from_secs(60) };
    Lease::request(
        NewLease {
            id: id(lease),
            owner: owner("environment"),
            home: home("account"),
            spec: Spec::default(),
            intent: None,
            marker: Marker::new("marker").unwrap(),
            clocks: Clocks::default(),
            lifetime: Duration::from_secs(3600),
            tether: None,
            claim,
        },
        NOW,
    )
}

/// A lease in use, on a sandbox named after it.
pub fn active(lease: &str) -> Lease {
    let mut row = requested(lease);
    row.state = State::Active;
    row.claim = None;
    row.pin = Some(pin(&format!("sandbox-of-{lease}")));
    row.grant = Grant(1);
    row.acknowledged = Grant(1);
    row
}

pub fn pin(sandbox: &str) -> Pin {
    Pin {
        sandbox: SandboxId::new(sandbox).unwrap(),
        birth: BirthFingerprint::new("birth").unwrap(),
    }
}

pub fn attempt(number: u32, of: &str) -> Attempt {
    Attempt { number, name: name(of), horizon: NOW, state: AttemptState::InDoubt }
}

pub fn keyed(mut row: Lease, with: &str) -> Lease {
    row.intent = Some(KeyedIntent { key: key(with), digest: IntentDigest::new("digest").unwrap() });
    row
}

/// The next version of the row.
pub fn next(row: &Lease, change: impl FnOnce(&mut Lease)) -> Lease {
    let mut row = row.clone();
    change(&mut row);
    row.version += 1;
    row
}

/// The row as its removal is decided.
pub fn destroying(row: &Lease, reason: DestroyReason) -> Lease {
    next(row, |row| {
        row.state = State::Destroying;
        row.cleanup = Some(cleanup(reason));
        row.receipt = None;
    })
}

pub fn cleanup(reason: DestroyReason) -> Cleanup {
    Cleanup { reason, actor: "keeper".to_owned(), since: NOW, tries: 0, problem: None }
}

/// The row as it has ended, by proof.
pub fn closed(row: &Lease) -> Lease {
    next(row, |row| {
        row.state = State::Closed;
        row.claim = None;
        row.busy_nodes.clear();
        row.receipt = Some(Receipt {
            ending: Ending::Destroyed,
            evidence: Evidence::of("delete answered 204"),
            at: NOW,
            actor: "owner".to_owned(),
        });
    })
}

/// A debt for a sandbox.
pub fn debt(lease: &str, sandbox: &str) -> Lease {
    let mut row = requested(lease);
    row.kind = Kind::Debt;
    row.state = State::Destroying;
    row.claim = None;
    row.cleanliness = Cleanliness::Doubtful;
    row.pin = Some(pin(sandbox));
    row.cleanup = Some(cleanup(DestroyReason::LateCreate));
    row
}

pub fn insert(row: &Lease) -> Write {
    insert_within(row, NO_LIMITS)
}

pub fn insert_within(row: &Lease, limits: Option<Limits>) -> Write {
    Write::Insert {
        lease: Arc::new(row.clone()),
        events: vec![EventKind::Requested],
        actor: "owner".to_owned(),
        limits,
    }
}

pub fn update(row: &Lease) -> Write {
    update_noting(row, Vec::new())
}

pub fn update_noting(row: &Lease, events: Vec<EventKind>) -> Write {
    Write::Update { lease: Arc::new(row.clone()), events, actor: "keeper".to_owned() }
}

pub fn insert_debt(row: &Lease) -> Write {
    Write::InsertDebt { lease: Arc::new(row.clone()), actor: "keeper".to_owned() }
}

/// Writes the row as a new one.
pub async fn store(ledger: &dyn Ledger, row: &Lease) {
    ledger.commit(vec![insert(row)]).await.unwrap();
}

/// Writes the row as the next version.
pub async fn replace(ledger: &dyn Ledger, row: &Lease) {
    ledger.commit(vec![update(row)]).await.unwrap();
}

/// Writes the row as the next version, which is refused.
pub async fn refusal(ledger: &dyn Ledger, write: Write) -> LedgerError {
    ledger.commit(vec![write]).await.unwrap_err()
}

/// The ids of rows, for comparing.
pub fn ids(rows: &[Arc<Lease>]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}
