//! What SQLite and the file system say, as errors of the ledger.

use std::io;
use std::path::Path;

use leasehold_ports::LedgerError;
use rusqlite::ErrorCode;

/// A failure of SQLite. What was being written is not written.
pub(super) fn storage(error: rusqlite::Error) -> LedgerError {
    let problem = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "its disk is full; make room, and it works again",
        Some(ErrorCode::ReadOnly) => "its file or directory is read-only",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process kept it locked for too long"
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "its file is damaged; run `leasehold ledger check`, or restore a backup"
        }
        Some(ErrorCode::NotADatabase) => "its file is not a ledger",
        Some(ErrorCode::CannotOpen) => "its file cannot be opened",
        Some(ErrorCode::SystemIoFailure) => "its disk fails",
        _ => "SQLite refused",
    };
    LedgerError::Unavailable { problem: problem.to_owned(), source: Some(Box::new(error)) }
}

/// A failure of the file system beside the database.
pub(super) fn file(path: &Path, doing: &str, error: io::Error) -> LedgerError {
    LedgerError::Unavailable {
        problem: format!("{doing} {} failed", path.display()),
        source: Some(Box::new(error)),
    }
}

/// A place that can keep no ledger.
pub(super) fn unsuitable(path: &Path, problem: impl Into<String>) -> LedgerError {
    LedgerError::Unsuitable { path: path.display().to_string(), problem: problem.into() }
}

/// A thread of the ledger that is no more.
pub(super) fn stopped() -> LedgerError {
    LedgerError::Unavailable { problem: "it was closed".to_owned(), source: None }
}

/// Whether the write was not refused but could not be done.
pub(super) fn is_storage(error: &LedgerError) -> bool {
    matches!(error, LedgerError::Unavailable { .. })
}
