//! The durable record of leases and of every event in their lives.
//!
//! What lives here: [`MemoryLedger`] for simulations and tests, [`SqliteLedger`] that ships, its
//! format and migrations, its identity, its backups; and the suite that every ledger must pass.
//!
//! What may not live here: a decision about a lease. `leasehold-core` decides, the keeper acts; a
//! ledger keeps rows under the rules of [`leasehold_ports::Ledger`], which are written once for all
//! stores in `rules`.

mod brake;
mod filter;
mod memory;
mod rules;
mod sqlite;
#[cfg(feature = "suite")]
pub mod suite;
mod time;

pub use memory::{MemoryLedger, MemorySnapshot};
pub use sqlite::{CheckReport, InstallationSecret, SqliteLedger, this_machine};
