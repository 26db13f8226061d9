//! Values that know where they come from, so that `config show` can say so.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(&'static str),
    /// An argument of this call.
    Argument(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => formatter.write_str("default"),
            Origin::File(path) => write!(formatter, "{}", path.display()),
            Origin::Variable(name) => write!(formatter, "variable {name}"),
            Origin::Argument(name) => write!(formatter, "argument {name}"),
        }
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Sourced<T> {
    pub(crate) const fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}
