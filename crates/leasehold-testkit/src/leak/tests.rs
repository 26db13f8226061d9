use std::os::unix::net::UnixListener;
use std::process::Command;

use super::*;

struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("leak-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_left_behind_is_told() {
    let directory = TemporaryDirectory::new("told");
    let marker = format!("leak-marker-{}", std::process::id());
    let scope = Scope { state_directory: directory.0.clone(), markers: vec![marker.clone()] };
    fs::write(directory.0.join("old"), "").unwrap();
    let before = MachineView::look(&scope).unwrap();
    assert!(before.leaked_since(&before).is_empty());

    fs::create_dir(directory.0.join("sandbox")).unwrap();
    let socket = directory.0.join("sandbox/socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut marked = Command::new("sleep").arg("60").env("MARKER", &marker).spawn().unwrap();
    let mut below = Command::new("sleep").arg("60").current_dir(&directory.0).spawn().unwrap();
    // The child shows its own environment only once it has executed its program.
    let leaks = loop {
        let leaks = MachineView::look(&scope).unwrap().leaked_since(&before);
        if leaks.0.processes.len() >= 2 {
            break leaks;
        }
        std::thread::yield_now();
    };
    let pids: BTreeSet<u32> = leaks.0.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, BTreeSet::from([marked.id(), below.id()]));
    assert_eq!(
        leaks.0.entries,
        BTreeSet::from([
            (directory.0.join("sandbox"), EntryKind::Directory),
            (socket.clone(), EntryKind::Socket),
        ])
    );
    assert_eq!(leaks.0.bound_sockets, BTreeSet::from([socket.clone()]));
    assert!(leaks.to_string().contains("sleep 60"), "{leaks}");

    // A socket whose file is gone is still held by somebody.
    fs::remove_file(&socket).unwrap();
    for child in [&mut marked, &mut below] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let leaks = MachineView::look(&scope).unwrap().leaked_since(&before);
    assert_eq!(leaks.0.bound_sockets, BTreeSet::from([socket]));
    assert!(leaks.0.processes.is_empty(), "{leaks}");
    drop(listener);
    let leaks = MachineView::look(&scope).unwrap().leaked_since(&before);
    assert!(leaks.except(|path| path.ends_with("sandbox")).is_empty());
}

#[test]
fn a_state_directory_that_does_not_exist_is_empty() {
    let scope = Scope { state_directory: PathBuf::from("/no/such/directory"), markers: Vec::new() };
    assert_eq!(MachineView::look(&scope).unwrap(), MachineView::default());
}

#[test]
fn mount_points_are_unescaped() {
    let table = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n\
                  37 35 98:0 / /with\\040space\\134x rw - tmpfs none rw\n";
    let points: Vec<PathBuf> = mounts::mount_points(table).collect();
    assert_eq!(points, [PathBuf::from("/mnt2"), PathBuf::from("/with space\\x")]);
}

#[test]
fn only_sockets_with_a_path_are_bound_to_one() {
    let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                 0000000000000000: 00000002 00000000 00010000 0001 01 20031 /run/a socket\n\
                 0000000000000000: 00000003 00000000 00000000 0001 03 20032\n\
                 0000000000000000: 00000002 00000000 00010000 0001 01 20033 @abstract\n";
    let paths: Vec<PathBuf> = sockets::bound_paths(table).collect();
    assert_eq!(paths, [PathBuf::from("/run/a socket")]);
}
