//! Errors of the durable record.

use super::{Entry, ErrorType, Handling, Severity, Theme, codes};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        code: codes::LEDGER_CONFLICT,
        theme: Theme::Ledger,
        message: "lease {lease} was changed by somebody else",
        class: "LedgerError::Conflict",
        error_type: ErrorType::Conflict,
        severity: Severity::Warning,
        documentation: "Every change of a lease is written only if the lease is still as it was \
            read. Somebody was faster; nothing was written and nothing was done.",
        trigger_scenarios: "the stored version of the row is not the one that the decision was \
            made about.",
        common_situations: &[
            "Two processes act on one lease at the same time.",
            "An expiry and an owner's call meet.",
        ],
        solutions: &[
            "Repeat the request: it is decided anew on the lease as it is now.",
            "See who changed it with `leasehold history LEASE`.",
        ],
        example_fix: "leasehold history ls_abc\n\
            leasehold release ls_abc",
        handling: Handling::Retry,
        prevention_tips: &["Let one process at a time work with a lease."],
        tags: &["ledger", "compare-and-set", "concurrency"],
    },
    Entry {
        code: codes::LEDGER_TOO_NEW,
        theme: Theme::Ledger,
        message: "this ledger has format {found}; this Leasehold reads up to {known}: upgrade it",
        class: "LedgerError::TooNew",
        error_type: ErrorType::Unavailable,
        severity: Severity::Critical,
        documentation: "A newer Leasehold has written this ledger. An older one could overlook \
            what it does not know, so it does not open it at all. The ledger was not touched.",
        trigger_scenarios: "opening a ledger whose format is newer than the newest one that this \
            binary knows.",
        common_situations: &[
            "Two versions of Leasehold are installed, and the older one is first in PATH.",
            "An upgrade was rolled back by more than one version.",
        ],
        solutions: &[
            "Use the newer binary: `leasehold --version` says which one this is.",
            "To stay with the old one, open the backup that the upgrade made; `leasehold doctor` \
             names it. It is behind, so it opens in restored mode.",
        ],
        example_fix: "which -a leasehold\n\
            leasehold --version",
        handling: Handling::Escalate,
        prevention_tips: &["Upgrade every front end of a machine together."],
        tags: &["ledger", "upgrade", "format"],
    },
    Entry {
        code: codes::LEDGER_DAMAGED_ROW,
        theme: Theme::Ledger,
        message: "row {lease} of the ledger is damaged: {problem}",
        class: "LedgerError::Damaged",
        error_type: ErrorType::Unavailable,
        severity: Severity::Critical,
        documentation: "One row of the ledger cannot be read, or breaks a rule that every row \
            keeps. It is never guessed at and nothing is removed on its word; all other leases \
            work. An operator can still end it.",
        trigger_scenarios: "reading a row whose text cannot be understood, or whose parts \
            contradict each other.",
        common_situations: &["The disk returned bad data.", "Somebody edited the ledger by hand."],
        solutions: &[
            "Run `leasehold ledger check` to see every damaged row and what is wrong with it.",
            "Compare with a backup from `leasehold ledger backup`.",
            "Have its sandbox removed all the same, by what the ledger keeps beside the row: \
                `leasehold destroy LEASE --as-operator`, with the whole id.",
            "When its sandbox was looked after by hand, give it up: `leasehold forget LEASE`.",
        ],
        example_fix: "leasehold ledger check\n\
            leasehold destroy ls_abc --as-operator",
        handling: Handling::Escalate,
        prevention_tips: &[
            "Make backups with `leasehold ledger backup`, never with cp on an open ledger.",
            "Change leases through the command line only.",
        ],
        tags: &["ledger", "corruption", "backup"],
    },
    Entry {
        code: codes::LEDGER_UNSUITABLE,
        theme: Theme::Ledger,
        message: "{path} cannot keep a ledger: {problem}",
        class: "LedgerError::Unsuitable",
        error_type: ErrorType::Validation,
        severity: Severity::Critical,
        documentation: "The ledger needs a file system that keeps locks and has what was written \
            on disk when it says so. This one does not, or cannot be written; a lease that is \
            recorded there could be lost in a crash.",
        trigger_scenarios: "opening a ledger on a network file system, in a directory that is \
            read-only or belongs to another user, or that others can read.",
        common_situations: &[
            "The home directory is on NFS.",
            "A container mounts the state directory read-only.",
            "The state directory was made by root.",
        ],
        solutions: &[
            "Put the ledger on a local disk: `--state-dir DIRECTORY` or `LEASEHOLD_STATE_DIR`.",
            "Give the directory to the user who runs Leasehold, with mode 0700.",
            "Run `leasehold doctor`: it says what is missing.",
        ],
        example_fix: "export LEASEHOLD_STATE_DIR=/var/lib/leasehold\n\
            leasehold doctor",
        handling: Handling::Validation,
        prevention_tips: &["Use the same local state directory for every front end of a user."],
        tags: &["ledger", "file-system", "nfs", "configuration"],
    },
    Entry {
        code: codes::LEDGER_UNAVAILABLE,
        theme: Theme::Ledger,
        message: "the ledger cannot be used: {problem}",
        class: "LedgerError::Unavailable",
        error_type: ErrorType::Unavailable,
        severity: Severity::Critical,
        documentation: "The ledger could not be read or written. What was being written is not \
            written, and nothing is done at a provider without a record; sandboxes that run go on \
            running.",
        trigger_scenarios: "the disk is full, an input/output error, a lock that is held for too \
            long, or a ledger file that is no ledger.",
        common_situations: &[
            "The disk is full.",
            "Another program holds a lock on the file.",
            "The file was replaced or removed while Leasehold ran.",
        ],
        solutions: &[
            "Look at the problem that the message names; free space if the disk is full.",
            "Run `leasehold doctor`, then repeat.",
            "Run `leasehold ledger check` if the file may be damaged.",
        ],
        example_fix: "df -h \"$LEASEHOLD_STATE_DIR\"\n\
            leasehold doctor",
        handling: Handling::Retry,
        prevention_tips: &[
            "Watch the free space of the state directory.",
            "Make backups with `leasehold ledger backup`.",
        ],
        tags: &["ledger", "disk", "storage"],
    },
    Entry {
        code: codes::LEDGER_RESTORED,
        theme: Theme::Ledger,
        message: "this ledger is in restored mode ({why}): nothing is removed on its word until \
            `leasehold ledger accept`",
        class: "LedgerError::Restored",
        error_type: ErrorType::Safety,
        severity: Severity::Critical,
        documentation: "The ledger is behind what it should know, a copy, or from another machine. \
            What it calls finished or expired may be somebody's work by now, so no expiry, sweep \
            or recovery destroys anything on its word. Owners' own calls work.",
        trigger_scenarios: "a removal that neither an owner nor an operator asked for, while the \
            ledger's identity, machine or generation does not fit the one kept beside it, or a \
            sandbox's fence is ahead of its row.",
        common_situations: &[
            "A backup was put in place of the ledger.",
            "A disk image or a home directory was cloned to a second machine.",
        ],
        solutions: &[
            "Make sure that the original is not in use any more; then look through `leasehold ls` \
             and run `leasehold ledger accept`.",
            "If the original is alive, use it, and remove this copy.",
        ],
        example_fix: "leasehold ls\n\
            leasehold ledger accept",
        handling: Handling::Escalate,
        prevention_tips: &[
            "Leave the state directory out of images that are cloned.",
            "Restore only with every Leasehold process stopped.",
        ],
        tags: &["ledger", "backup", "restore", "safety"],
    },
    Entry {
        code: codes::BRAKE_ON,
        theme: Theme::Ledger,
        message: "the brake is on: {recent} leases were about to be removed that neither an owner \
            nor a deadline ended; look at `leasehold ls --attention`, then run \
            `leasehold ledger unbrake`",
        class: "LedgerError::Braked",
        error_type: ErrorType::Safety,
        severity: Severity::Critical,
        documentation: "Many removals at once that nobody asked for are a sign of a mistake: a \
            wrong clock, a wrong account, a ledger from elsewhere. Past max(5, 10 %) of the open \
            leases in ten minutes they stop until a person has looked. Owners' calls and recorded \
            deadlines are not held up.",
        trigger_scenarios: "one more removal for a reason such as undelivered, drift, reappeared \
            or the death of its holder, when the brake's window is full.",
        common_situations: &[
            "A host crashed with many acquires under way.",
            "The machine's clock jumped.",
            "Many `leasehold run` processes were killed at once.",
        ],
        solutions: &[
            "Look at what would be removed, and why: `leasehold ls --attention`.",
            "If it is right, run `leasehold ledger unbrake`; cleanup goes on at once.",
            "If it is wrong, leave the brake on and mend the cause first; `leasehold doctor` helps.",
        ],
        example_fix: "leasehold ls --attention\n\
            leasehold ledger unbrake",
        handling: Handling::Escalate,
        prevention_tips: &["Stop workers with SIGTERM, so that they release what they hold."],
        tags: &["brake", "safety", "cleanup", "operator"],
    },
    Entry {
        code: codes::LEDGER_INVALID_WRITE,
        theme: Theme::Ledger,
        message: "lease {lease} cannot be written: {problem}",
        class: "LedgerError::Invalid",
        error_type: ErrorType::Safety,
        severity: Severity::Critical,
        documentation: "The ledger checks every row before it keeps it, and this one breaks a rule \
            that holds of every row. Nothing was written, and nothing was done at a provider. It \
            is a mistake in Leasehold, not in what you asked.",
        trigger_scenarios: "a decision whose row is not consistent, or that would change a lease's \
            owner, home or key.",
        common_situations: &[
            "Two versions of Leasehold with a mistake between them share a ledger.",
        ],
        solutions: &[
            "Keep the row as it is: `leasehold show LEASE` and `leasehold history LEASE` print it.",
            "Report the message with both outputs; they hold no secret.",
            "To end the lease meanwhile, run `leasehold destroy LEASE`.",
        ],
        example_fix: "leasehold history ls_abc\n\
            leasehold destroy ls_abc",
        handling: Handling::Escalate,
        prevention_tips: &["Run one version of Leasehold on a ledger."],
        tags: &["ledger", "internal", "consistency"],
    },
];
