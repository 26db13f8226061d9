//! Processes, by what they bear.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Scope, unless_gone};

/// A process. The start time tells it apart from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessSeen {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since the boot.
    pub started: u64,
    /// Its arguments, or its name if it has none.
    pub command: String,
}

impl fmt::Display for ProcessSeen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.pid, self.command)
    }
}

pub(super) fn look(scope: &Scope) -> io::Result<BTreeSet<ProcessSeen>> {
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let Some(entry) = unless_gone(entry)? else { continue };
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid != std::process::id()
            && let Some(process) = look_at(pid, &entry.path(), scope)?
        {
            seen.insert(process);
        }
    }
    Ok(seen)
}

/// The process, if it is in scope and alive. A dead one that waits for its parent runs nothing and
/// holds nothing, and is not in scope.
fn look_at(pid: u32, directory: &Path, scope: &Scope) -> io::Result<Option<ProcessSeen>> {
    let Some(stat) = readable(fs::read_to_string(directory.join("stat")))? else {
        return Ok(None);
    };
    let Some((name, state, started)) = parse_stat(&stat) else { return Ok(None) };
    if state == 'Z' || state == 'X' {
        return Ok(None);
    }
    let arguments = readable(fs::read(directory.join("cmdline")))?.unwrap_or_default();
    let environment = readable(fs::read(directory.join("environ")))?.unwrap_or_default();
    let marked = scope.markers.iter().any(|marker| {
        holds(&arguments, marker.as_bytes()) || holds(&environment, marker.as_bytes())
    });
    let lives_below = ["cwd", "root", "exe"].into_iter().any(|link| {
        fs::read_link(directory.join(link))
            .is_ok_and(|target: PathBuf| target.starts_with(&scope.state_directory))
    });
    if !marked && !lives_below {
        return Ok(None);
    }
    let words: Vec<String> = arguments
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let command = if words.is_empty() { format!("[{name}]") } else { words.join(" ") };
    Ok(Some(ProcessSeen { pid, started, command }))
}

/// Another user's process may hide what it bears.
fn readable<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        other => unless_gone(other),
    }
}

/// Name, state and start time. The name stands in parentheses and may hold any character, so it
/// ends at the last one.
fn parse_stat(stat: &str) -> Option<(&str, char, u64)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // The start time is field 22 of the file, and the state is field 3.
    let started = fields.nth(18)?.parse().ok()?;
    Some((name, state, started))
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    !wanted.is_empty() && bytes.windows(wanted.len()).any(|window| window == wanted)
}
