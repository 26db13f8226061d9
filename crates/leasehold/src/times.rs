//! Times and durations as people read and write them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use leasehold_core::Timestamp;
pub(crate) use leasehold_core::short_duration as short;

/// Reads a duration with units: `90s`, `1h30m`, `2d`. A day has 24 hours; a number without a unit is
/// refused, since nobody could tell which one was meant.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let problem = || format!("{text:?} is not a duration: write it like 90s, 15m, 1h30m or 2d");
    if text.chars().all(|character| character.is_ascii_digit()) {
        return Err(problem());
    }
    let span: Span = text.parse().map_err(|_| problem())?;
    let exact = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| format!("{text:?} has units longer than a week"))?;
    Duration::try_from(exact).map_err(|_| problem())
}

/// A point in time from where the reader stands: `in 54m`, `3m ago`.
pub(crate) fn relative(time: Timestamp, now: Timestamp) -> String {
    if time == Timestamp::NEVER {
        return "never".to_owned();
    }
    if time >= now {
        format!("in {}", short(time.since(now)))
    } else {
        format!("{} ago", short(now.since(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("1h30m", 5_400), ("2d", 172_800), ("1 hour", 3_600)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_refused() {
        for text in ["90", "", "-5m", "soon", "1mo", "1y"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_from_where_the_reader_stands() {
        let noon = Timestamp::from_millis(1_764_590_400_000);
        assert_eq!(relative(Timestamp::NEVER, noon), "never");
        let later = noon + Duration::from_secs(60);
        assert_eq!(relative(later, noon), "in 1m");
        assert_eq!(relative(noon, later), "1m ago");
    }
}
