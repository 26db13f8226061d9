//! `leasehold config`: what is in force, and where it comes from.

use clap::Subcommand;
use serde_json::json;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;

/// Show the configuration, and where each value comes from.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  leasehold config show
  leasehold --config new.toml config show")]
pub(crate) enum ConfigVerb {
    /// Show each value that is in force, and where it comes from.
    Show,
}

pub(crate) fn run(verb: &ConfigVerb, installation: &Installation) -> Result<ExitCode, Failure> {
    let ConfigVerb::Show = verb;
    let state = installation.state.sourced();
    let first = ("state_dir", state.value.display().to_string(), state.origin.to_string());
    let file = &installation.configuration.file;
    let path = file.value.as_ref().map_or("none".to_owned(), |path| path.display().to_string());
    let second = ("config", path, file.origin.to_string());
    let rows: Vec<(&str, String, String)> = [first, second]
        .into_iter()
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
