//! What a long-lived node does beside its callers' requests, and how it stops.

use std::time::Duration;

use futures_util::future::join;
use leasehold_core::{Caller, Input, LeaseId, State};
use tokio_util::sync::CancellationToken;

use crate::{Keeper, KeeperError, RecoveryScope};

/// The shortest sleep between two looks for due work.
const SHORTEST_SLEEP: Duration = Duration::from_millis(100);

/// The sleep after a full page of due work: a provider sees a boot after a long stop as a stream of
/// at most a page in a second, not as a flood.
const BETWEEN_PAGES: Duration = Duration::from_secs(1);

/// The longest sleep between two looks for due work: another node may have made some.
const LONGEST_SLEEP: Duration = Duration::from_secs(15);

impl Keeper {
    /// Does everything that nobody waits for, until `stop`: recovery, deadlines, debts, and the ends
    /// of commands whose gate another node has closed.
    pub async fn work(&self, stop: &CancellationToken) {
        let recovering = async {
            while !stop.is_cancelled() {
                let wait = self.recover_and_plan().await;
                self.inner.clock.sleep(wait).await;
            }
        };
        let watching = async {
            while !stop.is_cancelled() {
                self.watch_commands().await;
                self.inner.clock.sleep(self.inner.settings.gate_poll).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = join(recovering, watching) => {}
        }
    }

    /// One page of recovery; how long to wait before the next.
    async fn recover_and_plan(&self) -> Duration {
        match self.recover(RecoveryScope::Everything).await {
            Ok(report) if report.more => return BETWEEN_PAGES,
            // Nothing is done until a person has looked, however much is due.
            Ok(report) if report.restored.is_some() => return LONGEST_SLEEP,
            Ok(_) => {}
            Err(error) => tracing::error!(code = error.code(), "{error}"),
        }
        let wait = match self.inner.ledger.next_due().await {
            Ok(Some(due)) => due.since(self.now()),
            Ok(None) | Err(_) => LONGEST_SLEEP,
        };
        // Overdue work that another node has claimed is looked at again, but not all the time.
        wait.clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
    }

    /// Ends this node's commands on leases whose gate was closed by another node, also those whose
    /// caller has gone away, and keeps the leases of the others from going idle.
    async fn watch_commands(&self) {
        for lease in self.inner.commands.leases() {
            self.inner.commands.reap(&lease);
            match self.read(&lease).await {
                Ok(row) if matches!(row.state, State::Destroying | State::Closed) => {
                    // The removal is their end.
                    self.inner.commands.close_gate(&lease);
                    self.inner.commands.forget(&lease);
                }
                Ok(row) if row.state != State::Active => self.end_commands_here(&lease).await,
                // A lease on which nothing runs any more goes idle, though it is still registered.
                Ok(_) if self.inner.commands.is_idle(&lease) => {}
                Ok(_) => {
                    // Refused when it has expired: recovery carries that out.
                    let _ = self.decide(&lease, &Input::Touch, &Caller::Keeper).await;
                }
                Err(_) => {}
            }
        }
    }

    /// Takes no more work, ends the commands that still run here, and records how each ended. To be
    /// called before the process ends in an orderly way; nothing is destroyed.
    pub async fn drain(&self) {
        self.inner.draining.cancel();
        for lease in self.inner.commands.leases() {
            self.end_commands_here(&lease).await;
        }
    }

    /// Records, for leases on which nothing of this node runs any more, that it is so. A process
    /// that runs single commands calls this at its end, so that its death means nothing.
    pub async fn settle_idle(&self) {
        for lease in self.inner.commands.idle_leases() {
            self.settle_lease(&lease).await;
        }
    }

    /// Takes this node off the ledger's list at an orderly end, if nothing on record names it.
    /// Where something does, the next recovery finds the node dead and ends its rights.
    pub async fn leave(&self) {
        self.inner.draining.cancel();
        self.settle_idle().await;
        let node = &self.inner.node;
        if let Ok(rows) = self.inner.ledger.rows_of_node(node).await
            && rows.is_empty()
            && let Err(error) = self.inner.ledger.remove_node(node).await
        {
            tracing::debug!(%node, "{error}");
        }
    }

    async fn settle_lease(&self, lease: &LeaseId) {
        let definite = self.inner.commands.forget(lease);
        let input = Input::CommandsEnded { definite };
        if let Err(error) = self.decide(lease, &input, &Caller::Keeper).await {
            tracing::warn!(%lease, code = error.code(), "{error}");
        }
    }

    pub(crate) fn refuse_draining(&self) -> Result<(), KeeperError> {
        if self.inner.draining.is_cancelled() { Err(KeeperError::Draining) } else { Ok(()) }
    }

    /// Whether the clock jumped a short while ago: then nothing expires, and no claim of another
    /// node is taken over.
    pub(crate) fn is_in_jump_grace(&self) -> bool {
        self.jumped_within(self.inner.settings.jump_grace)
    }

    /// Whether the clock was seen to jump less than `span` ago.
    pub(crate) fn jumped_within(&self, span: Duration) -> bool {
        let now = self.inner.clock.monotonic();
        self.inner.ledger.last_jump().is_some_and(|at| now < at + span)
    }
}
