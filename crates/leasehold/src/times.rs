//! Times and durations as people read and write them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use leasehold_core::Timestamp;

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

/// A duration in its two largest units: `1h30m`, `2d`, `40s`.
pub(crate) fn short(duration: Duration) -> String {
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

/// A point in time as RFC 3339 in UTC, to the millisecond; `never` for what has no end.
pub(crate) fn absolute(time: Timestamp) -> String {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(time) => format!("{time:.3}"),
        // Beyond the year 9999: only what never ends.
        Err(_) => "never".to_owned(),
    }
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
    fn durations_are_shown_in_their_two_largest_units() {
        let shown = |seconds| short(Duration::from_secs(seconds));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(3_600), "1h");
        assert_eq!(shown(5_425), "1h30m");
        assert_eq!(shown(86_400 + 60), "1d");
        assert_eq!(short(Duration::from_millis(250)), "250ms");
    }

    #[test]
    fn times_are_shown_in_utc_and_from_where_the_reader_stands() {
        let noon = Timestamp::from_millis(1_764_590_400_000);
        assert_eq!(absolute(noon), "2025-12-01T12:00:00.000Z");
        assert_eq!(absolute(Timestamp::NEVER), "never");
        let later = noon + Duration::from_secs(60);
        assert_eq!(relative(later, noon), "in 1m");
        assert_eq!(relative(noon, later), "1m ago");
    }
}
