//! `template`: parked leases that are kept for good.

use crate::support::Site;

#[test]
fn a_parked_lease_becomes_a_template_and_is_removed_with_proof() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    site.call(&["template", "make", &lease]).assert_error("park-first", 3);
    site.ok(&["park", &lease]);
    assert_eq!(site.json(&["template", "make", &lease])["kind"], "template");
    assert_eq!(site.json(&["template", "make", &lease])["kind"], "template", "repeated");
    assert_eq!(site.json(&["show", &lease])["expires_at"], "never");

    // It is kept, and not used.
    site.call(&["resume", &lease]).assert_error("is-template", 3);
    site.call(&["exec", &lease, "--", "true"]).assert_error("is-template", 125);
    assert_eq!(site.json(&["template", "ls"])["templates"][0]["id"], *lease);
    assert_eq!(site.ok(&["template", "ls", "--quiet"]), format!("{lease}\n"));

    let would = site.json(&["template", "rm", &lease[..8], "--dry-run"]);
    assert_eq!(would["would_become"], "destroying");
    assert_eq!(site.sandboxes().len(), 1);
    assert_eq!(site.json(&["template", "rm", &lease])["receipt"]["ending"], "destroyed");
    assert_eq!(site.ok(&["template", "ls"]), "no templates\n");
    site.assert_nothing_left();
}

#[test]
fn a_lease_is_not_removed_as_a_template() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let answer = site.call(&["template", "rm", &lease]);
    answer.assert_error("bad-argument", 2);
    assert!(answer.stderr.contains(&format!("`leasehold destroy {lease}`")), "{answer:?}");
    assert_eq!(site.state_of(&lease), "active");
    site.ok(&["release", &lease]);
}

#[test]
fn another_owner_neither_makes_nor_removes_a_template() {
    let site = Site::new();
    let (owner, rival) = (["--owner", "acme/production"], ["--owner", "rival/production"]);
    let call = |verb: &str, owner: &[&str], lease: &str| {
        site.call(&[&["template", verb], owner, &[lease]].concat())
    };
    let lease = site.acquire(&owner);
    site.ok(&[&["park"], &owner[..], &[&lease]].concat());
    call("make", &rival, &lease).assert_error("not-owner", 3);
    assert_eq!(call("make", &owner, &lease).code(), 0);
    call("rm", &rival, &lease).assert_error("not-owner", 3);
    let listed = site.json(&[&["template", "ls"], &rival[..]].concat());
    assert_eq!(listed["templates"], serde_json::json!([]));
    let all = site.json(&["template", "ls", "--all"]);
    assert_eq!(all["templates"][0]["id"], *lease);
    assert_eq!(call("rm", &owner, &lease).code(), 0);
    site.assert_nothing_left();
}
