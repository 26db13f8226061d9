//! The lifecycle: what a lease becomes when somebody asks for something, when an outcome or an
//! observation arrives, or when time passes.
//!
//! [`decide`] takes the row as it is and answers with the row as it shall be, with the events that
//! say so, or with a refusal. The keeper writes the row with one compare-and-set and only then acts:
//! [`next_step`] says what the row as written asks for. Outcomes come back into [`decide`].

mod answers;
mod create;
mod destroy;
mod due;
mod grants;
mod guards;
mod input;
mod park;

use std::time::Duration;

pub use answers::{Answer, Request, answer};
pub use create::answer_key;
pub use due::{Step, due_at, next_step};
pub use guards::Guards;
pub use input::{
    CleanOutcome, CreateOutcome, DestroyOutcome, Input, Looked, PrepareOutcome, ReleaseGoal,
    ResumeOutcome,
};

use crate::event::EventKind;
use crate::identifiers::{Epoch, Grant, NodeId};
use crate::lease::{Claim, DestroyReason, Kind, Lease, State};
use crate::owner::Owner;
use crate::refusal::{OwnerField, Refusal};
use crate::time::Timestamp;

/// On whose behalf a decision is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// An owner, with the grant that it was given, where its front end can carry one.
    Owner {
        /// Who it says it is; front ends authenticate it.
        owner: Owner,
        /// The grant of its acquire or resume. None: the front end carries no grants.
        grant: Option<Grant>,
    },
    /// A person who runs this Leasehold.
    Operator(String),
    /// The keeper itself, for what the record demands.
    Keeper,
}

impl Caller {
    /// As events and receipts name it.
    #[must_use]
    pub fn actor(&self) -> String {
        match self {
            Caller::Owner { .. } => "owner".to_owned(),
            Caller::Operator(name) => format!("operator {name}"),
            Caller::Keeper => "keeper".to_owned(),
        }
    }
}

/// The circumstances of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The ledger's time.
    pub now: Timestamp,
    /// The node that decides.
    pub node: &'a NodeId,
    /// On whose behalf.
    pub caller: &'a Caller,
    /// How long a claim that this decision takes shall last.
    pub claim_for: Duration,
    /// Whether the time can be trusted. For a while after the clock jumped, or the machine slept, it
    /// cannot, and nothing expires: neither by itself nor in the answer to its owner.
    pub calm: bool,
}

/// A row as it shall be, with what its history will say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row; its version is one above the row that was decided about.
    pub lease: Lease,
    /// What happened.
    pub events: Vec<EventKind>,
    /// A row to be made with it, unless its sandbox is pinned by another open row already.
    pub debt: Option<Box<Lease>>,
}

/// What a decision is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write this, then act on it.
    Write(Box<Change>),
    /// It is so already.
    AlreadySo,
}

/// Decides. Pure: the same arguments give the same answer.
///
/// # Errors
/// A [`Refusal`] if the request may not go ahead; then nothing may be written or done.
pub fn decide(lease: &Lease, input: &Input, context: Context<'_>) -> Result<Decision, Refusal> {
    decide_with(Guards::ALL, lease, input, context)
}

/// [`decide`] with guards taken away, for the tests that show that each is needed.
#[doc(hidden)]
pub fn decide_with(
    guards: Guards,
    lease: &Lease,
    input: &Input,
    context: Context<'_>,
) -> Result<Decision, Refusal> {
    let mut draft = Draft {
        before: lease,
        next: lease.clone(),
        events: Vec::new(),
        debt: None,
        context,
        guards,
    };
    let request = match input {
        Input::Acknowledge => Some(Request::Acknowledge),
        Input::Renew { .. } => Some(Request::Renew),
        Input::BeginCommands => Some(Request::Execute),
        Input::Release { goal: ReleaseGoal::Park } => Some(Request::Park),
        Input::Release { goal: ReleaseGoal::Destroy } | Input::Destroy { .. } => {
            Some(Request::Destroy)
        }
        Input::Resume { .. } => Some(Request::Resume),
        Input::Promote => Some(Request::Promote),
        Input::Forget { .. } => Some(Request::Forget),
        _ => None,
    };
    if let Some(request) = request {
        draft.authorise(request)?;
        match answer(request, lease.state) {
            Answer::Proceed => {}
            Answer::AlreadySo | Answer::Receipt => return Ok(Decision::AlreadySo),
            refused => return Err(draft.refusal(refused)),
        }
    }
    draft.apply(input)?;
    Ok(draft.finish())
}

/// A row in the making.
struct Draft<'a> {
    before: &'a Lease,
    next: Lease,
    events: Vec<EventKind>,
    debt: Option<Box<Lease>>,
    context: Context<'a>,
    guards: Guards,
}

