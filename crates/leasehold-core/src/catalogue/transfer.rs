//! Errors of files on their way into a sandbox and out of it.

use super::{Entry, ErrorType, Handling, Severity, Theme, codes};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        code: codes::TRANSFER_REFUSED,
        theme: Theme::Transfer,
        message: "{path} is refused: {reason}",
        class: "ArchiveError",
        error_type: ErrorType::Validation,
        severity: Severity::Error,
        documentation: "A transfer never leaves the directory that it was given, and takes only files, directories \
            and links. What would leave it, or is something else, is refused; what was copied until \
            then stays. A single file, and a directory that is replaced, are whole or unchanged.",
        trigger_scenarios: "a name that is absolute or has `..`, a parent that is a symbolic link, a device node, a directory \
            that stands where a file should be, or a pattern that is not one.",
        common_situations: &[
            "A file is copied to a path that is a directory with contents.",
            "A directory of the target was replaced by a link.",
        ],
        solutions: &[
            "Look at what stands at the named path, on both sides.",
            "Leave the path out: `--exclude PATH`.",
        ],
        example_fix: "leasehold cp --exclude cache project ls_abc:",
        handling: Handling::Validation,
        prevention_tips: &["Copy into a directory that only the transfer uses."],
        tags: &["transfer", "cp", "confinement"],
    },
    Entry {
        code: codes::TRANSFER_LIMIT,
        theme: Theme::Transfer,
        message: "{path} exceeds the cap on {cap} ({limit})",
        class: "ArchiveError",
        error_type: ErrorType::Limit,
        severity: Severity::Error,
        documentation: "A transfer has limits on bytes, on entries and on the length and depth of paths, so that \
            neither side can fill the disk of the other. One was passed, and nothing of the entry \
            that passed it was kept.",
        trigger_scenarios: "a tree with more bytes or entries than `--max-bytes` or `--max-entries` allow, or a path that is \
            too long or too deep.",
        common_situations: &[
            "A build folder or a cache is copied along.",
            "A program in the sandbox made files without end.",
        ],
        solutions: &[
            "Leave out what is not needed: `--exclude target`.",
            "Raise the limit: `--max-bytes 200000000000`.",
        ],
        example_fix: "leasehold cp --exclude node_modules ls_abc:. results",
        handling: Handling::Validation,
        prevention_tips: &["Copy the results, not the whole workspace."],
        tags: &["transfer", "cp", "limit"],
    },
    Entry {
        code: codes::TRANSFER_DAMAGED,
        theme: Theme::Transfer,
        message: "the stream of a transfer is damaged or was cut off: {problem}",
        class: "ArchiveError",
        error_type: ErrorType::Unavailable,
        severity: Severity::Error,
        documentation: "What arrived is not a whole transfer. A single file, and a directory that is replaced, are \
            as they were; a directory that was copied into may hold a part.",
        trigger_scenarios: "the sender was ended in the middle, the connection broke, or the input is no tar archive.",
        common_situations: &[
            "A compressed archive was given to `leasehold cp -`: it takes plain tar.",
            "The lease was released while files were copied.",
        ],
        solutions: &[
            "Repeat the transfer: it begins anew.",
            "Decompress first: `zcat FILE | leasehold cp - LEASE:PATH`.",
        ],
        example_fix: "zcat files.tar.gz | leasehold cp - ls_abc:",
        handling: Handling::Retry,
        prevention_tips: &["Wait for a transfer before you release the lease."],
        tags: &["transfer", "cp", "tar"],
    },
    Entry {
        code: codes::TRANSFER_FAILED,
        theme: Theme::Transfer,
        message: "cannot {action} {path}: {problem}",
        class: "ArchiveError",
        error_type: ErrorType::Unavailable,
        severity: Severity::Error,
        documentation: "The file system on one of the two sides said no; the message tells which. What was copied \
            until then stays, except where a single file or a whole directory is replaced: those are \
            as they were.",
        trigger_scenarios: "a path that does not exist, a permission that is missing, a disk that is full, a file that changes \
            while it is read.",
        common_situations: &[
            "The parent of the target does not exist.",
            "The sandbox's user may not write there.",
            "The disk is full.",
        ],
        solutions: &[
            "Make the directory first: `leasehold exec LEASE -- mkdir -p DIRECTORY`.",
            "Copy to a path below the workspace.",
        ],
        example_fix: "leasehold exec ls_abc -- mkdir -p data\n\
            leasehold cp input.csv ls_abc:data/",
        handling: Handling::Reread,
        prevention_tips: &["Use paths below the sandbox's workspace."],
        tags: &["transfer", "cp", "files"],
    },
];
