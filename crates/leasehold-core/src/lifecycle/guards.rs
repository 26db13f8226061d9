//! The guards of the lifecycle, each of which can be taken away.
//!
//! What ships uses [`Guards::ALL`], a constant. The exhaustive search and the simulation take one
//! away at a time and must then find a counterexample: a guard whose absence nobody notices is
//! either dead or untested.

/// A set of guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards(u16);

impl Guards {
    /// Every guard: what ships.
    pub const ALL: Guards = Guards(u16::MAX);
    /// Only the owner's calls are obeyed.
    pub const OWNER: Guards = Guards(1);
    /// A caller whose grant is not current may not use the lease.
    pub const GRANT: Guards = Guards(1 << 1);
    /// An outcome counts only for the decision that asked for it.
    pub const EPOCH: Guards = Guards(1 << 2);
    /// A sandbox is parked only when nothing of the last grant can run or start.
    pub const CLEAN: Guards = Guards(1 << 3);
    /// A removal that was decided is never undone.
    pub const ABSORBING: Guards = Guards(1 << 4);
    /// Absence is believed only after two looks.
    pub const TWO_LOOKS: Guards = Guards(1 << 5);
    /// The absence of a name means nothing before the attempt's horizon.
    pub const HORIZON: Guards = Guards(1 << 6);
    /// A late create is recorded as a debt.
    pub const LATE_CREATE: Guards = Guards(1 << 7);
    /// Nothing expires before its deadline.
    pub const DEADLINE: Guards = Guards(1 << 8);
    /// One node at a time does a lease's steps.
    pub const CLAIM: Guards = Guards(1 << 9);

    /// The guards that can be taken away, with their names.
    pub const EACH: [(&'static str, Guards); 10] = [
        ("owner", Guards::OWNER),
        ("grant", Guards::GRANT),
        ("epoch", Guards::EPOCH),
        ("clean", Guards::CLEAN),
        ("absorbing", Guards::ABSORBING),
        ("two looks", Guards::TWO_LOOKS),
        ("horizon", Guards::HORIZON),
        ("late create", Guards::LATE_CREATE),
        ("deadline", Guards::DEADLINE),
        ("claim", Guards::CLAIM),
    ];

    /// All but one.
    #[must_use]
    pub const fn all_but(guard: Guards) -> Guards {
        Guards(!guard.0)
    }

    /// Whether `guard` stands.
    #[must_use]
    pub const fn stand(self, guard: Guards) -> bool {
        self.0 & guard.0 == guard.0
    }
}
