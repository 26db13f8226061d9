//! How a lease ended, and what proves it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// We removed the sandbox, and the provider proved it.
    Destroyed,
    /// The sandbox was gone when we came to remove it, and the provider proved it.
    AlreadyAbsent,
    /// No attempt ever made a sandbox, and none can any more.
    NeverCreated,
    /// The sandbox vanished, or another stands under its id, while the lease was in use or parked.
    Lost,
    /// An operator gave it up, on the record.
    Forgotten,
}

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Ending::Destroyed => "destroyed",
            Ending::AlreadyAbsent => "already_absent",
            Ending::NeverCreated => "never_created",
            Ending::Lost => "lost",
            Ending::Forgotten => "forgotten",
        })
    }
}

/// What a provider said, where, to whom and when. An end without evidence is not an end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Evidence {
    /// What was seen: `delete answered 204`, `two reads found nothing`, `attempt refused`.
    pub proof: String,
    /// The provider's own number of the request, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Evidence {
    /// Evidence without a request id.
    #[must_use]
    pub fn of(proof: impl Into<String>) -> Self {
        Self { proof: proof.into(), request_id: None }
    }
}

/// The proved end of a lease. Endpoint and account are those of the lease's home.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// How it ended.
    pub ending: Ending,
    /// What proves it.
    pub evidence: Evidence,
    /// When it was proved.
    pub at: Timestamp,
    /// Who had it ended: `owner`, `keeper`, `operator NAME`.
    pub actor: String,
}
