//! Log lines on standard error, for those who ask for them.
//!
//! A refusal or failure is told to the user by its message; without `-v` or `--log-format` there are
//! no log lines beside it. No line holds a key, a variable's value or input.

use std::io;

use tracing::level_filters::LevelFilter;

use crate::arguments::{Common, LogFormat};

/// Starts logging, if it was asked for.
pub(crate) fn start(common: &Common) {
    let level = match (common.verbose, common.log_format) {
        (0, None) => return,
        (0 | 1, _) => LevelFilter::INFO,
        (2, _) => LevelFilter::DEBUG,
        (3.., _) => LevelFilter::TRACE,
    };
    let lines =
        tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(false);
    // One that is set already stays: there is only one logger in a process.
    let _ = match common.log_format.unwrap_or(LogFormat::Text) {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
