//! Knowing a process again: process id, start time and boot id together name one process for ever.
//!
//! A process id alone is unsafe after a reboot or once ids wrap around. Whoever is about to kill compares
//! all three first.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// One process of this machine, so that it cannot be taken for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id, as the manager sees it.
    pub pid: i32,
    /// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_time: u64,
    /// `/proc/sys/kernel/random/boot_id` of the boot that it runs in.
    pub boot_id: String,
}

/// The id of the present boot.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim_end().to_owned())
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// `R`, `S`, `D`, `T`, `Z`, …
    pub state: u8,
    /// The parent's process id.
    pub parent: i32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
}

impl ProcessStat {
    /// Whether the process has ended and only waits for its parent to notice.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Reads `/proc/PID/stat`; `None` when there is no such process.
///
/// # Errors
///
/// When `/proc` cannot be read or does not look as documented.
pub fn process_stat(pid: i32) -> io::Result<Option<ProcessStat>> {
    match std::fs::read(Path::new("/proc").join(pid.to_string()).join("stat")) {
        Ok(text) => {
            parse_stat(&text).map(Some).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        }
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error from `/proc/PID` says that the process is gone.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

// The command name stands in parentheses and may itself hold any byte, so fields count from the last one.
fn parse_stat(text: &[u8]) -> Option<ProcessStat> {
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(text.get(after_name..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let start_time = fields.nth(17)?.parse().ok()?;
    Some(ProcessStat { state, parent, start_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_command_name_does_not_shift_the_fields() {
        let text = b"7 (evil) R 1 (x) S 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 999 1";
        let expected = ProcessStat { state: b'S', parent: 3, start_time: 4242 };
        assert_eq!(parse_stat(text), Some(expected));
    }

    #[test]
    fn this_process_is_known_and_an_impossible_one_is_absent() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(process_stat(me).unwrap().unwrap().start_time > 0);
        assert_eq!(process_stat(i32::MAX).unwrap(), None);
    }
}
