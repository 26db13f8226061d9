//! Ledgers that cannot be used, and what is said of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::Site;

#[test]
fn a_ledger_of_a_newer_format_is_left_alone() {
    let site = Site::new();
    site.ok(&["run", "--", "true"]);
    let path = site.state().join("ledger.sqlite");
    let ledger = rusqlite::Connection::open(&path).unwrap();
    ledger.pragma_update(None, "user_version", 1_000_000).unwrap();
    ledger.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    drop(ledger);
    let before = fs::read(&path).unwrap();
    site.call(&["ls"]).assert_error("ledger-too-new", 125);
    site.call(&["run", "--", "true"]).assert_error("ledger-too-new", 125);
    let answer = site.call(&["doctor", "--no-sandbox"]);
    assert_eq!(answer.code(), 1);
    assert!(answer.stdout.contains("ledger-too-new"), "{answer:?}");
    assert!(fs::read(&path).unwrap() == before, "it was changed");
}

#[test]
fn a_state_directory_that_cannot_be_made_is_an_error_with_its_path() {
    let site = Site::new();
    fs::write(site.state(), "a file").unwrap();
    let answer = site.call(&["run", "--", "true"]);
    answer.assert_error("ledger-unsuitable", 125);
    assert!(answer.stderr.contains(&*site.state().to_string_lossy()), "{answer:?}");
}

#[test]
fn a_state_directory_that_cannot_be_written_is_an_error() {
    if rustix::process::geteuid().is_root() {
        // Root may write everywhere but on a file system that is read-only.
        let site = Site::new();
        let answer = site.call(&["run", "--state-dir", "/proc/leasehold", "--", "true"]);
        assert_eq!(answer.code(), 125, "{answer:?}");
        assert!(answer.stderr.contains("error[ledger-"), "{answer:?}");
        return;
    }
    let site = Site::new();
    fs::create_dir(site.state()).unwrap();
    fs::set_permissions(site.state(), fs::Permissions::from_mode(0o500)).unwrap();
    site.call(&["run", "--", "true"]).assert_error("ledger-unsuitable", 125);
}

#[test]
fn a_backup_is_whole_and_opens_in_restored_mode_until_it_is_accepted() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let backup = site.state().with_file_name("backup.sqlite");
    let file = backup.to_string_lossy().into_owned();
    site.ok(&["ledger", "backup", &file]);
    site.call(&["ledger", "backup", &file]).assert_error("bad-argument", 2);
    site.ok(&["release", &lease]);
    // An operator puts the copy back.
    for name in ["ledger.sqlite-wal", "ledger.sqlite-shm"] {
        let _ = fs::remove_file(site.state().join(name));
    }
    fs::copy(&backup, site.state().join("ledger.sqlite")).unwrap();
    let noticed = site.json(&["ls", "--attention"]);
    assert_eq!(noticed["ledger"][0]["code"], "ledger-restored");
    assert_eq!(site.call(&["doctor", "--no-sandbox"]).code(), 1);
    assert_eq!(site.json(&["ledger", "accept"])["changed"], true);
    assert_eq!(site.json(&["ls", "--attention"])["ledger"], serde_json::json!([]));
    // The old record says that the lease is active; its sandbox is gone, and that is found out.
    assert_eq!(site.json(&["release", &lease])["receipt"]["ending"], "already_absent");
    site.assert_nothing_left();
}

#[test]
fn a_healthy_ledger_passes_its_check() {
    let site = Site::new();
    site.ok(&["run", "--", "true"]);
    assert_eq!(site.ok(&["ledger", "check"]), "the ledger is whole\n");
    assert_eq!(site.json(&["ledger", "unbrake"])["brake_was_on"], false);
    assert_eq!(site.json(&["ledger", "compact"])["events_removed"], 0);
}

