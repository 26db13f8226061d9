//! Where the ledger and the local sandboxes are kept.
//!
//! `--state-dir`, then `LEASEHOLD_STATE_DIR`, then the user's own: `/var/lib/leasehold` for root, and
//! `.local/state/leasehold` in the home directory *of the passwd entry* for everybody else. `HOME`
//! has no say: a service, a shell and a `sudo` of one user must all find the same ledger.
//!
//! ```text
//! STATE/
//!   ledger.sqlite, secret, ledger.identity   see leasehold-ledger
//!   sandboxes/                               see leasehold-local
//!   leasehold.toml                           the configuration, if there is one
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use leasehold_core::catalogue::codes;
use nix::unistd::{Uid, User};

use crate::failure::Failure;
use crate::origin::{Origin, Sourced};

/// The variable that names the state directory.
pub(crate) const VARIABLE: &str = "LEASEHOLD_STATE_DIR";

/// The state directory of this call.
#[derive(Clone, Debug)]
pub(crate) struct StateDirectory {
    path: Sourced<PathBuf>,
}

impl StateDirectory {
    /// Finds it; makes nothing.
    pub(crate) fn find(
        argument: Option<&Path>,
        variable: Option<OsString>,
    ) -> Result<Self, Failure> {
        let path = match (argument, variable.filter(|value| !value.is_empty())) {
            (Some(path), _) => Sourced::new(path.to_owned(), Origin::Argument("--state-dir")),
            (None, Some(path)) => Sourced::new(path.into(), Origin::Variable(VARIABLE)),
            (None, None) => Sourced::new(of_user()?, Origin::Default),
        };
        // Absolute, so that it means the same to whoever reads it in a report.
        let absolute = std::path::absolute(&path.value)
            .map_err(|error| Failure::bad_argument("the state directory", error))?;
        Ok(Self { path: Sourced::new(absolute, path.origin) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path.value
    }

    pub(crate) fn sourced(&self) -> &Sourced<PathBuf> {
        &self.path
    }

    /// Whether a ledger was ever made in it. Verbs that only read make none.
    pub(crate) fn has_ledger(&self) -> bool {
        self.path().join("ledger.sqlite").exists()
    }

    /// How many bytes the ledger takes: the file and its log of writes.
    pub(crate) fn ledger_size(&self) -> u64 {
        ["ledger.sqlite", "ledger.sqlite-wal"]
            .into_iter()
            .filter_map(|name| std::fs::metadata(self.path().join(name)).ok())
            .map(|metadata| metadata.len())
            .sum()
    }

    /// Where the sandboxes of this machine are.
    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.path().join("sandboxes")
    }

    /// The configuration that belongs to it.
    pub(crate) fn configuration_file(&self) -> PathBuf {
        self.path().join("leasehold.toml")
    }
}

fn of_user() -> Result<PathBuf, Failure> {
    let uid = Uid::effective();
    if uid.is_root() {
        return Ok("/var/lib/leasehold".into());
    }
    match user(uid)? {
        Some(user) if user.dir.is_absolute() => Ok(user.dir.join(".local/state/leasehold")),
        _ => Err(Failure::new(
            codes::CONFIGURATION_INVALID,
            format!(
                "user {uid} has no home directory in the passwd database: name a state directory \
                 with --state-dir or {VARIABLE}"
            ),
        )),
    }
}

/// The name of the user who runs this, as the passwd database has it; `uid-N` without an entry.
pub(crate) fn user_name() -> String {
    let uid = Uid::effective();
    match user(uid) {
        Ok(Some(user)) => user.name,
        _ => format!("uid-{uid}"),
    }
}

fn user(uid: Uid) -> Result<Option<User>, Failure> {
    User::from_uid(uid).map_err(|error| {
        Failure::new(
            codes::CONFIGURATION_INVALID,
            format!("the passwd entry of user {uid} cannot be read: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_comes_before_the_variable() {
        let found = StateDirectory::find(Some(Path::new("/a")), Some("/b".into())).unwrap();
        assert_eq!(found.path(), Path::new("/a"));
        assert_eq!(found.sourced().origin, Origin::Argument("--state-dir"));
        let found = StateDirectory::find(None, Some("/b".into())).unwrap();
        assert_eq!(found.path(), Path::new("/b"));
        assert_eq!(found.sourced().origin, Origin::Variable(VARIABLE));
    }

    #[test]
    fn an_empty_variable_counts_as_none() {
        let found = StateDirectory::find(None, Some("".into())).unwrap();
        assert_eq!(found.sourced().origin, Origin::Default);
    }

    #[test]
    fn a_relative_directory_is_shown_in_full() {
        let found = StateDirectory::find(Some(Path::new("state")), None).unwrap();
        assert!(found.path().is_absolute());
    }
}
