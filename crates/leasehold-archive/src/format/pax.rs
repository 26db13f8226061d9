//! Records of pax extended headers: `LENGTH KEY=VALUE\n`, the length counting the whole record.
//!
//! Parsed here, since `tar::PaxExtensions` takes a newline inside a value for the end of the record, so
//! that a name with one in it cannot be read.

use crate::error::Malformed;

/// What an extended header says about the entry after it.
#[derive(Debug, Default)]
pub(crate) struct Extended {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) modified: Option<(i64, u32)>,
    pub(crate) sparse: bool,
    pub(crate) attributes: bool,
}

impl Extended {
    /// Parses all records of a header.
    pub(crate) fn parse(mut data: &[u8]) -> Result<Self, Malformed> {
        let mut found = Self::default();
        while !data.is_empty() {
            let (key, value, rest) = record(data).ok_or(Malformed::PaxRecord)?;
            found.take(key, value)?;
            data = rest;
        }
        Ok(found)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Malformed> {
        match key {
            b"path" => once(&mut self.path, value.to_vec()),
            b"linkpath" => once(&mut self.link, value.to_vec()),
            b"size" => once(&mut self.size, decimal(value).ok_or(Malformed::Number)?),
            b"mtime" => once(&mut self.modified, time(value).ok_or(Malformed::Number)?),
            _ if key.starts_with(b"GNU.sparse.") => {
                self.sparse = true;
                Ok(())
            }
            _ if key.starts_with(b"SCHILY.xattr.")
                || key.starts_with(b"LIBARCHIVE.xattr.")
                || key.starts_with(b"SCHILY.acl.")
                || key.starts_with(b"RHT.security.") =>
            {
                self.attributes = true;
                Ok(())
            }
            // Owners, access times, comments, character sets: nothing that is kept.
            _ => Ok(()),
        }
    }
}

/// POSIX lets a later record win, other readers take the first: whoever needs both is up to something.
fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Malformed> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Malformed::Ambiguous),
    }
}

fn record(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = data.iter().take(20).position(|&byte| byte == b' ')?;
    let length = usize::try_from(decimal(&data[..space])?).ok()?;
    if length > data.len() || length < space + 2 {
        return None;
    }
    let (record, rest) = data.split_at(length);
    let record = record[space + 1..].strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], rest))
}

/// A number without sign or blanks.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Seconds with a fraction, maybe negative. Digits past the nanoseconds are dropped.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b""[..]),
    };
    let seconds = i64::try_from(decimal(whole)?).ok()?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanoseconds = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    match (negative, nanoseconds) {
        (false, _) => Some((seconds, nanoseconds)),
        (true, 0) => Some((-seconds, 0)),
        // Fractions count upwards, as in the kernel's own times.
        (true, _) => Some((-seconds - 1, 1_000_000_000 - nanoseconds)),
    }
}

/// The record for a time, as [`time`] reads it.
pub(crate) fn time_record(seconds: i64, nanoseconds: u32) -> String {
    let (sign, seconds, nanoseconds) = match (seconds, nanoseconds) {
        (0.., _) | (_, 0) => {
            (if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs(), nanoseconds)
        }
        _ => ("-", (seconds + 1).unsigned_abs(), 1_000_000_000 - nanoseconds),
    };
    let body = if nanoseconds == 0 {
        format!(" mtime={sign}{seconds}\n")
    } else {
        format!(" mtime={sign}{seconds}.{nanoseconds:09}\n")
    };
    // The body has 9 to 39 bytes, so that the length has one digit or two, and counts itself.
    let length = if body.len() + 1 < 10 { body.len() + 1 } else { body.len() + 2 };
    format!("{length}{body}")
}

#[cfg(test)]
mod tests {
    use super::{Extended, time_record};
    use crate::error::Malformed;

    #[test]
    fn a_time_survives_its_record() {
        for time in
            [(0, 0), (0, 1), (9, 0), (-1, 0), (-1, 999_999_999), (-2, 1), (1_700_000_000, 5)]
        {
            let found = Extended::parse(time_record(time.0, time.1).as_bytes()).unwrap();
            assert_eq!(found.modified, Some(time));
        }
    }

    #[test]
    fn a_value_may_contain_a_newline() {
        assert_eq!(Extended::parse(b"12 path=a\nb\n").unwrap().path.unwrap(), b"a\nb");
    }

    #[test]
    fn a_record_whose_length_lies_is_refused() {
        for damaged in
            ["11 path=a\nb\n", "99 path=a\n", "0 path=a\n", "-1 path=a\n", "10 path=a\n x", " "]
        {
            let error = Extended::parse(damaged.as_bytes()).unwrap_err();
            assert_eq!(error, Malformed::PaxRecord, "{damaged:?}");
        }
    }

    #[test]
    fn a_property_given_twice_is_refused() {
        let error = Extended::parse(b"10 path=a\n10 path=b\n").unwrap_err();
        assert_eq!(error, Malformed::Ambiguous);
    }
}
