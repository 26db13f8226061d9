//! What holds of every decision in every history.

#![expect(clippy::unwrap_used, reason = "the values that these tests build are valid")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::{
    Attention, BirthFingerprint, Caller, CleanOutcome, Context, CreateOutcome, Decision,
    DestroyOutcome, DestroyReason, Ending, Epoch, Event, EventKind, Evidence, Grant, Input, Kind,
    Lease, LeaseId, Looked, NodeId, Owner, PrepareOutcome, Refusal, ReleaseGoal, ResumeOutcome,
    SandboxId, SandboxName, State, Timestamp, decide, due_at, next_step,
};
use proptest::prelude::*;
use support::{START, in_state, node, owner, requested};

/// One input of a history, with its circumstances.
#[derive(Clone, Debug)]
struct Happening {
    /// How long after the one before.
    after: Duration,
    second_node: bool,
    caller: Caller,
    /// Epochs, attempts and grants of [`CURRENT`] stand for the row's own.
    input: Input,
}

const CURRENT: u64 = u64::MAX;

fn sandbox(number: u8) -> (SandboxId, BirthFingerprint) {
    let sandbox = SandboxId::new(format!("sandbox-{number}")).unwrap();
    (sandbox, BirthFingerprint::new(format!("birth-{number}")).unwrap())
}

fn other_node() -> NodeId {
    NodeId::new("node_two").unwrap()
}

fn evidence() -> Evidence {
    Evidence::of("seen")
}

fn pauses() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => Just(Duration::ZERO),
        4 => (1u64..5_000).prop_map(Duration::from_millis),
        2 => (1u64..20).prop_map(|minutes| Duration::from_secs(60 * minutes)),
        1 => (1u64..10).prop_map(|days| Duration::from_secs(86_400 * days)),
    ]
}

fn callers() -> impl Strategy<Value = Caller> {
    let grant = prop_oneof![
        2 => Just(None),
        3 => Just(Some(Grant(CURRENT))),
        1 => (0u64..4).prop_map(|grant| Some(Grant(grant))),
    ];
    prop_oneof![
        6 => grant.prop_map(|grant| Caller::Owner { owner: owner(), grant }),
        1 => Just(Caller::Owner { owner: Owner::new("acme", "staging").unwrap(), grant: None }),
        1 => Just(Caller::Operator("ada".to_owned())),
        4 => Just(Caller::Keeper),
    ]
}

fn epochs() -> impl Strategy<Value = Epoch> {
    prop_oneof![4 => Just(Epoch(CURRENT)), 1 => (0u64..8).prop_map(Epoch)]
}

fn attempts() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(u32::MAX), 1 => 0u32..4]
}

fn requests() -> impl Strategy<Value = Input> {
    let reasons = prop::sample::select(vec![
        DestroyReason::OwnerAsked,
        DestroyReason::OperatorAsked,
        DestroyReason::WrongMarker,
    ]);
    prop_oneof![
        2 => Just(Input::Acknowledge),
        2 => pauses().prop_map(|life| Input::Renew { life_until: START + life }),
        1 => Just(Input::Touch),
        3 => Just(Input::BeginCommands),
        2 => any::<bool>().prop_map(|definite| Input::CommandsEnded { definite }),
        3 => Just(Input::Release { goal: ReleaseGoal::Park }),
        1 => Just(Input::Release { goal: ReleaseGoal::Destroy }),
        3 => pauses().prop_map(|least_life| Input::Resume { least_life }),
        1 => reasons.prop_map(|reason| Input::Destroy { reason }),
        1 => Just(Input::Promote),
        1 => Just(Input::Forget { why: "given up".to_owned() }),
        1 => any::<bool>().prop_map(|stands| Input::Attend {
            attention: Attention::FalseFence,
            stands,
        }),
    ]
}

