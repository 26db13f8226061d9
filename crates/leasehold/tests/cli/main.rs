//! What the program promises on its command line, on the real ledger and real sandboxes.
//!
//! Each test has a state directory of its own; none waits by sleeping.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

#[path = "../support/mod.rs"]
mod support;

mod catalogue;
mod check;
mod configuration;
mod crash_points_off;
mod help;
mod interruption;
mod isolation;
mod leases;
mod listing;
mod metrics;
mod ownership;
mod running;
mod secrets;
mod templates;
mod transfers;
mod trouble;
mod waiting;