#[test]
fn a_damaged_row_is_listed_and_holds_up_no_other() {
    let site = Site::new();
    let (one, two) = (site.acquire(&[]), site.acquire(&[]));
    let ledger = rusqlite::Connection::open(site.state().join("ledger.sqlite")).unwrap();
    let row = |statement: &str| ledger.execute(statement, [&one]).unwrap();
    ledger.execute_batch("CREATE TEMP TABLE kept AS SELECT id, body FROM leases").unwrap();
    assert_eq!(row("UPDATE leases SET body = 'nonsense' WHERE id = ?1"), 1);
    site.call(&["show", &one]).assert_error("ledger-damaged-row", 125);
    site.call(&["release", &one]).assert_error("ledger-damaged-row", 125);
    site.ok(&["release", &two]);
    let noticed = site.json(&["ls", "--attention"]);
    assert_eq!(noticed["ledger"][0]["code"], "ledger-damaged-row");
    assert_eq!(site.call(&["ledger", "check"]).code(), 1);
    site.ok(&["run", "--", "true"]);
    // Its sandbox waits: nobody can tell whose it is, so nobody removes it.
    assert_eq!(site.sandboxes().len(), 1);
    let swept = site.call(&["--json", "sweep", "--dry-run"]);
    let report: serde_json::Value = serde_json::from_str(&swept.stdout).unwrap();
    assert_eq!((swept.code(), &report["failed"][0]["code"]), (5, &"ledger-damaged-row".into()));
    row("UPDATE leases SET body = (SELECT body FROM kept WHERE kept.id = ?1) WHERE id = ?1");
    drop(ledger);
    site.ok(&["release", &one]);
    site.assert_nothing_left();
}

#[test]
fn an_operator_ends_a_damaged_row() {
    let site = Site::new();
    let (destroyed, forgotten) = (site.acquire(&[]), site.acquire(&[]));
    let ledger = rusqlite::Connection::open(site.state().join("ledger.sqlite")).unwrap();
    ledger.execute("UPDATE leases SET body = substr(body, 1, length(body) / 2)", []).unwrap();
    drop(ledger);
    site.call(&["destroy", &destroyed]).assert_error("ledger-damaged-row", 125);
    assert_eq!(site.sandboxes().len(), 2);

    let ended = site.json(&["destroy", &destroyed, "--as-operator"]);
    assert_eq!(ended["receipt"]["ending"], "destroyed");
    assert_eq!(site.sandboxes().len(), 1);
    let version = || -> i64 {
        let ledger = rusqlite::Connection::open(site.state().join("ledger.sqlite")).unwrap();
        let sql = "SELECT version FROM leases WHERE id = ?1";
        ledger.query_row(sql, [&forgotten], |row| row.get(0)).unwrap()
    };
    let before = version();
    let ended = site.json(&["forget", &forgotten, "--why", "looked after by hand"]);
    assert_eq!(version(), before + 1, "in between it would be a removal that anybody carries out");
    assert_eq!(ended["receipt"]["ending"], "forgotten");
    assert_eq!(site.sandboxes().len(), 1, "what is forgotten is left alone");

    let history = site.ok(&["history", &destroyed]);
    assert!(history.contains("salvaged"), "{history}");
    assert_eq!(site.ok(&["ledger", "check"]), "the ledger is whole\n");
    let left = site.json(&["sweep"])["orphans"][0]["sandbox"].as_str().unwrap().to_owned();
    site.ok(&["destroy", "--orphan", &left, "--yes"]);
    site.assert_nothing_left();
}

#[test]
fn what_another_machine_holds_is_not_taken_for_gone() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let ledger = rusqlite::Connection::open(site.state().join("ledger.sqlite")).unwrap();
    let live_on = |machine: &str| {
        ledger
            .execute("UPDATE homes SET body = json_set(body, '$.machine', ?1)", [machine])
            .unwrap();
        ledger.execute("UPDATE leases SET body = json_set(body, '$.home.machine', ?1)", [machine])
    };
    assert_eq!(live_on("elsewhere").unwrap(), 1);
    // As it would be where the directory is not there.
    site.call(&["exec", &lease, "--", "true"]).assert_error("no-provider", 125);
    let destroyed = site.call(&["destroy", &lease]);
    destroyed.assert_error("cleanup-unconfirmed", 6);
    assert_eq!(site.state_of(&lease), "destroying");
    assert_eq!(site.sandboxes().len(), 1);
    let forgotten = site.json(&["forget", &lease, "--why", "that machine is gone"]);
    assert_eq!(forgotten["receipt"]["ending"], "forgotten");
}

#[test]
fn the_doctor_makes_a_sandbox_and_leaves_none() {
    let site = Site::new();
    let answer = site.json(&["doctor"]);
    assert_eq!(answer["healthy"], true, "{answer}");
    site.assert_nothing_left();
}

#[test]
fn errors_are_json_for_programs() {
    let site = Site::new();
    let answer = site.call(&["--json", "show", "ls_nothing"]);
    let error: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
    assert_eq!(error["error"]["code"], "no-such-lease");
    assert_eq!(error["error"]["exit_code"], answer.code());
}