fn outcomes() -> impl Strategy<Value = Input> {
    let debt = || LeaseId::new("ls_debt").unwrap();
    let at = || (0u64..600_000).prop_map(|offset| Timestamp::from_millis(1_000_000 + offset));
    let problem = || "a problem".to_owned();
    let lag = Duration::from_secs(1);
    let create = prop_oneof![
        3 => (1u8..4).prop_map(|number| {
            let (sandbox, birth) = sandbox(number);
            CreateOutcome::Made { sandbox, birth }
        }),
        1 => any::<bool>().prop_map(move |again| CreateOutcome::Refused {
            problem: problem(),
            again,
        }),
        1 => at().prop_map(move |look_at| CreateOutcome::Lost { problem: problem(), look_at }),
    ];
    let looked = prop_oneof![
        2 => (1u8..4).prop_map(|number| {
            let (sandbox, birth) = sandbox(number);
            Looked::Found { sandbox, birth }
        }),
        3 => at().prop_map(move |asked_at| Looked::Absent { asked_at, lag }),
        1 => at().prop_map(move |retry_at| Looked::Ambiguous { candidates: vec![], retry_at }),
        1 => at().prop_map(move |retry_at| Looked::Unprovable { problem: problem(), retry_at }),
    ];
    let prepare = prop_oneof![
        3 => any::<bool>().prop_map(|delivered| PrepareOutcome::Ready { grant: Grant(1), delivered }),
        1 => Just(PrepareOutcome::Failed),
    ];
    let clean = prop_oneof![3 => Just(CleanOutcome::Clean), 1 => Just(CleanOutcome::Unconfirmed)];
    let resume = prop_oneof![
        3 => any::<bool>().prop_map(|delivered| ResumeOutcome::Ready { grant: Grant(0), delivered }),
        1 => Just(ResumeOutcome::Transient { problem: problem() }),
        1 => Just(ResumeOutcome::Stranger { evidence: evidence() }),
        1 => Just(ResumeOutcome::WrongMarker),
    ];
    let destroy = prop_oneof![
        2 => Just(DestroyOutcome::Proved(evidence())),
        3 => at().prop_map(move |asked_at| DestroyOutcome::Absent {
            evidence: evidence(),
            asked_at,
            lag,
        }),
        1 => Just(DestroyOutcome::Stranger(evidence())),
        2 => at().prop_map(move |retry_at| DestroyOutcome::Unproved {
            problem: problem(),
            retry_at,
            attention: None,
        }),
    ];
    prop_oneof![
        4 => (0u32..3, at()).prop_map(move |(number, horizon)| Input::SendCreate {
            name: SandboxName::new(format!("lh{number}")).unwrap(),
            horizon,
            debt: debt(),
        }),
        4 => (attempts(), create).prop_map(move |(attempt, outcome)| Input::CreateEnded {
            attempt,
            outcome,
            debt: debt(),
        }),
        2 => (attempts(), looked)
            .prop_map(|(attempt, looked)| Input::AttemptLooked { attempt, looked }),
        4 => (epochs(), prepare)
            .prop_map(|(epoch, outcome)| Input::PrepareEnded { epoch, outcome }),
        4 => (epochs(), clean).prop_map(|(epoch, outcome)| Input::CleanEnded { epoch, outcome }),
        4 => (epochs(), resume).prop_map(|(epoch, outcome)| Input::ResumeEnded { epoch, outcome }),
        3 => (epochs(), destroy)
            .prop_map(|(epoch, outcome)| Input::DestroyEnded { epoch, outcome }),
    ]
}

fn observations() -> impl Strategy<Value = Input> {
    prop_oneof![
        1 => (0u64..600_000).prop_map(|offset| Input::SandboxAbsent {
            evidence: evidence(),
            asked_at: Timestamp::from_millis(1_000_000 + offset),
            lag: Duration::from_secs(1),
        }),
        1 => Just(Input::SandboxPresent),
        2 => Just(Input::Expire),
        1 => Just(Input::TakeBack),
        1 => any::<bool>().prop_map(|second| Input::NodeDied {
            node: if second { other_node() } else { node() },
        }),
        3 => Just(Input::TakeOver),
        1 => Just(Input::RenewClaim),
        1 => (1u8..4).prop_map(|number| {
            let (sandbox, birth) = sandbox(number);
            Input::Reopen { sandbox, birth, proof: "swept".to_owned() }
        }),
    ]
}

