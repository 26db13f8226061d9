//! What was asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What an acquire asks of a sandbox. It holds the *names* of environment variables, never their
/// values: a spec is written to the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Size, in the provider's words; none means its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Root file system, in the provider's words; none means its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Hosts and networks that may be reached; none means the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<BTreeSet<String>>,
    /// Names of the environment variables that commands will be given.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub environment_names: BTreeSet<String>,
}

/// Why a spec cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The lifetime is zero or longer than the longest life.
    #[error("a lease lives from 1 second to {} days", longest.as_secs() / 86_400)]
    Lifetime {
        /// The longest life.
        longest: Duration,
    },
    /// An environment variable's name is not a shell identifier.
    #[error("{name:?} is not a name for an environment variable")]
    EnvironmentName {
        /// The name.
        name: String,
    },
}

impl Spec {
    /// Checks the names of environment variables: letters, digits and underscores, no digit first.
    pub fn check(&self) -> Result<(), SpecError> {
        for name in &self.environment_names {
            let mut characters = name.chars();
            let starts_well =
                characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
            if !starts_well || !characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(SpecError::EnvironmentName { name: name.clone() });
            }
        }
        Ok(())
    }
}
