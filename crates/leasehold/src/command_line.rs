//! The command line as a whole: what clap derives from the verbs, with what it cannot derive.
//!
//! Help, completions, man pages and docs/CLI.md all come from [`command`].

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use crate::arguments::Arguments;
use crate::exit_code;

/// The verbs in the order and the groups of the help. A verb in none of them is for few, and is
/// mentioned at the end.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Use a sandbox",
        &["run", "acquire", "exec", "cp", "renew", "park", "resume", "release", "template"],
    ),
    ("Look", &["ls", "show", "history", "wait", "explain"]),
    ("Clean up", &["destroy", "recover", "sweep", "forget"]),
    ("Operate", &["check", "metrics", "doctor", "ledger", "config"]),
];

/// What every call should know, in as few lines as there is room for.
const REST: &str = "\
Options of every command: --state-dir DIRECTORY, --config FILE, --json,
  -q/--quiet, -v/--verbose, --log-format FORMAT, -h/--help, -V/--version
Exit codes: 0 done, 1 found something, 2 bad arguments, 3 refused, 4 no such
  lease, 5 not known yet, 6 safety stop, 124 timeout, 125 Leasehold failed
While no Leasehold process runs only sandboxes' own timers end anything: run
  `leasehold recover` too. More: `leasehold COMMAND --help`, completions, man";

/// The whole command line.
pub(crate) fn command() -> Command {
    let mut command = Arguments::command();
    let verbs: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for verb in verbs {
        command = command.mut_subcommand(verb, with_exit_codes);
    }
    let help = overview(&command);
    command.help_template(help).after_long_help(exit_code::help())
}

fn with_exit_codes(verb: Command) -> Command {
    let examples = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let end = format!("{examples}\n\n{}", exit_code::help_of(verb.get_name()));
    verb.after_long_help(end)
}

/// The verbs by group, on one screen.
fn overview(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}.\n\nUsage: leasehold [OPTIONS] COMMAND\n\n");
    for (group, verbs) in GROUPS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{group}:");
        for verb in verbs.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<9} {about}", verb.get_name());
        }
    }
    format!("{text}\n{REST}\n")
}

/// The verbs in the order of the help, those in no group last.
pub(crate) fn in_order(command: &Command) -> Vec<&Command> {
    let grouped = || GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied());
    let rest = command.get_subcommands().filter(|verb| {
        let name = verb.get_name();
        name != "help" && !grouped().any(|grouped| grouped == name)
    });
    grouped().filter_map(|name| command.find_subcommand(name)).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_is_in_one_group_or_is_mentioned() {
        let command = command();
        let overview = overview(&command);
        for verb in command.get_subcommands().map(Command::get_name) {
            let listed = overview.lines().filter(|line| {
                line.strip_prefix("  ").and_then(|line| line.split(' ').next()) == Some(verb)
            });
            match listed.count() {
                0 => assert!(["completions", "man"].contains(&verb), "{verb} is missing"),
                count => assert_eq!(count, 1, "{verb}"),
            }
        }
    }

    #[test]
    fn every_option_of_every_command_is_in_the_overview() {
        for argument in command().get_arguments().filter_map(clap::Arg::get_long) {
            assert!(REST.contains(&format!("--{argument}")), "{argument}");
        }
    }

    #[test]
    fn every_verb_has_an_example_and_its_exit_codes() {
        let command = command();
        for verb in command.get_subcommands() {
            let end = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("\n  leasehold {}", verb.get_name());
            assert!(end.starts_with("Examples:") && end.contains(&example), "{}", verb.get_name());
            assert!(end.contains("\n\nExit codes:\n"), "{}", verb.get_name());
        }
    }
}
