//! The record of a lease: everything that is needed to use it, to end it, and to prove its end.

mod debt;
mod state;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use debt::Salvage;
pub use state::{Attention, Cleanliness, DestroyReason, Kind, State};

use crate::home::Home;
use crate::identifiers::{
    AcquireKey, BirthFingerprint, Epoch, Grant, IntentDigest, LeaseId, Marker, NodeId, SandboxId,
    SandboxName,
};
use crate::owner::Owner;
use crate::receipt::Receipt;
use crate::spec::Spec;
use crate::time::Timestamp;

/// One journalled create call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// The name that it asks the provider for: unguessable, used once.
    pub name: SandboxName,
    /// From when on the absence of the name means that it can make no sandbox any more.
    pub horizon: Timestamp,
    /// What is known of it.
    pub state: AttemptState,
}

/// What is known of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// It may have made a sandbox, or still make one.
    InDoubt,
    /// The provider definitely refused it.
    Refused,
    /// It made the sandbox that is pinned.
    Made,
}

/// The sandbox that a row is bound to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pin {
    /// The provider's id.
    pub sandbox: SandboxId,
    /// What tells it apart from a later sandbox with the same id.
    pub birth: BirthFingerprint,
}

/// The right of one node to do the lease's next step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// Whose right it is.
    pub node: NodeId,
    /// When it runs out, unless renewed.
    pub until: Timestamp,
}

/// How a removal goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cleanup {
    /// Why it was decided.
    pub reason: DestroyReason,
    /// Who decided it, as the receipt will say.
    pub actor: String,
    /// When it was decided.
    pub since: Timestamp,
    /// How often it was tried without proof. More than none means quarantined.
    pub tries: u32,
    /// What stood in the way the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The key of an acquire, with a digest of what was asked for under it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyedIntent {
    /// The caller's name for the acquire.
    pub key: AcquireKey,
    /// A keyed digest of the intent.
    pub digest: IntentDigest,
}

/// The limits of a lease in time. DESIGN: provisioning, idle (active and parked), life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Clocks {
    /// How long an acquire may take, and its answer may stay unacknowledged.
    pub provisioning: Duration,
    /// How long an active lease may go without a call or a running command.
    pub idle_active: Duration,
    /// How long a parked lease is kept.
    pub idle_parked: Duration,
    /// How long a lease may live from its acquire on, renewed or not.
    pub longest_life: Duration,
}

impl Default for Clocks {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60;
        Self {
            provisioning: Duration::from_secs(5 * 60),
            // Longer than the longest known silence of a host, 5.5 minutes.
            idle_active: Duration::from_secs(15 * 60),
            idle_parked: Duration::from_secs(7 * DAY),
            longest_life: Duration::from_secs(30 * DAY),
        }
    }
}

/// A lease, a template or a debt, as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// What it stands for.
    pub kind: Kind,
    /// Whose it is.
    pub owner: Owner,
    /// Where its sandbox lives. Fixed for good at the acquire.
    pub home: Home,
    /// What was asked for.
    pub spec: Spec,
    /// The key of its acquire, if the caller gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<KeyedIntent>,
    /// Where it stands.
    pub state: State,
    /// Rises by one with every write; the ledger compares it.
    pub version: u64,
    /// Rises with every decision; outcomes are compared with it.
    pub epoch: Epoch,
    /// The current grant, 0 before the first.
    pub grant: Grant,
    /// The newest grant that its caller has shown to know.
    pub acknowledged: Grant,
    /// When an unacknowledged grant is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_by: Option<Timestamp>,
    /// Whether something of an earlier use might run.
    pub cleanliness: Cleanliness,
    /// When it was last proved to be clean, by a park.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaned_at: Option<Timestamp>,
    /// Nodes that have, or had and never ended, commands on it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub busy_nodes: BTreeSet<NodeId>,
    /// The newest create call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// What proves inside the sandbox that it is the one.
    pub marker: Marker,
    /// When it was first not found; a second look proves absence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_since: Option<Timestamp>,
    /// Who does its next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// The process that the lease ends with, if it is tied to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tether: Option<NodeId>,
    /// Its limits.
    pub clocks: Clocks,
    /// When it was acquired.
    pub created_at: Timestamp,
    /// Until when the create may still be repeated by the caller.
    pub provisioning_until: Timestamp,
    /// The last call or sign of a running command.
    pub touched_at: Timestamp,
    /// Its end, whatever happens.
    pub life_until: Timestamp,
    /// When unfinished work on it is next due.
    pub retry_at: Timestamp,
    /// How its removal goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
    /// What a person should look at.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub attention: BTreeSet<Attention>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// What an acquire records before anything else happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLease {
    /// Its id.
    pub id: LeaseId,
    /// Whose it will be.
    pub owner: Owner,
    /// Where its sandbox will live.
    pub home: Home,
    /// What is asked for.
    pub spec: Spec,
    /// The key of the acquire.
    pub intent: Option<KeyedIntent>,
    /// What will prove the sandbox.
    pub marker: Marker,
    /// Its limits.
    pub clocks: Clocks,
    /// How long it is asked for; [`Clocks::longest_life`] caps it.
    pub lifetime: Duration,
    /// The process that it ends with.
    pub tether: Option<NodeId>,
    /// The node that will create.
    pub claim: Claim,
}

