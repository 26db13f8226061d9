//! The sandbox's own timer: it ends what no keeper is left to end.
//!
//! It is set before anything is promised, to the end of the lease's life and a margin, so that a keeper
//! that lives is always first. It only moves later (the provider sees to that), so a renewal whose write
//! fails, or an old request that arrives late, ends no lease early. The price: a lease whose life was
//! shortened, and that no keeper ends, lives as long as it was promised before.

use std::sync::Arc;

use leasehold_core::{Caller, Decision, Input, Kind, Lease, LeaseId, Pin, decide_with};
use leasehold_ports::{Call, ProviderError};

use crate::access::Access;
use crate::decide::TRIES;
use crate::{Keeper, KeeperError, SeededBug};

impl Keeper {
    /// Lets the sandbox of `lease` live for as long as its row says, where the provider has timers.
    pub(crate) async fn set_timer(
        &self,
        access: &Access,
        lease: &Lease,
        pin: &Pin,
        call: &Call,
    ) -> Result<(), ProviderError> {
        if !access.provider.capabilities().timer {
            return Ok(());
        }
        let left = match lease.kind {
            Kind::Template => None,
            Kind::Lease | Kind::Debt => {
                let now = self.now();
                // For a while after the clock jumped the ledger's time may be far ahead, and nothing
                // expires by it. Then the whole life is counted from now: too long rather than too short.
                let from = if self.is_in_jump_grace() { lease.created_at } else { now };
                Some(lease.life_until.since(from) + self.inner.settings.timer_margin)
            }
        };
        access.provider.extend_timer(&pin.sandbox, left, call).await
    }

    /// [`Keeper::decide`] for what lets a lease live longer: the timer first, then the promise. The row
    /// that is written is the one that the timer was set for.
    ///
    /// # Errors
    /// A refusal; or `TimerNotSet`. Nothing was promised then.
    pub(crate) async fn decide_longer_life(
        &self,
        id: &LeaseId,
        input: &Input,
        caller: &Caller,
    ) -> Result<Arc<Lease>, KeeperError> {
        for _ in 0..TRIES {
            let row = self.read(id).await?;
            let guards = self.inner.seeded.guards();
            // Refusals first: a stranger moves nobody's timer.
            if let Ok(Decision::Write(change)) =
                decide_with(guards, &row, input, self.context(caller))
                && let Some(pin) = &change.lease.pin
                && !self.inner.seeded.has(SeededBug::RenewalWithoutTimer)
            {
                let access = self.access(&row.home).await?;
                let call = access.call(self, self.inner.settings.proof);
                let set = self.set_timer(&access, &change.lease, pin, &call);
                self.limited(&call, set)
                    .await
                    .map_err(|source| KeeperError::TimerNotSet { lease: id.clone(), source })?;
            }
            if let Some(decided) = self.decide_once(row, input, caller).await? {
                return Ok(decided.lease);
            }
        }
        Err(leasehold_ports::LedgerError::Conflict { lease: id.clone() }.into())
    }
}
