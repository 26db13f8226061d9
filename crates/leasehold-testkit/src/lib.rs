//! Everything that proves Leasehold and does not ship.
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
pub mod world;
pub use simulated_provider::SimulatedProvider;
