//! What owners and operators call, and what may be said to them.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Caller, Grant, Lease, LeaseId, Refusal, Spec, State};
use leasehold_keeper::{
    AcquireRequest, CommandEvent, ExecuteRequest, Keeper, KeeperError, RecoveryScope,
};
use leasehold_ports::{Signal, Work};

use super::book::Known;
use super::stage::Stage;
use crate::judge::Invariant;

/// How a caller treats a command that it started.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// Waits for its end.
    UntilEnd,
    /// Goes away at once.
    None,
    /// Ends it after a while.
    Terminates(Duration),
    /// Sends it a signal at once, and waits for its end.
    Signals(Signal),
}

/// One call.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Acquire {
        owner: usize,
        request: Box<AcquireRequest>,
        keyed: Option<usize>,
    },
    Execute {
        lease: Known,
        script: String,
        patience: Patience,
    },
    Acknowledge {
        lease: Known,
    },
    Renew {
        lease: Known,
        by: Duration,
    },
    Park {
        lease: Known,
    },
    Resume {
        lease: Known,
        delivered: bool,
    },
    Destroy {
        lease: Known,
        with_grant: bool,
    },
    Promote {
        lease: Known,
    },
    Forget {
        lease: Known,
    },
    OperatorDestroys {
        lease: Known,
    },
    Recover,
    Sweep,
    /// Another owner tries the same call.
    Foreign(Box<Call>),
    /// The owner tries it with a grant that was replaced.
    Stale(Box<Call>),
}

impl Call {
    fn lease(&self) -> Option<&Known> {
        match self {
            Call::Execute { lease, .. }
            | Call::Acknowledge { lease }
            | Call::Renew { lease, .. }
            | Call::Park { lease }
            | Call::Resume { lease, .. }
            | Call::Destroy { lease, .. }
            | Call::Promote { lease }
            | Call::Forget { lease }
            | Call::OperatorDestroys { lease } => Some(lease),
            Call::Foreign(call) | Call::Stale(call) => call.lease(),
            Call::Acquire { .. } | Call::Recover | Call::Sweep => None,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Call::Acquire { .. } => "acquire",
            Call::Execute { .. } => "execute",
            Call::Acknowledge { .. } => "acknowledge",
            Call::Renew { .. } => "renew",
            Call::Park { .. } => "park",
            Call::Resume { .. } => "resume",
            Call::Destroy { .. } => "destroy",
            Call::Promote { .. } => "promote",
            Call::Forget { .. } => "forget",
            Call::OperatorDestroys { .. } => "operator destroys",
            Call::Recover => "recover",
            Call::Sweep => "sweep",
            Call::Foreign(call) | Call::Stale(call) => call.name(),
        }
    }
}

/// What became of a call, in so far as the schedule and the checks need it.
enum Answered {
    Done,
    Told(Arc<Lease>),
    Over,
}

/// Makes a call on a node, and tells the book and the judge what came of it.
pub(super) async fn make(stage: Arc<Stage>, keeper: Keeper, call: Call, number: u32) {
    let name = call.name();
    if stage.journal.is_kept() {
        let lease = call.lease().map_or("", |lease| lease.id.as_str());
        let manner = match call {
            Call::Foreign(_) => " (foreign)",
            Call::Stale(_) => " (stale)",
            _ => "",
        };
        stage.journal.note(format_args!("call {number} {name}{manner} {lease}"));
    }
    let result = match &call {
        Call::Foreign(inner) => {
            let result = Box::pin(foreign(&stage, &keeper, inner)).await;
            check_foreign(&stage, inner, &result);
            result
        }
        Call::Stale(inner) => {
            let stale = is_surely_stale(&stage, inner);
            let result = one(&stage, &keeper, inner, !stale).await;
            if stale {
                check_stale(&stage, inner, &result);
            }
            result
        }
        _ => one(&stage, &keeper, &call, true).await,
    };
    match result {
        Ok(answered) => {
            stage.journal.note(format_args!("call {number} {name}: done"));
            stage.count(|tally| tally.successes += 1);
            learn(&stage, &call, answered);
        }
        Err(error) => {
            stage.journal.note(format_args!("call {number} {name}: {error}"));
            let over = matches!(
                error,
                KeeperError::Refused(
                    Refusal::Gone { .. } | Refusal::Closing { .. } | Refusal::Expired { .. }
                )
            );
            if let (true, Some(lease)) = (over, call.lease()) {
                stage.book().over(&lease.id);
            }
        }
    }
}

