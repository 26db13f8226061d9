//! The edge of Leasehold: traits for what the keeper needs from the outside, and the types that
//! both sides of them share.
//!
//! What lives here: [`Provider`], [`Ledger`], [`Credentials`], [`Clock`], [`Random`], with their
//! requests, answers and errors. What may not live here: an implementation of any of them, or a
//! decision; decisions are `leasehold-core`'s, implementations have crates of their own.
//!
//! # Cancellation
//! Every future of these traits may be dropped at any await. A dropped provider call is one whose
//! answer was lost: it may still have its effect. A dropped ledger write may still be written. The
//! keeper records its intent before each such call, so a drop is never worse than a crash.

mod clock;
mod credentials;
mod ledger;
mod process;
mod provider;
mod random;

pub use clock::Clock;
pub use credentials::{Credential, Credentials, KeyFingerprint};
pub use ledger::{
    BrakeState, EventPage, HomeAndSandbox, LeaseFilter, Ledger, LedgerError, LedgerMode, Limits,
    NodeRecord, RecordedEvent, Write,
};
pub use process::{
    AttachedProcess, CommandRequest, Fence, FenceTag, Frame, Incoming, NotStarted, Outgoing,
    OutputOffsets, ProcessControl, ProcessEnd, ProcessInput, RunningProcess, Signal, StartError,
    StreamKind, Work,
};
pub use provider::{
    BirthKey, Call, Capabilities, CleanStrategy, CreateRequest, Created, Facts, Identity,
    InventoryEntry, InventoryPage, ObservedState, Preparation, Provider, ProviderError, Removal,
    Status,
};
pub use random::Random;
