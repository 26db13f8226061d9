//! Only the owner uses, releases or destroys a lease. A refusal changes nothing.

use serde_json::Value;

use crate::support::{Answer, Site};

/// The calls to the provider that a call of the program logged, by their operation.
fn provider_calls(answer: &Answer) -> Vec<String> {
    let lines = answer.stderr.lines();
    let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter(|event| event["message"] == "provider_call")
        .map(|event| event["operation"].as_str().expect("an operation").to_owned())
        .collect()
}

/// The same call, with every line that the log can have.
fn traced(site: &Site, arguments: &[&str]) -> Answer {
    site.call(&[&["-vvv", "--log-format", "json"], arguments].concat())
}

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
fn another_owner_causes_no_call_to_the_provider_and_the_owner_does() {
    let site = Site::new();
    let lease = site.acquire(&["--owner", "acme/production"]);
    // Each verb with one of the calls that it makes for the owner, in an order that all allow.
    for (verb, command, expected) in [
        (&["exec"][..], &["--", "true"][..], "start"),
        (&["park"], &[], "clean"),
        (&["resume"], &[], "raise_fence"),
        (&["release", "--park"], &[], "clean"),
        (&["release"], &[], "destroy"),
    ] {
        let call =
            |owner: &str| traced(&site, &[verb, &["--owner", owner, &lease], command].concat());
        for rival in ["rival/production", "acme/test"] {
            let refused = call(rival);
            refused.assert_error("not-owner", if verb == ["exec"] { 125 } else { 3 });
            assert_eq!(provider_calls(&refused), Vec::<String>::new(), "{verb:?} of {rival}");
        }
        let owned = call("acme/production");
        assert_eq!(owned.code(), 0, "{owned:?}");
        assert!(provider_calls(&owned).iter().any(|call| call == expected), "{owned:?}");
    }
    let (lease, rival) = (site.acquire(&["--owner", "acme/production"]), "rival/production");
    let refused = traced(&site, &["destroy", "--owner", rival, &lease]);
    refused.assert_error("not-owner", 3);
    assert_eq!(provider_calls(&refused), Vec::<String>::new());
    let destroyed = traced(&site, &["destroy", "--owner", "acme/production", &lease]);
    assert_eq!(provider_calls(&destroyed).last().map(String::as_str), Some("destroy"));
    site.assert_nothing_left();
}

#[test]
fn each_refusal_and_failure_is_one_log_line_with_lease_code_and_next_step() {
    let site = Site::new();
    let lease = site.acquire(&["--owner", "acme/production"]);
    let rival = ["release", "--owner", "rival/production", &lease];
    for (arguments, code, about) in [
        (&rival[..], "not-owner", &*lease),
        (&["release", "--dry-run", "--owner", "rival/production", &lease], "not-owner", &lease),
        (&["show", "ls_nothing"], "no-such-lease", "ls_nothing"),
    ] {
        let answer = site.call(&[&["--log-format", "json"], arguments].concat());
        let lines: Vec<Value> =
            answer.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(lines.len(), 1, "{answer:?}");
        assert_eq!((&lines[0]["code"], &lines[0]["lease"]), (&code.into(), &about.into()));
        assert!(lines[0]["next"].as_str().is_some_and(|next| next.contains("leasehold ")));
    }
    site.ok(&["release", "--owner", "acme/production", &lease]);
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
