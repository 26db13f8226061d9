//! What Leasehold may leave behind on a machine, before and after: processes, mounts, directories,
//! files and sockets. A test looks once before and once after, and nothing may be more.

mod mounts;
mod processes;
mod sockets;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

pub use processes::ProcessSeen;

/// What belongs to Leasehold on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Everything below it.
    pub state_directory: PathBuf,
    /// Texts that only its processes have in their arguments or their environment: markers of
    /// sandboxes, tags of commands.
    pub markers: Vec<String>,
}

/// What stands below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A socket.
    Socket,
    /// Anything else.
    File,
}

/// One look at a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineView {
    /// Processes that bear a marker, or live below the state directory. Not the one that looks.
    pub processes: BTreeSet<ProcessSeen>,
    /// Mount points at or below the state directory, in this mount namespace.
    pub mounts: BTreeSet<PathBuf>,
    /// What stands below the state directory.
    pub entries: BTreeSet<(PathBuf, EntryKind)>,
    /// Sockets that are bound below the state directory, also those whose file is gone.
    pub bound_sockets: BTreeSet<PathBuf>,
}

impl MachineView {
    /// Looks.
    ///
    /// # Errors
    /// If `/proc` or the state directory cannot be read. What vanishes while it is looked at is
    /// left out; a state directory that does not exist is empty.
    pub fn look(scope: &Scope) -> io::Result<Self> {
        let mut view = Self {
            processes: processes::look(scope)?,
            mounts: mounts::look(&scope.state_directory)?,
            bound_sockets: sockets::look(&scope.state_directory)?,
            entries: BTreeSet::new(),
        };
        walk(&scope.state_directory, &mut view.entries)?;
        Ok(view)
    }

    /// What is there now and was not `before`.
    #[must_use]
    pub fn leaked_since(&self, before: &MachineView) -> Leaks {
        Leaks(Self {
            processes: &self.processes - &before.processes,
            mounts: &self.mounts - &before.mounts,
            entries: &self.entries - &before.entries,
            bound_sockets: &self.bound_sockets - &before.bound_sockets,
        })
    }
}

/// What was left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaks(pub MachineView);

impl Leaks {
    /// Whether nothing was left behind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == MachineView::default()
    }

    /// The same without entries that may stay: the ledger's own files, a lock.
    #[must_use]
    pub fn except(mut self, mut may_stay: impl FnMut(&Path) -> bool) -> Self {
        self.0.entries.retain(|(path, _)| !may_stay(path));
        self
    }
}

impl fmt::Display for Leaks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return formatter.write_str("nothing was left behind");
        }
        formatter.write_str("left behind:")?;
        for process in &self.0.processes {
            write!(formatter, "\n  process {process}")?;
        }
        for mount in &self.0.mounts {
            write!(formatter, "\n  mount {}", mount.display())?;
        }
        for (path, kind) in &self.0.entries {
            write!(formatter, "\n  {kind:?} {}", path.display())?;
        }
        for socket in &self.0.bound_sockets {
            write!(formatter, "\n  bound socket {}", socket.display())?;
        }
        Ok(())
    }
}

fn walk(directory: &Path, entries: &mut BTreeSet<(PathBuf, EntryKind)>) -> io::Result<()> {
    let Some(listing) = unless_gone(fs::read_dir(directory))? else { return Ok(()) };
    for entry in listing {
        let Some(entry) = unless_gone(entry)? else { continue };
        // The entry itself, not what a link points to: a link may lead out of the directory.
        let Some(kind) = unless_gone(entry.file_type())? else { continue };
        let path = entry.path();
        if kind.is_dir() {
            entries.insert((path.clone(), EntryKind::Directory));
            walk(&path, entries)?;
        } else if kind.is_socket() {
            entries.insert((path, EntryKind::Socket));
        } else {
            entries.insert((path, EntryKind::File));
        }
    }
    Ok(())
}

/// A thing that vanishes while it is looked at is no error, and neither is a dead process.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    const NO_SUCH_PROCESS: i32 = 3;
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
