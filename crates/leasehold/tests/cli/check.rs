//! `check`: something that a person should be woken for.

use crate::support::Site;

/// A ledger with rows that are changed behind Leasehold's back.
fn change(site: &Site, statement: &str) {
    let ledger = rusqlite::Connection::open(site.state().join("ledger.sqlite")).unwrap();
    ledger.execute(statement, []).unwrap();
}

fn findings(site: &Site, arguments: &[&str]) -> Vec<serde_json::Value> {
    let answer = site.call(&[&["--json", "check"], arguments].concat());
    assert_eq!(answer.code(), 1, "{answer:?}");
    let report: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(report["healthy"], false);
    report["findings"].as_array().unwrap().clone()
}

#[test]
fn a_healthy_ledger_is_0() {
    let site = Site::new();
    let answer = site.call(&["check"]);
    assert_eq!((answer.code(), site.state().exists()), (0, false), "{answer:?}");
    assert!(answer.stdout.contains("there is no ledger in "), "{answer:?}");
    let lease = site.acquire(&[]);
    assert_eq!(site.ok(&["check"]), "nothing is wrong\n");
    assert_eq!(site.ok(&["check", "--quiet"]), "");
    let report = site.json(&["check"]);
    let healthy = serde_json::json!({ "healthy": true, "ledger": true, "findings": [] });
    assert_eq!(report, healthy);
    site.ok(&["release", &lease]);
}

#[test]
fn work_that_nobody_does_is_found_and_not_done() {
    let site = Site::new();
    let lease = site.acquire(&["--for", "1s"]);
    while site.json(&["recover", "--dry-run"])["due"] == serde_json::json!([]) {}
    assert_eq!(site.call(&["check"]).code(), 0, "not for long enough");
    let history = site.json(&["history", &lease]);
    let found = findings(&site, &["--max-overdue", "0s"]);
    assert_eq!((&found[0]["code"], &found[0]["count"]), (&"work-overdue".into(), &1.into()));
    assert_eq!(
        (&found[0]["leases"][0], &found[0]["next"]),
        (&(*lease).into(), &"leasehold recover".into())
    );
    assert_eq!(site.json(&["history", &lease]), history);
    site.ok(&["recover"]);
    assert_eq!(site.call(&["check", "--max-overdue", "0s"]).code(), 0);
    site.assert_nothing_left();
}

#[test]
fn an_old_cleanup_and_a_lease_that_needs_a_person_are_found() {
    let site = Site::new();
    let (one, two) = (site.acquire(&[]), site.acquire(&[]));
    let body = "json_set(body, '$.attention', json('[\"stranger\"]'))";
    change(&site, &format!("UPDATE leases SET body = {body} WHERE id = '{one}'"));
    let cleanup = "json_set(body, '$.state', 'destroying', '$.retry_at', json_extract(body, '$.created_at'), \
        '$.cleanup', json('{\"reason\":\"owner_asked\",\"actor\":\"owner\",\"since\":1,\"tries\":3}'))";
    change(
        &site,
        &format!("UPDATE leases SET state = 'destroying', body = {cleanup} WHERE id = '{two}'"),
    );
    let found = findings(&site, &[]);
    let codes: Vec<_> = found.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["cleanup-unconfirmed", "lease-attention"]);
    assert_eq!(found[0]["next"], format!("leasehold show {two}"));
    assert_eq!(found[1]["message"], "1 lease: stranger");
    let table = site.call(&["check"]).stdout;
    assert!(table.lines().nth(1).unwrap().ends_with(&format!("`leasehold show {two}`")), "{table}");
    for lease in [one, two] {
        site.ok(&["destroy", &lease]);
    }
    assert_eq!(site.ok(&["check"]), "nothing is wrong\n");
    site.assert_nothing_left();
}

#[test]
fn a_brake_restored_mode_and_a_damaged_row_are_found() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    change(&site, "UPDATE ledger SET brake_on = 1, restored = 'a copy'");
    let ledger = rusqlite::Connection::open(site.state().join("ledger.sqlite")).unwrap();
    ledger.execute_batch("CREATE TEMP TABLE kept AS SELECT body FROM leases").unwrap();
    ledger.execute("UPDATE leases SET body = 'nonsense'", []).unwrap();
    let found = findings(&site, &[]);
    let next: Vec<_> = found
        .iter()
        .map(|finding| (finding["code"].as_str().unwrap(), finding["next"].as_str().unwrap()))
        .collect();
    let destroy = format!("leasehold destroy {lease} --as-operator");
    assert_eq!(
        next,
        [
            ("ledger-restored", "leasehold ledger accept"),
            ("brake-on", "leasehold ls --attention"),
            ("ledger-damaged-row", &*destroy),
        ]
    );
    ledger.execute("UPDATE leases SET body = (SELECT body FROM kept)", []).unwrap();
    drop(ledger);
    site.ok(&["ledger", "accept"]);
    site.ok(&["ledger", "unbrake"]);
    site.ok(&["release", &lease]);
    assert_eq!(site.call(&["check"]).code(), 0);
}

#[test]
fn a_ledger_that_cannot_be_read_is_125() {
    let site = Site::new();
    site.ok(&["run", "--", "true"]);
    let path = site.state().join("ledger.sqlite");
    let ledger = rusqlite::Connection::open(&path).unwrap();
    ledger.pragma_update(None, "user_version", 1_000_000).unwrap();
    ledger.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    drop(ledger);
    site.call(&["check"]).assert_error("ledger-too-new", 125);
}
