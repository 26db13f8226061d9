//! What to leave out.

use crate::error::ArchiveError;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Patterns of what to leave out, in the language of gitignore.
///
/// - Without a slash (but at the end) a pattern fits a name at any depth: `*.o`, `node_modules`.
/// - With a slash it fits a path from the root: `/target`, `docs/*.html`.
/// - A slash at the end makes it fit directories only.
/// - `*`, `?` and `[a-z]` do not fit a slash; `**` does.
/// - `!` takes a name back in; the last pattern that fits counts. As in git, what is inside a
///   directory that is left out cannot be taken back in.
/// - Empty lines and lines that begin with `#` mean nothing.
///
/// A directory that is left out is left out with everything in it. When unpacking, what stands already
/// at such a name in the target stays as it is.
#[derive(Debug, Clone)]
pub struct Exclude {
    patterns: Gitignore,
}

impl Default for Exclude {
    fn default() -> Self {
        Self { patterns: Gitignore::empty() }
    }
}

impl Exclude {
    /// From patterns, one each.
    ///
    /// # Errors
    /// [`ArchiveError::Pattern`] names the first one that is not valid.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, ArchiveError> {
        let mut builder = GitignoreBuilder::new("");
        for pattern in patterns {
            let pattern = pattern.as_ref();
            builder.add_line(None, pattern).map_err(|error| ArchiveError::Pattern {
                pattern: pattern.to_owned(),
                reason: error.to_string(),
            })?;
        }
        let patterns = builder.build().map_err(|error| ArchiveError::Pattern {
            pattern: String::new(),
            reason: error.to_string(),
        })?;
        Ok(Self { patterns })
    }

    /// Whether a path is left out, its parents being in.
    pub(crate) fn leaves_out(&self, path: &[u8], is_directory: bool) -> bool {
        !self.patterns.is_empty()
            && self.patterns.matched(Path::new(OsStr::from_bytes(path)), is_directory).is_ignore()
    }

    /// Whether a path or one of its parents is left out. Asked from the root downwards, since what is
    /// inside a directory that is left out cannot be taken back in.
    pub(crate) fn leaves_out_with_parents(&self, path: &[u8], is_directory: bool) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        let parents = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/');
        parents.map(|(end, _)| end).any(|end| self.leaves_out(&path[..end], true))
            || self.leaves_out(path, is_directory)
    }
}