impl Draft<'_> {
    fn apply(&mut self, input: &Input) -> Result<(), Refusal> {
        match input {
            Input::SendCreate { name, horizon, debt } => {
                self.send_create(name.clone(), *horizon, debt)?;
            }
            Input::CreateEnded { attempt, outcome, debt } => {
                self.create_ended(*attempt, outcome, debt)?;
            }
            Input::AttemptLooked { attempt, looked } => self.attempt_looked(*attempt, looked)?,
            Input::PrepareEnded { epoch, outcome } => self.prepare_ended(*epoch, outcome)?,
            Input::Acknowledge => self.acknowledge(),
            Input::Renew { life_until } => self.renew(*life_until)?,
            Input::Touch => self.touch()?,
            Input::BeginCommands => self.begin_commands()?,
            Input::CommandsEnded { definite } => self.commands_ended(*definite),
            Input::Release { goal: ReleaseGoal::Park } => {
                // The first call that names the lease acknowledges it: from here on the grant before
                // may not end it any more.
                self.acknowledge();
                self.release_to_park();
            }
            Input::Release { goal: ReleaseGoal::Destroy } => {
                self.destroy(DestroyReason::OwnerAsked);
            }
            Input::CleanEnded { epoch, outcome } => self.clean_ended(*epoch, outcome)?,
            Input::Resume { least_life } => self.resume(*least_life)?,
            Input::ResumeEnded { epoch, outcome } => self.resume_ended(*epoch, outcome)?,
            Input::Destroy { reason } => self.destroy(*reason),
            Input::DestroyEnded { epoch, outcome } => self.destroy_ended(*epoch, outcome)?,
            Input::SandboxAbsent { evidence, asked_at, lag } => {
                self.sandbox_absent(evidence, *asked_at, *lag);
            }
            Input::SandboxPresent => self.next.absent_since = None,
            Input::Expire => self.expire()?,
            Input::TakeBack => self.take_back()?,
            Input::NodeDied { node } => self.node_died(node),
            Input::TakeOver => self.take_over()?,
            Input::RenewClaim => self.renew_claim()?,
            Input::Promote => self.promote(),
            Input::Forget { why } => self.forget(why),
            Input::Reopen { sandbox, birth, proof } => self.reopen(sandbox, birth, proof)?,
            Input::Attend { attention, stands } => {
                if *stands {
                    self.next.attention.insert(*attention);
                } else {
                    self.next.attention.remove(attention);
                }
            }
        }
        Ok(())
    }

    /// The decision, or nothing if nothing has changed.
    fn finish(mut self) -> Decision {
        if self.next == *self.before && self.debt.is_none() {
            return Decision::AlreadySo;
        }
        self.next.version += 1;
        Decision::Write(Box::new(Change { lease: self.next, events: self.events, debt: self.debt }))
    }

    /// Ownership first: a stranger learns nothing about the lease, not even its state.
    fn authorise(&self, request: Request) -> Result<(), Refusal> {
        let lease = &self.next;
        match self.context.caller {
            Caller::Owner { owner, grant } => {
                if self.guards.stand(Guards::OWNER) {
                    let field = if owner.company() != lease.owner.company() {
                        Some(OwnerField::Company)
                    } else if owner.environment() != lease.owner.environment() {
                        Some(OwnerField::Environment)
                    } else {
                        None
                    };
                    if let Some(field) = field {
                        return Err(Refusal::NotOwner { lease: lease.id.clone(), field });
                    }
                }
                if request == Request::Forget {
                    return Err(Refusal::OperatorOnly { lease: lease.id.clone() });
                }
                self.check_grant(request, *grant)
            }
            Caller::Operator(_) | Caller::Keeper => Ok(()),
        }
    }

    /// Refuses a grant that another has replaced. Until the current one is acknowledged, the one
    /// before it may still end the lease, but not use it: its holder may be the only one there is.
    fn check_grant(&self, request: Request, presented: Option<Grant>) -> Result<(), Refusal> {
        let (Some(presented), true) = (presented, self.guards.stand(Guards::GRANT)) else {
            return Ok(());
        };
        let lease = &self.next;
        let ending = matches!(request, Request::Park | Request::Destroy);
        let current = presented == lease.grant;
        let previous =
            ending && presented.next() == lease.grant && lease.acknowledged < lease.grant;
        // A resume asks for a new grant; whoever holds the newest one that was given may ask.
        if current || previous || request == Request::Resume && presented <= lease.grant {
            return Ok(());
        }
        if lease.state == State::Closed && ending {
            return Ok(());
        }
        Err(Refusal::StaleGrant { lease: lease.id.clone(), presented })
    }

    fn refusal(&self, answer: Answer) -> Refusal {
        let lease = self.next.id.clone();
        let state = self.next.state;
        if self.next.kind == Kind::Template {
            return Refusal::Template { lease };
        }
        match answer {
            Answer::NotReady => Refusal::NotReady { lease, state },
            Answer::ResumeFirst => Refusal::ResumeFirst { lease },
            Answer::ParkFirst => Refusal::ParkFirst { lease },
            _ => match (&self.next.receipt, &self.next.cleanup) {
                (Some(receipt), _) => Refusal::Gone { lease, ending: receipt.ending },
                (None, Some(cleanup)) if cleanup.reason == DestroyReason::Deadline => {
                    Refusal::Expired { lease }
                }
                (None, Some(cleanup)) => Refusal::Closing { lease, reason: cleanup.reason },
                (None, None) => Refusal::Busy { lease, state },
            },
        }
    }

    fn late(&self) -> Refusal {
        Refusal::LateOutcome { lease: self.next.id.clone() }
    }

    fn check_epoch(&self, epoch: Epoch, state: State) -> Result<(), Refusal> {
        let current = epoch == self.next.epoch && self.next.state == state;
        if current || !self.guards.stand(Guards::EPOCH) { Ok(()) } else { Err(self.late()) }
    }

    /// A decision was made: outcomes of the one before it no longer count.
    fn new_epoch(&mut self) {
        self.next.epoch = self.next.epoch.next();
    }

    fn take_claim(&mut self) {
        self.next.claim = Some(Claim {
            node: self.context.node.clone(),
            until: self.context.now + self.context.claim_for,
        });
    }

    fn note(&mut self, event: EventKind) {
        self.events.push(event);
    }
}
