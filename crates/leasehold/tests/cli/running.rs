//! `leasehold run`: output, input and exit codes.

use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Answer, Running, Site};

#[test]
fn the_output_of_a_command_is_passed_on_as_it_comes() {
    let site = Site::new();
    let mut command = site.command(&["run", "--", "sh", "-c", "echo first; read line; echo $line"]);
    let mut run = Running::start({
        command.stdin(Stdio::piped());
        command
    });
    // The command still runs when its first line arrives: it waits for the test's input.
    assert_eq!(run.line(), "first");
    let mut input = run.child.stdin.take().unwrap();
    input.write_all(b"second\n").unwrap();
    assert_eq!(run.line(), "second");
    assert_eq!(run.code(), Some(0));
    site.assert_nothing_left();
}

#[test]
fn the_two_streams_stay_apart_and_bytes_stay_what_they_were() {
    let site = Site::new();
    let output = site
        .command(&["run", "--", "sh", "-c", r"printf '\377\000\n'; printf no-newline >&2"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"\xff\x00\n");
    assert_eq!(output.stderr, b"no-newline");
}

#[test]
fn large_output_arrives_whole() {
    let site = Site::new();
    let output =
        site.command(&["run", "--", "head", "-c", "20000000", "/dev/zero"]).output().unwrap();
    assert_eq!(output.stdout.len(), 20_000_000);
}

#[test]
fn piped_input_reaches_the_command_and_its_end_too() {
    let site = Site::new();
    let mut child = site
        .command(&["run", "--", "wc", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&vec![b'x'; 300_000]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "300000");
}

#[test]
fn without_input_the_command_reads_its_end_at_once() {
    let site = Site::new();
    let mut command = site.command(&["run", "--no-stdin", "--", "cat"]);
    // A pipe that stays open would keep `cat` for ever.
    let mut run = Running::start({
        command.stdin(Stdio::piped());
        command
    });
    assert_eq!(run.code(), Some(0));
}

#[test]
fn the_exit_code_is_the_commands_own() {
    let site = Site::new();
    for code in [0, 1, 2, 42, 255] {
        let script = format!("exit {code}");
        assert_eq!(site.call(&["run", "--", "sh", "-c", &script]).code(), code);
    }
}

#[test]
fn a_command_that_a_signal_ended_is_128_and_the_signal() {
    let site = Site::new();
    assert_eq!(site.call(&["run", "--", "sh", "-c", "kill -KILL $$"]).code(), 137);
    assert_eq!(site.call(&["run", "--", "sh", "-c", "kill -TERM $$"]).code(), 143);
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_124() {
    let site = Site::new();
    let answer = site.call(&["run", "--timeout", "200ms", "--", "sleep", "1000"]);
    answer.assert_error("timeout", 124);
    site.assert_nothing_left();
}

#[test]
fn a_program_that_cannot_be_executed_is_126() {
    let site = Site::new();
    site.call(&["run", "--", "/etc/passwd"]).assert_error("program-not-executable", 126);
    site.call(&["run", "-w", "/nowhere", "--", "true"]).assert_error("no-directory", 126);
    site.assert_nothing_left();
}

#[test]
fn a_program_that_is_not_there_is_127() {
    let site = Site::new();
    site.call(&["run", "--", "no-such-program"]).assert_error("program-not-found", 127);
    site.assert_nothing_left();
}

#[test]
fn a_wrong_argument_of_run_is_125_since_2_could_be_the_commands() {
    let site = Site::new();
    assert_eq!(site.call(&["run", "--no-such-option", "--", "true"]).code(), 125);
    assert_eq!(site.call(&["run"]).code(), 125);
    assert_eq!(site.call(&["ls", "--no-such-option"]).code(), 2);
}

#[test]
fn the_command_starts_where_it_is_told() {
    let site = Site::new();
    assert_eq!(site.ok(&["run", "--", "pwd"]), "/workspace\n");
    assert_eq!(site.ok(&["run", "-w", "/usr", "--", "pwd"]), "/usr\n");
}

#[test]
fn variables_are_given_by_name_or_from_a_private_file() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let file = place.path().join("variables");
    std::fs::write(&file, "# a comment\n\nFROM_FILE=two = 2\nBY_NAME=of the file\n").unwrap();
    let run = |mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&file, permissions).unwrap();
        Answer::of(
            site.command(&["run", "-e", "BY_NAME", "--env-file", file.to_str().unwrap(), "--"])
                .args(["sh", "-c", "echo $BY_NAME, $FROM_FILE, ${NEITHER-none}"])
                .env("BY_NAME", "one")
                .env("NEITHER", "three"),
        )
    };
    let answer = run(0o600);
    assert_eq!(answer.stdout, "one, two = 2, none\n", "{answer:?}");
    for mode in [0o640, 0o604, 0o620] {
        let answer = run(mode);
        answer.assert_error("bad-argument", 125);
        assert!(answer.stderr.contains("chmod 600"), "{answer:?}");
    }
    for wrong in ["no equals sign", "not a name=x", "NUL=\0"] {
        std::fs::write(&file, wrong).unwrap();
        let answer = run(0o600);
        answer.assert_error("bad-argument", 125);
        assert!(answer.stderr.contains("line 1"), "{answer:?}");
        assert!(!answer.stderr.contains(wrong), "{answer:?}");
    }
}

#[test]
fn a_variable_that_is_not_there_is_an_error_before_anything_is_made() {
    let site = Site::new();
    site.call(&["run", "-e", "NOT_THERE", "--", "true"]).assert_error("bad-argument", 125);
    assert!(!site.state().exists());
}

#[test]
fn a_kept_sandbox_can_be_used_again() {
    let site = Site::new();
    site.ok(&["run", "--keep", "--", "sh", "-c", "echo kept > file"]);
    let leases = site.leases(false);
    assert_eq!(leases.len(), 1);
    let id = leases[0]["id"].as_str().unwrap();
    assert_eq!(site.ok(&["exec", id, "--", "cat", "file"]), "kept\n");
    site.ok(&["release", id]);
    site.assert_nothing_left();
}

#[test]
fn a_reader_that_goes_away_ends_the_command() {
    let site = Site::new();
    let mut run = Running::start(site.command(&["run", "--", "yes"]));
    assert_eq!(run.line(), "y");
    run.close_output();
    assert_eq!(run.code(), Some(141));
    site.assert_nothing_left();
}
