//! Mounts, from this mount namespace.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

pub(super) fn look(below: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(mount_points(&table).filter(|point| point.starts_with(below)).collect())
}

/// The fifth field of each line.
pub(super) fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> + '_ {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
}

/// The kernel writes white space and backslashes as a backslash and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\').and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}
