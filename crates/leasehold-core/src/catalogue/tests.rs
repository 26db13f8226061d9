use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::{Entry, FIELDS, all, codes, export, find, to_json, to_markdown};
use crate::identifiers::{Grant, LeaseId, NodeId};
use crate::lease::{DestroyReason, State};
use crate::receipt::Ending;
use crate::refusal::{OwnerField, Refusal};
use crate::time::Timestamp;

/// One of each refusal. The match makes a new variant fail to compile until it is added here.
fn refusals() -> Vec<Refusal> {
    let lease = || LeaseId::new("ls_one").unwrap();
    let all = vec![
        Refusal::NotOwner { lease: lease(), field: OwnerField::Company },
        Refusal::OperatorOnly { lease: lease() },
        Refusal::StaleGrant { lease: lease(), presented: Grant(3) },
        Refusal::NotReady { lease: lease(), state: State::Creating },
        Refusal::ResumeFirst { lease: lease() },
        Refusal::ParkFirst { lease: lease() },
        Refusal::Busy { lease: lease(), state: State::Parking },
        Refusal::Closing { lease: lease(), reason: DestroyReason::OwnerAsked },
        Refusal::Expired { lease: lease() },
        Refusal::Gone { lease: lease(), ending: Ending::Destroyed },
        Refusal::BeyondLife {
            lease: lease(),
            latest: Timestamp::from_millis(1),
            longest: Duration::from_secs(60),
        },
        Refusal::KeyConflict { lease: lease() },
        Refusal::KeyUsed { lease: lease() },
        Refusal::Template { lease: lease() },
        Refusal::Claimed { lease: lease(), node: NodeId::new("node_one").unwrap() },
        Refusal::LateOutcome { lease: lease() },
        Refusal::NotDue { lease: lease() },
        Refusal::Forgotten { lease: lease() },
    ];
    for refusal in &all {
        match refusal {
            Refusal::NotOwner { .. }
            | Refusal::OperatorOnly { .. }
            | Refusal::StaleGrant { .. }
            | Refusal::NotReady { .. }
            | Refusal::ResumeFirst { .. }
            | Refusal::ParkFirst { .. }
            | Refusal::Busy { .. }
            | Refusal::Closing { .. }
            | Refusal::Expired { .. }
            | Refusal::Gone { .. }
            | Refusal::BeyondLife { .. }
            | Refusal::KeyConflict { .. }
            | Refusal::KeyUsed { .. }
            | Refusal::Template { .. }
            | Refusal::Claimed { .. }
            | Refusal::LateOutcome { .. }
            | Refusal::NotDue { .. }
            | Refusal::Forgotten { .. } => {}
        }
    }
    all
}

/// The parts of a message between its placeholders.
fn fixed_parts(template: &str) -> Vec<&str> {
    template.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after)).collect()
}

/// Whether `message` is the template with something in the place of each placeholder.
fn fits(template: &str, message: &str) -> bool {
    let parts = fixed_parts(template);
    let Some(mut rest) = message.strip_prefix(parts[0]) else { return false };
    for part in &parts[1..] {
        // Something stands where the placeholder is, so the search begins behind it.
        let Some(found) =
            rest.char_indices().skip(1).map(|(at, _)| at).chain([rest.len()]).find(|&at| {
                if part.is_empty() { at == rest.len() } else { rest[at..].starts_with(part) }
            })
        else {
            return false;
        };
        rest = &rest[found + part.len()..];
    }
    rest.is_empty()
}

#[test]
fn every_refusal_can_be_explained_in_its_own_words() {
    for refusal in refusals() {
        let entry = find(refusal.code()).unwrap_or_else(|| panic!("no entry: {refusal:?}"));
        assert_eq!(refusal.lease().as_str(), "ls_one");
        let message = refusal.to_string();
        assert!(fits(entry.message, &message), "{message:?} is not {:?}", entry.message);
        let variant = format!("{refusal:?}");
        let variant = variant.split(' ').next().unwrap();
        assert_eq!(entry.class, format!("Refusal::{variant}"));
    }
}

#[test]
fn a_renewal_beyond_the_longest_life_is_refused_with_a_time_and_a_duration() {
    let refusal = Refusal::BeyondLife {
        lease: LeaseId::new("ls_one").unwrap(),
        latest: Timestamp::from_millis(1_764_590_400_000),
        longest: Duration::from_secs(30 * 24 * 60 * 60),
    };
    assert_eq!(
        refusal.to_string(),
        "lease ls_one may live until 2025-12-01T12:00:00.000Z at the most, 30d after its acquire"
    );
}

