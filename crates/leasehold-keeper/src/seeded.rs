//! Mistakes that can be put in, to show that the simulation finds them.

use leasehold_core::Guards;

/// A mistake. Without the feature `seeded-bugs` the type has no values that do anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeededBug {
    /// A guard of the lifecycle is missing.
    Guard(&'static str),
    /// A key's account is not proved before its answers are believed.
    AccountNotProved,
    /// A command starts before the lease is recorded as dirty.
    StartBeforeDirty,
    /// The gate is not looked at between the record and the start.
    GateNotRead,
    /// A release does not wait for other nodes' commands.
    NoDrain,
    /// A resume does not compare the marker.
    MarkerNotRead,
    /// The birth fingerprint is not compared before a removal.
    BirthNotRead,
    /// A listing that lacks a sandbox counts as its absence.
    ListBelieved,
    /// A renewal promises more life than the sandbox's own timer allows.
    RenewalWithoutTimer,
}

pub(crate) struct SeededBugs {
    #[cfg(feature = "seeded-bugs")]
    bugs: Vec<SeededBug>,
}

impl SeededBugs {
    #[cfg_attr(not(feature = "seeded-bugs"), expect(unused_variables, reason = "nothing is kept"))]
    pub(crate) fn new(bugs: &[SeededBug]) -> Self {
        Self {
            #[cfg(feature = "seeded-bugs")]
            bugs: bugs.to_vec(),
        }
    }

    /// Whether the mistake was put in. A constant `false` in what ships.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn has(&self, bug: SeededBug) -> bool {
        self.bugs.contains(&bug)
    }

    /// Whether the mistake was put in. A constant `false` in what ships.
    #[cfg(not(feature = "seeded-bugs"))]
    #[expect(clippy::unused_self, reason = "the same call as with the feature")]
    pub(crate) const fn has(&self, _bug: SeededBug) -> bool {
        false
    }

    /// The guards that stand: all of them in what ships.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn guards(&self) -> Guards {
        for bug in &self.bugs {
            if let SeededBug::Guard(missing) = bug
                && let Some((_, guard)) = Guards::EACH.iter().find(|(name, _)| name == missing)
            {
                return Guards::all_but(*guard);
            }
        }
        Guards::ALL
    }

    /// The guards that stand: all of them in what ships.
    #[cfg(not(feature = "seeded-bugs"))]
    #[expect(clippy::unused_self, reason = "the same call as with the feature")]
    pub(crate) const fn guards(&self) -> Guards {
        Guards::ALL
    }
}
