//! Looks at the processes of the sandbox through its own `/proc`.
//!
//! A look is a snapshot and already old when it returns: it serves to find processes, and a pidfd whose start
//! time is compared again serves to hit the one that was seen. What may not live here: deciding who dies.

use crate::identity::process_stat;
use crate::protocol::COMMAND_TAG;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A process that was seen: its id inside the sandbox and its start time.
pub(crate) type Seen = (i32, u64);

/// The processes in `/proc` besides the init that have not ended.
pub(crate) fn running() -> io::Result<BTreeMap<Seen, i32>> {
    let mut processes = BTreeMap::new();
    for pid in pids()? {
        // A process may end between the listing and the look.
        let Some(stat) = process_stat(pid)? else { continue };
        if !stat.has_ended() {
            processes.insert((pid, stat.start_time), stat.parent);
        }
    }
    Ok(processes)
}

/// How many processes there are besides the init, those included that only wait for their parent to notice.
pub(crate) fn count() -> io::Result<usize> {
    pids().map(|pids| pids.len())
}

fn pids() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok())
            && pid != 1
        {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// The processes of one command: its main process, those that bear its tag, and whatever descends from them.
///
/// A hostile process can wipe its tag and leave its parent. This finds a command's tree; it proves nothing
/// about the cleanliness of the sandbox.
pub(crate) fn of_command(command: &str, main: Option<Pid>) -> io::Result<BTreeSet<Seen>> {
    let processes = running()?;
    let main = main.map(|pid| pid.as_raw_nonzero().get());
    let mut members: BTreeSet<Seen> = processes
        .keys()
        .copied()
        .filter(|(pid, _)| Some(*pid) == main || bears_tag(*pid, command))
        .collect();
    let mut ids: BTreeSet<i32> = members.iter().map(|(pid, _)| *pid).collect();
    loop {
        let children: Vec<Seen> = processes
            .iter()
            .filter(|(seen, parent)| ids.contains(parent) && !members.contains(seen))
            .map(|(seen, _)| *seen)
            .collect();
        if children.is_empty() {
            return Ok(members);
        }
        ids.extend(children.iter().map(|(pid, _)| *pid));
        members.extend(children);
    }
}

fn bears_tag(pid: i32, command: &str) -> bool {
    let wanted = format!("{COMMAND_TAG}={command}");
    // Unreadable means ended, or not ours to know; the tree by descent still counts.
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    })
}

/// Sends a signal to the process that was seen, and to no later one with its id.
pub(crate) fn send(seen: Seen, signal: Signal) {
    let (pid, start_time) = seen;
    let Some(process) = Pid::from_raw(pid) else { return };
    // Every failure means that the process has ended: the init may signal whatever lives in its namespace.
    if let Ok(descriptor) = pidfd_open(process, PidfdFlags::empty())
        && let Ok(Some(stat)) = process_stat(pid)
        && stat.start_time == start_time
    {
        let _ = pidfd_send_signal(descriptor, signal);
    }
}
