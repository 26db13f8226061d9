use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use leasehold_core::{Endpoint, Home};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// A keyed digest of a key: tells whether two keys are the same, and nothing else.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyFingerprint(pub Arc<str>);

impl fmt::Debug for KeyFingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A key, and the one endpoint that it was given for. It is sent nowhere else.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Where it may be sent.
    pub endpoint: Endpoint,
    /// What tells it apart from another key for the same endpoint.
    pub fingerprint: KeyFingerprint,
    /// The key. Empty where the provider needs none.
    pub secret: SecretString,
}

/// Where keys come from: the configuration of the call, a key file, a keyring.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// The keys that may be tried for `home`, best first: those that were given for its endpoint.
    /// Which account a key belongs to is asked of the provider before anything else.
    async fn for_home(&self, home: &Home) -> Vec<Credential>;
}
