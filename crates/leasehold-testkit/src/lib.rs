//! Everything that proves Leasehold and does not ship.
//!
//! What lives here: a deterministic [`executor`]; the [`world`] of a simulated provider, with its
//! [`faults`], as the [`SimulatedProvider`] shows it to a keeper; a [`faulty_ledger`]; a [`judge`]
//! who compares record and truth at every instant; the generator of [`history`] after history and
//! the [`suite`] that runs many; the [`conformance`] suite for all providers; the [`leak`] checker
//! for real machines.
//!
//! What may not live here: anything that a released binary needs, and anything that a seed does not
//! decide. There is no real time, no thread inside a history, and no map whose order could differ
//! between two runs: a seed gives the same journal, byte for byte, on every machine.

pub mod conformance;
pub mod credentials;
pub mod executor;
pub mod faults;
pub mod faulty_ledger;
pub mod history;
pub mod journal;
pub mod judge;
pub mod leak;
pub mod random;
pub mod simulated_provider;
pub mod suite;
pub mod world;

pub use simulated_provider::SimulatedProvider;
