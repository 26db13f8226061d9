//! Errors about whose a lease is, and who may do what with it.

use super::{Entry, ErrorType, Handling, Severity, Theme, codes};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        code: "not-owner",
        theme: Theme::Ownership,
        message: "lease {lease} does not belong to this {field}",
        class: "Refusal::NotOwner",
        error_type: ErrorType::Permission,
        severity: Severity::Error,
        documentation: "A lease belongs to one company and one environment, and only they can use, \
            release or destroy it. The proof is Leasehold's own record; an id, a name or a label \
            authorises nothing. The message names the part that differs and never shows the other \
            tenant's value. Nothing was changed, and no provider was asked.",
        trigger_scenarios: "an owner's call (execute, acknowledge, renew, park, resume, release, \
            destroy) names a lease whose recorded company or environment is not the caller's.",
        common_situations: &[
            "A cleanup job of environment A releases the leases of environment B.",
            "A lease id was copied from another project's log or configuration.",
            "The environment was renamed, and the old leases belong to the old name.",
        ],
        solutions: &[
            "Run `leasehold show LEASE` as an operator to see whose it is, and repeat the call as \
             that owner.",
            "If the owner no longer exists, let an operator end it: `leasehold destroy LEASE` as \
             operator.",
            "If you expected it to be yours, list your own leases with `leasehold ls`.",
        ],
        example_fix: "# before: refused, the lease belongs to acme/staging\n\
            leasehold release ls_abc --owner acme/production\n\
            # after\n\
            leasehold release ls_abc --owner acme/staging",
        handling: Handling::Validation,
        prevention_tips: &[
            "Keep lease id and owner together, as the acquire returned them.",
            "Let each cleanup job list its own owner's leases instead of replaying ids.",
        ],
        tags: &["lease", "ownership", "tenant", "permission"],
    },
    Entry {
        code: "operator-only",
        theme: Theme::Ownership,
        message: "only an operator may do this to lease {lease}",
        class: "Refusal::OperatorOnly",
        error_type: ErrorType::Permission,
        severity: Severity::Error,
        documentation: "Giving a lease up without proof that its sandbox is gone can leave a \
            machine running at somebody's cost. Only a person who runs this Leasehold may decide \
            that, and the decision is kept on record.",
        trigger_scenarios: "an owner asks to forget a lease.",
        common_situations: &[
            "A program wants to get rid of a lease whose removal is not proved yet.",
            "A script written for operators runs with an owner's rights.",
        ],
        solutions: &[
            "Release or destroy the lease instead: `leasehold destroy LEASE`; cleanup goes on \
             until it is proved.",
            "If the sandbox is known to be gone for good, ask an operator to run \
             `leasehold forget LEASE`.",
        ],
        example_fix: "# the owner ends it; an operator forgets it only if it can never be proved\n\
            leasehold destroy ls_abc",
        handling: Handling::Escalate,
        prevention_tips: &[
            "Call destroy and stop waiting: an unproved removal is retried without your help.",
        ],
        tags: &["lease", "operator", "forget", "permission"],
    },
    Entry {
        code: "stale-grant",
        theme: Theme::Ownership,
        message: "grant {presented} of lease {lease} is no longer current: another run has resumed \
            it",
        class: "Refusal::StaleGrant",
        error_type: ErrorType::Conflict,
        severity: Severity::Error,
        documentation: "Each acquire or resume answers with a new grant, and only the newest one \
            can use the lease. The refusal keeps a run that was thought dead from working in, or \
            ending, a sandbox that a later run has taken up. Nothing was changed.",
        trigger_scenarios: "execute, renew, release or destroy presents a grant below the lease's \
            current one. Until the newest grant is acknowledged, the one before it may still \
            release and destroy.",
        common_situations: &[
            "A run was restarted; its first process woke up and goes on with the old grant.",
            "Lease metadata from before a resume was stored and is sent again.",
            "Two workers believe that they own the same run.",
        ],
        solutions: &[
            "Stop the old run: the lease is in the hands of a newer one.",
            "If yours is the newer run, send the metadata that its own resume returned.",
            "See who resumed it with `leasehold history LEASE`.",
        ],
        example_fix: "# after a resume, carry the grant that the resume printed\n\
            leasehold resume ls_abc --json\n\
            leasehold exec ls_abc -- make test",
        handling: Handling::Escalate,
        prevention_tips: &[
            "Replace the stored lease metadata with the answer of every resume.",
            "Let one worker at a time own a run.",
        ],
        tags: &["lease", "grant", "fencing", "concurrency"],
    },
    Entry {
        code: "key-conflict",
        theme: Theme::Ownership,
        message: "this acquire key was used with another request (lease {lease})",
        class: "Refusal::KeyConflict",
        error_type: ErrorType::Conflict,
        severity: Severity::Error,
        documentation: "An acquire key stands for one request: repeated with the same request it \
            gives the same lease, so that a lost answer costs no second sandbox. With another \
            request (another shape, image, egress or environment) it is refused without effect.",
        trigger_scenarios: "an acquire repeats a key of the same owner and home with an intent \
            whose digest differs from the recorded one.",
        common_situations: &[
            "The key is built from a job's name only, and the job's settings were edited.",
            "Two different jobs use the same key.",
        ],
        solutions: &[
            "Use a new key for the new request.",
            "To keep the key, repeat the first request unchanged; `leasehold show LEASE` shows \
             what it asked for.",
        ],
        example_fix: "# before\n\
            leasehold acquire --key build-42 --shape large\n\
            # after: another request, another key\n\
            leasehold acquire --key build-42-large --shape large",
        handling: Handling::Validation,
        prevention_tips: &[
            "Derive the key from the run's id, not from a name that outlives its settings.",
        ],
        tags: &["acquire", "idempotency", "key"],
    },
    Entry {
        code: "key-used",
        theme: Theme::Ownership,
        message: "this acquire key is used up (lease {lease})",
        class: "Refusal::KeyUsed",
        error_type: ErrorType::Conflict,
        severity: Severity::Error,
        documentation: "A key gives its lease while the acquire is under way or its first grant is \
            current. Once that lease was released, resumed or ended, the key is used up for good: a \
            late repetition must not bring a second sandbox to life.",
        trigger_scenarios: "an acquire repeats a key whose lease is parking, parked, resuming, \
            destroying or closed, or has been resumed since.",
        common_situations: &[
            "A queue delivers the acquire of a finished run once more.",
            "A run is started again under its old id.",
        ],
        solutions: &[
            "Acquire with a new key.",
            "If the lease is parked and you want that sandbox, use `leasehold resume LEASE`.",
        ],
        example_fix: "leasehold show ls_abc        # ended: closed(destroyed)\n\
            leasehold acquire --key run-7-second",
        handling: Handling::Reacquire,
        prevention_tips: &["Number the rounds of a run and put the number into the key."],
        tags: &["acquire", "idempotency", "key"],
    },
    Entry {
        code: codes::KEY_TAKEN,
        theme: Theme::Ownership,
        message: "the acquire key was used before (lease {lease})",
        class: "LedgerError::KeyTaken",
        error_type: ErrorType::Conflict,
        severity: Severity::Warning,
        documentation: "Another acquire with this key wrote its record first. The ledger lets one \
            of several acquires with one key through; the others get its lease, or a refusal that \
            says why not.",
        trigger_scenarios: "two acquires with one key, owner and home reach the ledger together, \
            and this one came second.",
        common_situations: &[
            "A client repeats an acquire before the first has answered.",
            "Several workers start the same run at once.",
        ],
        solutions: &[
            "Repeat the acquire with the same key: it is answered with the lease that was made.",
            "Look at that lease with `leasehold show LEASE`.",
        ],
        example_fix: "leasehold acquire --key run-7   # the second gets the lease of the first",
        handling: Handling::Retry,
        prevention_tips: &["Start each run from one place, and wait for an acquire's answer."],
        tags: &["acquire", "idempotency", "key", "concurrency"],
    },
    Entry {
        code: codes::PIN_TAKEN,
        theme: Theme::Ownership,
        message: "the sandbox belongs to another lease",
        class: "LedgerError::PinTaken",
        error_type: ErrorType::Conflict,
        severity: Severity::Error,
        documentation: "One sandbox is bound to one open lease at a time. Another open lease is \
            bound to this one, so nothing was written: otherwise the end of one lease could take \
            the sandbox of another. The message does not name that lease, which may be another \
            owner's; an operator can find it.",
        trigger_scenarios: "a record would be bound to a sandbox (at a create, an adoption or a \
            reopening) to which another open record of the same home is bound already.",
        common_situations: &[
            "Somebody adopts a sandbox that Leasehold made itself.",
            "The provider gave the id of a vanished sandbox to a new one before the old lease was \
             closed as lost.",
        ],
        solutions: &[
            "As an operator, find the lease that has it: `leasehold destroy --orphan SANDBOX --dry-run` \
             names it.",
            "If its sandbox is gone, `leasehold recover` reads it again and closes it as lost; \
             then repeat.",
            "If it is the right one, use that lease, or destroy it first.",
        ],
        example_fix: "leasehold destroy --orphan SANDBOX --dry-run\n\
            leasehold recover",
        handling: Handling::Reread,
        prevention_tips: &["Adopt only sandboxes that `leasehold sweep` reports as unknown."],
        tags: &["sandbox", "pin", "adopt", "ownership"],
    },
    Entry {
        code: codes::WRONG_ACCOUNT,
        theme: Theme::Ownership,
        message: "the key for {endpoint} belongs to another account than lease {lease}",
        class: "",
        error_type: ErrorType::Permission,
        severity: Severity::Critical,
        documentation: "Before any answer of a provider is interpreted, it is asked whose account \
            the key belongs to. Under another account a sandbox is \"not found\" although it lives \
            and costs money; so nothing that this key says about the lease is believed, and the \
            lease stays open.",
        trigger_scenarios: "the account that the provider names for the key differs from the \
            account in the lease's record.",
        common_situations: &[
            "The API key was replaced by one of another team or project.",
            "Production's key is configured for staging's endpoint.",
            "The account was merged or renamed at the provider.",
        ],
        solutions: &[
            "Give the endpoint a key of the account that made the sandbox, then run \
             `leasehold recover`.",
            "See which account it was with `leasehold show LEASE`.",
            "If that account no longer exists, an operator can run `leasehold forget LEASE`.",
        ],
        example_fix: "leasehold show ls_abc    # home: createos at https://… as account-1\n\
            # put a key of account-1 into the key file, then\n\
            leasehold recover",
        handling: Handling::Escalate,
        prevention_tips: &[
            "Rotate keys within one account.",
            "Destroy an account's leases before you leave it: `leasehold ls` shows them.",
        ],
        tags: &["credential", "account", "rotation", "provider"],
    },
    Entry {
        code: codes::NO_CREDENTIAL,
        theme: Theme::Ownership,
        message: "waiting for a key for {endpoint}",
        class: "",
        error_type: ErrorType::Unavailable,
        severity: Severity::Critical,
        documentation: "A key is sent only to the endpoint that it was given for. No key that is \
            known now was given for the endpoint of this lease, so it can be neither used nor \
            ended until one is. It stays on record and counts against its owner's limit.",
        trigger_scenarios: "a lease needs its provider, and neither the call's configuration nor \
            the key file nor the keyring has a key for the recorded endpoint.",
        common_situations: &[
            "The endpoint in the configuration was edited while leases at the old one were open.",
            "The key was removed before the last lease ended.",
            "Recovery runs as another user, who has no key file.",
        ],
        solutions: &[
            "Give a key for the endpoint that the message names, then run `leasehold recover`.",
            "List what waits with `leasehold ls --attention`.",
            "If no key can be had any more, an operator can run `leasehold forget LEASE`.",
        ],
        example_fix: "leasehold ls --attention\n\
            leasehold recover",
        handling: Handling::Escalate,
        prevention_tips: &[
            "Keep an old endpoint's key until `leasehold ls` shows no lease there.",
            "Run `leasehold doctor` after an edit of the configuration.",
        ],
        tags: &["credential", "endpoint", "configuration", "quarantine"],
    },
];
