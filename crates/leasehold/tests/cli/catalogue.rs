//! Every code that a user can be shown can be explained.

use std::time::Duration;

use leasehold_core::{
    DestroyReason, Ending, Grant, LeaseId, NodeId, OwnerField, Refusal, State, Timestamp,
};
use leasehold_keeper::KeeperError;
use leasehold_ports::{LedgerError, NotStarted, ProviderError};

use crate::support::Site;

fn lease() -> LeaseId {
    LeaseId::from_random([0; 16])
}

fn refusals() -> Vec<Refusal> {
    let lease = lease();
    let l = || lease.clone();
    vec![
        Refusal::NotOwner { lease: l(), field: OwnerField::Company },
        Refusal::OperatorOnly { lease: l() },
        Refusal::StaleGrant { lease: l(), presented: Grant(1) },
        Refusal::NotReady { lease: l(), state: State::Creating },
        Refusal::ResumeFirst { lease: l() },
        Refusal::ParkFirst { lease: l() },
        Refusal::Busy { lease: l(), state: State::Parking },
        Refusal::Closing { lease: l(), reason: DestroyReason::OwnerAsked },
        Refusal::Expired { lease: l() },
        Refusal::Gone { lease: l(), ending: Ending::Destroyed },
        Refusal::BeyondLife { lease: l(), latest: Timestamp::NEVER, longest: Duration::ZERO },
        Refusal::KeyConflict { lease: l() },
        Refusal::KeyUsed { lease: l() },
        Refusal::Template { lease: l() },
        Refusal::Claimed { lease: l(), node: NodeId::from_random([0; 10]) },
        Refusal::LateOutcome { lease: l() },
        Refusal::NotDue { lease: l() },
        Refusal::Forgotten { lease: l() },
    ]
}

fn ledger_errors() -> Vec<LedgerError> {
    let text = String::new;
    vec![
        LedgerError::Conflict { lease: lease() },
        LedgerError::KeyTaken { lease: lease() },
        LedgerError::PinTaken { lease: lease() },
        LedgerError::Invalid { lease: lease(), problem: text() },
        LedgerError::LimitReached { whose: "this owner", open: 1, limit: 1 },
        LedgerError::Braked { recent: 5 },
        LedgerError::Restored { why: text() },
        LedgerError::Damaged { lease: text(), problem: text() },
        LedgerError::TooNew { found: 2, known: 1 },
        LedgerError::Unsuitable { path: text(), problem: text() },
        LedgerError::Unavailable { problem: text(), source: None },
    ]
}

fn provider_errors() -> Vec<ProviderError> {
    let message = String::new;
    vec![
        ProviderError::NameTaken,
        ProviderError::LimitReached { message: message() },
        ProviderError::Invalid { message: message() },
        ProviderError::Busy { message: message() },
        ProviderError::Unauthorized,
        ProviderError::NotFound,
        ProviderError::Unsupported { operation: "fork" },
        ProviderError::Unreachable { message: message(), source: None },
        ProviderError::NoAnswer { message: message(), source: None },
    ]
}

fn not_started() -> Vec<NotStarted> {
    let text = String::new;
    vec![
        NotStarted::NotFound { program: text() },
        NotStarted::NotExecutable { program: text(), problem: text() },
        NotStarted::NoDirectory { directory: text() },
        NotStarted::StaleGrant { fence: Grant(1) },
    ]
}

fn keeper_errors() -> Vec<KeeperError> {
    let endpoint = leasehold_core::Endpoint::new("local:sandboxes").unwrap();
    let source = || ProviderError::NameTaken;
    vec![
        KeeperError::NoSuchLease { lease: lease() },
        KeeperError::Invalid { problem: String::new() },
        KeeperError::NoProvider { provider: String::new(), endpoint: endpoint.clone() },
        KeeperError::NoCredential { endpoint: endpoint.clone() },
        KeeperError::WrongAccount { endpoint },
        KeeperError::OutcomeUnknown { lease: lease(), source: source() },
        KeeperError::Unsettled { lease: lease() },
        KeeperError::CleanupUnconfirmed {
            lease: lease(),
            problem: String::new(),
            retry_at: Timestamp::NEVER,
        },
        KeeperError::Draining,
    ]
}

#[test]
fn every_code_that_an_error_can_have_is_explained() {
    let mut codes: Vec<&str> = refusals().iter().map(Refusal::code).collect();
    codes.extend(ledger_errors().iter().map(LedgerError::code));
    codes.extend(provider_errors().iter().map(ProviderError::code));
    codes.extend(not_started().iter().map(NotStarted::code));
    codes.extend(keeper_errors().iter().map(KeeperError::code));
    codes.sort_unstable();
    codes.dedup();
    let missing: Vec<&&str> =
        codes.iter().filter(|code| leasehold_core::catalogue::find(code).is_none()).collect();
    assert!(missing.is_empty(), "without an entry: {missing:?}");
}

#[test]
fn explain_prints_one_entry_and_exports_all() {
    let site = Site::new();
    let text = site.ok(&["explain", "not-owner"]);
    assert!(text.starts_with("not-owner: ") && text.contains("What to do:"), "{text}");
    let one = site.json(&["explain", "not-owner"]);
    assert_eq!(one["record"]["errorCode"], "not-owner");
    let all = site.json(&["explain"]);
    assert_eq!(all.as_array().unwrap().len(), leasehold_core::catalogue::all().len());
    site.call(&["explain", "no-such-code"]).assert_error("bad-argument", 2);
}
