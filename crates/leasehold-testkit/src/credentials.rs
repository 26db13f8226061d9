//! Keys that can be lost, swapped and found again.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use leasehold_core::{Endpoint, Home};
use leasehold_ports::{Credential, Credentials, KeyFingerprint};
use secrecy::SecretString;

/// The keys at hand, all for one endpoint.
pub struct SimulatedCredentials {
    endpoint: Endpoint,
    keys: Mutex<Vec<Credential>>,
}

impl fmt::Debug for SimulatedCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SimulatedCredentials")
    }
}

impl SimulatedCredentials {
    /// Keys for `endpoint`, best first.
    #[must_use]
    pub fn new(endpoint: Endpoint, keys: &[&str]) -> Self {
        let credentials = Self { endpoint, keys: Mutex::default() };
        credentials.set(keys);
        credentials
    }

    /// From now on these are at hand, and no others.
    pub fn set(&self, keys: &[&str]) {
        let credential = |key: &&str| Credential {
            endpoint: self.endpoint.clone(),
            // What a real fingerprint hides, a test may read.
            fingerprint: KeyFingerprint(Arc::from(*key)),
            secret: SecretString::from(*key),
        };
        let keys = keys.iter().map(credential).collect();
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Those that are at hand.
    #[must_use]
    pub fn all(&self) -> Vec<Credential> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Credentials for SimulatedCredentials {
    async fn for_home(&self, home: &Home) -> Vec<Credential> {
        if home.endpoint != self.endpoint {
            return Vec::new();
        }
        self.all()
    }
}