fn happenings() -> impl Strategy<Value = Happening> {
    let input = prop_oneof![4 => requests(), 5 => outcomes(), 2 => observations()];
    (pauses(), any::<bool>(), callers(), input).prop_map(|(after, second_node, caller, input)| {
        Happening { after, second_node, caller, input }
    })
}

/// Puts the row's own numbers where the history says so.
fn aim(happening: &Happening, lease: &Lease) -> (Input, Caller) {
    let mut input = happening.input.clone();
    match &mut input {
        Input::PrepareEnded { epoch, .. }
        | Input::CleanEnded { epoch, .. }
        | Input::ResumeEnded { epoch, .. }
        | Input::DestroyEnded { epoch, .. }
            if epoch.0 == CURRENT =>
        {
            *epoch = lease.epoch;
        }
        Input::CreateEnded { attempt, .. } | Input::AttemptLooked { attempt, .. }
            if *attempt == u32::MAX =>
        {
            *attempt = lease.attempt.as_ref().map_or(0, |attempt| attempt.number);
        }
        _ => {}
    }
    let mut caller = happening.caller.clone();
    if let Caller::Owner { grant: Some(grant), .. } = &mut caller
        && grant.0 == CURRENT
    {
        *grant = lease.grant;
    }
    (input, caller)
}

/// What must hold between a row and the next.
fn check_step(before: &Lease, after: &Lease, input: &Input, caller: &Caller, now: Timestamp) {
    after.check().unwrap();
    assert_eq!(after.version, before.version + 1, "each write is one version");
    assert!(after.epoch >= before.epoch, "the epoch never falls");
    assert!(after.state == before.state || after.epoch > before.epoch, "a new state, a new epoch");
    assert!(after.grant >= before.grant, "the grant only rises");
    assert!(after.grant.0 <= before.grant.0 + 1, "one grant at a time");
    assert!(after.acknowledged >= before.acknowledged);
    assert_eq!((&after.id, &after.owner, &after.home), (&before.id, &before.owner, &before.home));
    assert!(after.life_until <= after.created_at + after.clocks.longest_life);
    if let Caller::Owner { owner: stranger, .. } = caller
        && *stranger != before.owner
    {
        // Outcomes and observations carry no caller; a keeper brings them.
        let request = matches!(
            input,
            Input::Acknowledge
                | Input::Renew { .. }
                | Input::BeginCommands
                | Input::Release { .. }
                | Input::Resume { .. }
                | Input::Destroy { .. }
                | Input::Promote
                | Input::Forget { .. }
        );
        assert!(!request, "a stranger's {input:?} was obeyed");
    }
    match before.state {
        State::Destroying => {
            assert!(matches!(after.state, State::Destroying | State::Closed), "{input:?}");
        }
        State::Closed if after.state != State::Closed => {
            assert!(matches!(input, Input::Reopen { .. }), "a closed row is left by {input:?}");
            assert_eq!(after.state, State::Destroying);
        }
        _ => {}
    }
    if after.state == State::Closed && before.state == State::Closed {
        assert_eq!(after.receipt, before.receipt, "a receipt never changes");
    }
    let uses = matches!(input, Input::BeginCommands | Input::Renew { .. } | Input::Resume { .. });
    assert!(!uses || now < before.expires_at(), "{input:?} after the deadline");
    let has_deadline = after.expires_at() < Timestamp::NEVER;
    let needs_none =
        after.kind == Kind::Template || matches!(after.state, State::Destroying | State::Closed);
    assert!(has_deadline || needs_none, "an open lease has a deadline");
    // A template that nobody touches is due for nothing; everything else that is open is.
    let due = due_at(after);
    assert!(
        !after.is_open()
            || after.kind == Kind::Template
            || due.is_some_and(|due| due < Timestamp::NEVER),
        "an open row is never overlooked"
    );
    if after.state == State::Destroying {
        assert!(due.is_some_and(|due| due >= after.retry_at), "it is not tried before its time");
    }
    if let Some(due) = due.filter(|due| *due < Timestamp::NEVER) {
        check_due(after, due.max(now));
    }
    let json = serde_json::to_string(after).unwrap();
    assert_eq!(&serde_json::from_str::<Lease>(&json).unwrap(), after);
}

