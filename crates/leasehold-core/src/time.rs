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

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, to the millisecond; `never` for what has no end.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(time) => write!(formatter, "{time:.3}"),
            // Beyond the year 9999: only what never ends.
            Err(_) => formatter.write_str("never"),
        }
    }
}

/// A duration in its two largest units: `1h30m`, `2d`, `40s`, `250ms`.
#[must_use]
pub fn short_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let text: String = units
        .iter()
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    match (text.is_empty(), duration.subsec_millis()) {
        (false, _) => text,
        (true, 0) => "0s".to_owned(),
        (true, millis) => format!("{millis}ms"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        let noon = Timestamp::from_millis(1_764_590_400_000);
        assert_eq!(noon.to_string(), "2025-12-01T12:00:00.000Z");
        assert_eq!(Timestamp::NEVER.to_string(), "never");
    }

    #[test]
    fn durations_are_shown_in_their_two_largest_units() {
        let shown = |seconds| short_duration(Duration::from_secs(seconds));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(3_600), "1h");
        assert_eq!(shown(5_425), "1h30m");
        assert_eq!(shown(86_400 + 60), "1d");
        assert_eq!(short_duration(Duration::from_millis(250)), "250ms");
    }
}
