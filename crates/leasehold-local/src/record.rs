//! What is written of a sandbox before it exists, and kept until it is gone.

use crate::error::LocalError;
use data_encoding::BASE32_NOPAD;
use leasehold_core::{BirthFingerprint, Pin, SandboxId, SandboxName, Timestamp};
use leasehold_init::identity::ProcessIdentity;
use leasehold_init::protocol::OutsideIds;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The version of [`Record`] that this build writes.
pub(crate) const RECORD_VERSION: u32 = 1;

/// A sandbox's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) version: u32,
    pub(crate) id: SandboxId,
    pub(crate) name: SandboxName,
    /// A digest of the birth key: proves who asked for the birth to those who hold the key.
    pub(crate) birth_key_digest: String,
    pub(crate) created_at: Timestamp,
    /// Who makes the sandbox. While this process lives, a sandbox without an init is one in the making.
    pub(crate) maker: ProcessIdentity,
    pub(crate) outside: OutsideIds,
}

impl Record {
    /// What tells this sandbox apart from any other.
    pub(crate) fn birth(&self) -> Result<BirthFingerprint, LocalError> {
        let created = self.created_at.as_millis().to_string();
        let digest = digest_of(&[
            "birth",
            self.id.as_str(),
            self.name.as_str(),
            &self.birth_key_digest,
            &created,
            &self.maker.boot_id,
        ]);
        BirthFingerprint::new(digest).map_err(|error| LocalError::Unsuitable(error.to_string()))
    }

    /// What a lease is bound to this sandbox by.
    pub(crate) fn pin(&self) -> Result<Pin, LocalError> {
        Ok(Pin { sandbox: self.id.clone(), birth: self.birth()? })
    }
}

/// A digest of several texts, none of which can run into the next, as 32 lower-case letters and digits.
pub(crate) fn digest_of(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    }
    // 160 bits: nobody makes two texts with one digest.
    BASE32_NOPAD.encode(&hasher.finalize()[..20]).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_run_into_each_other() {
        assert_ne!(digest_of(&["ab", "c"]), digest_of(&["a", "bc"]));
        assert_eq!(digest_of(&["x"]).len(), 32);
    }
}
