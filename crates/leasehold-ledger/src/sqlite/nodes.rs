//! Lock files that prove the death of a node.
//!
//! A node holds a lock on its file for as long as the ledger is open in its process; the kernel lets
//! go of it when the process ends, however it ends. Whoever gets the lock has proved that the node
//! is dead, if the file was made on this machine: on another kernel a lock means nothing.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::NodeId;
use leasehold_ports::LedgerError;

use super::failure::{file, unsuitable};
use super::queries::NodeRow;

/// The kernel's id of this boot; none where it does not tell.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// The lock files, and the locks that this process holds.
#[derive(Clone)]
pub(super) struct NodeLocks {
    directory: PathBuf,
    boot: Arc<str>,
    machine: Option<Arc<str>>,
    held: Arc<Mutex<BTreeMap<NodeId, File>>>,
}

impl NodeLocks {
    pub(super) fn in_directory(state: &Path, machine: Option<&str>) -> Self {
        Self {
            directory: state.join("nodes"),
            boot: boot().into(),
            machine: machine.map(Arc::from),
            held: Arc::default(),
        }
    }

    pub(super) fn boot(&self) -> Arc<str> {
        Arc::clone(&self.boot)
    }

    pub(super) fn machine(&self) -> Option<Arc<str>> {
        self.machine.clone()
    }

    /// Makes and locks the file of a node of this process.
    pub(super) fn hold(&self, node: &NodeId) -> Result<(), LedgerError> {
        let path = self.path(node.as_str());
        let failed = |error| file(&path, "locking", error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(failed)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains_key(node) {
            return Ok(());
        }
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        lock.try_lock().map_err(|_| unsuitable(&path, "another process is this node"))?;
        held.insert(node.clone(), lock);
        Ok(())
    }

    /// Lets go of a node of this process, and removes its file, whoever's it was.
    pub(super) fn remove(&self, node: &NodeId) -> Result<(), LedgerError> {
        let path = self.path(node.as_str());
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(file(&path, "removing", error))
            }
            _ => Ok(()),
        }
    }

    /// Whether the node is dead for certain. False means that it lives, or that nobody knows.
    ///
    /// The look is with a shared lock, so that two that look do not take each other for the node.
    pub(super) fn proves_dead(&self, row: &NodeRow) -> bool {
        // Without its boot's id nothing is known of the kernel that the lock was one of.
        let known = !row.boot.is_empty() && !self.boot.is_empty();
        let same_boot = row.boot == *self.boot;
        // Whatever ran before this boot of the same machine is over.
        let same_machine =
            self.machine.is_some() && row.machine.as_deref() == self.machine.as_deref();
        if !known || !(same_boot || same_machine) {
            return false;
        }
        match File::open(self.path(&row.node)) {
            Ok(lock) => lock.try_lock_shared().is_ok(),
            Err(_) => false,
        }
    }

    /// The file's name is the node's id where that is a name, else a spelling of it that is.
    fn path(&self, node: &str) -> PathBuf {
        let plain = node.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let name = if plain {
            node.to_owned()
        } else {
            format!("={}", data_encoding::BASE32_NOPAD.encode(node.as_bytes()))
        };
        self.directory.join(format!("{name}.lock"))
    }
}