fn learn(stage: &Stage, call: &Call, answered: Answered) {
    match (call, answered) {
        (Call::Acquire { owner, keyed, .. }, Answered::Told(lease)) => {
            let mut book = stage.book();
            if book.told(*owner, &lease) {
                stage.count(|tally| tally.leases += 1);
            }
            let Some(keyed) = keyed.and_then(|keyed| book.keys.get_mut(keyed)) else { return };
            let known = keyed.lease.get_or_insert_with(|| lease.id.clone());
            if *known != lease.id {
                let report = format!("one key gave two leases: {known} and {}", lease.id);
                stage.judge.report(Invariant::Once, report);
            }
        }
        (Call::Resume { lease: known, .. }, Answered::Told(lease)) => {
            stage.book().told(known.owner, &lease);
        }
        (_, Answered::Over) => {
            if let Some(lease) = call.lease() {
                stage.book().over(&lease.id);
            }
        }
        _ => {}
    }
}

fn owner_of(stage: &Stage, lease: &Known, grant: Option<Grant>) -> Caller {
    Caller::Owner { owner: stage.owners[lease.owner].clone(), grant }
}

/// A call as its rightful owner makes it. The keeper's futures are large, so each has a place of its
/// own: a task that held room for the largest of them would be copied whenever it is handed on.
/// `may_end` if it has the right to end the lease.
async fn one(
    stage: &Stage,
    keeper: &Keeper,
    call: &Call,
    may_end: bool,
) -> Result<Answered, KeeperError> {
    let caller = |lease: &Known| owner_of(stage, lease, Some(lease.grant));
    let ends = |lease: &LeaseId| {
        if may_end {
            stage.end_asked(lease);
        }
    };
    match call {
        Call::Acquire { request, .. } => {
            let lease = Box::pin(keeper.acquire(AcquireRequest::clone(request))).await?;
            Ok(Answered::Told(lease))
        }
        Call::Execute { lease, script, patience } => {
            let caller = caller(lease);
            Box::pin(execute(stage, keeper, &lease.id, &caller, script, *patience)).await
        }
        Call::Acknowledge { lease } => {
            Box::pin(keeper.acknowledge(&lease.id, &caller(lease))).await?;
            Ok(Answered::Done)
        }
        Call::Renew { lease, by } => {
            let until = keeper.ledger().now() + *by;
            keeper.renew(&lease.id, until, &caller(lease)).await?;
            Ok(Answered::Done)
        }
        Call::Park { lease } => {
            Box::pin(keeper.park(&lease.id, &caller(lease))).await?;
            Ok(Answered::Done)
        }
        Call::Resume { lease, delivered } => {
            let resumed = Box::pin(keeper.resume(&lease.id, &caller(lease), *delivered)).await?;
            Ok(Answered::Told(resumed))
        }
        Call::Destroy { lease, with_grant } => {
            ends(&lease.id);
            let caller = owner_of(stage, lease, with_grant.then_some(lease.grant));
            Box::pin(keeper.destroy(&lease.id, &caller)).await?;
            Ok(Answered::Over)
        }
        Call::Promote { lease } => {
            keeper.promote(&lease.id, &caller(lease)).await?;
            Ok(Answered::Done)
        }
        Call::Forget { lease } => {
            ends(&lease.id);
            let operator = Caller::Operator("somebody".to_owned());
            keeper.forget(&lease.id, "it costs nothing", &operator).await?;
            Ok(Answered::Over)
        }
        Call::OperatorDestroys { lease } => {
            ends(&lease.id);
            let operator = Caller::Operator("somebody".to_owned());
            Box::pin(keeper.destroy(&lease.id, &operator)).await?;
            Ok(Answered::Over)
        }
        Call::Recover => {
            Box::pin(keeper.recover(RecoveryScope::Everything)).await?;
            Ok(Answered::Done)
        }
        Call::Sweep => {
            let home = stage.world.settings().home.clone();
            Box::pin(keeper.sweep(&[home])).await?;
            Ok(Answered::Done)
        }
        // Not made like this.
        Call::Foreign(_) | Call::Stale(_) => Ok(Answered::Done),
    }
}

async fn execute(
    stage: &Stage,
    keeper: &Keeper,
    lease: &LeaseId,
    caller: &Caller,
    script: &str,
    patience: Patience,
) -> Result<Answered, KeeperError> {
    let request = ExecuteRequest {
        work: Work::Program(vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()]),
        directory: None,
        environment: std::collections::BTreeMap::new(),
        input: false,
    };
    let mut execution = match keeper.execute(lease, caller, request).await {
        Ok(execution) => execution,
        Err(error) => {
            if !matches!(error, KeeperError::OutcomeUnknown { .. }) {
                stage.judge.said_not_started(script);
            }
            return Err(error);
        }
    };
    if !stage.judge.has_started(script) {
        let report = format!("a command was said to run, and never started: {script}");
        stage.judge.report(Invariant::Once, report);
    }
    match patience {
        Patience::None => return Ok(Answered::Done),
        Patience::UntilEnd => {}
        Patience::Signals(signal) => execution.signal(signal).await?,
        Patience::Terminates(after) => {
            let sleep = std::pin::pin!(stage.world.time().sleep(after));
            let ended = {
                let until_end = std::pin::pin!(until_end(&mut execution));
                match futures_util::future::select(until_end, sleep).await {
                    futures_util::future::Either::Left((ended, _)) => Some(ended),
                    futures_util::future::Either::Right(_) => None,
                }
            };
            if let Some(ended) = ended {
                return ended;
            }
            execution.terminate().await?;
            return Ok(Answered::Done);
        }
    }
    until_end(&mut execution).await
}

