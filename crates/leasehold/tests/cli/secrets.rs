//! A variable's value and what goes in by standard input are nowhere but in the command.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Running, Site, unique};

#[test]
fn a_secret_is_found_nowhere_but_where_it_was_given() {
    let site = Site::new();
    let (variable, input) = (unique("canary-variable"), unique("canary-input"));
    let in_file = unique("canary-file");
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("variables");
    fs::write(&file, format!("FROM_FILE={in_file}\n")).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let secrets = [&variable, &input, &in_file];
    let lease = site.acquire(&[]);
    // The command holds both while the test looks, and says how long they are.
    let script = "read line; echo ${#SECRET} ${#line} ${#FROM_FILE}; read end";
    let mut command = site.command(&["-vvv", "exec", "-e", "SECRET", "--env-file"]);
    command.arg(&file).args([&lease, "--", "sh", "-c", script]);
    command.env("SECRET", &variable).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut exec = Running::start(command);
    let mut stdin = exec.child.stdin.take().unwrap();
    writeln!(stdin, "{input}").unwrap();
    assert_eq!(exec.line(), format!("{} {} {}", variable.len(), input.len(), in_file.len()));
    for secret in secrets {
        assert_eq!(command_lines_with(secret), Vec::<String>::new());
        assert_eq!(files_with(&site.state(), secret), Vec::<String>::new());
    }
    writeln!(stdin, "end").unwrap();
    let output = exec.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = [log, site.ok(&["show", &lease]), site.ok(&["history", &lease])].concat();
    site.ok(&["release", &lease]);
    for secret in secrets {
        assert!(!said.contains(&**secret), "{said}");
        assert_eq!(files_with(&site.state(), secret), Vec::<String>::new());
    }
}

#[test]
fn a_message_repeats_no_value() {
    let site = Site::new();
    let secret = unique("canary-message");
    let wrong = format!("not a name={secret}");
    let with_value = format!("NAME={secret}");
    for argument in [&*wrong, &secret, &with_value] {
        let answer = site.call(&["run", "-e", argument, "--", "true"]);
        answer.assert_error("bad-argument", 125);
        assert!(!answer.stderr.contains(&secret), "{answer:?}");
    }
}

#[test]
fn the_state_directory_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new();
    site.ok(&["run", "--", "true"]);
    let mode = fs::metadata(site.state()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

fn command_lines_with(secret: &str) -> Vec<String> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .filter(|line| line.contains(secret))
        .collect()
}

/// Files below `directory` that hold the secret, whatever kind of file they are.
fn files_with(directory: &Path, secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let bytes = fs::read(&path).unwrap_or_default();
                if bytes.windows(secret.len()).any(|window| window == secret.as_bytes()) {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    found
}
