//! The life of a lease as pure functions.
//!
//! What lives here: the words of the domain ([`Owner`], [`Home`], [`Spec`], [`Lease`]), the
//! lifecycle ([`decide`], [`next_step`], [`answer`]), the reasons of refusals ([`Refusal`]) and the
//! catalogue of every error that a user can see ([`catalogue`]).
//!
//! What may not live here: I/O, async, a clock, randomness, threads. Time comes in as a
//! [`Timestamp`], identifiers as values. The function that ships is the one that the exhaustive
//! search in `tests/` explores, so nothing here may depend on anything that a test cannot set.

pub mod catalogue;
mod event;
mod home;
mod identifiers;
mod lease;
mod lifecycle;
mod owner;
mod receipt;
mod refusal;
mod spec;
mod time;

pub use event::{Event, EventKind};
pub use home::{Endpoint, EndpointError, Home};
pub use identifiers::{
    AccountId, AcquireKey, BirthFingerprint, CommandId, Epoch, Grant, IdentifierError,
    IntentDigest, LeaseId, MachineId, Marker, NodeId, ProviderName, SandboxId, SandboxName,
};
pub use lease::{
    Attempt, AttemptState, Attention, Claim, Cleanliness, Cleanup, Clocks, DestroyReason,
    Inconsistency, KeyedIntent, Kind, Lease, NewLease, Pin, Salvage, State,
};
#[doc(hidden)]
pub use lifecycle::decide_with;
pub use lifecycle::{
    Answer, Caller, Change, CleanOutcome, Context, CreateOutcome, Decision, DestroyOutcome, Guards,
    Input, Looked, PrepareOutcome, ReleaseGoal, Request, ResumeOutcome, Step, answer, answer_key,
    decide, due_at, next_step,
};
pub use owner::{Owner, OwnerError};
pub use receipt::{Ending, Evidence, Receipt};
pub use refusal::{OwnerField, Refusal};
pub use spec::{Spec, SpecError};
pub use time::{Timestamp, short_duration};
