//! Ending processes and knowing that they are gone: one command's tree, or everything.
//!
//! Both are small machines that the server turns whenever something ended or a moment has passed; neither
//! blocks. One command's tree is found by looking, so two looks must agree. Everything is ended by the
//! kernel's own kill of the whole process namespace, and counted by the kernel too: that is the proof.

use crate::clock;
use crate::commands::Caller;
use crate::process_table::{self, Seen};
use nix::errno::Errno;
use nix::sys::signal::{Signal as NixSignal, kill};
use nix::unistd::Pid as NixPid;
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// Looks in a row that must find nothing.
const AGREEING_LOOKS: u32 = 2;

/// Ends one command's tree.
pub(crate) struct Termination {
    pub(crate) command: String,
    pub(crate) caller: Caller,
    kill_at: Instant,
    give_up_at: Instant,
    asked: BTreeSet<Seen>,
    empty_looks: u32,
}

impl Termination {
    pub(crate) fn new(command: String, caller: Caller, grace: Duration, limit: Duration) -> Self {
        let now = clock::now();
        // A limit beyond what an instant can hold is no limit; a day is more than any caller waits.
        let at = |span: Duration| now + span.min(Duration::from_secs(86_400));
        let (kill_at, give_up_at) = (at(grace), at(limit));
        Self { command, caller, kill_at, give_up_at, asked: BTreeSet::new(), empty_looks: 0 }
    }

    /// Looks and signals once. `Some` says whether the end is confirmed.
    pub(crate) fn turn(&mut self, main: Option<Pid>) -> Option<bool> {
        let Ok(members) = process_table::of_command(&self.command, main) else {
            return Some(false);
        };
        if members.is_empty() {
            self.empty_looks += 1;
            return (self.empty_looks >= AGREEING_LOOKS).then_some(true);
        }
        self.empty_looks = 0;
        let now = clock::now();
        for seen in members {
            if now >= self.kill_at {
                process_table::send(seen, Signal::KILL);
            } else if self.asked.insert(seen) {
                process_table::send(seen, Signal::TERM);
                // A stopped process could not even decline.
                process_table::send(seen, Signal::CONT);
            }
        }
        (now >= self.give_up_at).then_some(false)
    }
}

/// Ends everything in the sandbox but the init.
#[derive(Default)]
pub(crate) struct Cleaning {
    pub(crate) callers: Vec<Caller>,
}

impl Cleaning {
    /// Whether a kill is under way; nothing may start meanwhile.
    pub(crate) fn is_active(&self) -> bool {
        !self.callers.is_empty()
    }

    /// Kills once, and says whether nothing is left. `has_children` is what the last reaping learnt.
    pub(crate) fn turn(&self, has_children: bool) -> io::Result<bool> {
        // To process 1, -1 is everything else in its namespace; the kernel holds off forks meanwhile.
        match kill(NixPid::from_raw(-1), NixSignal::SIGKILL) {
            Ok(()) => Ok(false),
            // No process to kill; one may still be on its way out.
            Err(Errno::ESRCH) => Ok(!has_children && process_table::count()? == 0),
            Err(errno) => Err(errno.into()),
        }
    }
}
