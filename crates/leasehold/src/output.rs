//! What a verb tells its user: results on standard output, notes on standard error.
//!
//! Colours are taken out again where standard output is no terminal, or `NO_COLOR` is set.

use std::io::{self, Write as _};

use leasehold_core::LeaseId;
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

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

    /// Writes a list: `value` for programs, the ids alone if nothing else is wanted, or what `text`
    /// makes for people.
    pub(crate) fn list<'a>(
        self,
        value: &impl Serialize,
        ids: impl Iterator<Item = &'a LeaseId>,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match (self.json, self.quiet) {
            (true, _) => self.json(value),
            (false, true) => self.text(&ids.map(|id| format!("{id}\n")).collect::<String>()),
            (false, false) => self.text(&text()),
        }
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
    let mut output = anstream::stdout().lock();
    output.write_all(bytes)?;
    output.flush()?;
    Ok(())
}

/// A table without rules, so that its columns can be cut out by programs too. Cells may be styled.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let header = header.iter().map(|&text| text.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, widest) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(widest - width(cell) + GAP));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The space between two columns.
const GAP: usize = 2;

/// How many columns of a terminal a text takes, without the colours in it.
fn width(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().width()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style;

    #[test]
    fn columns_line_up_whatever_is_in_them() {
        let rows =
            [vec!["é".to_owned(), style::good("up")], vec!["long".to_owned(), String::new()]];
        let shown = anstream::adapter::strip_str(&table(&["A", "B"], rows)).to_string();
        assert_eq!(shown, "A     B\né     up\nlong\n");
    }
}
