use leasehold_core::catalogue::codes;
use leasehold_core::{Endpoint, LeaseId, Refusal, Step, Timestamp};
use leasehold_ports::{LedgerError, NotStarted, ProviderError};

/// Why the keeper did not do what it was asked. Each has an entry in the catalogue.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The request may not go ahead. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The ledger did not take or give something.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// There is no such lease.
    #[error("there is no lease {lease}")]
    NoSuchLease {
        /// What was asked for.
        lease: LeaseId,
    },
    /// The request is not one that can be carried out.
    #[error("{problem}")]
    Invalid {
        /// Why.
        problem: String,
    },
    /// No provider of that name and endpoint is set up here.
    #[error("no provider {provider} is set up for {endpoint}")]
    NoProvider {
        /// Its name.
        provider: String,
        /// Its endpoint.
        endpoint: Endpoint,
    },
    /// No key for the home's endpoint is at hand, or none is accepted.
    #[error("waiting for a key for {endpoint}")]
    NoCredential {
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// The keys at hand belong to other accounts. What such an account does not see proves nothing.
    #[error("the keys for {endpoint} belong to another account than the lease's sandbox")]
    WrongAccount {
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// A step at the provider failed. The lease is kept as it was, or is being removed.
    #[error("{step} of lease {lease} failed")]
    Step {
        /// Which lease.
        lease: LeaseId,
        /// Which step.
        step: Step,
        /// Why.
        #[source]
        source: ProviderError,
    },
    /// The sandbox's own timer could not be moved, so no longer life was promised.
    #[error("the timer of the sandbox of lease {lease} could not be moved, so it lives no longer")]
    TimerNotSet {
        /// Which lease.
        lease: LeaseId,
        /// Why.
        #[source]
        source: ProviderError,
    },
    /// The command certainly did not start.
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
    /// Nobody knows whether the command started, or how it ended. It is not repeated.
    #[error("whether the command ran on lease {lease} is unknown: it is not repeated")]
    OutcomeUnknown {
        /// Which lease.
        lease: LeaseId,
        /// Why.
        #[source]
        source: ProviderError,
    },
    /// The create got no answer, and its sandbox was not found in time. It is looked for; asking
    /// again with the same key goes on waiting.
    #[error("the create of lease {lease} got no answer yet: ask again with the same key")]
    Unsettled {
        /// Which lease.
        lease: LeaseId,
    },
    /// The removal is decided but not proved. It goes on; nobody gets the sandbox.
    #[error("the cleanup of lease {lease} is unconfirmed and goes on: {problem}")]
    CleanupUnconfirmed {
        /// Which lease.
        lease: LeaseId,
        /// What stands in the way.
        problem: String,
        /// When it is tried next.
        retry_at: Timestamp,
    },
    /// This node is shutting down.
    #[error("Leasehold is shutting down: ask again when it is back")]
    Draining,
}

impl KeeperError {
    /// The row that it is about, if that is a row that cannot be read.
    pub(crate) fn damaged_row(&self) -> Option<LeaseId> {
        match self {
            KeeperError::Ledger(LedgerError::Damaged { lease, .. }) => {
                LeaseId::new(lease.as_str()).ok()
            }
            _ => None,
        }
    }

    /// The lease that it is about, if it is about one.
    #[must_use]
    pub fn lease(&self) -> Option<&str> {
        match self {
            KeeperError::Refused(refusal) => Some(refusal.lease().as_str()),
            KeeperError::Ledger(error) => error.lease(),
            KeeperError::NoSuchLease { lease }
            | KeeperError::Step { lease, .. }
            | KeeperError::TimerNotSet { lease, .. }
            | KeeperError::OutcomeUnknown { lease, .. }
            | KeeperError::Unsettled { lease }
            | KeeperError::CleanupUnconfirmed { lease, .. } => Some(lease.as_str()),
            KeeperError::Invalid { .. }
            | KeeperError::NoProvider { .. }
            | KeeperError::NoCredential { .. }
            | KeeperError::WrongAccount { .. }
            | KeeperError::NotStarted(_)
            | KeeperError::Draining => None,
        }
    }

    /// Its code in the catalogue.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            KeeperError::Refused(refusal) => refusal.code(),
            KeeperError::Ledger(error) => error.code(),
            KeeperError::NoSuchLease { .. } => codes::NO_SUCH_LEASE,
            KeeperError::Invalid { .. } => codes::BAD_ARGUMENT,
            KeeperError::NoProvider { .. } => codes::NO_PROVIDER,
            KeeperError::NoCredential { .. } => codes::NO_CREDENTIAL,
            KeeperError::WrongAccount { .. } => codes::WRONG_ACCOUNT,
            KeeperError::Step { source, .. } | KeeperError::TimerNotSet { source, .. } => {
                source.code()
            }
            KeeperError::NotStarted(error) => error.code(),
            KeeperError::OutcomeUnknown { .. } => codes::COMMAND_OUTCOME_UNKNOWN,
            KeeperError::Unsettled { .. } => codes::CREATE_UNSETTLED,
            KeeperError::CleanupUnconfirmed { .. } => codes::CLEANUP_UNCONFIRMED,
            KeeperError::Draining => codes::DRAINING,
        }
    }
}
