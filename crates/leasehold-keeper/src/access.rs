//! Reaching a home: which provider, with which key, and whether that key is the right account's.
//!
//! Nothing else in the keeper gets hold of a provider, so no answer is ever interpreted before the
//! account behind it is proved. Each call is a line of the log: see [`crate::traced`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{AccountId, Endpoint, Home, Pin};
use leasehold_ports::{Call, Credential, KeyFingerprint, Provider, ProviderError, Status};

use crate::{Keeper, KeeperError, SeededBug, lock};

/// Which key belongs to which account, once asked.
pub(crate) type ProvedAccounts = BTreeMap<(Endpoint, Option<KeyFingerprint>), AccountId>;

/// A provider, with a key that is proved to belong to the home's account.
pub(crate) struct Access {
    pub(crate) provider: Arc<dyn Provider>,
    credential: Option<Credential>,
}

impl Access {
    /// The circumstances of a call that is given up at the latest after the provider's own limit.
    pub(crate) fn call(&self, keeper: &Keeper, limit: Duration) -> Call {
        let limit = limit.min(self.provider.facts().call_limit);
        Call { credential: self.credential.clone(), deadline: keeper.inner.clock.now() + limit }
    }
}

impl Keeper {
    /// Finds the provider of `home` and a key whose account is the home's.
    ///
    /// # Errors
    /// `NoProvider`, `NoCredential` or `WrongAccount`; never because of anything about a sandbox.
    pub(crate) async fn access(&self, home: &Home) -> Result<Access, KeeperError> {
        let place = (home.provider.clone(), home.endpoint.clone());
        let here = |provider: &&Arc<dyn Provider>| {
            home.machine.is_none() || home.machine == provider.machine()
        };
        let provider = self.inner.providers.get(&place).filter(here).ok_or_else(|| {
            KeeperError::NoProvider {
                provider: home.provider.to_string(),
                endpoint: home.endpoint.clone(),
            }
        })?;
        let keys = self.inner.credentials.for_home(home).await;
        let candidates: Vec<Option<Credential>> = if keys.is_empty() {
            vec![None]
        } else {
            keys.into_iter()
                // A key goes only where it was given for.
                .filter(|key| key.endpoint == home.endpoint)
                .map(Some)
                .collect()
        };
        let mut saw_other_account = false;
        for credential in candidates {
            let access = Access { provider: Arc::clone(provider), credential };
            match self.account_of(&access, home).await {
                Ok(account) if account == home.account => return Ok(access),
                Ok(_) if self.inner.seeded.has(SeededBug::AccountNotProved) => return Ok(access),
                Ok(_) => saw_other_account = true,
                Err(ProviderError::Unauthorized) => {}
                Err(source) => {
                    let (endpoint, code) = (&home.endpoint, source.code());
                    tracing::debug!(%endpoint, code, %source, "account not told");
                }
            }
        }
        let endpoint = home.endpoint.clone();
        if saw_other_account {
            Err(KeeperError::WrongAccount { endpoint })
        } else {
            Err(KeeperError::NoCredential { endpoint })
        }
    }

    /// Where an id may be given to another sandbox: is the one under it still ours? To be asked
    /// before anything is done inside.
    ///
    /// # Errors
    /// `NotFound` if it is not, or not there; else why it could not be told. Nothing happened.
    pub(crate) async fn check_birth(
        &self,
        access: &Access,
        pin: &Pin,
    ) -> Result<(), ProviderError> {
        if !access.provider.facts().recycles_ids || self.inner.seeded.has(SeededBug::BirthNotRead) {
            return Ok(());
        }
        let call = access.call(self, self.inner.settings.proof);
        match self.limited(&call, access.provider.status(&pin.sandbox, &call)).await? {
            Status::Present { birth, .. } if birth == pin.birth => Ok(()),
            _ => Err(ProviderError::NotFound),
        }
    }

    async fn account_of(&self, access: &Access, home: &Home) -> Result<AccountId, ProviderError> {
        let fingerprint = access.credential.as_ref().map(|key| key.fingerprint.clone());
        let slot = (home.endpoint.clone(), fingerprint);
        if let Some(account) = lock(&self.inner.accounts).get(&slot) {
            return Ok(account.clone());
        }
        let call = access.call(self, self.inner.settings.proof);
        let account = self.limited(&call, access.provider.account(&call)).await?;
        lock(&self.inner.accounts).insert(slot, account.clone());
        Ok(account)
    }
}
