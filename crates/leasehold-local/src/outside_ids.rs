//! Who a sandbox's commands are on the host.
//!
//! An ordinary user can give them only its own ids. Root must not do that: code with root's user id, though
//! it has no capability, owns `/proc/sys` and every file of root's that it gets to see. So root gives each
//! sandbox an id of its own, from a range that nothing else uses.

use crate::error::LocalError;
use leasehold_init::protocol::OutsideIds;
use std::ops::RangeInclusive;

/// Far above the ids of users, of containers' usual ranges and of systemd's; below the sign bit, which some
/// programs cannot bear.
const OWN_RANGE: RangeInclusive<u32> = 0x7000_0000..=0x7fff_0000;

/// Chooses the ids for a new sandbox.
pub(crate) fn choose(random: u64) -> Result<OutsideIds, LocalError> {
    let user = rustix::process::geteuid().as_raw();
    if user != 0 {
        return Ok(OutsideIds::Own { user, group: rustix::process::getegid().as_raw() });
    }
    let read = |path: &str| {
        std::fs::read_to_string(path).map_err(|source| LocalError::File {
            action: "read",
            path: path.into(),
            source,
        })
    };
    choose_for_root(random, &read("/proc/self/uid_map")?, &read("/proc/self/gid_map")?).ok_or_else(|| {
        LocalError::Unsuitable(
            "root has no unused user id here to give to a sandbox; run Leasehold as an ordinary user".to_owned(),
        )
    })
}

fn choose_for_root(random: u64, users: &str, groups: &str) -> Option<OutsideIds> {
    let (users, groups) = (Map::parse(users), Map::parse(groups));
    let size = u64::from(OWN_RANGE.end() - OWN_RANGE.start());
    let id = OWN_RANGE.start() + u32::try_from(random % size).ok()?;
    if users.covers(id) && groups.covers(id) {
        return Some(OutsideIds::Separate { id });
    }
    // Root of a container has fewer ids: the last ones of the last range, which users get last.
    let last = users.last()?.min(groups.last()?);
    let id = last.checked_sub(u32::try_from(random % 1024).ok()?).filter(|id| *id > 1024)?;
    (users.covers(id) && groups.covers(id)).then_some(OutsideIds::Separate { id })
}

/// The ids that exist in this user namespace, as ranges of first id and number.
struct Map(Vec<(u32, u32)>);

impl Map {
    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut numbers = line.split_ascii_whitespace().map(str::parse);
            Some((numbers.next()?.ok()?, numbers.nth(1)?.ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    fn covers(&self, id: u32) -> bool {
        self.0.iter().any(|(first, count)| id >= *first && id - first < *count)
    }

    fn last(&self) -> Option<u32> {
        self.0.iter().map(|(first, count)| first.saturating_add(count.saturating_sub(1))).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "         0          0 4294967295\n";

    #[test]
    fn root_of_the_machine_takes_an_id_from_the_unused_range() {
        for random in [0, 1, u64::MAX] {
            let Some(OutsideIds::Separate { id }) = choose_for_root(random, WHOLE, WHOLE) else {
                panic!()
            };
            assert!(OWN_RANGE.contains(&id));
        }
    }

    #[test]
    fn root_of_a_container_takes_one_of_its_last_ids() {
        let map = "0 1000 1\n1 100000 65536\n";
        let ids = choose_for_root(5, map, map);
        assert_eq!(ids, Some(OutsideIds::Separate { id: 65_531 }));
    }

    #[test]
    fn root_with_no_other_id_gets_none() {
        assert_eq!(choose_for_root(0, "0 0 1\n", "0 0 1\n"), None);
    }
}
