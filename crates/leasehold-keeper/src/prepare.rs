//! Preparation: workspace, marker and fence.

use std::sync::Arc;

use leasehold_core::{Caller, Input, Lease, PrepareOutcome, State, Step};
use leasehold_ports::Preparation;

use crate::crash::Edge;
use crate::{Keeper, KeeperError};

impl Keeper {
    /// Prepares the sandbox of a row that this node has claimed. A failure leads to its removal.
    ///
    /// Where the step was taken over, whoever did it before may have got further than this ledger
    /// knows (it may be an older copy): what runs already is ended first.
    ///
    /// # Errors
    /// The failure of the preparation; the removal has been tried then, and goes on by itself.
    pub(crate) async fn prepare(
        &self,
        lease: Arc<Lease>,
        delivered: bool,
        taken_over: bool,
    ) -> Result<Arc<Lease>, KeeperError> {
        let Some(pin) = lease.pin.clone() else { return Ok(lease) };
        let prepared = match self.access(&lease.home).await {
            Err(error) => Err(error),
            Ok(access) => {
                let call = access.call(self, lease.clocks.provisioning);
                let work = async {
                    let mut over = lease.grant;
                    if taken_over {
                        over = self.over(&access, &lease, &pin.sandbox, &call).await?;
                        access.provider.clean(&pin.sandbox, over, &call).await?;
                    }
                    let grant = over.next();
                    let preparation = Preparation {
                        marker: lease.marker.clone(),
                        fence: self.inner.secret.fence(&lease, grant),
                    };
                    self.set_timer(&access, &lease, &pin, &call).await?;
                    access.provider.prepare(&pin.sandbox, &preparation, &call).await?;
                    Ok(grant)
                };
                self.step(&lease.id, Step::Prepare, self.limited(&call, work)).await.map_err(
                    |source| KeeperError::Step {
                        lease: lease.id.clone(),
                        step: Step::Prepare,
                        source,
                    },
                )
            }
        };
        let outcome = match prepared {
            Ok(grant) => PrepareOutcome::Ready { grant, delivered },
            Err(_) => PrepareOutcome::Failed,
        };
        let input = Input::PrepareEnded { epoch: lease.epoch, outcome };
        let decided = self.decide(&lease.id, &input, &Caller::Keeper).await;
        self.point(&lease.id, Step::Prepare, Edge::Recorded).await;
        match (prepared, decided) {
            (Ok(_), decided) => Ok(decided?.lease),
            (Err(first), Ok(decided)) => {
                if decided.lease.state == State::Destroying {
                    // The first error is the one to report; the removal is on record and goes on.
                    let _ = self.remove(decided.lease).await;
                }
                Err(first)
            }
            (Err(first), Err(_)) => Err(first),
        }
    }
}
