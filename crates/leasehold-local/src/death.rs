//! Ending a sandbox: its processes first, with proof, then its files, its record last. Blocking.

use crate::deadline::{Deadline, pause};
use crate::error::LocalError;
use crate::layout::{Found, StateDirectory};
use crate::liveness::{self, Gone};
use leasehold_core::Pin;
use std::os::fd::OwnedFd;

/// What came of a destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destroyed {
    /// It is gone, and this is how it is known of its processes.
    Proved(Gone),
    /// It was not there.
    Absent,
    /// Another sandbox has its id, and was left alone.
    Stranger,
}

/// Destroys a sandbox. Repeating it is fine, and so is doing it twice at once.
///
/// Safe to be killed at any line: what is left still bears the record until nothing else is left, and
/// another call goes on.
///
/// # Errors
///
/// When an end cannot be confirmed before the deadline, or files cannot be removed; the sandbox then still
/// counts as present.
pub(crate) fn destroy(
    state: &StateDirectory,
    pin: &Pin,
    deadline: Deadline,
) -> Result<Destroyed, LocalError> {
    match try_destroy(state, pin, deadline) {
        // Files vanish under the slower of two destroyers: what fails then is no failure.
        Err(_) if state.find(&pin.sandbox)?.is_none() => Ok(Destroyed::Absent),
        other => other,
    }
}

fn try_destroy(
    state: &StateDirectory,
    pin: &Pin,
    deadline: Deadline,
) -> Result<Destroyed, LocalError> {
    let Some(found) = state.find(&pin.sandbox)? else { return Ok(Destroyed::Absent) };
    if found.record.pin()? != *pin {
        return Ok(Destroyed::Stranger);
    }
    // From here on no init is born: one that has the lock now has written its identity when it lets go.
    found.directory.mark_destroying()?;
    let _lock = lock(&found, deadline)?;
    // Another destroyer may have been faster; by now the name may even belong to a later sandbox.
    let Some(found) = state.find(&pin.sandbox)? else { return Ok(Destroyed::Absent) };
    if found.record.pin()? != *pin {
        return Ok(Destroyed::Stranger);
    }
    let gone = match found.directory.init()? {
        Some(init) => {
            let gone = liveness::end(&init, deadline)?;
            // Written just before the init ends, so this is how it ended; a kill met at most its rest.
            if found.directory.timer_end()?.is_some() { Gone::TimerDue } else { gone }
        }
        None => Gone::NeverBorn,
    };
    found.directory.remove_contents()?;
    state.retire(&found)?;
    Ok(Destroyed::Proved(gone))
}

fn lock(found: &Found, deadline: Deadline) -> Result<OwnedFd, LocalError> {
    loop {
        if let Some(lock) = found.directory.try_lock()? {
            return Ok(lock);
        }
        if deadline.is_over() {
            return Err(LocalError::DeadlinePassed(
                "waiting for a birth or another destroy of the sandbox",
            ));
        }
        pause();
    }
}
