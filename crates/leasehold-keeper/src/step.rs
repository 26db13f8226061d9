//! Running one step at a provider: within a deadline, under a claim that is kept alive.

use std::future::Future;
use std::pin::pin;

use leasehold_core::{Caller, Input, LeaseId, Step, Timestamp};
use leasehold_ports::{Call, ProviderError};

use crate::Keeper;
use crate::crash::Edge;

impl Keeper {
    /// Awaits a provider call, and gives up at its deadline. A call that was given up may still have
    /// its effect; one whose time is over before it begins is not made.
    pub(crate) async fn limited<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let left = call.deadline.since(self.inner.clock.now());
        if left.is_zero() {
            let message = "its time was over before it was sent".to_owned();
            return Err(ProviderError::Unreachable { message, source: None });
        }
        tokio::select! {
            biased;
            result = work => result,
            () = self.inner.clock.sleep(left) => Err(ProviderError::NoAnswer {
                message: format!("none within {} ms", left.as_millis()),
                source: None,
            }),
        }
    }

    /// Does a step while renewing this node's claim on the lease. If the claim is lost meanwhile the
    /// step still runs to its deadline; its outcome is then refused as late.
    pub(crate) async fn step<T>(
        &self,
        lease: &LeaseId,
        step: Step,
        work: impl Future<Output = T>,
    ) -> T {
        self.point(lease, step, Edge::Planned).await;
        let renewal = RenewedClaim { keeper: self, lease };
        let mut work = pin!(work);
        let mut renewing = pin!(renewal.keep());
        let result = tokio::select! {
            biased;
            result = &mut work => result,
            () = &mut renewing => work.await,
        };
        self.point(lease, step, Edge::Done).await;
        result
    }

    /// When to try again after `tries` failures: doubling from one second, jittered by half, up to
    /// the longest.
    pub(crate) fn retry_at(&self, tries: u32) -> Timestamp {
        let longest =
            self.inner.settings.longest_retry.as_millis().min(u128::from(u32::MAX)) as u64;
        let base = 1_000u64.saturating_mul(1 << tries.min(20)).min(longest);
        let jittered = base / 2 + self.inner.random.below(base / 2 + 1);
        self.now() + std::time::Duration::from_millis(jittered)
    }
}

struct RenewedClaim<'a> {
    keeper: &'a Keeper,
    lease: &'a LeaseId,
}

impl RenewedClaim<'_> {
    /// Ends when the claim can no longer be renewed.
    async fn keep(&self) {
        loop {
            let third = self.keeper.inner.settings.claim / 3;
            self.keeper.inner.clock.sleep(third).await;
            let renewed = self.keeper.decide(self.lease, &Input::RenewClaim, &Caller::Keeper).await;
            if renewed.is_err() {
                return;
            }
        }
    }
}
