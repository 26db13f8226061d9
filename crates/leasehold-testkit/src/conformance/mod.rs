//! What every provider must do, whatever it is made of.
//!
//! A provider passes when each of [`CASES`] does. A case makes its own sandboxes and removes them;
//! it speaks only through the port, with programs that every sandbox has (`true`, `false`, `echo`,
//! `cat`, `sleep`, `sh`). Time comes from the [`Bench`], so the same cases run in virtual time and
//! in real time.

mod account;
mod bench;
mod commands;
mod fences;
mod life;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use bench::{Bench, Failure, TestSandbox};

type CaseFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// A case: its name, and how it is run.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it shows, as a sentence with underscores.
    pub name: &'static str,
    run: for<'a> fn(&'a dyn Bench) -> CaseFuture<'a>,
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Case {
    /// Runs it.
    ///
    /// # Errors
    /// What the provider did that it may not.
    pub async fn run(&self, bench: &dyn Bench) -> Result<(), Failure> {
        (self.run)(bench).await
    }
}

macro_rules! cases {
    ($($module:ident::$name:ident),+ $(,)?) => {
        &[$(Case {
            name: stringify!($name),
            run: |bench| Box::pin($module::$name(bench)),
        }),+]
    };
}

/// Every case.
pub const CASES: &[Case] = cases![
    account::the_account_is_told,
    life::a_created_sandbox_is_present,
    life::a_name_makes_one_sandbox,
    life::a_sandbox_is_found_by_its_name,
    life::a_listing_holds_it_until_its_end,
    life::two_sandboxes_are_told_apart,
    life::what_never_was_is_absent,
    life::a_removal_is_proved_and_may_be_repeated,
    life::a_removal_of_what_never_was_changes_nothing,
    life::a_removal_of_another_birth_changes_nothing,
    life::nothing_is_done_in_what_never_was,
    life::a_removal_ends_the_commands,
    life::nothing_starts_after_a_removal,
    fences::marker_and_fence_are_read_back,
    fences::a_preparation_may_be_repeated,
    fences::a_fence_is_never_lowered,
    fences::a_stale_command_does_not_start,
    commands::exit_codes_are_told,
    commands::a_signal_as_the_end_is_told,
    commands::output_comes_on_both_streams,
    commands::input_is_read_to_its_end,
    commands::without_input_its_end_is_read_at_once,
    commands::variables_reach_the_command,
    commands::a_program_that_is_missing_does_not_start,
    commands::a_directory_that_is_missing_is_told,
    commands::one_id_is_one_command,
    commands::a_signal_reaches_the_command,
    commands::what_ignores_signals_is_terminated,
    commands::a_clean_ends_everything,
    commands::a_clean_that_comes_late_ends_nothing_of_a_later_grant,
    commands::a_clean_leaves_other_sandboxes_alone,
];

/// Runs every case and tells each failure.
pub async fn run_all(bench: &dyn Bench) -> Vec<(&'static str, Failure)> {
    let mut failures = Vec::new();
    for case in CASES {
        if let Err(failure) = case.run(bench).await {
            failures.push((case.name, failure));
        }
    }
    failures
}
