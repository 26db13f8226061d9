//! Colours, only where they help: states, and what a reader should not overlook.

use anstyle::{AnsiColor, Style};
use leasehold_core::{Lease, State};

fn paint(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

/// All is well.
pub(crate) fn good(text: &str) -> String {
    paint(text, colour(AnsiColor::Green))
}

/// A person should look.
pub(crate) fn attention(text: &str) -> String {
    if text.is_empty() { String::new() } else { paint(text, colour(AnsiColor::Yellow).bold()) }
}

/// Something is wrong.
pub(crate) fn bad(text: &str) -> String {
    paint(text, colour(AnsiColor::Red).bold())
}

/// The state of a lease, in the words of `text`.
pub(crate) fn state(lease: &Lease, text: &str) -> String {
    let style = match lease.state {
        State::Active => colour(AnsiColor::Green),
        State::Parked => colour(AnsiColor::Cyan),
        State::Closed => Style::new().dimmed(),
        State::Destroying if lease.is_quarantined() => colour(AnsiColor::Red).bold(),
        _ => colour(AnsiColor::Yellow),
    };
    paint(text, style)
}

/// A text from elsewhere with its control characters made visible, so that it can neither move the
/// cursor of a terminal nor break a table.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(visible("\u{1b}[31m\nred"), r"\u{1b}[31m\nred");
        assert_eq!(visible("plain, é"), "plain, é");
    }
}
