//! What a command finds inside a sandbox, and what it cannot find.

use crate::support::{Site, processes_with_argument, unique};

#[test]
fn process_1_is_our_init() {
    assert_eq!(Site::new().ok(&["run", "--", "cat", "/proc/1/comm"]), "leasehold-init\n");
}

#[test]
fn a_command_has_no_capabilities() {
    let status = Site::new().ok(&["run", "--", "cat", "/proc/self/status"]);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let line = status.lines().find(|line| line.starts_with(set)).unwrap();
        assert_eq!(line.split_whitespace().last(), Some("0000000000000000"), "{line}");
    }
}

#[test]
fn the_homes_of_the_host_are_absent() {
    let site = Site::new();
    for path in ["/root", "/home"] {
        assert_eq!(
            site.ok(&["run", "--", "sh", "-c", &format!("test -e {path} || echo no")]),
            "no\n"
        );
    }
}

#[test]
fn the_state_directory_is_absent() {
    let site = Site::new();
    let state = site.state();
    let script = format!("test -e {} || echo no", state.display());
    assert_eq!(site.ok(&["run", "--", "sh", "-c", &script]), "no\n");
}

#[test]
fn there_is_no_network_but_a_loopback() {
    let devices = Site::new().ok(&["run", "--", "cat", "/proc/net/dev"]);
    let names: Vec<&str> =
        devices.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
    assert_eq!(names, ["lo"]);
}

#[test]
fn a_listener_on_the_loopback_can_be_reached() {
    let script = r#"
        my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1) or die "listen: $@";
        my $port = $listener->sockport;
        if (fork == 0) {
            my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "connect: $@";
            print $socket "reached\n";
            exit 0;
        }
        print $listener->accept->getline;
    "#;
    let answer = Site::new().call(&["run", "--", "perl", "-MIO::Socket::INET", "-e", script]);
    assert_eq!(answer.stdout, "reached\n", "{answer:?}");
}

#[test]
fn what_a_command_left_running_is_gone_after_the_run() {
    let site = Site::new();
    let argument = unique("86400.");
    // `sleep` reads the number up to the end, so the unique part stands in an argument of the shell.
    let script = "trap '' TERM; setsid sh -c \"trap '' TERM; echo child; sleep 86400\" \"$0\" & \
                  read line; sleep 86400";
    let mut run = crate::support::Running::start({
        let mut command = site.command(&["run", "--timeout", "300ms", "--", "sh", "-c", script]);
        command.arg(&argument).stdin(std::process::Stdio::piped());
        command
    });
    assert_eq!(run.line(), "child");
    assert!(!processes_with_argument(&argument).is_empty(), "the child runs");
    assert_eq!(run.code(), Some(124));
    assert_eq!(processes_with_argument(&argument), Vec::<u32>::new());
    site.assert_nothing_left();
}

#[test]
fn what_a_command_left_running_lives_on_until_the_release() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let argument = unique("left-running");
    let script = "setsid sh -c \"trap '' TERM; sleep 86400; true\" \"$0\" > /dev/null 2>&1 &";
    site.ok(&["exec", &lease, "--", "sh", "-c", script, &argument]);
    assert!(!processes_with_argument(&argument).is_empty(), "agents rely on it");
    site.ok(&["release", &lease]);
    assert_eq!(processes_with_argument(&argument), Vec::<u32>::new());
    site.assert_nothing_left();
}

#[test]
fn a_park_ends_what_runs_and_keeps_what_was_written() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    let argument = unique("parked");
    let script = "echo written > file; setsid sh -c \"trap '' TERM; sleep 86400; true\" \"$0\" \
                  > /dev/null 2>&1 &";
    site.ok(&["exec", &lease, "--", "sh", "-c", script, &argument]);
    site.ok(&["park", &lease]);
    assert_eq!(processes_with_argument(&argument), Vec::<u32>::new());
    site.ok(&["resume", &lease]);
    assert_eq!(site.ok(&["exec", &lease, "--", "cat", "file"]), "written\n");
    site.ok(&["release", &lease]);
    site.assert_nothing_left();
}
