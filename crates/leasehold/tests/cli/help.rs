//! The words of the help are part of the interface.

use crate::support::Site;

#[test]
fn the_help_of_each_verb_says_what_it_does() {
    let site = Site::new();
    let root = site.ok(&["--help"]);
    insta::assert_snapshot!("help", root);
    for verb in [
        "run", "acquire", "exec", "renew", "park", "resume", "release", "destroy", "ls", "show",
        "history", "recover", "sweep", "forget", "ledger", "explain", "doctor", "config",
    ] {
        assert!(root.contains(&format!("\n  {verb} ")), "{verb} is missing in the list");
        insta::assert_snapshot!(format!("help-{verb}"), site.ok(&[verb, "--help"]));
    }
}

#[test]
fn the_help_says_that_nobody_enforces_deadlines_between_calls() {
    let site = Site::new();
    let said = "nobody enforces deadlines";
    assert!(
        site.ok(&["--help"]).contains("nobody enforces\ndeadlines")
            || site.ok(&["--help"]).contains(said)
    );
    assert!(site.ok(&["doctor"]).contains("nobody enforces them while no Leasehold process runs"));
}
