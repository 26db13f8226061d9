//! `leasehold explain`: the catalogue of errors.

use std::fmt::Write as _;

use clap::Args;
use leasehold_core::catalogue::{self, Entry};

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::{Output, table};

/// Explain an error: what it means, and what to do.
///
/// Without a code, list them; with --json, export the whole catalogue.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold explain not-owner
  leasehold explain --json > errors.json")]
pub(crate) struct ExplainArguments {
    /// The code, as it stands in the brackets of an error.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

pub(crate) fn run(arguments: &ExplainArguments, output: Output) -> Result<ExitCode, Failure> {
    let Some(code) = &arguments.code else {
        output.result(&catalogue::export(), list)?;
        return Ok(ExitCode::DONE);
    };
    let Some(entry) = catalogue::find(code) else {
        let problem = "there is no such error; `leasehold explain` lists them";
        return Err(Failure::bad_argument(&format!("code {code}"), problem));
    };
    output.result(&catalogue::to_json(entry), || in_words(entry))?;
    Ok(ExitCode::DONE)
}

fn list() -> String {
    table(
        &["CODE", "SEVERITY", "WHAT TO DO FIRST"],
        catalogue::all().iter().map(|entry| {
            vec![entry.code.to_owned(), entry.severity.to_string(), entry.next_step().to_owned()]
        }),
    )
}

fn in_words(entry: &Entry) -> String {
    let mut text = format!(
        "{}: {}\n\n{}\n\nRaised when {}\n",
        entry.code, entry.message, entry.documentation, entry.trigger_scenarios
    );
    let mut section = |title: &str, items: &[&str]| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{title}:");
        for item in items {
            let _ = writeln!(text, "  - {item}");
        }
    };
    section("Common situations", entry.common_situations);
    section("What to do", entry.solutions);
    section("How to avoid it", entry.prevention_tips);
    let _ = writeln!(text, "\nFor example:");
    for line in entry.example_fix.lines() {
        let _ = writeln!(text, "    {line}");
    }
    let _ = writeln!(
        text,
        "\nSeverity {}, type {}, handling {}; {}",
        entry.severity,
        entry.error_type,
        entry.handling,
        entry.tags.join(", ")
    );
    text
}
