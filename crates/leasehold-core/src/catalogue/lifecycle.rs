//! Errors about where a lease stands.

use super::{Entry, ErrorType, Handling, Severity, Theme, codes};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        code: "not-ready",
        theme: Theme::Lifecycle,
        message: "lease {lease} is {state}: wait until it is active",
        class: "Refusal::NotReady",
        error_type: ErrorType::State,
        severity: Severity::Warning,
        documentation: "The sandbox is still being made, prepared or taken up again. It can be \
            destroyed already, but not used yet.",
        trigger_scenarios: "a use of a lease that is requested, creating, preparing or resuming.",
        common_situations: &[
            "A second process uses a lease id before the acquire has answered.",
            "The provider is slow to make the sandbox.",
        ],
        solutions: &[
            "Wait until `leasehold show LEASE` says active, then repeat.",
            "If it takes longer than the provisioning limit, look at `leasehold history LEASE`.",
        ],
        example_fix: "leasehold wait ls_abc --state active\n\
            leasehold exec ls_abc -- true",
        handling: Handling::Retry,
        prevention_tips: &["Use a lease only after its acquire or resume has answered."],
        tags: &["lease", "state", "provisioning"],
    },
    Entry {
        code: "resume-first",
        theme: Theme::Lifecycle,
        message: "lease {lease} is parked: resume it first",
        class: "Refusal::ResumeFirst",
        error_type: ErrorType::State,
        severity: Severity::Error,
        documentation: "A parked sandbox is clean and waits for its owner's next use. Before that \
            use its identity and marker are checked again, which is what resume does.",
        trigger_scenarios: "execute on a parked lease.",
        common_situations: &[
            "A run goes on after another part of it released the lease.",
            "A resume that nobody acknowledged in time was taken back.",
        ],
        solutions: &["Run `leasehold resume LEASE`, then repeat the command."],
        example_fix: "leasehold resume ls_abc\n\
            leasehold exec ls_abc -- make test",
        handling: Handling::Reread,
        prevention_tips: &["Release a lease only at the end of the run that uses it."],
        tags: &["lease", "state", "park", "resume"],
    },
    Entry {
        code: "park-first",
        theme: Theme::Lifecycle,
        message: "lease {lease} is active: park it first",
        class: "Refusal::ParkFirst",
        error_type: ErrorType::State,
        severity: Severity::Error,
        documentation: "What is asked for needs a clean sandbox that nobody uses. Parking stops \
            the commands of the current use and proves that they are over.",
        trigger_scenarios: "resume or promotion to a template of an active lease.",
        common_situations: &[
            "The last run crashed and never released its lease.",
            "A template is to be made of a sandbox that is still in use.",
        ],
        solutions: &[
            "Run `leasehold park LEASE`, then repeat.",
            "See whether somebody still uses it with `leasehold show LEASE`.",
        ],
        example_fix: "leasehold park ls_abc\n\
            leasehold resume ls_abc",
        handling: Handling::Reread,
        prevention_tips: &["Release on every way out of a run, errors included."],
        tags: &["lease", "state", "park", "resume", "template"],
    },
    Entry {
        code: "lease-busy",
        theme: Theme::Lifecycle,
        message: "lease {lease} is {state}: try again when that is over",
        class: "Refusal::Busy",
        error_type: ErrorType::State,
        severity: Severity::Warning,
        documentation: "One step at a time is done with a lease, and one is under way now. Nothing \
            was changed, and the refused request is not carried out later.",
        trigger_scenarios: "execute, park or resume while the lease is parking or resuming; a \
            repeated create while the outcome of the last one is still being looked for.",
        common_situations: &[
            "A release and the next resume of a run overlap.",
            "The answer to a create was lost, and the provider may still make the sandbox.",
        ],
        solutions: &[
            "Repeat after a moment, with growing pauses.",
            "See what is under way with `leasehold history LEASE`.",
            "To end the lease instead, run `leasehold destroy LEASE`: that is possible at any \
             time.",
        ],
        example_fix: "leasehold wait ls_abc --state parked\n\
            leasehold resume ls_abc",
        handling: Handling::Retry,
        prevention_tips: &["Wait for the answer of a release before the next resume."],
        tags: &["lease", "state", "concurrency"],
    },
    Entry {
        code: "lease-closing",
        theme: Theme::Lifecycle,
        message: "lease {lease} is closing: {reason}",
        class: "Refusal::Closing",
        error_type: ErrorType::State,
        severity: Severity::Error,
        documentation: "The removal of the sandbox was decided, and is never undone. The lease \
            cannot be used any more; its cleanup goes on until there is proof.",
        trigger_scenarios: "any use of a lease that is destroying for a reason other than a \
            deadline.",
        common_situations: &[
            "The lease was released or destroyed by another part of the run.",
            "The stop of its last commands could not be confirmed, so the sandbox is removed \
             instead of handed on.",
            "Its acquire was never acknowledged.",
        ],
        solutions: &[
            "Acquire another lease.",
            "See why and since when with `leasehold history LEASE`.",
        ],
        example_fix: "leasehold history ls_abc\n\
            leasehold acquire --for 1h",
        handling: Handling::Reacquire,
        prevention_tips: &[
            "End what a run started before releasing the lease.",
            "Acknowledge an acquire by using the lease soon after the answer.",
        ],
        tags: &["lease", "state", "destroy"],
    },
    Entry {
        code: "lease-expired",
        theme: Theme::Lifecycle,
        message: "lease {lease} has expired",
        class: "Refusal::Expired",
        error_type: ErrorType::Deadline,
        severity: Severity::Error,
        documentation: "A deadline of the lease has passed: its idle time, its lifetime, or the \
            time for making it. From that instant it can be neither renewed nor used, so that its \
            cleanup never races with a late renewal.",
        trigger_scenarios: "execute, touch, renew or resume at or after the lease's deadline; a \
            resume that needs more life than is left; any use of a lease whose deadline began its \
            removal.",
        common_situations: &[
            "A command ran longer than the lease was acquired for.",
            "The machine slept.",
            "The caller was silent for longer than the idle time.",
        ],
        solutions: &[
            "Acquire another lease, with a longer life: `leasehold acquire --for 4h`.",
            "See its deadlines with `leasehold show LEASE`.",
        ],
        example_fix: "leasehold acquire --for 4h\n\
            leasehold renew ls_new --for 4h   # in time, from a timer",
        handling: Handling::Reacquire,
        prevention_tips: &[
            "Renew at half of the time that is left, not at the end.",
            "Ask for a life that covers the longest command.",
        ],
        tags: &["lease", "deadline", "renew", "expiry"],
    },
    Entry {
        code: "lease-gone",
        theme: Theme::Lifecycle,
        message: "lease {lease} has ended: {ending}",
        class: "Refusal::Gone",
        error_type: ErrorType::State,
        severity: Severity::Error,
        documentation: "The lease has ended, and its receipt says how: destroyed, already_absent, \
            never_created, lost or forgotten. Its sandbox is not handed out again.",
        trigger_scenarios: "execute, acknowledge, renew, resume or promotion of a closed lease.",
        common_situations: &[
            "A stored lease id is used long after its run.",
            "The provider removed the sandbox (lost), for instance by its own rule for long pauses.",
        ],
        solutions: &[
            "Acquire another lease.",
            "Read its receipt with `leasehold show LEASE`: how it ended, what proves it, who \
             asked.",
        ],
        example_fix: "leasehold show ls_abc\n\
            leasehold acquire --for 1h",
        handling: Handling::Reacquire,
        prevention_tips: &[
            "Forget a lease id when its release has answered.",
            "Treat this answer of a resume as \"acquire instead\", not as a failure.",
        ],
        tags: &["lease", "state", "receipt", "closed"],
    },
    Entry {
        code: "beyond-life",
        theme: Theme::Lifecycle,
        message: "lease {lease} may live until {latest} at the most, {longest} after its acquire",
        class: "Refusal::BeyondLife",
        error_type: ErrorType::Limit,
        severity: Severity::Error,
        documentation: "Every lease has a longest life, counted from its acquire across parking, \
            resuming and renewing. A renewal cannot go beyond it: nothing is lent for ever. The \
            lease keeps the end that it had.",
        trigger_scenarios: "a renewal to a time after the acquire plus the longest life (30 days \
            by default).",
        common_situations: &[
            "A service renews one lease for weeks.",
            "The renewal was given in the wrong unit.",
        ],
        solutions: &[
            "Renew to the time that the message names, or earlier.",
            "Move to a new lease before that time: acquire, copy, release the old one.",
        ],
        example_fix: "leasehold renew ls_abc --for 2h",
        handling: Handling::Validation,
        prevention_tips: &["Plan to replace a long-lived sandbox; do not only renew it."],
        tags: &["lease", "deadline", "renew", "limit"],
    },
    Entry {
        code: "is-template",
        theme: Theme::Lifecycle,
        message: "{lease} is a template: it is only forked, listed and deleted",
        class: "Refusal::Template",
        error_type: ErrorType::State,
        severity: Severity::Error,
        documentation: "A template is a golden sandbox that others are forked from. It has no \
            deadline and is never used itself, so that every fork starts from the same state.",
        trigger_scenarios: "execute, renew, park, resume or promotion of a template.",
        common_situations: &["A template's id is used where a lease's id is meant."],
        solutions: &["To delete the template, run `leasehold destroy TEMPLATE`."],
        example_fix: "leasehold show ls_template   # kind: template",
        handling: Handling::Validation,
        prevention_tips: &["Keep the ids of templates apart from those of leases."],
        tags: &["template", "fork", "state"],
    },
    Entry {
        code: "lease-claimed",
        theme: Theme::Lifecycle,
        message: "lease {lease} is in the hands of {node}",
        class: "Refusal::Claimed",
        error_type: ErrorType::Conflict,
        severity: Severity::Info,
        documentation: "Another running Leasehold does the lease's next step, under a claim that \
            it renews for as long as it works. When that process dies, its claim ends at once or \
            runs out, and the step is taken over.",
        trigger_scenarios: "a create or a takeover while another node's claim is in force.",
        common_situations: &[
            "`leasehold recover` runs while the worker that owns the step is alive.",
            "The process that held the claim was killed on another machine, a moment ago.",
        ],
        solutions: &[
            "Wait: the claim ends with the step, or runs out.",
            "If the process is dead, run `leasehold recover` again after the claim's end, which \
             `leasehold show LEASE` tells.",
        ],
        example_fix: "leasehold show ls_abc    # claim: node_…, until …\n\
            leasehold recover",
        handling: Handling::Retry,
        prevention_tips: &["Stop a worker with SIGTERM: it gives its claims back."],
        tags: &["node", "claim", "concurrency", "recovery"],
    },
    Entry {
        code: "late-outcome",
        theme: Theme::Lifecycle,
        message: "the outcome for lease {lease} came too late",
        class: "Refusal::LateOutcome",
        error_type: ErrorType::Conflict,
        severity: Severity::Info,
        documentation: "The answer belongs to a step that another decision has replaced meanwhile. \
            It decides nothing and destroys nothing; the lease goes on as its record says.",
        trigger_scenarios: "a provider's answer comes back after the lease's epoch has risen: the \
            lease was destroyed, taken over or closed in between.",
        common_situations: &[
            "A destroy overtook a slow preparation or clean.",
            "A process was stopped for longer than its claim, and another took the step over.",
        ],
        solutions: &[
            "Read the lease again with `leasehold show LEASE`, and go on from there.",
            "See what came in between with `leasehold history LEASE`.",
        ],
        example_fix: "leasehold history ls_abc",
        handling: Handling::Reread,
        prevention_tips: &["None needed: it is the fence at work."],
        tags: &["epoch", "fencing", "concurrency"],
    },
    Entry {
        code: "not-due",
        theme: Theme::Lifecycle,
        message: "nothing is due for lease {lease}",
        class: "Refusal::NotDue",
        error_type: ErrorType::State,
        severity: Severity::Info,
        documentation: "A deadline, a takeover or a cleanup was about to be carried out, and the \
            record shows that it is not due: it was renewed, done or moved in between. Nothing was \
            changed.",
        trigger_scenarios: "an expiry before the deadline, a take-back of a grant that was \
            acknowledged, a takeover of a lease that has no open step, a reopening of an open \
            lease.",
        common_situations: &[
            "The owner renewed the lease in the instant in which it would have expired.",
            "Two processes looked for due work, and the other one did it.",
        ],
        solutions: &["Nothing: it is looked at again when it is due."],
        example_fix: "leasehold show ls_abc    # expires …, next attempt …",
        handling: Handling::Reread,
        prevention_tips: &["None needed: the record, not a timer, decides."],
        tags: &["deadline", "expiry", "recovery"],
    },
    Entry {
        code: "lease-forgotten",
        theme: Theme::Lifecycle,
        message: "lease {lease} was forgotten by an operator and is left alone",
        class: "Refusal::Forgotten",
        error_type: ErrorType::State,
        severity: Severity::Warning,
        documentation: "An operator gave this lease up, on the record. If its sandbox turns up \
            again, no sweep removes it: the decision was that it is not Leasehold's any more.",
        trigger_scenarios: "a sweep finds the sandbox of a lease that was closed as forgotten.",
        common_situations: &[
            "A lease was forgotten to keep its sandbox, or in a hurry, and the sandbox still runs.",
        ],
        solutions: &[
            "If it should go, an operator runs `leasehold destroy --orphan SANDBOX`.",
            "If it should stay, nothing: it is only reported.",
        ],
        example_fix: "leasehold sweep                      # reports the sandbox\n\
            leasehold destroy --orphan SANDBOX   # after a look at what was found",
        handling: Handling::Escalate,
        prevention_tips: &["Forget only what can never be proved gone."],
        tags: &["forget", "sweep", "orphan", "operator"],
    },
    Entry {
        code: codes::LIMIT_REACHED,
        theme: Theme::Lifecycle,
        message: "{whose} has {open} open leases, and may have {limit}",
        class: "LedgerError::LimitReached",
        error_type: ErrorType::Limit,
        severity: Severity::Error,
        documentation: "The number of open leases is limited for each owner and for each home. \
            Leases whose removal is not proved yet count: their sandboxes may still run and cost \
            money. The limit never stands in the way of a release or a destroy.",
        trigger_scenarios: "an acquire when the owner, or the home, has as many open leases as it \
            may.",
        common_situations: &[
            "Runs crashed without a release, and their leases have not expired yet.",
            "The provider is down, and removals wait for their proof.",
            "More runs start at once than the limit allows.",
        ],
        solutions: &[
            "See what is open with `leasehold ls`, and release what is not needed.",
            "See what waits for proof, and why, with `leasehold ls --attention`.",
            "Raise the limit in the configuration; `leasehold config show` names the file.",
        ],
        example_fix: "leasehold ls\n\
            leasehold release ls_old\n\
            leasehold acquire --for 1h",
        handling: Handling::Retry,
        prevention_tips: &[
            "Release on every way out of a run.",
            "Watch the number of leases in quarantine.",
        ],
        tags: &["limit", "quota", "acquire", "quarantine"],
    },
];
