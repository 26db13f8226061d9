//! Names from an archive, made harmless before anything is done with them.

use crate::error::{ArchiveError, Cap, Refusal, over, refused};
use crate::options::Caps;

/// A path from the root: components that are neither empty nor `.` nor `..`, joined by single slashes.
/// Empty: the root itself.
pub(crate) type CleanPath = Vec<u8>;

/// Checks a name of an archive against the rules and the caps.
///
/// Slashes at the end, doubled slashes and components `.` mean nothing. A component `..` is refused even
/// where it would stay inside: what it means depends on links.
pub(crate) fn clean(name: &[u8], caps: &Caps) -> Result<CleanPath, ArchiveError> {
    if name.is_empty() {
        return Err(refused(name, Refusal::EmptyName));
    }
    if name.len() as u64 > caps.path_bytes {
        return Err(over(Cap::PathBytes, caps.path_bytes, name));
    }
    if name.contains(&0) {
        return Err(refused(name, Refusal::ZeroByte));
    }
    if name.starts_with(b"/") {
        return Err(refused(name, Refusal::Absolute));
    }
    let mut path = CleanPath::with_capacity(name.len());
    let mut depth = 0;
    for component in name.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => return Err(refused(name, Refusal::ParentComponent)),
            _ => {}
        }
        depth += 1;
        if depth > caps.depth {
            return Err(over(Cap::Depth, caps.depth, name));
        }
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(component);
    }
    Ok(path)
}

/// The directory of a clean path, and the name in it.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// The components of a clean path.
pub(crate) fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|component| !component.is_empty())
}

/// Whether a symbolic link's text, taken from the directory of the link, stays inside the root.
pub(crate) fn leads_inside(link: &[u8], target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return false;
    }
    let mut depth = components(split(link).0).count();
    for component in components(target) {
        match component {
            b"." => {}
            b".." if depth == 0 => return false,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{clean, leads_inside};
    use crate::options::Caps;

    #[test]
    fn a_name_is_reduced_to_its_components() {
        let caps = Caps::default();
        assert_eq!(clean(b".//a/./b//", &caps).unwrap(), b"a/b");
        assert_eq!(clean(b"./", &caps).unwrap(), b"");
        assert_eq!(clean(b"...", &caps).unwrap(), b"...");
    }

    #[test]
    fn a_link_is_judged_by_where_its_text_leads_from_its_own_directory() {
        assert!(leads_inside(b"a/b", b"../c"));
        assert!(!leads_inside(b"a/b", b"../../c"));
        assert!(!leads_inside(b"a", b"../c"));
        assert!(!leads_inside(b"a", b"b/../../c"));
        assert!(!leads_inside(b"a", b"/etc/passwd"));
    }
}
