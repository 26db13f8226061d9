//! Rows that are made for nothing but a removal, at an operator's word.

use std::collections::BTreeSet;

use super::{
    Attempt, AttemptState, Cleanliness, Cleanup, Clocks, DestroyReason, KeyedIntent, Kind, Lease,
    Pin, State,
};
use crate::home::Home;
use crate::identifiers::{AcquireKey, Epoch, Grant, IntentDigest, LeaseId, Marker, SandboxName};
use crate::owner::Owner;
use crate::receipt::{Ending, Evidence, Receipt};
use crate::spec::Spec;
use crate::time::Timestamp;

/// What a ledger can still tell of a row that cannot be read: what its searches go by is kept beside
/// the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvage {
    /// Its id.
    pub id: LeaseId,
    /// The version that is stored.
    pub version: u64,
    /// Whose it is.
    pub owner: Owner,
    /// Where its sandbox lives.
    pub home: Home,
    /// The key of its acquire.
    pub key: Option<AcquireKey>,
    /// The sandbox that it is, or was, pinned to.
    pub pin: Option<Pin>,
    /// The name of its newest attempt.
    pub attempt: Option<SandboxName>,
}

impl Lease {
    /// The row of a sandbox that no row named, in [`State::Destroying`] at an operator's word. It has
    /// no owner but the operator.
    #[must_use]
    pub fn orphan(id: LeaseId, home: Home, pin: Pin, actor: String, now: Timestamp) -> Self {
        Self { pin: Some(pin), ..Self::debt(id, Owner::operator(), home, actor, now) }
    }

    /// The row that takes the place of one that cannot be read, in [`State::Destroying`] at an
    /// operator's word. Whoever still holds the lost one is late: its epoch is above any that it had.
    ///
    /// `horizon` is from when on the absence of the attempt's name means that it makes no sandbox. If
    /// nothing was ever asked of the provider the row is closed at once: there is nothing to remove.
    #[must_use]
    pub fn salvaged(salvage: Salvage, horizon: Timestamp, actor: String, now: Timestamp) -> Self {
        let Salvage { id, version, owner, home, key, pin, attempt } = salvage;
        let state = if pin.is_some() { AttemptState::Made } else { AttemptState::InDoubt };
        let lost = |key| KeyedIntent { key, digest: IntentDigest::lost() };
        let nothing_asked = pin.is_none() && attempt.is_none();
        let row = Self {
            intent: key.map(lost),
            version: version.saturating_add(1),
            // Each decision wrote a version, so no epoch got further.
            epoch: Epoch(version).next(),
            pin,
            attempt: attempt.map(|name| Attempt { number: 1, name, horizon, state }),
            ..Self::debt(id, owner, home, actor.clone(), now)
        };
        if !nothing_asked {
            return row;
        }
        let evidence = Evidence::of("its row was damaged, and names neither sandbox nor attempt");
        let receipt = Receipt { ending: Ending::NeverCreated, evidence, at: now, actor };
        Self { state: State::Closed, cleanup: None, receipt: Some(receipt), ..row }
    }

    /// What [`Lease::orphan`] and [`Lease::salvaged`] have in common. It names no sandbox yet.
    fn debt(id: LeaseId, owner: Owner, home: Home, actor: String, now: Timestamp) -> Self {
        Self {
            id,
            kind: Kind::Debt,
            owner,
            home,
            spec: Spec::default(),
            intent: None,
            state: State::Destroying,
            version: 1,
            epoch: Epoch(1),
            grant: Grant(0),
            acknowledged: Grant(0),
            deliver_by: None,
            cleanliness: Cleanliness::Doubtful,
            cleaned_at: None,
            busy_nodes: BTreeSet::new(),
            attempt: None,
            pin: None,
            marker: Marker::none(),
            absent_since: None,
            claim: None,
            tether: None,
            clocks: Clocks::default(),
            created_at: now,
            provisioning_until: now,
            touched_at: now,
            life_until: now,
            retry_at: now,
            cleanup: Some(Cleanup {
                reason: DestroyReason::OperatorAsked,
                actor,
                since: now,
                tries: 0,
                problem: None,
            }),
            attention: BTreeSet::new(),
            receipt: None,
        }
    }
}
