//! The catalogue of errors: for every code that a user can see, what it means, when it is raised and
//! what to do next.
//!
//! One entry for each code, grouped by theme. [`find`] serves `leasehold explain CODE`, [`to_json`]
//! and [`export`] serve `leasehold explain --json`, and [`to_markdown`] makes the page of the
//! documentation. The codes themselves are constants in [`codes`], so that whoever raises an error
//! and the catalogue cannot spell one differently.

pub mod codes;
mod command;
mod interface;
mod json;
mod ledger;
mod lifecycle;
mod markdown;
mod ownership;
mod provider;
mod transfer;

#[cfg(test)]
mod tests;

pub use json::{FIELDS, export, to_json};
pub use markdown::to_markdown;

use std::fmt;

/// What a kind of error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Theme {
    /// Whose a lease is, and who may do what with it.
    Ownership,
    /// Where a lease stands.
    Lifecycle,
    /// The durable record.
    Ledger,
    /// What makes sandboxes.
    Provider,
    /// Commands inside a sandbox.
    Command,
    /// Files on their way into a sandbox and out of it.
    Transfer,
    /// What a person or a program asks of Leasehold.
    Interface,
}

impl Theme {
    /// Every theme, in the order of the documentation.
    pub const ALL: [Theme; 7] = [
        Theme::Ownership,
        Theme::Lifecycle,
        Theme::Ledger,
        Theme::Provider,
        Theme::Command,
        Theme::Transfer,
        Theme::Interface,
    ];

    /// Its name, as the export's `backgroundTag` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Theme::Ownership => "ownership",
            Theme::Lifecycle => "lifecycle",
            Theme::Ledger => "ledger",
            Theme::Provider => "provider",
            Theme::Command => "command",
            Theme::Transfer => "transfer",
            Theme::Interface => "interface",
        }
    }

    const fn entries(self) -> &'static [Entry] {
        match self {
            Theme::Ownership => ownership::ENTRIES,
            Theme::Lifecycle => lifecycle::ENTRIES,
            Theme::Ledger => ledger::ENTRIES,
            Theme::Provider => provider::ENTRIES,
            Theme::Command => command::ENTRIES,
            Theme::Transfer => transfer::ENTRIES,
            Theme::Interface => interface::ENTRIES,
        }
    }
}

impl fmt::Display for Theme {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorType {
    /// The caller may not do this.
    Permission,
    /// The request itself is wrong.
    Validation,
    /// It does not fit the state that the lease is in.
    State,
    /// Somebody else was first.
    Conflict,
    /// A deadline has passed.
    Deadline,
    /// A limit is reached.
    Limit,
    /// There is no such thing.
    NotFound,
    /// Something that is needed did not answer or cannot be used.
    Unavailable,
    /// What happened is not known.
    Unknown,
    /// A safety stop waits for a person.
    Safety,
}

impl ErrorType {
    /// As the export's `errorType` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorType::Permission => "permission",
            ErrorType::Validation => "validation",
            ErrorType::State => "state",
            ErrorType::Conflict => "conflict",
            ErrorType::Deadline => "deadline",
            ErrorType::Limit => "limit",
            ErrorType::NotFound => "not-found",
            ErrorType::Unavailable => "unavailable",
            ErrorType::Unknown => "unknown-outcome",
            ErrorType::Safety => "safety",
        }
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Part of normal work; it ends by itself.
    Info,
    /// It failed, and a repetition may do better.
    Warning,
    /// It failed, and the caller has to change something.
    Error,
    /// A person has to look: something is unsafe or unsure until then.
    Critical,
}

impl Severity {
    /// As the export's `severity` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What a program does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handling {
    /// Correct the request; the same one will fail again.
    Validation,
    /// Repeat the same request, later and not for ever.
    Retry,
    /// Give this lease up and acquire another.
    Reacquire,
    /// Read the state again, then decide anew.
    Reread,
    /// Stop, and tell a person.
    Escalate,
}

impl Handling {
    /// As the export's `handlingStrategy` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Handling::Validation => "validation",
            Handling::Retry => "retry",
            Handling::Reacquire => "reacquire",
            Handling::Reread => "reread",
            Handling::Escalate => "escalate",
        }
    }
}

impl fmt::Display for Handling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One error of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its stable code, in kebab case.
    pub code: &'static str,
    /// What it is about.
    pub theme: Theme,
    /// The message as users see it, with `{placeholders}` for what differs from case to case.
    pub message: &'static str,
    /// The type that carries it in the source, as `Type::Variant`; empty where front ends raise it.
    pub class: &'static str,
    /// What kind of thing went wrong.
    pub error_type: ErrorType,
    /// How bad it is.
    pub severity: Severity,
    /// What it means, and what it protects.
    pub documentation: &'static str,
    /// Exactly when it is raised.
    pub trigger_scenarios: &'static str,
    /// How people come to see it.
    pub common_situations: &'static [&'static str],
    /// What to do, the first thing first.
    pub solutions: &'static [&'static str],
    /// A short session that shows the way out.
    pub example_fix: &'static str,
    /// What a program does about it.
    pub handling: Handling,
    /// How not to meet it again.
    pub prevention_tips: &'static [&'static str],
    /// Words to find it by.
    pub tags: &'static [&'static str],
}

impl Entry {
    /// What a person does next: the first solution.
    #[must_use]
    pub const fn next_step(&self) -> &'static str {
        match self.solutions.first() {
            Some(first) => first,
            None => "",
        }
    }

    /// A regular expression that every message of this error matches as a whole. Derived from the
    /// message, so that the two cannot drift apart.
    #[must_use]
    pub fn message_pattern(&self) -> String {
        let mut pattern = String::with_capacity(self.message.len() + 16);
        let mut in_placeholder = false;
        for character in self.message.chars() {
            match character {
                '{' => {
                    pattern.push_str(".+");
                    in_placeholder = true;
                }
                '}' => in_placeholder = false,
                _ if in_placeholder => {}
                '.' | '+' | '*' | '?' | '(' | ')' | '[' | ']' | '^' | '$' | '|' | '\\' => {
                    pattern.push('\\');
                    pattern.push(character);
                }
                _ => pattern.push(character),
            }
        }
        pattern
    }
}

const COUNT: usize = {
    let mut count = 0;
    let mut theme = 0;
    while theme < Theme::ALL.len() {
        count += Theme::ALL[theme].entries().len();
        theme += 1;
    }
    count
};

// Joined by the compiler, so that a theme's file is all there is to edit.
static ENTRIES: [Entry; COUNT] = {
    let mut entries = [ownership::ENTRIES[0]; COUNT];
    let mut next = 0;
    let mut theme = 0;
    while theme < Theme::ALL.len() {
        let group = Theme::ALL[theme].entries();
        let mut index = 0;
        while index < group.len() {
            entries[next] = group[index];
            next += 1;
            index += 1;
        }
        theme += 1;
    }
    entries
};

/// Every entry, grouped by theme.
#[must_use]
pub fn all() -> &'static [Entry] {
    &ENTRIES
}

/// The entry with the code, if there is one.
#[must_use]
pub fn find(code: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.code == code)
}
