//! Errors of commands inside a sandbox.

use super::{Entry, ErrorType, Handling, Severity, Theme, codes};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        code: codes::PROGRAM_NOT_FOUND,
        theme: Theme::Command,
        message: "there is no program {program} in the sandbox",
        class: "NotStarted::NotFound",
        error_type: ErrorType::NotFound,
        severity: Severity::Error,
        documentation: "The command certainly did not start: no such program is in the sandbox's \
            search path. The exit code is 127, as in a shell. No shell is added around a command, \
            so a builtin or a whole command line is no program either.",
        trigger_scenarios: "the first word of the command names no file in the sandbox.",
        common_situations: &[
            "The whole command line was passed as one word.",
            "A shell builtin such as cd or export was called without a shell.",
            "The program is installed on the host, but not in the sandbox's image.",
        ],
        solutions: &[
            "Pass program and arguments as separate words after `--`.",
            "For a shell line, call the shell: `leasehold exec LEASE -- sh -c 'cd src && make'`.",
            "Install the program in the sandbox, or use an image that has it.",
        ],
        example_fix: "# before\n\
            leasehold exec ls_abc -- \"ls -l\"\n\
            # after\n\
            leasehold exec ls_abc -- ls -l",
        handling: Handling::Validation,
        prevention_tips: &["Build argument lists, not strings."],
        tags: &["command", "exec", "exit-127"],
    },
    Entry {
        code: codes::PROGRAM_NOT_EXECUTABLE,
        theme: Theme::Command,
        message: "{program} cannot be executed: {problem}",
        class: "NotStarted::NotExecutable",
        error_type: ErrorType::Permission,
        severity: Severity::Error,
        documentation: "The file is there, but the system cannot execute it, so the command \
            certainly did not start. The exit code is 126, as in a shell.",
        trigger_scenarios: "the program is a directory, lacks the permission to execute, has an \
            interpreter line that names nothing, or is made for another processor.",
        common_situations: &[
            "A script was copied in without its mode.",
            "A script's first line ends in a carriage return.",
            "A binary for another architecture was copied in.",
        ],
        solutions: &[
            "Give it the permission: `leasehold exec LEASE -- chmod +x FILE`.",
            "Or name the interpreter: `leasehold exec LEASE -- sh FILE`.",
        ],
        example_fix: "leasehold exec ls_abc -- chmod +x ./build.sh\n\
            leasehold exec ls_abc -- ./build.sh",
        handling: Handling::Validation,
        prevention_tips: &["Keep the mode of what is put into the sandbox, as `tar` does."],
        tags: &["command", "exec", "exit-126"],
    },
    Entry {
        code: codes::NO_DIRECTORY,
        theme: Theme::Command,
        message: "there is no directory {directory} in the sandbox",
        class: "NotStarted::NoDirectory",
        error_type: ErrorType::NotFound,
        severity: Severity::Error,
        documentation: "The directory in which the command should start does not exist in the \
            sandbox, so the command certainly did not start.",
        trigger_scenarios: "a command's working directory does not exist, or is a file.",
        common_situations: &[
            "A path of the host is used inside the sandbox.",
            "The files were not copied in yet.",
        ],
        solutions: &[
            "Leave the directory out to start in the workspace.",
            "Make it first: `leasehold exec LEASE -- mkdir -p DIRECTORY`.",
        ],
        example_fix: "leasehold exec ls_abc -- mkdir -p /workspace/src",
        handling: Handling::Validation,
        prevention_tips: &["Use paths below the sandbox's workspace."],
        tags: &["command", "exec", "directory"],
    },
    Entry {
        code: codes::STALE_FENCE,
        theme: Theme::Command,
        message: "the sandbox's fence is at grant {fence}: this command's grant is no longer \
            current",
        class: "NotStarted::StaleGrant",
        error_type: ErrorType::Conflict,
        severity: Severity::Error,
        documentation: "The sandbox itself knows the newest grant and does not start a command of \
            an older one. The command certainly did not start. This is the last guard against a \
            command that was on its way while the lease changed hands.",
        trigger_scenarios: "a command reaches the sandbox after a resume has raised its fence.",
        common_situations: &[
            "A command was held up in the network while the lease was parked and resumed.",
            "A run goes on that was thought to be over.",
        ],
        solutions: &[
            "Stop the old run: a newer one has the lease.",
            "See who resumed it with `leasehold history LEASE`.",
        ],
        example_fix: "leasehold history ls_abc   # granted 2",
        handling: Handling::Escalate,
        prevention_tips: &["Let one worker at a time own a run."],
        tags: &["command", "grant", "fencing"],
    },
    Entry {
        code: codes::COMMAND_OUTCOME_UNKNOWN,
        theme: Theme::Command,
        message: "it is not known how command {command} of lease {lease} ended: {problem}",
        class: "",
        error_type: ErrorType::Unknown,
        severity: Severity::Error,
        documentation: "A command ends as done, certainly not started, or unknown. This one is \
            unknown: the connection was lost after it may have begun. It is never repeated by \
            itself, since it could run twice. The sandbox is not handed on; at the release it is \
            destroyed instead of parked.",
        trigger_scenarios: "the answer to a start, or the end of a running command, was lost and \
            could not be read back.",
        common_situations: &[
            "The network failed in the middle of a command.",
            "The sandbox was suspended or died under the command.",
        ],
        solutions: &[
            "Look inside for what it did before you repeat it: `leasehold exec LEASE -- …`.",
            "If the command may be repeated safely, do so; else release the lease and start anew.",
        ],
        example_fix: "leasehold exec ls_abc -- git status   # how far did it come?\n\
            leasehold release ls_abc",
        handling: Handling::Reread,
        prevention_tips: &[
            "Write commands so that they can be repeated.",
            "Let long work write its state to a file in the workspace.",
        ],
        tags: &["command", "exec", "unknown-outcome", "network"],
    },
    Entry {
        code: codes::CLEANUP_UNCONFIRMED,
        theme: Theme::Command,
        message: "process cleanup of lease {lease} is unconfirmed; it is destroyed instead of kept",
        class: "",
        error_type: ErrorType::Safety,
        severity: Severity::Warning,
        documentation: "A sandbox is kept for the next use only when it is proved that nothing of \
            the last use runs or can start. That could not be proved here, so the sandbox is \
            removed. The removal goes on by itself; nobody gets this sandbox again.",
        trigger_scenarios: "a release to park when a command's end is unknown, a node with \
            commands on it died, or two looks at the processes do not agree within the limit.",
        common_situations: &[
            "A process cannot be killed because the kernel waits for a device or file system.",
            "A worker crashed in the middle of a command.",
        ],
        solutions: &[
            "Acquire a new lease for the next use.",
            "Repeat the release or destroy to get the receipt; `leasehold show LEASE` tells how \
             far the removal is.",
        ],
        example_fix: "leasehold release ls_abc   # answers with the receipt once it is proved\n\
            leasehold acquire --for 1h",
        handling: Handling::Reacquire,
        prevention_tips: &[
            "Wait for your commands, or cancel them, before you release.",
            "Copy out what you need before the release.",
        ],
        tags: &["command", "cleanup", "park", "quarantine"],
    },
    Entry {
        code: codes::TIMEOUT,
        theme: Theme::Command,
        message: "{operation} took longer than its limit of {limit}",
        class: "",
        error_type: ErrorType::Deadline,
        severity: Severity::Error,
        documentation: "A time limit of the caller has passed. A command that ran into it was \
            ended with everything that it started; the exit code is 124. Anything else that was \
            begun is on record and is brought to an end without the caller.",
        trigger_scenarios: "a command runs longer than its limit, or an acquire, release or resume \
            is not done when the caller's limit has passed.",
        common_situations: &[
            "A command waits for input that never comes.",
            "The provider is slow to make a sandbox.",
        ],
        solutions: &[
            "Give a longer limit if the work needs it: `--timeout 30m`.",
            "See how far the lease is with `leasehold show LEASE`; it needs no second acquire.",
        ],
        example_fix: "leasehold exec ls_abc --timeout 30m -- make test",
        handling: Handling::Retry,
        prevention_tips: &[
            "Set limits from measured times, with room.",
            "Give acquires a key, so that a repetition finds the same lease.",
        ],
        tags: &["timeout", "command", "exit-124"],
    },
];
