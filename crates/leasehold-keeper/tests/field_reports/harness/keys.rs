//! The keys at hand, the same for all nodes, changed at any time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use leasehold_core::{Endpoint, Home};
use leasehold_ports::{Credential, Credentials, KeyFingerprint};
use secrecy::SecretString;

/// A configuration that an operator edits.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<Vec<Credential>>);

impl Keys {
    /// A key for `endpoint`, to be tried after those that it has.
    pub(crate) fn give(&self, endpoint: &Endpoint, key: &str) {
        self.keys().push(Credential {
            endpoint: endpoint.clone(),
            fingerprint: KeyFingerprint(format!("fingerprint of {key}").into()),
            secret: SecretString::from(key.to_owned()),
        });
    }

    /// No key for `endpoint` any more.
    pub(crate) fn take_away(&self, endpoint: &Endpoint) {
        self.keys().retain(|key| &key.endpoint != endpoint);
    }

    fn keys(&self) -> MutexGuard<'_, Vec<Credential>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Credentials for Keys {
    async fn for_home(&self, home: &Home) -> Vec<Credential> {
        self.keys().iter().filter(|key| key.endpoint == home.endpoint).cloned().collect()
    }
}
