//! What a long-lived node does beside its callers' requests, and how it stops.

use std::time::Duration;

use leasehold_core::Caller;
use leasehold_core::{Input, LeaseId, State, Timestamp};
use leasehold_ports::Clock;
use tokio_util::sync::CancellationToken;

use crate::{Keeper, KeeperError, RecoveryScope, lock};

/// How far wall clock and monotonic clock may part before it counts as a jump.
const JUMP: Duration = Duration::from_secs(30);

/// The longest sleep between two looks for due work: another node may have made some.
const LONGEST_SLEEP: Duration = Duration::from_secs(15);

/// Notices that the clock jumped, or that the machine slept.
pub(crate) struct JumpWatch {
    wall: Timestamp,
    monotonic: Duration,
    grace_until: Option<Duration>,
}

impl JumpWatch {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        Self { wall: clock.now(), monotonic: clock.monotonic(), grace_until: None }
    }
}

impl Keeper {
    /// Does everything that nobody waits for, until `stop`: recovery, deadlines, debts.
    pub async fn work(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.watch_gates().await;
            if let Err(error) = self.recover(RecoveryScope::Everything).await {
                tracing::error!(code = error.code(), "{error}");
            }
            let wait = match self.inner.ledger.next_due().await {
                Ok(Some(due)) => due.since(self.now()),
                Ok(None) | Err(_) => LONGEST_SLEEP,
            };
            let busy = !self.inner.commands.leases().is_empty();
            let longest = if busy { self.inner.settings.gate_poll } else { LONGEST_SLEEP };
            // Overdue work that another node has claimed is looked at again, but not all the time.
            let wait = wait.clamp(Duration::from_millis(100), longest);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.inner.clock.sleep(wait) => {}
            }
        }
    }

    /// Ends this node's commands on leases whose gate was closed by another node, also those whose
    /// caller has gone away.
    async fn watch_gates(&self) {
        for lease in self.inner.commands.leases() {
            match self.read(&lease).await {
                Ok(row) if matches!(row.state, State::Destroying | State::Closed) => {
                    // The removal is their end.
                    self.inner.commands.close_gate(&lease);
                    self.inner.commands.forget(&lease);
                }
                Ok(row) if row.state != State::Active => self.end_commands_here(&lease).await,
                _ => {}
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
        let clock = &self.inner.clock;
        let (wall, monotonic) = (clock.now(), clock.monotonic());
        let mut watch = lock(&self.inner.jumps);
        let passed = monotonic.saturating_sub(watch.monotonic);
        let told = wall.since(watch.wall);
        let backwards = watch.wall.since(wall);
        if told.abs_diff(passed) > JUMP || backwards > JUMP {
            watch.grace_until = Some(monotonic + self.inner.settings.jump_grace);
        }
        watch.wall = wall;
        watch.monotonic = monotonic;
        watch.grace_until.is_some_and(|until| monotonic < until)
    }
}
