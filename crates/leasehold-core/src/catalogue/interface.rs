//! Errors of what a person or a program asks of Leasehold.

use super::{Entry, ErrorType, Handling, Severity, Theme, codes};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        code: codes::NO_SUCH_LEASE,
        theme: Theme::Interface,
        message: "there is no lease {lease} in this ledger",
        class: "",
        error_type: ErrorType::NotFound,
        severity: Severity::Error,
        documentation: "No row of the ledger has this id or one that begins so. A provider's \
            sandbox id is no lease id, and gives no right to the sandbox. No provider was asked.",
        trigger_scenarios: "a command or call names a lease that the ledger does not hold.",
        common_situations: &[
            "Another state directory is in use than at the acquire.",
            "A sandbox's id was given instead of a lease's.",
            "The lease ended long ago, and its row was compacted away.",
        ],
        solutions: &[
            "List what there is: `leasehold ls`.",
            "Check the state directory: `leasehold config show`.",
            "For a sandbox without a lease, run `leasehold sweep` and see what it reports.",
        ],
        example_fix: "leasehold config show\n\
            leasehold ls",
        handling: Handling::Validation,
        prevention_tips: &["Use one state directory for all front ends of a user."],
        tags: &["lease", "id", "state-directory"],
    },
    Entry {
        code: codes::AMBIGUOUS_LEASE_ID,
        theme: Theme::Interface,
        message: "{count} leases begin with {prefix}: give more characters",
        class: "",
        error_type: ErrorType::Validation,
        severity: Severity::Error,
        documentation: "A lease may be named by the beginning of its id if no other begins so. \
            Here several do, and none was touched.",
        trigger_scenarios: "a command names a lease by a prefix that more than one row has.",
        common_situations: &["Very short prefixes in a ledger with many leases."],
        solutions: &[
            "Give a few characters more; `leasehold ls` shows the ids.",
            "In scripts, use the whole id from `--json`.",
        ],
        example_fix: "leasehold ls\n\
            leasehold show ls_abc4",
        handling: Handling::Validation,
        prevention_tips: &["Use whole ids in programs."],
        tags: &["lease", "id", "cli"],
    },
    Entry {
        code: codes::BAD_ARGUMENT,
        theme: Theme::Interface,
        message: "{argument} cannot be used: {problem}",
        class: "",
        error_type: ErrorType::Validation,
        severity: Severity::Error,
        documentation: "An argument or field of the request does not have the form that it must \
            have. Nothing was done.",
        trigger_scenarios: "an id, owner, duration, endpoint, variable name or path is empty, too \
            long, or has characters that it may not have.",
        common_situations: &[
            "An owner is written without the slash between company and environment.",
            "A duration has no unit.",
            "A variable in a script is empty.",
        ],
        solutions: &[
            "Correct the argument that the message names.",
            "See the form of each with `leasehold help COMMAND`.",
        ],
        example_fix: "# before\n\
            leasehold acquire --owner acme --for 90\n\
            # after\n\
            leasehold acquire --owner acme/production --for 90m",
        handling: Handling::Validation,
        prevention_tips: &["Quote variables in scripts, and stop on unset ones (`set -u`)."],
        tags: &["argument", "validation", "cli"],
    },
    Entry {
        code: codes::CONFIGURATION_INVALID,
        theme: Theme::Interface,
        message: "the configuration {path} cannot be used: {problem}",
        class: "",
        error_type: ErrorType::Validation,
        severity: Severity::Error,
        documentation: "The configuration has a field that is not known, lacks one that is needed, \
            or holds a value out of range. A misspelt limit must not pass for no limit, so nothing \
            is done with it. Open leases keep what was recorded at their acquire.",
        trigger_scenarios: "reading the configuration file, its environment variables, or the \
            configuration of a host's call.",
        common_situations: &[
            "A field is misspelt, or belongs to another section.",
            "A value lacks its unit.",
            "The file was written for another version.",
        ],
        solutions: &[
            "Correct the field that the message names; `leasehold config show` prints what is in \
             force, and where each value comes from.",
            "Try a new file first: `leasehold --config FILE config show` says what it means.",
        ],
        example_fix: "leasehold --config new.toml config show",
        handling: Handling::Validation,
        prevention_tips: &["Run `leasehold config show` after each edit of the configuration."],
        tags: &["configuration", "validation"],
    },
    Entry {
        code: codes::DRAINING,
        theme: Theme::Interface,
        message: "Leasehold is shutting down: ask again when it is back",
        class: "",
        error_type: ErrorType::Unavailable,
        severity: Severity::Warning,
        documentation: "The process was asked to stop. It takes no more work, ends the commands \
            that it runs and records how each ended; leases and sandboxes stay as they are. \
            Nothing of this request was done.",
        trigger_scenarios: "an acquire, a resume or a command that arrives after SIGTERM or SIGINT.",
        common_situations: &[
            "A service is restarted or upgraded.",
            "The command line was interrupted while it was still working.",
        ],
        solutions: &["Ask again when the process is back; leases are on record and go on."],
        example_fix: "leasehold ls     # what is leased is still there",
        handling: Handling::Retry,
        prevention_tips: &["Stop sending requests to a process before you stop it."],
        tags: &["shutdown", "retry"],
    },
    Entry {
        code: codes::WORK_OVERDUE,
        theme: Theme::Interface,
        message: "{count}: due for more than {limit}, the longest {age}; nobody does it",
        class: "",
        error_type: ErrorType::Unavailable,
        severity: Severity::Critical,
        documentation: "Leases have a deadline, a retry or a step of a dead process that has come, \
            and no Leasehold process has done it. While none runs, a local \
            sandbox ends by itself after the end of its lease's life, and nothing else is enforced: \
            idle sandboxes go on, and go on costing, until one does.",
        trigger_scenarios: "`leasehold check` finds a row that has been due for longer than \
            `--max-overdue` (15 minutes by default).",
        common_situations: &[
            "No timer runs `leasehold recover`, or it runs for another state directory or user.",
            "The timer runs, and each recover fails.",
            "The ledger is in restored mode, in which nothing is recovered.",
        ],
        solutions: &[
            "Run `leasehold recover`, and see what it says.",
            "Set up a timer that runs it every few minutes, as the user who owns the ledger.",
        ],
        example_fix: "leasehold recover\n\
            */5 * * * * leasehold recover --quiet     # in a crontab",
        handling: Handling::Retry,
        prevention_tips: &["Run `leasehold check` from your monitoring, beside the timer."],
        tags: &["deadline", "recover", "monitoring"],
    },
    Entry {
        code: codes::LEASE_ATTENTION,
        theme: Theme::Interface,
        message: "{count}: {reason}",
        class: "",
        error_type: ErrorType::Unknown,
        severity: Severity::Error,
        documentation: "Something about a lease can only be judged by a person: several sandboxes \
            could be the one that its create made (ambiguous_attempt), the fence in its sandbox is \
            not ours (false_fence), another sandbox stands under its id (stranger), or no usable \
            key is at hand (waiting_for_key). Nobody gets its sandbox meanwhile.",
        trigger_scenarios: "`leasehold check` finds an open lease with such a reason.",
        common_situations: &[
            "A key was revoked or has expired.",
            "Somebody made sandboxes with names of ours, or changed files of Leasehold's in one.",
        ],
        solutions: &[
            "See each lease and the reason in words with `leasehold ls --attention`.",
            "Look at what happened with `leasehold history LEASE`.",
            "For a key: give one for the endpoint, then run `leasehold recover`.",
        ],
        example_fix: "leasehold ls --attention\n\
            leasehold history ls_abc",
        handling: Handling::Escalate,
        prevention_tips: &["Renew keys before they expire.", "Keep the account to Leasehold."],
        tags: &["lease", "attention", "monitoring"],
    },
];
