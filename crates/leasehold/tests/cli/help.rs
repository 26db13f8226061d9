//! The words of the help are part of the interface.

use crate::support::Site;

const VERBS: [&str; 25] = [
    "run",
    "acquire",
    "exec",
    "cp",
    "renew",
    "park",
    "resume",
    "release",
    "template",
    "ls",
    "show",
    "history",
    "wait",
    "explain",
    "destroy",
    "recover",
    "sweep",
    "forget",
    "check",
    "metrics",
    "doctor",
    "ledger",
    "config",
    "completions",
    "man",
];

#[test]
fn the_help_fits_on_one_screen() {
    let help = Site::new().ok(&["--help"]);
    assert!(help.lines().count() <= 40, "{} lines", help.lines().count());
    assert_eq!(help.lines().find(|line| line.chars().count() > 80), None);
    insta::assert_snapshot!("help", help);
}

#[test]
fn the_help_of_each_verb_says_what_it_does_and_shows_how() {
    let site = Site::new();
    let root = site.ok(&["--help"]);
    for verb in VERBS {
        assert!(root.contains(verb), "{verb} is missing");
        insta::assert_snapshot!(format!("help-{verb}"), site.ok(&[verb, "--help"]));
    }
}

#[test]
fn the_help_says_what_enforces_deadlines_between_calls() {
    let site = Site::new();
    assert!(site.ok(&["--help"]).contains("only sandboxes' own timers end anything"));
    assert!(site.ok(&["doctor"]).contains("own timer ends its processes after its lease's life"));
}

#[test]
fn a_call_that_says_nothing_is_shown_the_help() {
    let answer = Site::new().call(&[]);
    assert_eq!(answer.code(), 2, "{answer:?}");
    assert!(answer.stderr.contains("Use a sandbox:"), "{answer:?}");
}

#[test]
fn a_misspelt_word_is_answered_with_the_right_one() {
    let site = Site::new();
    for (arguments, hint) in [
        (&["relase"][..], "'release'"),
        (&["ls", "--attenton"], "'--attention'"),
        (&["ls", "--state", "activ"], "'active'"),
        (&["acquire", "--for", "90"], "write it like 90s, 15m, 1h30m or 2d"),
        (&["acquire", "--owner", "acme"], "COMPANY/ENVIRONMENT"),
    ] {
        let answer = site.call(arguments);
        assert_eq!(answer.code(), 2, "{answer:?}");
        assert!(answer.stderr.contains(hint), "{answer:?}");
    }
}

#[test]
fn the_page_in_the_documentation_is_the_one_that_the_program_prints() {
    let printed = Site::new().ok(&["man", "--markdown"]);
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CLI.md");
    let kept = std::fs::read_to_string(kept).expect("docs/CLI.md");
    assert!(printed == kept, "docs/CLI.md is not current: run `cargo xtask generate`");
}

#[test]
fn a_shell_can_complete_each_verb() {
    let site = Site::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = site.ok(&["completions", shell]);
        for verb in VERBS {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
    }
    assert!(!site.state().exists());
}

#[test]
fn there_is_a_man_page_of_the_whole_and_of_each_verb() {
    let site = Site::new();
    let page = site.ok(&["man"]);
    assert!(page.contains(".TH leasehold 1") && page.contains("Exit codes:"), "{page}");
    let directory = tempfile::tempdir().unwrap();
    site.ok(&["man", "--output", &directory.path().to_string_lossy()]);
    for verb in VERBS {
        assert!(directory.path().join(format!("leasehold-{verb}.1")).exists(), "{verb}");
    }
    site.call(&["man", "--output", "/nowhere"]).assert_error("bad-argument", 2);
}
