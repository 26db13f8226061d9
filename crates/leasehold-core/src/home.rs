//! Where a sandbox lives.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::identifiers::{AccountId, MachineId, ProviderName};

/// Provider, endpoint, account and, for sandboxes on one machine, the machine. A sandbox id means
/// something only together with its home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Home {
    /// What makes the sandboxes.
    pub provider: ProviderName,
    /// Where that provider is reached.
    pub endpoint: Endpoint,
    /// Whose sandboxes they are there.
    pub account: AccountId,
    /// The machine, where sandboxes cannot be reached from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineId>,
}

impl fmt::Display for Home {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at {} as {}", self.provider, self.endpoint, self.account)
    }
}

/// A provider's address in its normal spelling: lower-case scheme and host, no default port, no
/// trailing slash, no `/v1`. Two spellings of one address are one endpoint; nothing more is
/// normalised, so `localhost` and `127.0.0.1` are two.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Arc<str>", into = "Arc<str>")]
pub struct Endpoint(Arc<str>);

/// Why a text is not an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// There is no `scheme:` in front.
    #[error("an endpoint begins with its scheme, like https:// or local:")]
    Scheme,
    /// It holds a user, a query, a fragment or white space.
    #[error("an endpoint holds no user, query, fragment or white space")]
    Extra,
    /// Nothing follows the scheme.
    #[error("an endpoint names a host")]
    Host,
}

impl Endpoint {
    /// Checks and normalises `text`.
    pub fn new(text: &str) -> Result<Self, EndpointError> {
        if text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '@'))
        {
            return Err(EndpointError::Extra);
        }
        let (scheme, rest) = text.split_once(':').ok_or(EndpointError::Scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        let Some(rest) = rest.strip_prefix("//") else {
            if rest.is_empty() {
                return Err(EndpointError::Host);
            }
            return Ok(Self(format!("{scheme}:{rest}").into()));
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let mut authority = authority.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "https" => ":443",
            "http" => ":80",
            _ => "",
        };
        if !default_port.is_empty() && authority.ends_with(default_port) {
            authority.truncate(authority.len() - default_port.len());
        }
        if authority.is_empty() {
            return Err(EndpointError::Host);
        }
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/');
        Ok(Self(format!("{scheme}://{authority}{path}").into()))
    }

    /// The normal spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<Arc<str>> for Endpoint {
    type Error = EndpointError;
    fn try_from(text: Arc<str>) -> Result<Self, EndpointError> {
        Self::new(&text)
    }
}

impl From<Endpoint> for Arc<str> {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_address_are_one_endpoint() {
        for text in [
            "https://API.sb.createos.sh",
            "HTTPS://api.sb.createos.sh:443/",
            "https://api.sb.createos.sh/v1",
            "https://api.sb.createos.sh/v1/",
        ] {
            let endpoint = Endpoint::new(text).unwrap();
            assert_eq!(endpoint.as_str(), "https://api.sb.createos.sh", "{text}");
        }
        assert_eq!(
            Endpoint::new("http://127.0.0.1:80/Prefix/v1").unwrap().as_str(),
            "http://127.0.0.1/Prefix"
        );
        assert_eq!(Endpoint::new("local:sandboxes").unwrap().as_str(), "local:sandboxes");
    }

    #[test]
    fn nothing_more_is_normalised() {
        assert_ne!(
            Endpoint::new("http://localhost").unwrap(),
            Endpoint::new("http://127.0.0.1").unwrap()
        );
    }

    #[test]
    fn what_could_hide_another_address_is_refused() {
        for text in [
            "https://key@host",
            "https://host?x=1",
            "https://host#x",
            "https://ho st",
            "host",
            "https://",
            "local:",
        ] {
            assert!(Endpoint::new(text).is_err(), "{text}");
        }
    }
}
