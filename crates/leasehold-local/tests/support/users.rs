//! The same tests again as an ordinary user, when they run as root.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Says where the copy of the init program is.
pub const INIT_VARIABLE: &str = "LEASEHOLD_TEST_INIT";

/// `nobody` on most systems; any user that is not root will do.
const ORDINARY_USER: u32 = 65_534;

/// Runs all other tests of the calling test binary as an ordinary user. Does nothing unless this is root.
///
/// Programs are copied first: the build directory may be closed to others.
pub fn run_everything_again_as_ordinary_user(caller: &str) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let (tests, init) = (folder.path().join("tests"), folder.path().join("init"));
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    std::fs::copy(super::init_program(), &init).unwrap();
    [&tests, &init].into_iter().for_each(|path| open_to_all(path));
    let output = Command::new(&tests)
        .args(["--skip", caller])
        .env(INIT_VARIABLE, &init)
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .uid(ORDINARY_USER)
        .gid(ORDINARY_USER)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "as an ordinary user:\n{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!("as an ordinary user:\n{text}");
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
