//! Other processes: this test binary once more, in one role.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ROLE: &str = "LEASEHOLD_TEST_ROLE";
const DIRECTORY: &str = "LEASEHOLD_TEST_DIRECTORY";

/// Starts the test `test` of this binary as another process, in `role`, on `directory`.
pub(crate) fn start(test: &str, role: &str, directory: &Path) -> Child {
    arguments(&mut Command::new(std::env::current_exe().unwrap()), test, role, directory)
        .spawn()
        .unwrap()
}

/// What makes a command run the test `test` of this binary, its output to be read.
pub(crate) fn arguments<'a>(
    command: &'a mut Command,
    test: &str,
    role: &str,
    directory: &Path,
) -> &'a mut Command {
    command
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
}

/// The role and directory of this process, if it was started by [`start`].
pub(crate) fn role() -> Option<(String, std::path::PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(DIRECTORY)?.into()))
}

/// The lines that the child writes, each whole.
pub(crate) fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let output = child.stdout.take().unwrap();
    BufReader::new(output).lines().map_while(Result::ok)
}