impl Lease {
    /// The row of a new lease, in [`State::Requested`].
    #[must_use]
    pub fn request(new: NewLease, now: Timestamp) -> Self {
        let lifetime = new.lifetime.min(new.clocks.longest_life);
        Self {
            id: new.id,
            kind: Kind::Lease,
            owner: new.owner,
            home: new.home,
            spec: new.spec,
            intent: new.intent,
            state: State::Requested,
            version: 1,
            epoch: Epoch(1),
            grant: Grant(0),
            acknowledged: Grant(0),
            deliver_by: None,
            cleanliness: Cleanliness::Clean,
            cleaned_at: None,
            busy_nodes: BTreeSet::new(),
            attempt: None,
            pin: None,
            marker: new.marker,
            absent_since: None,
            claim: Some(new.claim),
            tether: new.tether,
            clocks: new.clocks,
            created_at: now,
            provisioning_until: now + new.clocks.provisioning,
            touched_at: now,
            life_until: now + lifetime,
            retry_at: now,
            cleanup: None,
            attention: BTreeSet::new(),
            receipt: None,
        }
    }

    /// Whether the row is open: it counts against its owner's limit, and pins its sandbox.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state != State::Closed
    }

    /// Whether its removal was tried and not proved.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        self.state == State::Destroying
            && self.cleanup.as_ref().is_some_and(|cleanup| cleanup.tries > 0)
    }

    /// Whether the caller has shown that it knows the current grant.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        self.acknowledged == self.grant && self.grant > Grant(0)
    }

    /// Whether an attempt may have made a sandbox that is not pinned.
    #[must_use]
    pub fn has_attempt_in_doubt(&self) -> bool {
        self.pin.is_none()
            && self.attempt.as_ref().is_some_and(|attempt| attempt.state == AttemptState::InDoubt)
    }

    /// When the lease ends unless it is touched or renewed; the first of its deadlines.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        // What is being removed or has ended has no end to come: its deadline, long past, would make
        // it the most overdue of all rows for ever.
        let ends = matches!(self.state, State::Destroying | State::Closed);
        if ends || self.kind == Kind::Template {
            return Timestamp::NEVER;
        }
        let idle = match self.state {
            // A caller may still repeat its acquire for as long as its answer could be on its way.
            State::Requested | State::Creating | State::Preparing => {
                self.provisioning_until + self.clocks.provisioning
            }
            State::Active => self.touched_at + self.clocks.idle_active,
            State::Parking | State::Parked | State::Resuming => {
                self.touched_at + self.clocks.idle_parked
            }
            State::Destroying | State::Closed => Timestamp::NEVER,
        };
        idle.min(self.life_until)
    }

    /// Every node that the row names: a dead one is work for recovery.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.busy_nodes
            .iter()
            .chain(self.claim.as_ref().map(|claim| &claim.node))
            .chain(self.tether.as_ref())
    }

    /// Checks what must hold of every row, read or written. A ledger hands on no row that fails.
    pub fn check(&self) -> Result<(), Inconsistency> {
        let holds = |condition: bool, rule: &'static str| {
            if condition { Ok(()) } else { Err(Inconsistency { lease: self.id.clone(), rule }) }
        };
        let closed = self.state == State::Closed;
        let pinned_state = matches!(
            self.state,
            State::Preparing | State::Active | State::Parking | State::Parked | State::Resuming
        );
        holds(closed == self.receipt.is_some(), "a row is closed if and only if it has a receipt")?;
        holds(!pinned_state || self.pin.is_some(), "a lease in use is pinned to a sandbox")?;
        holds(
            self.state != State::Destroying || self.cleanup.is_some(),
            "a removal has its reason",
        )?;
        holds(
            self.state != State::Destroying || self.pin.is_some() || self.has_attempt_in_doubt(),
            "what is removed is pinned or in doubt",
        )?;
        holds(
            self.state != State::Parked || self.cleanliness == Cleanliness::Clean,
            "a parked sandbox is clean",
        )?;
        holds(
            self.state != State::Parked || self.busy_nodes.is_empty(),
            "a parked sandbox runs no commands",
        )?;
        holds(self.acknowledged <= self.grant, "no grant is acknowledged before it is given")?;
        holds(!closed || self.claim.is_none(), "a closed row has no claim")?;
        holds(
            self.state != State::Requested || self.attempt.is_none(),
            "a requested lease has sent nothing",
        )?;
        holds(
            self.kind != Kind::Debt || matches!(self.state, State::Destroying | State::Closed),
            "a debt is only paid",
        )
    }
}

/// A rule that a row breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lease {lease}: {rule}, and this row does not")]
pub struct Inconsistency {
    /// Which row.
    pub lease: LeaseId,
    /// Which rule.
    pub rule: &'static str,
}
