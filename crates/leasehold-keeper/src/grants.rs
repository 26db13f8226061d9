//! Requests that need no provider: acknowledging, renewing, promoting, forgetting.

use std::sync::Arc;

use leasehold_core::{Caller, Input, Lease, LeaseId, Receipt, Timestamp};

use crate::{Keeper, KeeperError};

impl Keeper {
    /// The caller shows that it knows its grant.
    ///
    /// # Errors
    /// A refusal; nothing was changed then.
    pub async fn acknowledge(
        &self,
        lease: &LeaseId,
        caller: &Caller,
    ) -> Result<Arc<Lease>, KeeperError> {
        Ok(self.decide(lease, &Input::Acknowledge, caller).await?.lease)
    }

    /// Moves the lease's end.
    ///
    /// # Errors
    /// A refusal: at or after its expiry a lease is not renewed, nor beyond its longest life. Or
    /// `TimerNotSet`: the sandbox would have ended before the end that was asked for.
    pub async fn renew(
        &self,
        lease: &LeaseId,
        life_until: Timestamp,
        caller: &Caller,
    ) -> Result<Arc<Lease>, KeeperError> {
        self.decide_longer_life(lease, &Input::Renew { life_until }, caller).await
    }

    /// Makes a parked lease a template: it has no deadline, and is only forked, listed and deleted.
    ///
    /// # Errors
    /// A refusal, or `TimerNotSet`; nothing was changed then.
    pub async fn promote(
        &self,
        lease: &LeaseId,
        caller: &Caller,
    ) -> Result<Arc<Lease>, KeeperError> {
        self.decide_longer_life(lease, &Input::Promote, caller).await
    }

    /// Gives a lease up without proof, on the record. Only an operator may.
    ///
    /// # Errors
    /// A refusal; nothing was changed then.
    pub async fn forget(
        &self,
        lease: &LeaseId,
        why: &str,
        caller: &Caller,
    ) -> Result<Receipt, KeeperError> {
        let input = Input::Forget { why: why.to_owned() };
        let decided = self.decide_end(lease, &input, caller).await?;
        let receipt = decided.lease.receipt.clone();
        receipt.ok_or_else(|| KeeperError::NoSuchLease { lease: lease.clone() })
    }
}
