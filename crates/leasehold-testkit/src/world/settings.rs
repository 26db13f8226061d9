//! How a simulated provider behaves. What is unknown of real ones is drawn, so that every answer is
//! tried.

use std::time::Duration;

use leasehold_core::{AccountId, Endpoint, Home, ProviderName};
use leasehold_ports::{Capabilities, CleanStrategy, Facts};

use crate::random::RandomStream;

/// The settings of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldSettings {
    /// Where the provider is, and whose sandboxes the test is about.
    pub home: Home,
    /// What the provider tells that it can do.
    pub capabilities: Capabilities,
    /// What the provider tells about its behaviour. It behaves so.
    pub facts: Facts,
    /// Whether a call needs a key.
    pub needs_key: bool,
    /// How long a removed sandbox is still told to be removed, before it is merely not found.
    pub ended_readable: Duration,
    /// How long a removal takes that is not done at once.
    pub slow_destroy: Duration,
    /// Whether every removal takes its time.
    pub always_slow_destroy: bool,
    /// How many sandboxes a page of a listing holds.
    pub page_size: usize,
    /// How long after the end of a sandbox its id may be given to another.
    pub recycles_after: Duration,
    /// The longest that a request or an answer is on its way, faults aside.
    pub longest_latency: Duration,
    /// How long after its caller gave up a call other than a create may still be done.
    pub longest_lateness: Duration,
}

impl WorldSettings {
    /// A well-behaved provider that needs no key.
    ///
    /// # Panics
    /// Never: the names are constants that are valid.
    #[must_use]
    #[expect(clippy::expect_used, reason = "constants that a test checks")]
    pub fn plain() -> Self {
        Self {
            home: Home {
                provider: ProviderName::new("simulated").expect("a valid name"),
                endpoint: Endpoint::new("simulated:one").expect("a valid endpoint"),
                account: AccountId::new("account-a").expect("a valid account"),
                machine: None,
            },
            capabilities: Capabilities {
                unique_names: true,
                list: true,
                suspend: false,
                fork: false,
                timer: false,
                clean: CleanStrategy::WholeTree,
                compares_births: false,
            },
            facts: Facts {
                create_horizon: Duration::from_secs(60),
                read_lag: Duration::ZERO,
                list_lag: Duration::ZERO,
                recycles_ids: false,
                call_limit: Duration::from_secs(30),
            },
            needs_key: false,
            ended_readable: Duration::from_secs(60),
            slow_destroy: Duration::from_secs(20),
            always_slow_destroy: false,
            page_size: 100,
            // Longer than anything is late: no provider can take back a request for an id that
            // it has given to somebody else.
            recycles_after: Duration::from_secs(700),
            longest_latency: Duration::from_millis(200),
            longest_lateness: Duration::from_secs(600),
        }
    }

    /// A provider with either answer to each unknown fact.
    #[must_use]
    pub fn drawn(stream: &mut RandomStream) -> Self {
        let mut settings = Self::plain();
        let seconds = |stream: &mut RandomStream, choices: &[u64]| {
            Duration::from_secs(stream.pick(choices).copied().unwrap_or(0))
        };
        settings.capabilities.unique_names = stream.happens(700);
        if stream.happens(500) {
            settings.capabilities.clean = CleanStrategy::Baseline;
        }
        settings.capabilities.compares_births = stream.happens(500);
        settings.facts = Facts {
            create_horizon: seconds(stream, &[1, 30, 120]),
            read_lag: seconds(stream, &[0, 2, 10]),
            list_lag: seconds(stream, &[0, 2, 30]),
            recycles_ids: stream.happens(500),
            call_limit: seconds(stream, &[5, 30, 60]),
        };
        settings.capabilities.timer = stream.happens(700);
        settings.needs_key = stream.happens(700);
        settings.ended_readable = seconds(stream, &[0, 30, 86_400]);
        settings.slow_destroy = seconds(stream, &[1, 20, 300]);
        settings.always_slow_destroy = stream.happens(300);
        settings.page_size = 1 + stream.index(4);
        settings.longest_latency =
            if stream.happens(800) { Duration::from_millis(50) } else { Duration::from_secs(4) };
        settings
    }
}
