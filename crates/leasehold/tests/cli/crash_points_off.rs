//! Crash points are compiled in only on demand.

#[cfg(not(feature = "crash-points"))]
#[test]
#[ignore = "run them with: cargo test -p leasehold --features crash-points --test crash_points"]
fn the_tests_of_crash_points_are_off() {}
