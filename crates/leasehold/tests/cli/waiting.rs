//! `wait`: until a lease is where somebody wants it.

use rustix::process::Signal;

use crate::support::{Running, Site};

#[test]
fn a_wait_ends_when_somebody_else_ends_the_lease() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let mut wait = Running::start(site.command(&["wait", &lease]));
    site.ok(&["release", &lease]);
    assert_eq!(wait.line(), format!("{lease} is closed"));
    assert_eq!(wait.code(), Some(0));
}

#[test]
fn what_is_so_already_is_not_waited_for() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    assert_eq!(site.json(&["wait", &lease[..9], "--until", "active"])["state"], "active");
    site.ok(&["park", &lease]);
    site.ok(&["wait", &lease, "--until", "parked", "--timeout", "1ms"]);
    site.ok(&["release", &lease]);
}

#[test]
fn a_wait_that_takes_too_long_is_124_and_changes_nothing() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let history = site.json(&["history", &lease]);
    let answer = site.call(&["wait", &lease, "--timeout", "50ms"]);
    answer.assert_error("timeout", 124);
    assert!(answer.stderr.contains("active, to be closed"), "{answer:?}");
    assert_eq!(site.json(&["history", &lease]), history);
    site.ok(&["release", &lease]);
}

#[test]
fn what_cannot_come_any_more_is_refused_at_once() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    site.ok(&["release", &lease]);
    site.call(&["wait", &lease, "--until", "active"]).assert_error("lease-gone", 3);
    site.call(&["wait", "ls_nothing"]).assert_error("no-such-lease", 4);
}

#[test]
fn ctrl_c_ends_a_wait_and_nothing_else() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    // It says that it waits, in its log, so that the signal does not come too early.
    let mut command = site.command(&["wait", &lease, "-v"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stderr(writer);
    let mut wait = Running::start(command);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(reader), &mut line).unwrap();
    assert!(line.contains("waiting"), "{line}");
    wait.signal(Signal::INT);
    assert_eq!(wait.code(), Some(130));
    assert_eq!(site.state_of(&lease), "active");
    site.ok(&["release", &lease]);
}
