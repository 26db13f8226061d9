use std::time::Duration;

use leasehold_core::Clocks;
use leasehold_ports::Limits;

/// Limits and times of a keeper. Each has a default that suits one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The clocks of new leases.
    pub clocks: Clocks,
    /// How many open leases there may be.
    pub limits: Limits,
    /// How long a claim lasts without being renewed. It is renewed three times as often.
    pub claim: Duration,
    /// How long a release waits for commands to end.
    pub drain: Duration,
    /// How long a command may take to end politely before it is killed.
    pub grace: Duration,
    /// How long a caller waits for the proof of a removal before it goes on as a debt.
    pub proof: Duration,
    /// How often a node that runs commands looks whether their gate was closed by another.
    pub gate_poll: Duration,
    /// The least life that a resume must have before it.
    pub least_life: Duration,
    /// How long after the end of a lease's life its sandbox's own timer ends it. Until then a keeper
    /// that lives has ended it, on the record.
    pub timer_margin: Duration,
    /// The longest time between two tries of a cleanup.
    pub longest_retry: Duration,
    /// How many rows one pass of recovery takes at the most.
    pub page: u32,
    /// How long nothing expires, and no claim is taken over, after the clock jumped.
    pub jump_grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clocks: Clocks::default(),
            limits: Limits { per_owner: 100, per_home: 1_000 },
            claim: Duration::from_secs(60),
            drain: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            proof: Duration::from_secs(30),
            gate_poll: Duration::from_secs(1),
            least_life: Duration::from_secs(60),
            timer_margin: Duration::from_secs(10),
            longest_retry: Duration::from_secs(60 * 60),
            page: 100,
            jump_grace: Duration::from_secs(5 * 60),
        }
    }
}