/// What is due can be done: a row that came up and then refused everything would come up for ever.
fn check_due(lease: &Lease, now: Timestamp) {
    let node = NodeId::new("node_three").unwrap();
    let caller = Caller::Keeper;
    let context = Context {
        now,
        node: &node,
        caller: &caller,
        claim_for: Duration::from_secs(30),
        calm: true,
    };
    let done = [Input::Expire, Input::TakeBack, Input::TakeOver]
        .iter()
        .any(|input| matches!(decide(lease, input, context), Ok(Decision::Write(_))));
    // A second look is no decision, but a read.
    let second_look = lease.absent_since.is_some() && next_step(lease).is_none();
    assert!(done || second_look, "nothing can be done that is due: {lease:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_keeps_the_rules(history in prop::collection::vec(happenings(), 1..60)) {
        let mut lease = requested();
        let mut now = START;
        for happening in &history {
            now = now + happening.after;
            let (input, caller) = aim(happening, &lease);
            let node = if happening.second_node { other_node() } else { node() };
            let context =
                Context { now, node: &node, caller: &caller, claim_for: Duration::from_secs(30), calm: true };
            let before = lease.clone();
            let decided = decide(&lease, &input, context);
            prop_assert_eq!(&decide(&lease, &input, context), &decided, "a decision is pure");
            prop_assert_eq!(&lease, &before, "a decision changes nothing by itself");
            if let Ok(Decision::Write(change)) = decided {
                check_step(&before, &change.lease, &input, &caller, now);
                if let Some(debt) = &change.debt {
                    debt.check().unwrap();
                    prop_assert_eq!((debt.kind, debt.version), (Kind::Debt, 1));
                    prop_assert_eq!(debt.state, State::Destroying);
                }
                for kind in &change.events {
                    let event = Event {
                        lease: change.lease.id.clone(),
                        at: now,
                        epoch: change.lease.epoch,
                        actor: caller.actor(),
                        kind: kind.clone(),
                    };
                    let json = serde_json::to_string(&event).unwrap();
                    prop_assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
                }
                lease = change.lease;
            }
        }
    }
}

/// Field report I1: a renewal that meets the deadline. Whoever is first wins; there is never a lease
/// that runs past its deadline with nobody to end it.
#[test]
fn i1_renew_exactly_at_expiry_ten_thousand_times() {
    let caller = Caller::Owner { owner: owner(), grant: None };
    let node = node();
    let claim_for = Duration::from_secs(30);
    let mut lease = in_state(State::Active);
    let mut renewed = 0;
    while renewed < 10_000 {
        let end = lease.expires_at();
        let latest = lease.created_at + lease.clocks.longest_life;
        let renew = Input::Renew { life_until: latest };
        for late in [0, renewed] {
            let now = end + Duration::from_millis(late);
            let context = Context { now, node: &node, caller: &caller, claim_for, calm: true };
            assert!(matches!(decide(&lease, &renew, context), Err(Refusal::Expired { .. })));
            assert!(due_at(&lease).is_some_and(|due| due <= now), "somebody comes to end it");
            let expired = decide(&lease, &Input::Expire, context);
            let Ok(Decision::Write(change)) = expired else { panic!("it ends: {expired:?}") };
            assert_eq!(change.lease.state, State::Destroying);
        }
        let now = Timestamp::from_millis(end.as_millis() - 1);
        let context = Context { now, node: &node, caller: &caller, claim_for, calm: true };
        assert!(matches!(decide(&lease, &Input::Expire, context), Err(Refusal::NotDue { .. })));
        lease = match decide(&lease, &renew, context) {
            Ok(Decision::Write(change)) if end < latest => change.lease,
            Ok(_) => in_state(State::Active),
            Err(refusal) => panic!("in time it is renewed: {refusal}"),
        };
        renewed += 1;
    }
}

