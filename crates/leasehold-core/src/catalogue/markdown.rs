//! The catalogue as a page of the documentation.

use std::fmt::{self, Write as _};

use super::{Entry, Theme, all};

/// The page `docs/ERRORS.md`: an index by theme, then every entry.
#[must_use]
pub fn to_markdown() -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut page);
    page
}

fn write_page(page: &mut String) -> fmt::Result {
    page.push_str(
        "# Errors\n\n\
         Every error that Leasehold shows has a code, and each code has an entry here. \
         `leasehold explain CODE` prints one, `leasehold explain --json` exports all. This page is \
         generated from the catalogue in `leasehold-core`; edit it there.\n",
    );
    for theme in Theme::ALL {
        writeln!(page, "\n## {}\n", title(theme))?;
        writeln!(page, "| code | severity | what to do first |\n|---|---|---|")?;
        for entry in of(theme) {
            let (code, severity) = (entry.code, entry.severity);
            writeln!(page, "| [`{code}`](#{code}) | {severity} | {} |", cell(entry.next_step()))?;
        }
        for entry in of(theme) {
            write_entry(page, entry)?;
        }
    }
    Ok(())
}

fn of(theme: Theme) -> impl Iterator<Item = &'static Entry> {
    all().iter().filter(move |entry| entry.theme == theme)
}

const fn title(theme: Theme) -> &'static str {
    match theme {
        Theme::Ownership => "Ownership",
        Theme::Lifecycle => "The life of a lease",
        Theme::Ledger => "The ledger",
        Theme::Provider => "Providers",
        Theme::Command => "Commands",
        Theme::Transfer => "Files in and out",
        Theme::Interface => "Requests and configuration",
    }
}

fn write_entry(page: &mut String, entry: &Entry) -> fmt::Result {
    writeln!(page, "\n### {}\n", entry.code)?;
    writeln!(page, "> {}\n", entry.message)?;
    writeln!(page, "{}\n", entry.documentation)?;
    writeln!(page, "**Raised when** {}\n", entry.trigger_scenarios)?;
    write_list(page, "Common situations", entry.common_situations)?;
    write_list(page, "What to do", entry.solutions)?;
    writeln!(page, "```sh\n{}\n```\n", entry.example_fix)?;
    write_list(page, "How to avoid it", entry.prevention_tips)?;
    writeln!(
        page,
        "*{}* · type `{}` · handling `{}` · {}",
        entry.severity,
        entry.error_type,
        entry.handling,
        entry.tags.join(", ")
    )
}

fn write_list(page: &mut String, heading: &str, items: &[&str]) -> fmt::Result {
    writeln!(page, "**{heading}**\n")?;
    for item in items {
        writeln!(page, "- {item}")?;
    }
    writeln!(page)
}

/// A bar would end the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
