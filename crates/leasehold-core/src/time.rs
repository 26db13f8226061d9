//! Points in time, as the ledger tells them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, as the ledger tells time (never backwards).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The deadline of what has none (a template): every row has a deadline, so that no query can
    /// overlook one that is missing.
    pub const NEVER: Timestamp = Timestamp(i64::MAX as u64);

    /// From milliseconds since the Unix epoch; what lies beyond [`Timestamp::NEVER`] becomes it.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::NEVER.0 { Self::NEVER } else { Self(millis) }
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;

    /// Saturates at [`Timestamp::NEVER`].
    fn add(self, duration: Duration) -> Timestamp {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(self.0.saturating_add(millis))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return formatter.write_str("never");
        }
        write!(formatter, "{}ms", self.0)
    }
}