async fn until_end(execution: &mut leasehold_keeper::Execution) -> Result<Answered, KeeperError> {
    loop {
        match execution.next().await? {
            CommandEvent::Output(_) => {}
            CommandEvent::Ended(_) => return Ok(Answered::Done),
        }
    }
}

/// The same call by an owner whose lease it is not.
async fn foreign(stage: &Stage, keeper: &Keeper, call: &Call) -> Result<Answered, KeeperError> {
    let Some(lease) = call.lease() else { return Ok(Answered::Done) };
    let owner = stage.owners[1 - lease.owner].clone();
    let caller = Caller::Owner { owner, grant: Some(lease.grant) };
    let id = &lease.id;
    match call {
        Call::Execute { script, .. } => {
            execute(stage, keeper, id, &caller, script, Patience::None).await
        }
        Call::Acknowledge { .. } => keeper.acknowledge(id, &caller).await.map(|_| Answered::Done),
        Call::Renew { by, .. } => {
            let until = keeper.ledger().now() + *by;
            keeper.renew(id, until, &caller).await.map(|_| Answered::Done)
        }
        Call::Park { .. } => keeper.park(id, &caller).await.map(|_| Answered::Done),
        Call::Resume { .. } => keeper.resume(id, &caller, false).await.map(|_| Answered::Done),
        Call::Promote { .. } => keeper.promote(id, &caller).await.map(|_| Answered::Done),
        Call::Forget { .. } => keeper.forget(id, "why not", &caller).await.map(|_| Answered::Done),
        _ => keeper.destroy(id, &caller).await.map(|_| Answered::Done),
    }
}

fn check_foreign(stage: &Stage, call: &Call, result: &Result<Answered, KeeperError>) {
    let refused = match result {
        Err(KeeperError::Refused(Refusal::NotOwner { .. })) => true,
        // A ledger that does not answer tells nobody anything.
        Err(KeeperError::Ledger(_)) => true,
        // After a restore the row may be unknown.
        Err(KeeperError::NoSuchLease { .. }) => true,
        _ => false,
    };
    if !refused {
        let lease = call.lease().map_or("", |lease| lease.id.as_str());
        let answer = result.as_ref().err().map_or_else(|| "done".to_owned(), ToString::to_string);
        let report = format!("another owner's {} of {lease} got: {answer}", call.name());
        stage.judge.report(Invariant::Ownership, report);
    }
}

/// Whether the call stands on a grant. A resume does not: it asks for a new one.
const fn presents_grant(call: &Call) -> bool {
    matches!(
        call,
        Call::Execute { .. }
            | Call::Acknowledge { .. }
            | Call::Renew { .. }
            | Call::Park { .. }
            | Call::Destroy { with_grant: true, .. }
            | Call::Promote { .. }
    )
}

/// Whether the grant that the call presents has been replaced by one whose caller knows it.
fn is_surely_stale(stage: &Stage, call: &Call) -> bool {
    let Some(lease) = call.lease().filter(|_| presents_grant(call)) else { return false };
    stage.judge.row(&lease.id).is_some_and(|row| lease.grant < row.acknowledged)
}

fn check_stale(stage: &Stage, call: &Call, result: &Result<Answered, KeeperError>) {
    let Some(lease) = call.lease() else { return };
    if result.is_err() {
        return;
    }
    let row = stage.judge.row(&lease.id);
    // The receipt of a lease that has ended is anybody's who was its owner.
    if row.is_some_and(|row| row.state == State::Closed) {
        return;
    }
    let report = format!(
        "grant {} of {} was obeyed although it had been replaced: {}",
        lease.grant,
        lease.id,
        call.name()
    );
    stage.judge.report(Invariant::CleanHandOn, report);
}

/// What an acquire asks for.
pub(super) fn acquire_request(
    stage: &Stage,
    owner: usize,
    shape: Option<String>,
    lifetime: Duration,
) -> AcquireRequest {
    AcquireRequest {
        owner: stage.owners[owner].clone(),
        home: stage.world.settings().home.clone(),
        spec: Spec { shape, ..Spec::default() },
        key: None,
        lifetime,
        clocks: None,
        tethered: false,
        delivered: false,
    }
}
