//! Whether a sandbox's init lives, and ending it: always with boot id and start time compared first.

use crate::deadline::Deadline;
use crate::error::LocalError;
use leasehold_init::identity::{ProcessIdentity, boot_id, process_stat};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use std::os::fd::{AsFd as _, OwnedFd};

/// How it is known that a sandbox's processes are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// There never was an init, and none can be born.
    NeverBorn,
    /// It belonged to an earlier boot.
    OtherBoot,
    /// Its timer was due: it wrote that down and ended, and with it every process.
    TimerDue,
    /// It had ended by itself: no process has its id and start time.
    AlreadyEnded,
    /// It was killed, and the kernel has told of its end.
    Killed,
}

impl Gone {
    /// In words, for the evidence of an end.
    pub(crate) fn proof(self) -> &'static str {
        match self {
            Self::NeverBorn => "no process was ever started",
            Self::OtherBoot => "another boot id: its processes ended with their boot",
            Self::TimerDue => {
                "the sandbox's own timer ended it at its deadline, and its init is gone"
            }
            Self::AlreadyEnded => "no process has the init's id and start time",
            Self::Killed => {
                "the init was killed and its pidfd told of the end of its process namespace"
            }
        }
    }
}

/// The present boot.
pub(crate) fn this_boot() -> Result<String, LocalError> {
    boot_id().map_err(|source| LocalError::Kernel { action: "read the boot id", source })
}

/// Whether a process lives.
pub(crate) fn lives(process: &ProcessIdentity) -> Result<bool, LocalError> {
    Ok(process.boot_id == this_boot()? && stat_of(process)?)
}

fn stat_of(process: &ProcessIdentity) -> Result<bool, LocalError> {
    let stat = process_stat(process.pid)
        .map_err(|source| LocalError::Kernel { action: "look at a process", source })?;
    Ok(stat.is_some_and(|stat| stat.start_time == process.start_time && !stat.has_ended()))
}

/// A descriptor for the process, if it lives: from here on its id cannot mean another.
fn hold(process: &ProcessIdentity) -> Result<Option<OwnedFd>, LocalError> {
    // A damaged record must not make a process id of what is none.
    let Some(pid) = (process.pid > 0).then_some(process.pid).and_then(Pid::from_raw) else {
        return Ok(None);
    };
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(LocalError::kernel("open a process")(errno)),
    };
    // Only now does the comparison prove anything: the id may have been given to another before.
    let stat = process_stat(process.pid)
        .map_err(|source| LocalError::Kernel { action: "look at a process", source })?;
    Ok(stat.is_some_and(|stat| stat.start_time == process.start_time).then_some(descriptor))
}

/// Kills a sandbox's init and waits until the kernel tells that it is gone.
///
/// The kernel ends the init of a process namespace only after every other process in it, so that moment is
/// the proof for the whole tree.
///
/// # Errors
///
/// [`LocalError::DeadlinePassed`] when the end could not be confirmed in time.
pub(crate) fn end(process: &ProcessIdentity, deadline: Deadline) -> Result<Gone, LocalError> {
    if process.boot_id != this_boot()? {
        return Ok(Gone::OtherBoot);
    }
    let Some(descriptor) = hold(process)? else { return Ok(Gone::AlreadyEnded) };
    match pidfd_send_signal(&descriptor, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(errno) => return Err(LocalError::kernel("kill a sandbox's init")(errno)),
    }
    loop {
        let mut watched = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut watched, Some(&deadline.timeout())) {
            Ok(0) if deadline.is_over() => {
                return Err(LocalError::DeadlinePassed(
                    "waiting for the sandbox's processes to end",
                ));
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => break,
            Err(errno) => return Err(LocalError::kernel("wait for a process")(errno)),
        }
    }
    reap(&descriptor);
    Ok(Gone::Killed)
}

/// Takes the ended init off the process table, if this process is its parent; else its parent will.
fn reap(descriptor: &OwnedFd) {
    let _ =
        waitid(WaitId::PidFd(descriptor.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}
