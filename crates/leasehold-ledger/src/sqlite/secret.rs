//! The installation's secret: 32 random bytes in a private file beside the ledger.
//!
//! The keeper derives the names of attempts and the tags of fences from it. It is never in the
//! ledger; a digest is, so that a ledger beside another secret is noticed.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use leasehold_ports::{LedgerError, Random};
use secrecy::{ExposeSecret as _, SecretBox};
use sha2::{Digest as _, Sha256};

use super::directory::write_atomically;
use super::failure::{file, unsuitable};

/// What the installation alone knows.
pub type InstallationSecret = SecretBox<[u8; 32]>;

const FILE: &str = "secret";

/// Reads the secret, or makes it once. The caller holds the lock of the opening.
pub(super) fn read_or_make(
    directory: &Path,
    random: &dyn Random,
) -> Result<InstallationSecret, LedgerError> {
    let path = directory.join(FILE);
    match File::open(&path) {
        Ok(found) => read(&path, found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret = SecretBox::init_with_mut(|bytes: &mut [u8; 32]| random.fill(bytes));
            write_atomically(&path, secret.expose_secret())
                .map_err(|error| file(&path, "writing", error))?;
            Ok(secret)
        }
        Err(error) => Err(file(&path, "reading", error)),
    }
}

fn read(path: &Path, mut found: File) -> Result<InstallationSecret, LedgerError> {
    let failed = |error| file(path, "reading", error);
    let metadata = found.metadata().map_err(failed)?;
    if metadata.mode() & 0o077 != 0 {
        return Err(unsuitable(path, "others may read it: if nobody did, run `chmod 600` on it"));
    }
    if metadata.len() != 32 {
        return Err(unsuitable(path, "it does not hold the 32 bytes of a secret"));
    }
    let mut outcome = Ok(());
    let secret = SecretBox::init_with_mut(|bytes: &mut [u8; 32]| outcome = found.read_exact(bytes));
    outcome.map_err(failed)?;
    Ok(secret)
}

/// What tells the secret apart from another one, and nothing else.
pub(super) fn digest(secret: &InstallationSecret) -> String {
    let mut hash = Sha256::new();
    hash.update(b"leasehold: which installation secret\0");
    hash.update(secret.expose_secret());
    data_encoding::HEXLOWER.encode(&hash.finalize()[..16])
}
