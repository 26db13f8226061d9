//! The init process inside a local sandbox.
//!
//! The manager (see `leasehold-local`) executes its own binary again under the name `leasehold-init`; that
//! process makes the namespaces, becomes their process 1, builds the root file system, and then serves the
//! control socket until it is killed. It owns every process of the sandbox: it starts commands, reaps
//! orphans, keeps the fence, and confirms that a command's tree, or everything, is gone.
//!
//! What may not live here: an async runtime, threads, the network, anything about leases, ledgers or
//! providers, and any use of what a command wrote. One `poll` loop and the kernel is all there is, because
//! each idle sandbox pays for this process, and because hostile code runs beside it.
//!
//! ```text
//! manager ──exec──▶ first process (host) ──clone3──▶ process 1 of the sandbox
//!                     writes init.json, id maps          waits for the go-ahead, builds the root,
//!                     gives the go-ahead, exits          listens on ctl.sock, serves
//! ```
//!
//! Unsafe code is denied in this crate except in its module `kernel`, which wraps the few calls that no safe library
//! offers.

pub mod framing;
pub mod identity;
pub mod protocol;

mod child;
mod clock;
mod commands;
mod connection;
mod files;
mod guard;
mod kernel;
mod output;
mod process_table;
mod root_file_system;
mod server;
mod setup;
mod stopping;
mod timer;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// The name that makes a binary act as the init: the last component of its `argv[0]`.
pub const INIT_NAME: &str = "leasehold-init";

/// The first argument that goes with [`INIT_NAME`], so that nobody gets an init by renaming a file.
pub const INIT_ARGUMENT: &str = "serve-sandbox";

/// Becomes a sandbox's init if this process was executed as one, and then never returns.
///
/// Call it first in `main`, before any thread exists and before anything reads standard input: namespaces
/// can only be entered by a single-threaded process. In every other process it does nothing. The exit
/// status of an init is 0 for the first process, whose work ends with the birth, and 125 when it failed;
/// the reason has then been reported to the manager on standard output.
pub fn run_if_requested() {
    let mut arguments = std::env::args_os();
    let Some(name) = arguments.next() else { return };
    let base = name.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if base == INIT_NAME.as_bytes()
        && arguments.next().as_deref() == Some(OsStr::new(INIT_ARGUMENT))
    {
        std::process::exit(setup::first_process());
    }
}