/// Field report I2: whatever a caller leaves out, there is an end.
#[test]
fn i2_no_lease_is_immortal() {
    for state in State::ALL {
        let lease = in_state(state);
        let ends = lease.expires_at() < Timestamp::NEVER;
        assert_eq!(ends, !matches!(state, State::Destroying | State::Closed), "{state}");
    }
}

/// The ledger keeps rows in this form: what is written today is read for years.
#[test]
fn a_row_as_json() {
    let mut lease = in_state(State::Active);
    lease.busy_nodes = BTreeSet::from([node()]);
    lease.cleanliness = leasehold_core::Cleanliness::Dirty;
    lease.attention = BTreeSet::from([Attention::FalseFence]);
    lease.deliver_by = Some(START + Duration::from_secs(300));
    lease.absent_since = Some(START);
    lease.tether = Some(other_node());
    lease.home.machine = Some(leasehold_core::MachineId::new("machine-1").unwrap());
    lease.claim = Some(leasehold_core::Claim { node: node(), until: START });
    lease.cleanup = in_state(State::Destroying).cleanup;
    insta::assert_json_snapshot!(lease);
}

#[test]
fn a_closed_row_as_json() {
    insta::assert_json_snapshot!(in_state(State::Closed));
}

#[test]
fn every_event_as_json() {
    let problem = || "a problem".to_owned();
    let (sandbox, _) = sandbox(1);
    let kinds = [
        EventKind::Requested,
        EventKind::CreateSent { attempt: 1, name: SandboxName::new("lhname").unwrap() },
        EventKind::CreateRefused { attempt: 1, problem: problem() },
        EventKind::CreateLost { attempt: 1, problem: problem() },
        EventKind::AttemptAbsent { attempt: 1 },
        EventKind::AttemptAmbiguous { attempt: 1, candidates: vec![sandbox.clone()] },
        EventKind::Pinned { sandbox },
        EventKind::Granted { grant: Grant(1) },
        EventKind::Acknowledged { grant: Grant(1) },
        EventKind::Renewed { life_until: START },
        EventKind::CommandsBegan { node: node() },
        EventKind::CommandsEnded { node: node(), definite: true },
        EventKind::ParkBegan,
        EventKind::Parked,
        EventKind::ResumeBegan,
        EventKind::ResumeFailed { problem: problem() },
        EventKind::Promoted,
        EventKind::DestroyBegan { reason: DestroyReason::OwnerAsked },
        EventKind::DestroyUnproved { problem: problem(), retry_at: START },
        EventKind::SandboxAbsent { proof: "404".to_owned() },
        EventKind::NodeDied { node: node() },
        EventKind::TakenOver { node: node() },
        EventKind::DebtRecorded { debt: LeaseId::new("ls_debt").unwrap() },
        EventKind::Salvaged { problem: "its body cannot be read".to_owned() },
        EventKind::Reopened { proof: "swept".to_owned() },
        EventKind::Closed { ending: Ending::Destroyed, proof: "204".to_owned() },
    ];
    let lines: Vec<String> = kinds
        .into_iter()
        .map(|kind| {
            let event = Event {
                lease: LeaseId::new("ls_one").unwrap(),
                at: START,
                epoch: Epoch(2),
                actor: "keeper".to_owned(),
                kind,
            };
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
            line
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
