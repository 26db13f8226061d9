//! The suite that every ledger must pass: what [`leasehold_ports::Ledger`] promises, as tests.
//!
//! A crate that brings a ledger implements [`Subject`] for it and calls
//! [`ledger_suite!`](crate::ledger_suite) with an expression that makes a fresh one; each case
//! becomes a test of its own.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "each case is a test: its name says what must hold, and it fails by panicking"
)]

mod brake;
mod histories;
mod modes;
mod nodes;
mod pages;
pub mod samples;
mod writes;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{NodeId, Timestamp};
use leasehold_ports::{Clock, Ledger};

pub use brake::*;
pub use histories::*;
pub use modes::*;
pub use nodes::*;
pub use pages::*;
pub use writes::*;

/// A clock that stands still until it is moved, in either direction.
#[derive(Debug)]
pub struct TestClock {
    wall: AtomicU64,
    monotonic: AtomicU64,
}

impl TestClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Arc<Self> {
        let (wall, monotonic) = (AtomicU64::new(now.as_millis()), AtomicU64::new(0));
        Arc::new(Self { wall, monotonic })
    }

    /// Makes the wall clock show `now`, without any time passing.
    pub fn set(&self, now: Timestamp) {
        self.wall.store(now.as_millis(), Ordering::SeqCst);
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.monotonic.fetch_add(millis, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic.load(Ordering::SeqCst))
    }

    async fn sleep(&self, _: Duration) {
        // No ledger waits for time to pass.
        ready(()).await;
    }
}

/// One fresh ledger under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// The ledger as one more process sees it, by its own clock.
    fn open(&self, clock: Arc<dyn Clock>) -> Arc<dyn Ledger>;

    /// Puts the ledger into restored mode.
    async fn restore(&self, why: &str);

    /// Ends the process of the node, which has nothing but this ledger open.
    async fn kill(&self, process: Arc<dyn Ledger>, node: &NodeId);
}

/// Makes a test of each case of the suite.
///
/// `$subject` is an expression of a type that is a [`Subject`], evaluated once for each test. The
/// calling crate has tokio with `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! ledger_suite {
    ($subject:expr) => {
        $crate::ledger_suite! { @cases $subject,
            a_row_is_read_as_it_was_written
            of_fifty_writers_of_one_version_one_wins
            a_write_follows_the_stored_version
            a_new_row_has_a_new_id_and_the_first_version
            a_row_that_breaks_a_rule_is_not_written
            owner_home_and_key_of_a_row_never_change
            a_key_is_used_once_for_each_owner_and_home
            a_sandbox_is_pinned_by_one_open_row_at_most
            a_closed_row_is_reopened_only_while_nobody_pins_its_sandbox
            a_debt_is_left_out_if_an_open_row_answers_for_its_sandbox
            g7_a_quarantined_lease_counts_until_its_end_is_proved
            limits_are_of_one_owner_and_of_one_home
            a_commit_of_several_rows_is_all_or_nothing
            a_refused_commit_leaves_no_trace_in_any_index
            an_attempt_is_found_by_its_name_wherever_it_moved
            every_row_of_a_sandbox_is_found_an_open_one_first
            pages_follow_each_other_without_gap_or_repetition
            a_page_holds_what_its_filter_asks_for
            due_work_comes_longest_overdue_first
            what_has_no_deadline_is_never_due
            homes_are_those_of_open_rows
            events_are_kept_in_order_and_read_in_pages
            a_debt_has_a_history_from_its_first_row_on
            a_registered_node_lives_until_its_process_ends
            the_rows_of_a_node_are_those_that_name_it
            a_node_that_rows_name_stays_on_the_list
            five_removals_that_nobody_asked_for_pass_and_the_sixth_does_not
            a_tenth_of_many_leases_passes
            removals_spread_over_time_pass
            the_brake_stays_on_until_it_is_released
            what_owners_and_deadlines_end_is_not_braked
            a_restored_ledger_removes_nothing_on_its_own_word
            a_restored_ledger_serves_owners
            time_never_runs_backwards
            time_never_runs_backwards_between_processes
        }
    };
    (@cases $subject:expr, $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::suite::$case(&$subject).await;
            }
        )*
    };
}
