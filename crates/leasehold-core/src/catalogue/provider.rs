//! Errors of what makes sandboxes.

use super::{Entry, ErrorType, Handling, Severity, Theme, codes};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        code: codes::PROVIDER_NO_ANSWER,
        theme: Theme::Provider,
        message: "no answer from the provider: {message}",
        class: "ProviderError::NoAnswer",
        error_type: ErrorType::Unknown,
        severity: Severity::Warning,
        documentation: "The call was sent and no usable answer came back. It may have had its \
            effect, or have it later. Leasehold does not repeat it blindly: a create is looked for \
            by its name, a removal is read back, a command's end is reported as unknown.",
        trigger_scenarios: "a time limit, a dropped connection or a server error after the request \
            was sent.",
        common_situations: &[
            "The provider is overloaded or is being deployed.",
            "A proxy gave up before the provider answered.",
        ],
        solutions: &[
            "Look at the lease with `leasehold show LEASE`: what is found out is recorded there.",
            "Run `leasehold recover` to have it looked for now.",
            "Acquire again only with the same key: you then get the sandbox that was made.",
        ],
        example_fix: "leasehold recover\n\
            leasehold show ls_abc",
        handling: Handling::Reread,
        prevention_tips: &[
            "Give acquires a key, so that they can be repeated safely.",
            "Set time limits above the provider's own.",
        ],
        tags: &["provider", "network", "timeout", "unknown-outcome"],
    },
    Entry {
        code: codes::PROVIDER_UNREACHABLE,
        theme: Theme::Provider,
        message: "the provider could not be reached: {message}",
        class: "ProviderError::Unreachable",
        error_type: ErrorType::Unavailable,
        severity: Severity::Warning,
        documentation: "No connection came about, so nothing happened at the provider. What was \
            decided stays on record, and cleanup is retried without a last attempt.",
        trigger_scenarios: "the address has no host, the connection is refused, the certificate is \
            not accepted, or the local sandbox's init does not answer its socket.",
        common_situations: &[
            "The network or the provider is down.",
            "The endpoint in the configuration is misspelt.",
            "A proxy or firewall is in the way.",
        ],
        solutions: &[
            "Run `leasehold doctor`: it tries each endpoint and says what fails.",
            "Repeat when the provider is back; removals that wait are retried by themselves.",
        ],
        example_fix: "leasehold doctor\n\
            leasehold ls --attention   # what waits, and when it is tried next",
        handling: Handling::Retry,
        prevention_tips: &["Watch the age of the oldest unproved removal."],
        tags: &["provider", "network", "endpoint"],
    },
    Entry {
        code: codes::PROVIDER_REFUSED,
        theme: Theme::Provider,
        message: "the provider refuses the request: {message}",
        class: "ProviderError::Invalid",
        error_type: ErrorType::Validation,
        severity: Severity::Error,
        documentation: "The provider will never accept the request as it is. Nothing happened \
            there. A lease whose create was refused is closed as never_created, and does not count.",
        trigger_scenarios: "the provider answers that shape, image, egress or another part of the \
            request is not valid.",
        common_situations: &[
            "The shape or image does not exist at this provider.",
            "The request uses something that the account is not allowed.",
        ],
        solutions: &[
            "Correct the part that the message names, and acquire again with a new key.",
            "See what was asked for with `leasehold show LEASE`.",
        ],
        example_fix: "leasehold show ls_abc       # spec: shape huge\n\
            leasehold acquire --shape large",
        handling: Handling::Validation,
        prevention_tips: &["Try a new shape or image with a single `leasehold run` first."],
        tags: &["provider", "validation", "spec"],
    },
    Entry {
        code: codes::PROVIDER_LIMIT,
        theme: Theme::Provider,
        message: "a limit at the provider is reached: {message}",
        class: "ProviderError::LimitReached",
        error_type: ErrorType::Limit,
        severity: Severity::Error,
        documentation: "The account, or the machine, has no room for another sandbox, or sent too \
            many requests. Nothing happened.",
        trigger_scenarios: "the provider refuses a create or another call because of a quota; the \
            local machine lacks memory, user ids or disk.",
        common_situations: &[
            "Sandboxes that Leasehold does not know about use up the account's quota.",
            "Removals are not proved yet, and their sandboxes still count at the provider.",
        ],
        solutions: &[
            "Release what is not needed: `leasehold ls` shows what is open.",
            "Look for sandboxes that nobody needs: `leasehold sweep` reports them.",
            "Ask the provider for a higher limit.",
        ],
        example_fix: "leasehold ls\n\
            leasehold sweep",
        handling: Handling::Retry,
        prevention_tips: &["Set the limit for the home below the provider's own."],
        tags: &["provider", "quota", "limit"],
    },
    Entry {
        code: codes::PROVIDER_BUSY,
        theme: Theme::Provider,
        message: "the sandbox is busy: {message}",
        class: "ProviderError::Busy",
        error_type: ErrorType::Conflict,
        severity: Severity::Warning,
        documentation: "The sandbox is in the middle of something at the provider and cannot do \
            this now. Nothing happened; it may work later. Removals are retried until they work.",
        trigger_scenarios: "a call while the provider starts, suspends, resumes or removes the \
            sandbox.",
        common_situations: &[
            "A destroy arrives while the sandbox is still starting.",
            "A resume arrives while it is being suspended.",
        ],
        solutions: &[
            "Repeat after a moment.",
            "See the sandbox's state with `leasehold show LEASE`.",
        ],
        example_fix: "leasehold show ls_abc\n\
            leasehold resume ls_abc",
        handling: Handling::Retry,
        prevention_tips: &["Wait for the answer of one call before the next."],
        tags: &["provider", "conflict", "state"],
    },
    Entry {
        code: codes::PROVIDER_UNAUTHORIZED,
        theme: Theme::Provider,
        message: "the key is not accepted by the provider",
        class: "ProviderError::Unauthorized",
        error_type: ErrorType::Permission,
        severity: Severity::Critical,
        documentation: "The provider does not accept the key. Nothing happened, and nothing is \
            concluded from it: a lease is never taken for gone because a key has lost its rights.",
        trigger_scenarios: "the provider answers that the key is unknown, expired, revoked or \
            lacks a permission.",
        common_situations: &[
            "The key was rotated, and the configuration has the old one.",
            "The key may create sandboxes, but not read or delete them.",
        ],
        solutions: &[
            "Give a valid key of the same account for this endpoint, then run `leasehold recover`.",
            "Run `leasehold doctor`: it asks each provider whose key it has.",
        ],
        example_fix: "leasehold doctor\n\
            leasehold recover",
        handling: Handling::Escalate,
        prevention_tips: &[
            "Give the new key before you revoke the old one.",
            "Give keys the right to read and delete what they may create.",
        ],
        tags: &["provider", "credential", "permission", "rotation"],
    },
    Entry {
        code: codes::PROVIDER_NOT_FOUND,
        theme: Theme::Provider,
        message: "the sandbox was not found",
        class: "ProviderError::NotFound",
        error_type: ErrorType::NotFound,
        severity: Severity::Warning,
        documentation: "A call did not find the sandbox of a lease. Alone that proves nothing: \
            providers lag and keys change. Two reads by id under the recorded account, far enough \
            apart, decide; then the lease is closed as lost.",
        trigger_scenarios: "an execute, a preparation or a look inside answers that there is no \
            such sandbox.",
        common_situations: &[
            "The provider removed the sandbox by a rule of its own.",
            "Somebody deleted it in the provider's console.",
            "The provider's reads lag behind.",
        ],
        solutions: &[
            "Run `leasehold recover`, then look at `leasehold show LEASE`: it is closed as lost, \
             or was there after all.",
            "Acquire another lease if it is lost.",
        ],
        example_fix: "leasehold recover\n\
            leasehold show ls_abc",
        handling: Handling::Reread,
        prevention_tips: &["Remove sandboxes through Leasehold only."],
        tags: &["provider", "absence", "lost"],
    },
    Entry {
        code: codes::PROVIDER_NAME_TAKEN,
        theme: Theme::Provider,
        message: "the name is taken at the provider",
        class: "ProviderError::NameTaken",
        error_type: ErrorType::Conflict,
        severity: Severity::Warning,
        documentation: "Each create asks for a name that nobody can guess and that is used once. \
            Another sandbox has it; it is not taken over unless account, creation time and birth \
            prove that this very attempt made it. Nothing was made.",
        trigger_scenarios: "a create whose name a live sandbox of the account bears already.",
        common_situations: &[
            "The answer to the first try was lost, and the provider made the sandbox.",
            "A copy of the ledger is in use elsewhere.",
        ],
        solutions: &[
            "Repeat the acquire with the same key: the sandbox is found, or another name is used.",
            "If it comes again, check that this ledger is not a copy: `leasehold ledger check`.",
        ],
        example_fix: "leasehold acquire --key run-7",
        handling: Handling::Retry,
        prevention_tips: &["Never run two copies of one ledger."],
        tags: &["provider", "create", "name"],
    },
    Entry {
        code: codes::PROVIDER_UNSUPPORTED,
        theme: Theme::Provider,
        message: "this provider cannot {operation}",
        class: "ProviderError::Unsupported",
        error_type: ErrorType::Validation,
        severity: Severity::Error,
        documentation: "Providers differ in what they can do: suspend, fork, list, limit egress. \
            This one cannot do what is asked for, and nothing else is done in its place.",
        trigger_scenarios: "a request needs a capability that the provider does not state.",
        common_situations: &[
            "A template is asked for at a provider without forks.",
            "A policy parks by suspending where there is no suspend.",
        ],
        solutions: &[
            "Run `leasehold doctor` to see what each provider can do, and ask for that.",
            "Choose another provider in the configuration.",
        ],
        example_fix: "leasehold doctor\n\
            leasehold config show",
        handling: Handling::Validation,
        prevention_tips: &["Check a configuration against a new provider before switching."],
        tags: &["provider", "capability", "configuration"],
    },
    Entry {
        code: codes::ISOLATION_UNAVAILABLE,
        theme: Theme::Provider,
        message: "this machine cannot isolate a sandbox: {problem}",
        class: "",
        error_type: ErrorType::Unavailable,
        severity: Severity::Error,
        documentation: "A local sandbox needs namespaces and pidfds of the Linux kernel. \
            Something is missing or forbidden here, and no command is run with less isolation than \
            was asked for.",
        trigger_scenarios: "making a local sandbox when the kernel, its settings, or the container \
            that Leasehold itself runs in forbid a namespace or a mount.",
        common_situations: &[
            "The distribution restricts user namespaces for ordinary users.",
            "Leasehold runs in a container without the rights for nested namespaces.",
            "The operating system is not Linux, or its kernel is too old.",
        ],
        solutions: &[
            "Run `leasehold doctor`: it names what is missing and the setting that allows it.",
            "Allow user namespaces for the user, or run as root.",
            "Use a remote provider.",
        ],
        example_fix: "leasehold doctor\n\
            sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0   # on Ubuntu, if it says so",
        handling: Handling::Escalate,
        prevention_tips: &["Run `leasehold doctor` once on every new machine."],
        tags: &["local", "namespaces", "isolation", "kernel"],
    },
    Entry {
        code: codes::NO_PROVIDER,
        theme: Theme::Provider,
        message: "no provider {provider} is set up for {endpoint}",
        class: "",
        error_type: ErrorType::Unavailable,
        severity: Severity::Error,
        documentation: "The lease's home names a provider and an endpoint, and this Leasehold has \
            none of that name there. A lease is only ever dealt with at its recorded home, so \
            nothing was asked anywhere else. The lease stays as it is.",
        trigger_scenarios: "a call or a cleanup for a lease whose provider is not part of this \
            Leasehold, or whose endpoint is not in its configuration.",
        common_situations: &[
            "The ledger was used by a Leasehold with more providers.",
            "A local sandbox's lease is looked at from another machine.",
        ],
        solutions: &[
            "See the lease's home with `leasehold show LEASE`.",
            "Run Leasehold where that provider is set up, and there `leasehold recover`.",
            "If the provider is gone for good, an operator can run `leasehold forget LEASE`.",
        ],
        example_fix: "leasehold show ls_abc     # provider and endpoint",
        handling: Handling::Escalate,
        prevention_tips: &["End a provider's leases before you take it out of the configuration."],
        tags: &["provider", "endpoint", "configuration"],
    },
    Entry {
        code: codes::CREATE_UNSETTLED,
        theme: Theme::Provider,
        message: "the create of lease {lease} got no answer yet: ask again with the same key",
        class: "",
        error_type: ErrorType::Unknown,
        severity: Severity::Warning,
        documentation: "The create was sent and no answer came within the time for it, and the \
            sandbox was not found by its name yet. It is never created again blindly. Whatever \
            comes of it is on record: it is found and used by a repeated acquire with the same key, \
            or found and removed.",
        trigger_scenarios: "an acquire whose create lost its answer, or whose lease another node \
            is still making, when the provisioning time is over.",
        common_situations: &[
            "The provider is slow or was restarted while it made the sandbox.",
            "Two processes acquire with one key at the same time.",
        ],
        solutions: &[
            "Acquire again with the same key: it goes on from where this one stopped.",
            "Without a key, acquire anew; the old attempt is cleaned up by `leasehold recover`.",
            "Look at what is known with `leasehold show LEASE`.",
        ],
        example_fix: "leasehold acquire --key build-42",
        handling: Handling::Retry,
        prevention_tips: &["Give each acquire a key, so that it can be repeated safely."],
        tags: &["acquire", "create", "unknown-outcome", "retry"],
    },
];
