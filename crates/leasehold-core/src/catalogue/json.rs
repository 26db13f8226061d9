//! The catalogue as JSON, in the field names that tools for error catalogues read.

use serde_json::{Value, json};

use super::{Entry, all};

/// The version of the field names.
const SCHEMA_VERSION: u32 = 2;

/// Every field of a record. Those that do not apply to a catalogue are null, so that a reader
/// always finds the same fields:
///
/// - `httpStatus`: no HTTP front end raises these errors yet;
/// - `filePath`, `lineNumber`, `sourceCode`, `sourceCodeStart`, `sourceCodeEnd`, `githubUrl`,
///   `analyzedSha`, `analyzedAt`, `contentChangedAt`: they describe a record that was found by
///   reading source text; this one is part of the source;
/// - `validationCode`, `typeGuard`, `tryCatchPattern`: they hold code of a language that callers of
///   Leasehold need not use; `exampleFix` holds a shell session instead.
pub const FIELDS: [&str; 32] = [
    "id",
    "repo",
    "slug",
    "errorCode",
    "errorMessage",
    "messagePattern",
    "errorType",
    "errorClass",
    "httpStatus",
    "severity",
    "filePath",
    "lineNumber",
    "sourceCode",
    "sourceCodeStart",
    "sourceCodeEnd",
    "githubUrl",
    "documentation",
    "triggerScenarios",
    "commonSituations",
    "solutions",
    "exampleFix",
    "handlingStrategy",
    "validationCode",
    "typeGuard",
    "tryCatchPattern",
    "preventionTips",
    "tags",
    "backgroundTag",
    "analyzedSha",
    "analyzedAt",
    "contentChangedAt",
    "schemaVersion",
];

/// One entry: `{"record": {…}, "datasetVersion": …}`. The dataset's version is Leasehold's.
#[must_use]
pub fn to_json(entry: &Entry) -> Value {
    let class = Some(entry.class).filter(|class| !class.is_empty());
    json!({
        "record": {
            "id": identifier(entry.code),
            "repo": "leasehold",
            "slug": entry.code,
            "errorCode": entry.code,
            "errorMessage": entry.message,
            "messagePattern": entry.message_pattern(),
            "errorType": entry.error_type.name(),
            "errorClass": class,
            "httpStatus": null,
            "severity": entry.severity.name(),
            "filePath": null,
            "lineNumber": null,
            "sourceCode": null,
            "sourceCodeStart": null,
            "sourceCodeEnd": null,
            "githubUrl": null,
            "documentation": entry.documentation,
            "triggerScenarios": entry.trigger_scenarios,
            "commonSituations": entry.common_situations.join(" "),
            "solutions": entry.solutions,
            "exampleFix": entry.example_fix,
            "handlingStrategy": entry.handling.name(),
            "validationCode": null,
            "typeGuard": null,
            "tryCatchPattern": null,
            "preventionTips": entry.prevention_tips,
            "tags": entry.tags,
            "backgroundTag": entry.theme.name(),
            "analyzedSha": null,
            "analyzedAt": null,
            "contentChangedAt": null,
            "schemaVersion": SCHEMA_VERSION,
        },
        "datasetVersion": env!("CARGO_PKG_VERSION"),
    })
}

/// Every entry, as [`to_json`] writes one.
#[must_use]
pub fn export() -> Value {
    Value::Array(all().iter().map(to_json).collect())
}

/// 16 hexadecimal digits that depend on the code alone (64-bit FNV-1a), so that a record keeps its
/// id when its text is improved.
fn identifier(code: &str) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = code.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}
