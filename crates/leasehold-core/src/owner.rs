//! Who a lease belongs to.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::identifiers::{IdentifierError, check_text};

/// Company and environment: only they can use, release or destroy a lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawOwner", into = "RawOwner")]
pub struct Owner {
    company: Arc<str>,
    environment: Arc<str>,
}

/// Why a text does not name an owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// One of the two parts is not usable.
    #[error(transparent)]
    Part(#[from] IdentifierError),
    /// The slash is missing.
    #[error("an owner is written COMPANY/ENVIRONMENT")]
    Form,
}

#[derive(Clone, Serialize, Deserialize)]
struct RawOwner {
    company: Arc<str>,
    environment: Arc<str>,
}

impl Owner {
    /// Checks both parts: 1 to 200 visible characters each.
    pub fn new(
        company: impl Into<Arc<str>>,
        environment: impl Into<Arc<str>>,
    ) -> Result<Self, OwnerError> {
        let (company, environment) = (company.into(), environment.into());
        check_text("a company", &company, 200)?;
        check_text("an environment", &environment, 200)?;
        Ok(Self { company, environment })
    }

    /// Whose the debts are that an operator records for sandboxes without a lease.
    #[must_use]
    pub fn operator() -> Self {
        Self { company: "operator".into(), environment: "orphans".into() }
    }

    /// The company.
    #[must_use]
    pub fn company(&self) -> &str {
        &self.company
    }

    /// The environment.
    #[must_use]
    pub fn environment(&self) -> &str {
        &self.environment
    }
}

impl FromStr for Owner {
    type Err = OwnerError;

    /// `COMPANY/ENVIRONMENT`; the first slash divides.
    fn from_str(text: &str) -> Result<Self, OwnerError> {
        let (company, environment) = text.split_once('/').ok_or(OwnerError::Form)?;
        Self::new(company, environment)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.company, self.environment)
    }
}

impl TryFrom<RawOwner> for Owner {
    type Error = OwnerError;
    fn try_from(raw: RawOwner) -> Result<Self, OwnerError> {
        Self::new(raw.company, raw.environment)
    }
}

impl From<Owner> for RawOwner {
    fn from(owner: Owner) -> Self {
        Self { company: owner.company, environment: owner.environment }
    }
}
