//! The codes of errors that are not refusals of the lifecycle. Those carry theirs in
//! [`Refusal::code`](crate::Refusal::code).

/// The row changed between reading and writing.
pub const LEDGER_CONFLICT: &str = "ledger-conflict";
/// The acquire key has a row already.
pub const KEY_TAKEN: &str = "key-taken";
/// Another open row pins the sandbox.
pub const PIN_TAKEN: &str = "pin-taken";
/// The owner or the home has as many open leases as it may.
pub const LIMIT_REACHED: &str = "limit-reached";
/// Too many removals that nobody asked for.
pub const BRAKE_ON: &str = "brake-on";
/// The ledger is behind, copied or from another machine.
pub const LEDGER_RESTORED: &str = "ledger-restored";
/// A row cannot be read.
pub const LEDGER_DAMAGED_ROW: &str = "ledger-damaged-row";
/// A newer Leasehold wrote the ledger.
pub const LEDGER_TOO_NEW: &str = "ledger-too-new";
/// The file system cannot keep a ledger.
pub const LEDGER_UNSUITABLE: &str = "ledger-unsuitable";
/// The ledger can be neither read nor written.
pub const LEDGER_UNAVAILABLE: &str = "ledger-unavailable";

/// The name of an attempt is taken at the provider.
pub const PROVIDER_NAME_TAKEN: &str = "provider-name-taken";
/// A limit of the account or the machine is reached.
pub const PROVIDER_LIMIT: &str = "provider-limit";
/// The provider will never accept the request as it is.
pub const PROVIDER_REFUSED: &str = "provider-refused";
/// The sandbox is not in a state for this now.
pub const PROVIDER_BUSY: &str = "provider-busy";
/// The provider does not accept the key.
pub const PROVIDER_UNAUTHORIZED: &str = "provider-unauthorized";
/// A call other than a read or a removal did not find the sandbox.
pub const PROVIDER_NOT_FOUND: &str = "provider-not-found";
/// The provider cannot do this at all.
pub const PROVIDER_UNSUPPORTED: &str = "provider-unsupported";
/// The provider could not be reached: nothing happened.
pub const PROVIDER_UNREACHABLE: &str = "provider-unreachable";
/// No usable answer came: it may have happened.
pub const PROVIDER_NO_ANSWER: &str = "provider-no-answer";
/// The key belongs to another account than the lease.
pub const WRONG_ACCOUNT: &str = "wrong-account";
/// There is no key for the lease's home.
pub const NO_CREDENTIAL: &str = "no-credential";
/// The machine lacks what a local sandbox needs.
pub const ISOLATION_UNAVAILABLE: &str = "isolation-unavailable";

/// There is no such program in the sandbox.
pub const PROGRAM_NOT_FOUND: &str = "program-not-found";
/// The program cannot be executed.
pub const PROGRAM_NOT_EXECUTABLE: &str = "program-not-executable";
/// There is no such directory in the sandbox.
pub const NO_DIRECTORY: &str = "no-directory";
/// The sandbox's fence is above the command's grant.
pub const STALE_FENCE: &str = "stale-fence";
/// Whether or how the command ran is not known.
pub const COMMAND_OUTCOME_UNKNOWN: &str = "command-outcome-unknown";
/// The end of the last use's processes is not proved.
pub const CLEANUP_UNCONFIRMED: &str = "cleanup-unconfirmed";
/// Something in a file tree or an archive is not allowed in a transfer.
pub const TRANSFER_REFUSED: &str = "transfer-refused";
/// A limit of a transfer was passed.
pub const TRANSFER_LIMIT: &str = "transfer-limit";
/// A transfer's stream is damaged or was cut off.
pub const TRANSFER_DAMAGED: &str = "transfer-damaged";
/// A file system, or the other side of a transfer, said no.
pub const TRANSFER_FAILED: &str = "transfer-failed";
/// A time limit of the caller passed.
pub const TIMEOUT: &str = "timeout";

/// No lease has the id.
pub const NO_SUCH_LEASE: &str = "no-such-lease";
/// Several leases begin with the id.
pub const AMBIGUOUS_LEASE_ID: &str = "ambiguous-lease-id";
/// An argument cannot be used.
pub const BAD_ARGUMENT: &str = "bad-argument";
/// The configuration cannot be used.
pub const CONFIGURATION_INVALID: &str = "configuration-invalid";

/// A row to be written breaks a rule of every row.
pub const LEDGER_INVALID_WRITE: &str = "ledger-invalid-write";
/// No provider of that name and endpoint is set up.
pub const NO_PROVIDER: &str = "no-provider";
/// A create got no answer, and its sandbox was not found in time.
pub const CREATE_UNSETTLED: &str = "create-unsettled";
/// This Leasehold is shutting down.
pub const DRAINING: &str = "draining";

/// Due work waits for longer than it may.
pub const WORK_OVERDUE: &str = "work-overdue";
/// A lease has something that only a person can judge.
pub const LEASE_ATTENTION: &str = "lease-attention";

/// Every code of this module, for tests that each can be explained.
pub const ALL: [&str; 43] = [
    LEDGER_CONFLICT,
    KEY_TAKEN,
    PIN_TAKEN,
    LIMIT_REACHED,
    BRAKE_ON,
    LEDGER_RESTORED,
    LEDGER_DAMAGED_ROW,
    LEDGER_TOO_NEW,
    LEDGER_UNSUITABLE,
    LEDGER_UNAVAILABLE,
    PROVIDER_NAME_TAKEN,
    PROVIDER_LIMIT,
    PROVIDER_REFUSED,
    PROVIDER_BUSY,
    PROVIDER_UNAUTHORIZED,
    PROVIDER_NOT_FOUND,
    PROVIDER_UNSUPPORTED,
    PROVIDER_UNREACHABLE,
    PROVIDER_NO_ANSWER,
    WRONG_ACCOUNT,
    NO_CREDENTIAL,
    ISOLATION_UNAVAILABLE,
    PROGRAM_NOT_FOUND,
    PROGRAM_NOT_EXECUTABLE,
    NO_DIRECTORY,
    STALE_FENCE,
    COMMAND_OUTCOME_UNKNOWN,
    CLEANUP_UNCONFIRMED,
    TRANSFER_REFUSED,
    TRANSFER_LIMIT,
    TRANSFER_DAMAGED,
    TRANSFER_FAILED,
    TIMEOUT,
    NO_SUCH_LEASE,
    AMBIGUOUS_LEASE_ID,
    BAD_ARGUMENT,
    CONFIGURATION_INVALID,
    LEDGER_INVALID_WRITE,
    NO_PROVIDER,
    CREATE_UNSETTLED,
    DRAINING,
    WORK_OVERDUE,
    LEASE_ATTENTION,
];
