//! Leases that outlive their process: acquire, use, renew, park, resume, release.

use crate::support::Site;

#[test]
fn an_acquire_prints_the_lease_and_nothing_else() {
    let site = Site::new();
    let answer = site.call(&["acquire"]);
    let lease = answer.stdout.trim();
    assert!(lease.starts_with("ls_") && lease.len() == 29, "{answer:?}");
    assert!(answer.stderr.contains("the lease ends in "), "{answer:?}");
    let view = site.json(&["show", lease]);
    assert_eq!(view["delivered"], true);
    site.ok(&["release", lease]);
    site.assert_nothing_left();
}

#[test]
fn an_acquire_repeated_with_its_key_is_the_same_acquire() {
    let site = Site::new();
    let first = site.acquire(&["--key", "run-7"]);
    assert_eq!(site.acquire(&["--key", "run-7"]), first);
    assert_ne!(site.acquire(&["--key", "run-8"]), first);
    site.ok(&["release", &first]);
    site.call(&["acquire", "--key", "run-7"]).assert_error("key-used", 3);
    for lease in site.leases(false) {
        site.ok(&["release", lease["id"].as_str().unwrap()]);
    }
    site.assert_nothing_left();
}

#[test]
fn an_acquire_whose_answer_nobody_can_read_is_given_back() {
    let site = Site::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = site.command(&["acquire"]);
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(site.leases(true).len(), 1);
    site.assert_nothing_left();
}

#[test]
fn a_lease_is_renewed_but_not_beyond_its_longest_life() {
    let site = Site::new();
    let lease = site.acquire(&["--for", "10m"]);
    let before = site.json(&["show", &lease])["life_until"].clone();
    let after = site.json(&["renew", "--for", "2h", &lease])["life_until"].clone();
    assert!(after.as_str() > before.as_str(), "{before} {after}");
    let answer = site.call(&["renew", "--for", "60d", &lease]);
    answer.assert_error("beyond-life", 3);
    assert!(answer.stderr.contains("Z at the most"), "a time that people can read: {answer:?}");
    site.ok(&["release", &lease]);
}

#[test]
fn a_parked_lease_is_resumed_with_its_files_and_a_new_grant() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    site.ok(&["exec", &lease, "--", "sh", "-c", "echo mine > file"]);
    assert_eq!(site.json(&["park", &lease])["state"], "parked");
    site.call(&["exec", &lease, "--", "true"]).assert_error("resume-first", 125);
    let resumed = site.json(&["resume", &lease]);
    assert_eq!((&resumed["state"], &resumed["grant"]), (&"active".into(), &2.into()));
    assert_eq!(site.ok(&["exec", &lease, "--", "cat", "file"]), "mine\n");
    site.ok(&["release", &lease]);
    site.assert_nothing_left();
}

#[test]
fn a_release_repeated_answers_with_the_same_receipt() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let first = site.json(&["release", &lease]);
    assert_eq!(first["receipt"]["ending"], "destroyed");
    assert_eq!(site.json(&["release", &lease]), first);
    assert_eq!(site.json(&["destroy", &lease]), first);
    for verb in ["resume", "renew"] {
        let more: &[&str] = if verb == "renew" { &["--for", "1h"] } else { &[] };
        site.call(&[&[verb, &lease], more].concat()).assert_error("lease-gone", 3);
    }
    site.call(&["exec", &lease, "--", "true"]).assert_error("lease-gone", 125);
}

#[test]
fn a_release_can_keep_the_sandbox() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    site.ok(&["release", "--park", &lease]);
    assert_eq!(site.state_of(&lease), "parked");
    site.ok(&["release", &lease]);
    site.assert_nothing_left();
}

#[test]
fn a_limit_of_open_leases_is_kept() {
    let site = Site::new();
    std::fs::create_dir(site.state()).unwrap();
    std::fs::write(site.state().join("leasehold.toml"), "[limits]\nleases_per_owner = 1\n")
        .unwrap();
    let lease = site.acquire(&[]);
    site.call(&["acquire"]).assert_error("limit-reached", 3);
    site.call(&["run", "--", "true"]).assert_error("limit-reached", 125);
    site.ok(&["run", "--owner", "somebody/else", "--", "true"]);
    site.ok(&["release", &lease]);
    site.ok(&["run", "--", "true"]);
    site.assert_nothing_left();
}

#[test]
fn an_expired_lease_is_refused_and_ends_at_the_next_recover() {
    let site = Site::new();
    let lease = site.acquire(&["--for", "1s"]);
    // Not by sleeping: each command takes some time, and one will be refused.
    let refused = loop {
        let answer = site.call(&["exec", &lease, "--", "true"]);
        if answer.code() != 0 {
            break answer;
        }
    };
    refused.assert_error("lease-expired", 125);
    site.call(&["renew", "--for", "1h", &lease]).assert_error("lease-expired", 3);
    assert_eq!(site.json(&["recover", "--dry-run"])["due"][0]["id"], *lease);
    assert_eq!(site.json(&["recover"])["ended"][0], *lease);
    site.assert_nothing_left();
}

#[test]
fn a_sandbox_whose_managers_are_all_gone_ends_by_itself_and_its_receipt_says_so() {
    let site = Site::new();
    let lease = site.acquire(&["--for", "1s"]);
    // Every command has ended, and none is called again until the kernel tells that the init is gone.
    assert_eq!(site.inits().len(), 1, "it lives still");
    site.wait_until_inits_are_gone();
    assert_eq!(site.json(&["recover"])["ended"][0], *lease);
    let shown = site.json(&["show", &lease]).to_string();
    assert!(shown.contains("own timer ended it at its deadline"), "{shown}");
    site.assert_nothing_left();
}

#[test]
fn an_operator_can_give_a_lease_up_on_the_record() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    site.call(&["forget", &lease, "--why", " "]).assert_error("bad-argument", 2);
    let answer = site.json(&["forget", &lease, "--why", "the disk is gone"]);
    assert_eq!(answer["receipt"]["ending"], "forgotten");
    // Its sandbox is left alone, until a person says otherwise.
    let report = site.json(&["sweep"]);
    let orphan = report["orphans"][0]["sandbox"].as_str().unwrap().to_owned();
    assert_eq!(report["orphans"][0]["known_as"], *lease);
    site.call(&["destroy", "--orphan", &orphan]).assert_error("bad-argument", 2);
    assert_eq!(site.sandboxes().len(), 1);
    site.ok(&["destroy", "--orphan", &orphan, "--yes"]);
    site.assert_nothing_left();
}

#[test]
fn an_orphan_that_a_lease_names_is_not_destroyed() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let sandbox = site.json(&["show", &lease])["sandbox"].as_str().unwrap().to_owned();
    site.call(&["destroy", "--orphan", &sandbox, "--yes"]).assert_error("bad-argument", 2);
    assert_eq!(site.ok(&["exec", &lease, "--", "echo", "alive"]), "alive\n");
    site.ok(&["release", &lease]);
}
