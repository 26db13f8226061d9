//! `leasehold config`: what is in force, and where it comes from.

use clap::Subcommand;
use serde_json::json;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;

/// Look at the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Show each value that is in force, and where it comes from.
    Show,
}

pub(crate) fn run(verb: &ConfigVerb, installation: &Installation) -> Result<ExitCode, Failure> {
    let ConfigVerb::Show = verb;
    let state = installation.state.sourced();
    let first = ("state_dir", state.value.display().to_string(), state.origin.to_string());
    let rows: Vec<(&str, String, String)> = std::iter::once(first)
        .chain(
            installation
                .configuration
                .rows()
                .iter()
                .map(|row| (row.name, row.value.clone(), row.origin.to_string())),
        )
        .collect();
    let values: Vec<_> = rows
        .iter()
        .map(|(name, value, origin)| json!({ "name": name, "value": value, "origin": origin }))
        .collect();
    installation.output.result(&json!({ "values": values }), || {
        let rows = rows
            .iter()
            .map(|(name, value, origin)| vec![(*name).to_owned(), value.clone(), origin.clone()]);
        table(&["NAME", "VALUE", "FROM"], rows)
    })?;
    Ok(ExitCode::DONE)
}
