//! The program dies at each crash point of each flow; then it recovers, and ledger and machine agree.
//!
//! The list of points is generated from the steps of the lifecycle, so a new step is tested without
//! anybody thinking of it, and one that no flow reaches fails the test.

#![cfg(feature = "crash-points")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use serde_json::Value;
use support::{Answer, Site};

/// SIGABRT, by which a crash point ends the program, as [`Answer::code`] tells it.
const CRASHED: i32 = 1006;

/// Later than every create can still have an effect, and earlier than a lease goes idle or an
/// undelivered one is taken back.
const LATER: &str = "120";

/// A way through the life of a lease, up to a call that may die.
#[derive(Clone, Copy, Debug)]
enum Flow {
    Run,
    Acquire,
    Execute,
    Park,
    Resume,
    ReleaseToPark,
    Destroy,
    /// Not the acquire dies but the recover after an acquire that died before it knew its sandbox.
    RecoverLostCreate,
    /// The recover after a destroy that died before it was done.
    RecoverDestroy,
    /// The recover after a park that died before it was done.
    RecoverPark,
}

const FLOWS: [Flow; 10] = [
    Flow::Run,
    Flow::Acquire,
    Flow::Execute,
    Flow::Park,
    Flow::Resume,
    Flow::ReleaseToPark,
    Flow::Destroy,
    Flow::RecoverLostCreate,
    Flow::RecoverDestroy,
    Flow::RecoverPark,
];

impl Flow {
    /// Goes the way, with the last call set to die at `point`; whether it died.
    fn go(self, site: &Site, point: &str) -> bool {
        let dying = |arguments: &[&str]| dies_at(site, arguments, point);
        match self {
            Flow::Run => dying(&["run", "--", "true"]),
            Flow::Acquire => dying(&["acquire"]),
            Flow::Execute => {
                let lease = acquire_in_use(site);
                dying(&["exec", &lease, "--", "true"])
            }
            Flow::Park => dying(&["park", &acquire_in_use(site)]),
            Flow::Resume => {
                let lease = acquire_in_use(site);
                site.ok(&["park", &lease]);
                dying(&["resume", &lease])
            }
            Flow::ReleaseToPark => dying(&["release", "--park", &acquire_in_use(site)]),
            Flow::Destroy => dying(&["destroy", &acquire_in_use(site)]),
            Flow::RecoverLostCreate => {
                assert!(dies_at(site, &["acquire"], "create:done"));
                dying(&["recover"])
            }
            Flow::RecoverDestroy => {
                let lease = acquire_in_use(site);
                assert!(dies_at(site, &["destroy", &lease], "destroy:planned"));
                dying(&["recover"])
            }
            Flow::RecoverPark => {
                let lease = acquire_in_use(site);
                assert!(dies_at(site, &["park", &lease], "clean:planned"));
                dying(&["recover"])
            }
        }
    }
}

/// A lease with a command in the background.
fn acquire_in_use(site: &Site) -> String {
    let lease = site.acquire(&[]);
    let script = "setsid sleep 86400 > /dev/null 2>&1 &";
    site.ok(&["exec", &lease, "--", "sh", "-c", script]);
    lease
}

fn dies_at(site: &Site, arguments: &[&str], point: &str) -> bool {
    let answer = Answer::of(site.command(arguments).env("LEASEHOLD_CRASH_POINT", point));
    answer.code() == CRASHED
}

#[test]
fn after_a_crash_anywhere_ledger_and_machine_agree() {
    let points = leasehold_keeper::crash_points();
    let reached = Mutex::new(BTreeSet::new());
    let crashes = AtomicU32::new(0);
    let work =
        Mutex::new(FLOWS.iter().flat_map(|flow| points.iter().map(move |point| (*flow, point))));
    // More than processors: each call waits for the disk most of the time.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let next = work.lock().expect("no panic").next();
                    let Some((flow, point)) = next else { return };
                    let site = Site::new();
                    if flow.go(&site, point) {
                        reached.lock().expect("no panic").insert(point.clone());
                        crashes.fetch_add(1, Ordering::Relaxed);
                        assert_recovers(&site, &format!("{flow:?} at {point}"));
                    }
                }
            });
        }
    });
    let reached = reached.into_inner().expect("no panic");
    let missed: Vec<&String> = points.iter().filter(|point| !reached.contains(*point)).collect();
    assert!(missed.is_empty(), "no flow reaches {missed:?}");
    let crashes = crashes.into_inner();
    println!("{} points in {} flows: {crashes} crashes", points.len(), FLOWS.len());
}

/// Recovers until nothing is due, now and later; whatever is open then can be used by its owner.
fn assert_recovers(site: &Site, story: &str) {
    recover(site, "0", story);
    assert_agree(site, story);
    recover(site, LATER, story);
    assert_agree(site, story);
    for lease in site.leases(false) {
        let id = lease["id"].as_str().expect("an id");
        let state = lease["state"].as_str().expect("a state");
        if state == "parked" {
            ahead(site, &["resume", id], story);
        }
        assert!(["active", "parked"].contains(&state), "{story}: at rest, and {state}");
        assert_eq!(ahead(site, &["exec", id, "--", "echo", "alive"], story), "alive\n", "{story}");
        ahead(site, &["release", id], story);
    }
    recover(site, LATER, story);
    assert_agree(site, story);
    site.assert_nothing_left();
}

fn recover(site: &Site, seconds_ahead: &str, story: &str) {
    for _ in 0..20 {
        let mut command = site.command(&["--json", "recover"]);
        let answer = Answer::of(command.env("LEASEHOLD_CLOCK_AHEAD_SECONDS", seconds_ahead));
        let report: Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
        assert_eq!(report["failed"], serde_json::json!([]), "{story}: {answer:?}");
        if report["worked_on"] == serde_json::json!([]) {
            return;
        }
    }
    panic!("{story}: there is always something due");
}

fn ahead(site: &Site, arguments: &[&str], story: &str) -> String {
    let answer = Answer::of(site.command(arguments).env("LEASEHOLD_CLOCK_AHEAD_SECONDS", LATER));
    assert_eq!(answer.code(), 0, "{story}: {arguments:?}: {answer:?}");
    answer.stdout
}

/// Every sandbox belongs to an open lease, every active or parked lease has its living sandbox, and
/// there is nothing else.
fn assert_agree(site: &Site, story: &str) {
    let leases = site.leases(false);
    let named: BTreeSet<String> =
        leases.iter().filter_map(|lease| Some(lease["sandbox"].as_str()?.to_owned())).collect();
    let sandboxes: BTreeSet<String> =
        site.sandboxes().iter().map(|path| sandbox_id(path, story)).collect();
    assert_eq!(sandboxes, named, "{story}: {leases:#?}");
    for lease in &leases {
        let in_use = ["active", "parked"].iter().any(|state| lease["state"] == *state);
        assert!(!in_use || lease["sandbox"].is_string(), "{story}: {lease:#}");
    }
    // An init for each, and no process without one.
    assert_eq!(site.inits().len(), sandboxes.len(), "{story}: {leases:#?}");
}

/// The id in the record of a sandbox's directory. A draft or a remainder has none, and may not stay.
fn sandbox_id(directory: &Path, story: &str) -> String {
    let record = std::fs::read(directory.join("record.json"));
    let record = record.unwrap_or_else(|error| panic!("{story}: {}: {error}", directory.display()));
    let record: Value = serde_json::from_slice(&record).expect("a record");
    record["id"].as_str().expect("an id").to_owned()
}
