//! Sandboxes on this machine: namespaces of the Linux kernel, an init in each, and a directory for all.
//!
//! [`LocalProvider`] implements the [`Provider`](leasehold_ports::Provider) port. It needs no daemon and no
//! privileges: everything that it must know is in its state directory, so that any later process can find a
//! sandbox again, use it, or end it.
//!
//! ```text
//! STATE/                      0700
//!   drafts.lock               held, shared, while a draft is put together
//!   .new-RANDOM/              a draft: has never been a sandbox
//!   .gone-RANDOM/             was a sandbox: nothing runs in it any more
//!   DIGEST OF THE NAME/       a sandbox
//!     record.json             id, name, birth; written durably before the init exists, removed last
//!     init.json               which process the init is
//!     guard.json              marker and fence
//!     ctl.sock                the init's control socket
//!     lock, destroying        see `leasehold_init`
//!     workspace/ home/ tmp/   what the sandbox sees as /workspace, /sandbox-home, /tmp
//!     root/                   where its root file system is mounted, in its own mount namespace
//! ```
//!
//! A sandbox's directory is named after its name, so a name is taken by one atomic rename and found without
//! a search. Its id adds random bits that the record repeats, so an id never means a later sandbox.
//!
//! What may not live here: leases, owners and decisions about life and death, which are the keeper's; unsafe
//! code and whatever runs inside, which are the init's.

#![cfg(target_os = "linux")]

mod birth;
mod control;
mod deadline;
mod death;
mod error;
mod layout;
mod liveness;
mod outside_ids;
mod process;
mod provider;
mod record;
mod remove_tree;
mod streams;

pub use error::LocalError;
pub use provider::{InitProgram, LocalProvider};
