//! Only the owner uses, releases or destroys a lease. A refusal changes nothing.

use crate::support::Site;

#[test]
fn another_owner_is_refused_whatever_it_asks_for() {
    let site = Site::new();
    let lease = site.acquire(&["--owner", "acme/production"]);
    let before = site.json(&["show", &lease]);
    let history = site.json(&["history", &lease]);
    for verb in [
        &["exec"][..],
        &["release"],
        &["release", "--park"],
        &["destroy"],
        &["park"],
        &["resume"],
        &["renew", "--for", "2h"],
    ] {
        for (owner, field) in [("rival/production", "company"), ("acme/test", "environment")] {
            let mut arguments = verb.to_vec();
            arguments.extend(["--owner", owner, &lease]);
            let is_exec = verb == ["exec"];
            if is_exec {
                arguments.extend(["--", "touch", "was-here"]);
            }
            let answer = site.call(&arguments);
            answer.assert_error("not-owner", if is_exec { 125 } else { 3 });
            // The field that differs is named; the other tenant's value is not shown.
            assert!(
                answer.stderr.contains(&format!("does not belong to this {field}")),
                "{answer:?}"
            );
            assert!(!answer.stderr.contains("acme"), "{answer:?}");
        }
    }
    assert_eq!(site.json(&["show", &lease]), before);
    assert_eq!(site.json(&["history", &lease]), history);
    let owner = ["--owner", "acme/production"];
    let exec = [&["exec"], &owner[..], &[&lease, "--", "ls"]].concat();
    assert_eq!(site.ok(&exec), "", "no command of another owner ran");
    site.ok(&[&["release"], &owner[..], &[&lease]].concat());
    site.assert_nothing_left();
}

#[test]
fn a_dry_run_is_refused_as_the_real_one_would_be() {
    let site = Site::new();
    let lease = site.acquire(&["--owner", "acme/production"]);
    site.call(&["destroy", "--dry-run", "--owner", "rival/production", &lease])
        .assert_error("not-owner", 3);
    let would = site.json(&["destroy", "--dry-run", "--owner", "acme/production", &lease]);
    assert_eq!(would["would_become"], "destroying");
    assert_eq!(site.state_of(&lease), "active");
    site.ok(&["destroy", "--as-operator", &lease]);
    site.assert_nothing_left();
}

#[test]
fn an_operator_can_destroy_what_others_own_and_that_is_on_record() {
    let site = Site::new();
    let lease = site.acquire(&["--owner", "acme/production"]);
    let answer = site.json(&["destroy", "--as-operator", &lease]);
    let actor = answer["receipt"]["actor"].as_str().unwrap();
    assert!(actor.starts_with("operator "), "{actor}");
    site.assert_nothing_left();
}

#[test]
fn an_older_grant_is_refused_after_a_resume() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    site.ok(&["park", "--grant", "1", &lease]);
    assert_eq!(site.json(&["resume", "--grant", "1", &lease])["grant"], 2);
    site.call(&["exec", "--grant", "1", &lease, "--", "true"]).assert_error("stale-grant", 125);
    site.call(&["release", "--grant", "1", &lease]).assert_error("stale-grant", 3);
    site.ok(&["exec", "--grant", "2", &lease, "--", "true"]);
    site.ok(&["release", "--grant", "2", &lease]);
    site.assert_nothing_left();
}