#[test]
fn every_code_that_others_raise_can_be_explained() {
    for code in codes::ALL {
        assert!(find(code).is_some(), "no entry: {code}");
    }
}

#[test]
fn nothing_is_explained_that_cannot_be_raised() {
    let raised: BTreeSet<&str> = refusals().iter().map(Refusal::code).chain(codes::ALL).collect();
    let explained: BTreeSet<&str> = all().iter().map(|entry| entry.code).collect();
    assert_eq!(explained, raised);
    assert_eq!(explained.len(), all().len(), "codes are unique");
}

#[test]
fn codes_are_kebab_case() {
    for entry in all() {
        assert!(entry.code.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", entry.code);
    }
}

#[test]
fn no_field_is_empty() {
    for entry in all() {
        let texts =
            [entry.message, entry.documentation, entry.trigger_scenarios, entry.next_step()];
        let lists = [entry.common_situations, entry.solutions, entry.prevention_tips, entry.tags];
        assert!(!entry.example_fix.trim().is_empty(), "{}", entry.code);
        assert!(lists.iter().all(|list| !list.is_empty()), "{}", entry.code);
        for text in texts.iter().chain(lists.into_iter().flatten()) {
            assert!(!text.trim().is_empty(), "{}", entry.code);
            assert!(!text.contains("  "), "{}: a line break went wrong in {text:?}", entry.code);
        }
    }
}

#[test]
fn every_entry_stands_under_its_own_theme() {
    for theme in super::Theme::ALL {
        assert!(theme.entries().iter().all(|entry| entry.theme == theme), "{theme}");
    }
}

#[test]
fn a_pattern_is_the_message_with_anything_in_its_placeholders() {
    let entry = find("brake-on").unwrap();
    assert!(entry.message_pattern().starts_with("the brake is on: .+ leases were about"));
    assert_eq!(find("not-due").unwrap().message_pattern(), "nothing is due for lease .+");
    let restored = find("ledger-restored").unwrap().message_pattern();
    assert!(restored.contains(r"restored mode \(.+\): nothing"), "{restored}");
}

/// What readers of error catalogues expect of a record.
const RECORD: &[&str] = &[
    "analyzedAt",
    "analyzedSha",
    "backgroundTag",
    "commonSituations",
    "contentChangedAt",
    "documentation",
    "errorClass",
    "errorCode",
    "errorMessage",
    "errorType",
    "exampleFix",
    "filePath",
    "githubUrl",
    "handlingStrategy",
    "httpStatus",
    "id",
    "lineNumber",
    "messagePattern",
    "preventionTips",
    "repo",
    "schemaVersion",
    "severity",
    "slug",
    "solutions",
    "sourceCode",
    "sourceCodeEnd",
    "sourceCodeStart",
    "tags",
    "triggerScenarios",
    "tryCatchPattern",
    "typeGuard",
    "validationCode",
];

fn names(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_record_has_exactly_the_fields_that_readers_expect() {
    let expected: BTreeSet<&str> = RECORD.iter().copied().collect();
    assert_eq!(FIELDS.into_iter().collect::<BTreeSet<_>>(), expected);
    for entry in all() {
        let exported = to_json(entry);
        assert_eq!(names(&exported), BTreeSet::from(["record", "datasetVersion"]));
        assert_eq!(names(&exported["record"]), expected, "{}", entry.code);
        let record = &exported["record"];
        for text in ["commonSituations", "documentation", "exampleFix", "handlingStrategy"] {
            assert!(record[text].is_string(), "{text}");
        }
        for list in ["solutions", "preventionTips", "tags"] {
            assert!(record[list].is_array(), "{list}");
        }
    }
}

#[test]
fn ids_are_unique_and_stay_as_they_are() {
    let exported = export();
    let records = exported.as_array().unwrap();
    let ids: BTreeSet<&str> =
        records.iter().map(|exported| exported["record"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), all().len());
    let id = |code: &str| to_json(find(code).unwrap())["record"]["id"].clone();
    assert_eq!(id("not-owner"), "e54dd5ccd3829654");
}

#[test]
fn the_page_holds_every_entry() {
    let page = to_markdown();
    for Entry { code, message, .. } in all() {
        assert!(page.contains(&format!("\n### {code}\n\n> {message}\n")), "{code}");
    }
}
