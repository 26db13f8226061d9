//! Rows for tests: one of each state.

use std::time::Duration;

use leasehold_core::{
    AccountId, AcquireKey, Attempt, AttemptState, BirthFingerprint, Claim, Cleanup, Clocks,
    DestroyReason, Ending, Endpoint, Epoch, Evidence, Grant, Home, IntentDigest, KeyedIntent,
    Lease, LeaseId, Marker, NewLease, NodeId, Owner, Pin, ProviderName, Receipt, SandboxId,
    SandboxName, Spec, State, Timestamp,
};

/// When every row here was acquired.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_000_000);

pub(crate) fn owner() -> Owner {
    Owner::new("acme", "production").unwrap()
}

pub(crate) fn node() -> NodeId {
    NodeId::new("node_one").unwrap()
}

/// A lease that was just asked for, for an hour.
pub(crate) fn requested() -> Lease {
    let new = NewLease {
        id: LeaseId::new("ls_one").unwrap(),
        owner: owner(),
        home: Home {
            provider: ProviderName::new("local").unwrap(),
            endpoint: Endpoint::new("local:sandboxes").unwrap(),
            account: AccountId::new("root").unwrap(),
            machine: None,
        },
        spec: Spec { shape: Some("small".to_owned()), ..Spec::default() },
        intent: Some(KeyedIntent {
            key: AcquireKey::new("run-7").unwrap(),
            digest: IntentDigest::new("digest").unwrap(),
        }),
        marker: Marker::new("marker").unwrap(),
        clocks: Clocks::default(),
        lifetime: Duration::from_secs(60 * 60),
        tether: None,
        claim: Claim { node: node(), until: START + Duration::from_secs(30) },
    };
    Lease::request(new, START)
}

/// A lease that has come as far as `state`.
pub(crate) fn in_state(state: State) -> Lease {
    let mut lease = requested();
    lease.state = state;
    lease.epoch = Epoch(4);
    if state == State::Requested {
        return lease;
    }
    let made = !matches!(state, State::Creating);
    lease.attempt = Some(Attempt {
        number: 1,
        name: SandboxName::new("lhsandbox").unwrap(),
        horizon: START + Duration::from_secs(60),
        state: if made { AttemptState::Made } else { AttemptState::InDoubt },
    });
    if made {
        lease.pin = Some(Pin {
            sandbox: SandboxId::new("sandbox-1").unwrap(),
            birth: BirthFingerprint::new("birth-1").unwrap(),
        });
    }
    if !matches!(state, State::Creating | State::Preparing) {
        lease.grant = Grant(1);
        lease.acknowledged = Grant(1);
    }
    if matches!(state, State::Active | State::Parked | State::Closed) {
        lease.claim = None;
    }
    if state == State::Destroying {
        lease.cleanup = Some(Cleanup {
            reason: DestroyReason::OwnerAsked,
            actor: "owner".to_owned(),
            since: START,
            tries: 0,
            problem: None,
        });
    }
    if state == State::Closed {
        lease.receipt = Some(Receipt {
            ending: Ending::Destroyed,
            evidence: Evidence::of("delete answered 204"),
            at: START,
            actor: "owner".to_owned(),
        });
    }
    lease.check().unwrap();
    lease
}
