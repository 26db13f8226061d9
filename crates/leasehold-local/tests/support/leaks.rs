//! The leak checker: what sandboxes must not leave behind on the machine.
//!
//! It knows nothing of the provider but its state directory, so that it can check any of its users: processes
//! by descent from the inits named there, mounts by path, files by what is left. Network interfaces are compared as
//! a whole. A process that has ended and waits for its parent to notice does not count: some machines' process
//! 1 takes seconds to notice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A process: its id and start time.
type Process = (i32, u64);

/// Watches one state directory.
pub struct LeakChecker {
    state: PathBuf,
    interfaces: BTreeSet<String>,
    seen: BTreeSet<Process>,
}

impl LeakChecker {
    /// Begins to watch, before any sandbox is made.
    pub fn new(state: &Path) -> Self {
        Self { state: state.to_owned(), interfaces: interfaces(), seen: BTreeSet::new() }
    }

    /// Notes every process of every sandbox that is there now; gives their number, inits included.
    pub fn note_processes(&mut self) -> usize {
        let table = process_table();
        let mut members: BTreeSet<Process> =
            inits(&self.state).intersection(&table.keys().copied().collect()).copied().collect();
        loop {
            let ids: BTreeSet<i32> = members.iter().map(|(pid, _)| *pid).collect();
            let before = members.len();
            members.extend(
                table
                    .iter()
                    .filter(|(_, parent)| ids.contains(parent))
                    .map(|(process, _)| *process),
            );
            if members.len() == before {
                break;
            }
        }
        let count = members.len();
        self.seen.extend(members);
        count
    }

    /// What is left of everything that was noted, in words.
    pub fn leaks(&self) -> Vec<String> {
        let mut leaks = Vec::new();
        let table = process_table();
        for process in self.seen.iter().chain(&inits(&self.state)) {
            if table.contains_key(process) {
                leaks.push(format!("process {} still runs", process.0));
            }
        }
        let path = self.state.to_string_lossy();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        leaks.extend(
            mounts
                .lines()
                .filter(|line| line.contains(&*path))
                .map(|line| format!("mount: {line}")),
        );
        for name in names_in(&self.state) {
            if name != "drafts.lock" {
                leaks.push(format!("file: {name}"));
            }
        }
        if interfaces() != self.interfaces {
            leaks.push(format!(
                "network interfaces: {:?}, before {:?}",
                interfaces(),
                self.interfaces
            ));
        }
        leaks
    }

    /// Fails if anything is left.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        assert_eq!(self.leaks(), Vec::<String>::new());
    }
}

fn names_in(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn interfaces() -> BTreeSet<String> {
    names_in(Path::new("/sys/class/net")).into_iter().collect()
}

/// The inits that the state directory names.
pub fn inits(state: &Path) -> BTreeSet<Process> {
    names_in(state)
        .into_iter()
        .filter_map(|name| {
            let text = std::fs::read(state.join(name).join("init.json")).ok()?;
            let init: serde_json::Value = serde_json::from_slice(&text).ok()?;
            Some((i32::try_from(init["pid"].as_i64()?).ok()?, init["start_time"].as_u64()?))
        })
        .collect()
}

/// Every process that has not ended, with its parent's id.
pub fn process_table() -> BTreeMap<Process, i32> {
    names_in(Path::new("/proc"))
        .into_iter()
        .filter_map(|name| {
            let pid: i32 = name.parse().ok()?;
            let stat = leasehold_init::identity::process_stat(pid).ok()??;
            (!stat.has_ended()).then_some(((pid, stat.start_time), stat.parent))
        })
        .collect()
}
