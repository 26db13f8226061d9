//! The words of the core as values of arguments, so that help, completions and errors list them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use leasehold_core::{Kind, State};

/// A state by its name.
pub(crate) fn state() -> impl TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.map(State::name)).try_map(|name| {
        let found = State::ALL.into_iter().find(|state| state.name() == name);
        found.ok_or("it is no state")
    })
}

/// A kind of row by its name.
pub(crate) fn kind() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or("it is no kind")
    })
}
