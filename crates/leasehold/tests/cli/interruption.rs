//! Ctrl-C, SIGTERM, kill -9: nothing is left, at once or at the next call.

use rustix::process::Signal;

use crate::support::{Running, Site, processes_with_argument, unique};

/// A command that says that it runs, ignores TERM and INT, and has a child in another session that
/// does so too.
const STUBBORN: &str = "trap '' TERM INT; setsid sh -c \"trap '' TERM INT; sleep 86400; true\" \
                        \"$0\" & echo runs; sleep 86400; true";

fn start_stubborn(site: &Site, verb: &[&str], argument: &str) -> Running {
    let mut arguments = verb.to_vec();
    arguments.extend(["--", "sh", "-c", STUBBORN, argument]);
    let mut running = Running::start(site.command(&arguments));
    assert_eq!(running.line(), "runs");
    running
}

#[test]
fn an_interrupted_run_removes_its_sandbox() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let site = Site::new();
        let argument = unique("interrupted");
        let mut run = start_stubborn(&site, &["run"], &argument);
        run.signal(signal);
        // Twice: the second one does not wait for the command's grace.
        run.signal(signal);
        assert_eq!(run.code(), Some(code));
        assert_eq!(processes_with_argument(&argument), Vec::<u32>::new());
        site.assert_nothing_left();
    }
}

#[test]
fn a_command_can_say_goodbye() {
    let site = Site::new();
    let script = "trap 'echo goodbye; exit 0' INT; echo runs; while :; do read line; done";
    let mut run = Running::start({
        let mut command = site.command(&["run", "--", "bash", "-c", script]);
        command.stdin(std::process::Stdio::piped());
        command
    });
    assert_eq!(run.line(), "runs");
    run.signal(Signal::INT);
    assert_eq!(run.line(), "goodbye");
    assert_eq!(run.code(), Some(130), "stopped counts, not what the command made of it");
    site.assert_nothing_left();
}

#[test]
fn an_interrupted_exec_ends_its_command_and_keeps_the_lease() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let argument = unique("interrupted-exec");
    let mut exec = start_stubborn(&site, &["exec", &lease], &argument);
    exec.signal(Signal::TERM);
    exec.signal(Signal::TERM);
    assert_eq!(exec.code(), Some(143));
    assert_eq!(processes_with_argument(&argument), Vec::<u32>::new());
    // Its end is certain, so the sandbox may be handed on.
    assert_eq!(site.json(&["park", &lease])["state"], "parked");
    site.ok(&["release", &lease]);
    site.assert_nothing_left();
}

#[test]
fn what_a_killed_run_left_is_removed_by_recover() {
    let site = Site::new();
    let argument = unique("killed");
    let mut run = start_stubborn(&site, &["run"], &argument);
    run.signal(Signal::KILL);
    assert_eq!(run.code(), None);
    let leases = site.leases(false);
    assert_eq!(leases.len(), 1, "it is on record: {leases:?}");
    let report = site.json(&["recover"]);
    assert_eq!(report["ended"][0], leases[0]["id"]);
    assert_eq!(processes_with_argument(&argument), Vec::<u32>::new());
    site.assert_nothing_left();
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_run_and_by_the_next_acquire() {
    let site = Site::new();
    for verb in [&["run", "--", "true"][..], &["acquire", "--quiet"]] {
        let argument = unique("killed");
        let mut run = start_stubborn(&site, &["run"], &argument);
        run.signal(Signal::KILL);
        assert_eq!(run.code(), None);
        site.ok(verb);
        assert_eq!(processes_with_argument(&argument), Vec::<u32>::new());
    }
    for lease in site.leases(false) {
        site.ok(&["release", lease["id"].as_str().unwrap()]);
    }
    site.assert_nothing_left();
}

#[test]
fn a_run_removes_nothing_that_is_alive() {
    let site = Site::new();
    let lease = site.acquire(&["--owner", "acme/production"]);
    let argument = unique("alive");
    let mut run = start_stubborn(&site, &["run"], &argument);
    site.ok(&["run", "--", "true"]);
    site.ok(&["recover"]);
    assert!(!processes_with_argument(&argument).is_empty(), "the other run goes on");
    site.ok(&["exec", "--owner", "acme/production", &lease, "--", "true"]);
    run.signal(Signal::INT);
    run.signal(Signal::INT);
    assert_eq!(run.code(), Some(130));
    site.ok(&["release", "--owner", "acme/production", &lease]);
    site.assert_nothing_left();
}

#[test]
fn a_killed_exec_leaves_a_doubt_that_only_a_removal_ends() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let argument = unique("killed-exec");
    let mut exec = start_stubborn(&site, &["exec", &lease], &argument);
    exec.signal(Signal::KILL);
    assert_eq!(exec.code(), None);
    site.ok(&["recover"]);
    site.ok(&["release", "--park", &lease]);
    let state = site.state_of(&lease);
    assert!(["parked", "closed"].contains(&&*state), "{state}");
    assert_eq!(processes_with_argument(&argument), Vec::<u32>::new());
    site.ok(&["release", &lease]);
    site.assert_nothing_left();
}
