//! Sockets that are bound to a path.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bound sockets of this network namespace at or below `below`. One whose file was removed is still
/// bound, and somebody still holds it.
pub(super) fn look(below: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let table = fs::read("/proc/net/unix")?;
    let table = String::from_utf8_lossy(&table);
    Ok(bound_paths(&table).filter(|path| path.starts_with(below)).collect())
}

/// The eighth field, where there is one; a path may hold spaces.
pub(super) fn bound_paths(table: &str) -> impl Iterator<Item = PathBuf> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let mut rest = line;
        for _ in 0..7 {
            let (_, after) = rest.trim_start().split_once(' ')?;
            rest = after;
        }
        let path = rest.trim_start();
        path.starts_with('/').then(|| PathBuf::from(path))
    })
}
