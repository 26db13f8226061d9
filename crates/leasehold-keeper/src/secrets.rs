//! What this installation can make and nobody else: names, fences, digests of intents.

use std::fmt;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use leasehold_core::{Grant, IntentDigest, Lease, LeaseId, Owner, SandboxName, Spec};
use leasehold_ports::{BirthKey, Fence, FenceTag};
use secrecy::{ExposeSecret, SecretBox, SecretString};
use sha2::Sha256;

/// 32 random bytes that belong to one ledger. They never leave the state directory.
pub struct InstallationSecret(SecretBox<[u8; 32]>);

impl fmt::Debug for InstallationSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InstallationSecret")
    }
}

impl InstallationSecret {
    /// Takes the bytes.
    #[must_use]
    pub fn new(bytes: SecretBox<[u8; 32]>) -> Self {
        Self(bytes)
    }

    /// A digest of `parts` that only this installation can make. Each part goes in with its length,
    /// so that no two lists of parts look the same; `purpose` keeps the uses apart.
    fn digest(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        // HMAC takes a key of any length; the error type says otherwise only for other MACs.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()) else {
            return [0; 32];
        };
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// The name of an attempt: nobody else can guess it, so whoever bears it was made by us. `once`
    /// keeps an attempt of an older copy of the ledger, which has the same number, from having the
    /// same name.
    pub(crate) fn sandbox_name(
        &self,
        lease: &LeaseId,
        attempt: u32,
        once: [u8; 16],
    ) -> SandboxName {
        let parts = [lease.as_str().as_bytes(), &attempt.to_le_bytes(), &once[..]];
        SandboxName::from_digest(&self.digest("sandbox name", &parts))
    }

    /// The birth key of the attempt with the name.
    pub(crate) fn birth_key(&self, name: &SandboxName) -> BirthKey {
        let digest = self.digest("birth key", &[name.as_str().as_bytes()]);
        BirthKey(SecretString::from(HEXLOWER.encode(&digest)))
    }

    /// A fence for the lease's sandbox. Bound to its marker, so that one sandbox's fence is false in
    /// another.
    pub(crate) fn fence(&self, lease: &Lease, grant: Grant) -> Fence {
        let parts = [
            lease.id.as_str().as_bytes(),
            lease.marker.as_str().as_bytes(),
            &grant.0.to_le_bytes()[..],
        ];
        Fence { grant, tag: FenceTag(HEXLOWER.encode(&self.digest("fence", &parts))) }
    }

    /// Whether this installation made the fence for this lease. In constant time.
    pub(crate) fn is_authentic(&self, lease: &Lease, fence: &Fence) -> bool {
        use subtle::ConstantTimeEq;
        let expected = self.fence(lease, fence.grant);
        expected.tag.0.as_bytes().ct_eq(fence.tag.0.as_bytes()).into()
    }

    /// A digest of what an acquire asks for. The volatile part (lifetime, clocks, limits) stays out.
    pub(crate) fn intent(&self, owner: &Owner, spec: &Spec) -> IntentDigest {
        let owner = owner.to_string();
        let mut parts: Vec<&[u8]> = vec![owner.as_bytes()];
        let absent: &[u8] = b"\0absent";
        for text in [&spec.shape, &spec.image] {
            parts.push(text.as_ref().map_or(absent, |text| text.as_bytes()));
        }
        match &spec.egress {
            None => parts.push(absent),
            Some(egress) => parts.extend(egress.iter().map(|entry| entry.as_bytes())),
        }
        parts.push(b"\0names");
        parts.extend(spec.environment_names.iter().map(|name| name.as_bytes()));
        IntentDigest::from_digest(&self.digest("intent", &parts))
    }
}
