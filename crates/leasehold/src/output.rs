//! What a verb tells its user: results on standard output, notes on standard error.

use std::io::{self, Write as _};

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// Where results go, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Results are JSON.
    pub(crate) json: bool,
    /// No notes.
    pub(crate) quiet: bool,
}

impl Output {
    /// Writes a result: `value` for programs, or what `text` makes for people.
    pub(crate) fn result(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json { self.json(value) } else { self.text(&text()) }
    }

    /// Writes a result for programs, whatever the form.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        text.push('\n');
        write(text.as_bytes())
    }

    /// Writes lines for people; the last one is ended if it is not.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        write(format!("{text}{end}").as_bytes())
    }

    /// Says something beside the result. Nobody depends on it, so nothing fails for it.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "leasehold: {text}");
        }
    }
}

fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()?;
    Ok(())
}

/// A table without rules, so that its columns can be cut out by programs too.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.iter().copied()).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
