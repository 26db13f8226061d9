//! Crash points, and whatever else is for tests only, are compiled in only on demand.

#![cfg(not(feature = "crash-points"))]

use crate::support::PROGRAM;

#[test]
#[ignore = "run them with: cargo test -p leasehold --features crash-points --test crash_points"]
fn the_tests_of_crash_points_are_off() {}

/// The same is asked of a release by `grep -c` in CI: there the optimiser might do other things.
#[test]
fn without_the_feature_the_program_knows_no_crash_points() {
    let program = std::fs::read(PROGRAM).unwrap();
    for variable in ["LEASEHOLD_CRASH_POINT", "LEASEHOLD_CLOCK_AHEAD_SECONDS"] {
        let found = program.windows(variable.len()).any(|window| window == variable.as_bytes());
        assert!(!found, "{variable}");
    }
}
