//! Whether the ledger is the one that was written here last.
//!
//! Installation, machine and two counters live in the ledger; installation and counters also in a
//! small file beside it. `generation` rises when the ledger is opened, `commits` with each
//! transaction. The file is written after the ledger, at each opening and about once a minute of
//! writing, so it is never ahead of the ledger that it belongs to. A ledger that is behind its file
//! is an older copy; one whose machine or directory differs was copied.
//!
//! What this cannot see: an older copy of the whole machine, file and ledger alike, and a copy that
//! is less than a minute of writing old. The fences inside the sandboxes tell those.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use leasehold_core::MachineId;
use leasehold_ports::LedgerError;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::directory::write_atomically;
use super::failure::{file, unsuitable};

const FILE: &str = "ledger.identity";

/// What the file beside the ledger says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beside {
    pub(super) installation: String,
    pub(super) generation: u64,
    pub(super) commits: u64,
}

/// What the ledger says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) installation: String,
    pub(super) secret_digest: String,
    pub(super) place: Place,
    pub(super) generation: u64,
    pub(super) commits: u64,
    pub(super) restored: Option<String>,
}

/// Where a ledger is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// A digest of the machine's id, where it has a stable one.
    pub(super) machine: Option<String>,
    /// Inode and time of birth of the state directory. The device is left out: its number may
    /// change when the machine starts again, and a copy has another inode or birth anyway.
    pub(super) directory: String,
}

impl Place {
    pub(super) fn of(directory: &Path) -> Result<Self, LedgerError> {
        let metadata =
            fs::metadata(directory).map_err(|error| file(directory, "looking at", error))?;
        let born = metadata
            .created()
            .ok()
            .and_then(|created| created.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |born| born.as_nanos());
        let machine = this_machine().map(|machine| machine.as_str().to_owned());
        Ok(Self { machine, directory: format!("{}:{born}", metadata.ino()) })
    }
}

/// The machine that this process runs on: a digest of its id, since the id itself is not to be given
/// away (machine-id(5)). None in a container, whose id is its image's or made anew at each start.
#[must_use]
pub fn this_machine() -> Option<MachineId> {
    let in_container = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"]
        .iter()
        .any(|mark| fs::symlink_metadata(mark).is_ok());
    if in_container {
        return None;
    }
    let text = fs::read_to_string("/etc/machine-id").ok()?;
    let id = text.trim();
    if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = Sha256::new();
    hash.update(b"leasehold: which machine\0");
    hash.update(id.as_bytes());
    MachineId::new(data_encoding::HEXLOWER.encode(&hash.finalize()[..16])).ok()
}

/// Why the ledger is not the one that was written here last, if it is not.
///
/// `empty` is whether it holds no lease: a process may have died between making the ledger and
/// writing the file beside it, and a ledger that knows nothing can remove nothing.
pub(super) fn judge(
    ledger: &Identity,
    beside: Option<&Beside>,
    here: &Place,
    secret_digest: &str,
    empty: bool,
) -> Option<String> {
    if let Some(why) = &ledger.restored {
        return Some(why.clone());
    }
    match beside {
        None if !empty => return Some(format!("{FILE} is missing beside it")),
        Some(beside) if beside.installation != ledger.installation => {
            return Some(format!("{FILE} beside it belongs to another ledger"));
        }
        Some(beside) if beside.generation > ledger.generation => {
            return Some(format!(
                "it was opened {} times, and {FILE} beside it knows of {}: it is an older copy",
                ledger.generation, beside.generation
            ));
        }
        Some(beside) if beside.commits > ledger.commits => {
            return Some(format!(
                "it holds {} transactions, and {FILE} beside it knows of {}: it is an older copy",
                ledger.commits, beside.commits
            ));
        }
        _ => {}
    }
    if let (Some(was), Some(is)) = (&ledger.place.machine, &here.machine)
        && was != is
    {
        return Some("it was written on another machine".to_owned());
    }
    if ledger.place.directory != here.directory {
        return Some("its directory is a copy of the one that it was written in".to_owned());
    }
    if ledger.secret_digest != secret_digest {
        return Some("the secret beside it is not the one that it was written with".to_owned());
    }
    None
}

