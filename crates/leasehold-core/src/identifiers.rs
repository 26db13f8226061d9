//! Identifiers: one type for each, so that none can be passed for another.

use std::fmt;
use std::sync::Arc;

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// The text is empty or longer than the identifier may be.
    #[error("{what} must have 1 to {longest} characters, this one has {length}")]
    Length {
        /// Which identifier.
        what: &'static str,
        /// The most characters that it may have.
        longest: usize,
        /// How many it has.
        length: usize,
    },
    /// The text holds a character that is not a visible one.
    #[error("{what} may hold only visible characters")]
    Character {
        /// Which identifier.
        what: &'static str,
    },
}

pub(crate) fn check_text(
    what: &'static str,
    text: &str,
    longest: usize,
) -> Result<(), IdentifierError> {
    let length = text.chars().count();
    if length == 0 || length > longest {
        return Err(IdentifierError::Length { what, longest, length });
    }
    if text.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err(IdentifierError::Character { what });
    }
    Ok(())
}

/// Lower-case base32 of `bytes`: letters and digits only, so that it is a name everywhere.
fn encode(bytes: &[u8]) -> String {
    BASE32_NOPAD.encode(bytes).to_ascii_lowercase()
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal, $longest:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "Arc<str>", into = "Arc<str>")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text`: 1 to
            #[doc = stringify!($longest)]
            /// visible characters.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, IdentifierError> {
                let text = text.into();
                check_text($what, &text, $longest)?;
                Ok(Self(text))
            }

            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<Arc<str>> for $name {
            type Error = IdentifierError;
            fn try_from(text: Arc<str>) -> Result<Self, IdentifierError> {
                Self::new(text)
            }
        }

        impl From<$name> for Arc<str> {
            fn from(identifier: $name) -> Self {
                identifier.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdentifierError;
            fn from_str(text: &str) -> Result<Self, IdentifierError> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}", self.0)
            }
        }
    };
}

identifier!(
    /// A lease. Made by [`LeaseId::from_random`]; 29 characters, `ls_` first.
    LeaseId, "a lease id", 64
);
identifier!(
    /// One running keeper process; a new one at every start.
    NodeId, "a node id", 64
);
identifier!(
    /// What a provider calls a sandbox.
    SandboxId, "a sandbox id", 200
);
identifier!(
    /// The name under which one attempt creates its sandbox.
    SandboxName, "a sandbox name", 64
);
identifier!(
    /// What tells apart two sandboxes to which a provider gave the same id, one after the other.
    BirthFingerprint, "a birth fingerprint", 200
);
identifier!(
    /// What proves inside a sandbox that it is the one that the record means.
    Marker, "a marker", 64
);
identifier!(
    /// One command; a repeated start with the same id is the same command.
    CommandId, "a command id", 64
);
identifier!(
    /// The caller's own name for one acquire, used once for each owner and home.
    AcquireKey, "an acquire key", 200
);
identifier!(
    /// A keyed digest of what an acquire asked for; it betrays no value.
    IntentDigest, "an intent digest", 128
);
identifier!(
    /// The name of a provider: `local`, `createos`.
    ProviderName, "a provider name", 40
);
identifier!(
    /// An account at a provider, as the provider names it.
    AccountId, "an account", 200
);
identifier!(
    /// A machine, for providers whose sandboxes live on one.
    MachineId, "a machine id", 128
);

impl LeaseId {
    /// From 16 random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(format!("ls_{}", encode(&bytes)).into())
    }
}

impl NodeId {
    /// From 10 random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 10]) -> Self {
        Self(format!("node_{}", encode(&bytes)).into())
    }
}

impl CommandId {
    /// From 10 random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 10]) -> Self {
        Self(format!("cmd_{}", encode(&bytes)).into())
    }
}

impl Marker {
    /// From 16 random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(encode(&bytes).into())
    }

    /// The marker of a row whose sandbox was never prepared by us. No sandbox bears it.
    #[must_use]
    pub fn none() -> Self {
        Self("none".into())
    }
}

impl SandboxName {
    /// From a keyed digest of installation, lease and attempt. 22 characters, the shortest limit of
    /// a known provider: `lh`, then 100 bits of the digest.
    #[must_use]
    pub fn from_digest(digest: &[u8; 32]) -> Self {
        let mut text = encode(digest);
        text.truncate(20);
        Self(format!("lh{text}").into())
    }
}

impl IntentDigest {
    /// From a keyed digest of the intent.
    #[must_use]
    pub fn from_digest(digest: &[u8; 32]) -> Self {
        Self(encode(digest).into())
    }

    /// The digest of an intent that was lost with its row. No intent has it.
    #[must_use]
    pub fn lost() -> Self {
        Self("lost".into())
    }
}

/// The fencing number of a lease: it rises with each decision about it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The number of the next decision.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The fencing number of a caller's use: each acquire or resume answer carries a new one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Grant(pub u64);

impl Grant {
    /// The grant after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
