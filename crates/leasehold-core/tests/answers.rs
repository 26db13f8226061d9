//! What a request gets in each state: the whole table, and that decisions follow it.

#![expect(clippy::unwrap_used, reason = "the values that these tests build are valid")]

mod support;

use std::fmt::Write as _;
use std::time::Duration;

use leasehold_core::{
    Answer, Caller, Context, Decision, DestroyReason, Grant, Input, Kind, Lease, Refusal,
    ReleaseGoal, Request, State, answer, decide,
};
use support::{START, in_state, node, owner, requested};

fn input(request: Request) -> Input {
    match request {
        Request::Execute => Input::BeginCommands,
        Request::Acknowledge => Input::Acknowledge,
        Request::Renew => Input::Renew { life_until: START + Duration::from_secs(2 * 60 * 60) },
        Request::Park => Input::Release { goal: ReleaseGoal::Park },
        Request::Resume => Input::Resume { least_life: Duration::from_secs(60) },
        Request::Destroy => Input::Destroy { reason: DestroyReason::OwnerAsked },
        Request::Promote => Input::Promote,
        Request::Forget => Input::Forget { why: "it can never be proved".to_owned() },
    }
}

fn ask(lease: &Lease, input: &Input, caller: &Caller) -> Result<Decision, Refusal> {
    let context = Context {
        now: START + Duration::from_secs(1),
        node: &node(),
        caller,
        claim_for: Duration::from_secs(30),
        calm: true,
    };
    decide(lease, input, context)
}

#[test]
fn the_table_of_answers() {
    let mut table = format!("{:12}", "");
    for state in State::ALL {
        let _ = write!(table, "{:13}", state.to_string());
    }
    for request in Request::ALL {
        let _ = write!(table, "\n{:12}", format!("{request:?}"));
        for state in State::ALL {
            let _ = write!(table, "{:13}", format!("{:?}", answer(request, state)));
        }
    }
    let table: Vec<&str> = table.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(table.join("\n"));
}

/// Whether the decision is what the cell says.
fn follows(request: Request, lease: &Lease, caller: &Caller, cell: Answer) -> Result<(), String> {
    let decided = ask(lease, &input(request), caller);
    let owner_forgets = request == Request::Forget && matches!(caller, Caller::Owner { .. });
    let template = lease.kind == Kind::Template;
    let fits = match (cell, &decided) {
        (_, Err(Refusal::OperatorOnly { .. })) => owner_forgets,
        _ if owner_forgets => false,
        // A template is only forked, listed and deleted, whatever its state.
        (Answer::Proceed, Err(Refusal::Template { .. })) => {
            template && matches!(request, Request::Renew | Request::Resume)
        }
        (Answer::Proceed, Ok(Decision::Write(_))) => true,
        // Only an owner can show that it knows a grant, and this one has shown it; a template is one
        // already.
        (Answer::Proceed, Ok(Decision::AlreadySo)) => {
            request == Request::Acknowledge || template && request == Request::Promote
        }
        (Answer::AlreadySo | Answer::Receipt, Ok(Decision::AlreadySo)) => true,
        (Answer::AlreadySo | Answer::Receipt | Answer::Proceed, _) | (_, Ok(_)) => false,
        (_, Err(Refusal::Template { .. })) => template,
        (Answer::NotReady, Err(Refusal::NotReady { state, .. }))
        | (Answer::Busy, Err(Refusal::Busy { state, .. })) => *state == lease.state,
        (Answer::ResumeFirst, Err(Refusal::ResumeFirst { .. }))
        | (Answer::ParkFirst, Err(Refusal::ParkFirst { .. })) => true,
        (Answer::Closing | Answer::Gone, Err(Refusal::Closing { .. })) => {
            lease.state == State::Destroying
        }
        (Answer::Gone, Err(Refusal::Gone { .. })) => lease.state == State::Closed,
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("{cell:?} is answered with {decided:?}")) }
}

/// The states in which there can be a row of the kind.
fn states_of(kind: Kind) -> Vec<State> {
    match kind {
        Kind::Lease => State::ALL.to_vec(),
        Kind::Template => vec![State::Parked, State::Destroying, State::Closed],
        Kind::Debt => vec![State::Destroying, State::Closed],
    }
}

#[test]
fn decisions_follow_the_table_cell_by_cell() {
    let callers =
        [Caller::Owner { owner: owner(), grant: None }, Caller::Operator("ada".to_owned())];
    for kind in [Kind::Lease, Kind::Template, Kind::Debt] {
        for state in states_of(kind) {
            let lease = Lease { kind, ..in_state(state) };
            for request in Request::ALL {
                for caller in &callers {
                    if let Err(problem) = follows(request, &lease, caller, answer(request, state)) {
                        panic!("{request:?} of a {kind:?} that is {state}: {problem}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_stranger_learns_nothing_whatever_the_state() {
    let stranger = Caller::Owner {
        owner: leasehold_core::Owner::new("acme", "staging").unwrap(),
        grant: Some(Grant(1)),
    };
    for state in State::ALL {
        for request in Request::ALL {
            let refused = ask(&in_state(state), &input(request), &stranger);
            assert!(matches!(refused, Err(Refusal::NotOwner { .. })), "{request:?} {state}");
        }
    }
}

#[test]
fn a_destroy_is_never_refused_to_the_owner() {
    let caller = Caller::Owner { owner: owner(), grant: None };
    for state in State::ALL {
        assert!(ask(&in_state(state), &input(Request::Destroy), &caller).is_ok(), "{state}");
    }
    let Ok(Decision::Write(change)) = ask(&requested(), &input(Request::Destroy), &caller) else {
        panic!("a lease that sent nothing ends at once");
    };
    assert_eq!(change.lease.state, State::Closed);
}

#[test]
fn after_its_deadline_a_removal_is_told_as_an_expiry() {
    let mut lease = in_state(State::Destroying);
    if let Some(cleanup) = &mut lease.cleanup {
        cleanup.reason = DestroyReason::Deadline;
    }
    let caller = Caller::Owner { owner: owner(), grant: None };
    let refused = ask(&lease, &input(Request::Execute), &caller);
    assert!(matches!(refused, Err(Refusal::Expired { .. })), "{refused:?}");
}

#[test]
fn a_node_without_commands_on_a_lease_casts_no_doubt_on_it() {
    for state in [State::Active, State::Parked] {
        let late =
            ask(&in_state(state), &Input::CommandsEnded { definite: false }, &Caller::Keeper);
        match late {
            Ok(Decision::AlreadySo) => {}
            other => panic!("{state}: {other:?}"),
        }
    }
}