/// Reads the file beside the ledger. One that cannot be read is an error rather than a guess.
pub(super) fn read(directory: &Path) -> Result<Option<Beside>, LedgerError> {
    let path = directory.join(FILE);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| {
            unsuitable(&path, "it is damaged: move it away, and the ledger opens in restored mode")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file(&path, "reading", error)),
    }
}

/// Writes the file beside the ledger, durably. Counters in it never fall.
pub(super) fn write(directory: &Path, mut beside: Beside) -> Result<(), LedgerError> {
    let path = directory.join(FILE);
    if let Some(found) = read(directory)?.filter(|found| found.installation == beside.installation)
    {
        beside.generation = beside.generation.max(found.generation);
        beside.commits = beside.commits.max(found.commits);
    }
    let failed = |error| file(&path, "writing", error);
    let text = serde_json::to_vec(&beside).map_err(|error| failed(error.into()))?;
    write_atomically(&path, &text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Place {
        Place { machine: Some("machine".to_owned()), directory: "7:1".to_owned() }
    }

    fn ledger() -> Identity {
        Identity {
            installation: "ours".to_owned(),
            secret_digest: "secret".to_owned(),
            place: here(),
            generation: 3,
            commits: 50,
            restored: None,
        }
    }

    fn beside() -> Beside {
        Beside { installation: "ours".to_owned(), generation: 3, commits: 50 }
    }

    fn verdict(ledger: &Identity, beside: Option<&Beside>, here: &Place) -> Option<String> {
        judge(ledger, beside, here, "secret", false)
    }

    #[test]
    fn the_ledger_that_was_written_last_is_current() {
        assert_eq!(verdict(&ledger(), Some(&beside()), &here()), None);
    }

    #[test]
    fn a_file_that_is_behind_means_nothing() {
        let beside = Beside { generation: 2, commits: 9, ..beside() };
        assert_eq!(verdict(&ledger(), Some(&beside), &here()), None);
    }

    #[test]
    fn an_older_copy_is_noticed_by_either_counter() {
        for beside in [Beside { generation: 4, ..beside() }, Beside { commits: 51, ..beside() }] {
            assert!(verdict(&ledger(), Some(&beside), &here()).unwrap().contains("older copy"));
        }
    }

    #[test]
    fn a_copied_directory_and_a_cloned_machine_are_noticed() {
        let copied = Place { directory: "8:2".to_owned(), ..here() };
        assert!(verdict(&ledger(), Some(&beside()), &copied).unwrap().contains("a copy"));
        let cloned = Place { machine: Some("another".to_owned()), ..here() };
        assert!(verdict(&ledger(), Some(&beside()), &cloned).unwrap().contains("machine"));
    }

    #[test]
    fn the_same_volume_in_a_new_container_is_no_mismatch() {
        let container = Place { machine: None, ..here() };
        assert_eq!(verdict(&ledger(), Some(&beside()), &container), None);
    }

    #[test]
    fn a_missing_file_is_excused_only_while_the_ledger_is_empty() {
        assert!(verdict(&ledger(), None, &here()).is_some());
        assert_eq!(judge(&ledger(), None, &here(), "secret", true), None);
    }

    #[test]
    fn another_secret_and_another_ledger_are_noticed() {
        assert!(judge(&ledger(), Some(&beside()), &here(), "else", false).is_some());
        let stranger = Beside { installation: "theirs".to_owned(), ..beside() };
        assert!(verdict(&ledger(), Some(&stranger), &here()).is_some());
    }

    #[test]
    fn what_was_found_once_stands_until_it_is_accepted() {
        let ledger = Identity { restored: Some("why".to_owned()), ..ledger() };
        assert_eq!(verdict(&ledger, Some(&beside()), &here()).as_deref(), Some("why"));
    }
}
