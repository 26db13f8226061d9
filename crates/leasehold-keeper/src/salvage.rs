//! Ending a lease whose row cannot be read: nobody else can, and every lease ends.

use std::sync::Arc;

use leasehold_core::catalogue::codes;
use leasehold_core::{Caller, Decision, EventKind, Input, Lease, LeaseId, Timestamp, decide_with};
use leasehold_ports::{LedgerError, Write};

use crate::decide::Decided;
use crate::{Keeper, KeeperError};

impl Keeper {
    /// [`Keeper::decide`] about an end. At an operator's word it ends a row that cannot be read too:
    /// the row is written anew first, from what the ledger's searches go by.
    pub(crate) async fn decide_end(
        &self,
        lease: &LeaseId,
        input: &Input,
        caller: &Caller,
    ) -> Result<Decided, KeeperError> {
        match (self.decide(lease, input, caller).await, caller) {
            (
                Err(KeeperError::Ledger(LedgerError::Damaged { problem, .. })),
                Caller::Operator(_),
            ) => {
                self.salvage(lease, problem, input, caller).await?;
                self.decide(lease, input, caller).await
            }
            (decided, _) => decided,
        }
    }

    /// Writes the row anew as the decision leaves it, in one write: between two, what an operator gives
    /// up could be removed.
    async fn salvage(
        &self,
        lease: &LeaseId,
        problem: String,
        input: &Input,
        caller: &Caller,
    ) -> Result<(), KeeperError> {
        let Some(salvage) = self.inner.ledger.salvage(lease).await? else {
            // Somebody has mended it meanwhile.
            return Ok(());
        };
        let now = self.now();
        let place = (salvage.home.provider.clone(), salvage.home.endpoint.clone());
        // It was sent at some time before now.
        let horizon = match self.inner.providers.get(&place) {
            Some(provider) => now + provider.facts().call_limit + provider.facts().create_horizon,
            None => Timestamp::NEVER,
        };
        let code = codes::LEDGER_DAMAGED_ROW;
        tracing::warn!(%lease, code, problem, "a damaged row is written anew, to be removed");
        let anew = Lease::salvaged(salvage, horizon, caller.actor(), now);
        let mut events = vec![EventKind::Salvaged { problem }];
        let decision = decide_with(self.inner.seeded.guards(), &anew, input, self.context(caller))?;
        let anew = match decision {
            Decision::AlreadySo => anew,
            Decision::Write(change) => {
                events.extend(change.events);
                Lease { version: anew.version, ..change.lease }
            }
        };
        let update = Write::Update { lease: Arc::new(anew), events, actor: caller.actor() };
        match self.inner.ledger.commit(vec![update]).await {
            // Another operator was faster.
            Ok(()) | Err(LedgerError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
