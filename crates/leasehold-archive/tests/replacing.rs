//! A tree in place of another: all of it or nothing, whatever happens.

mod support;

use leasehold_archive::{
    ArchiveError, Caps, Refusal, Root, Summary, UnpackOptions, Watch, clean_leftovers,
    unpack_replacing,
};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use support::{Forged, Place};

/// Set in the process that is going to be killed: the folder that it works in.
const VICTIM: &str = "LEASEHOLD_ARCHIVE_VICTIM";

fn replace(place: &Place, archive: impl Read) -> Result<Summary, ArchiveError> {
    let options = UnpackOptions::default();
    let result = unpack_replacing(&place.root(), "target", archive, &options, &mut Watch::none());
    place.assert_confined();
    result
}

fn new_tree() -> Vec<u8> {
    Forged::new().directory("d").file("d/new", "new").end()
}

#[test]
fn a_tree_takes_the_place_of_another_and_the_old_one_is_gone() {
    let place = Place::new();
    fs::create_dir_all(place.path("target/old/deep")).unwrap();
    fs::write(place.path("target/old/deep/file"), "old").unwrap();
    symlink(place.outside(""), place.path("target/link")).unwrap();
    fs::set_permissions(place.path("target/old"), PermissionsExt::from_mode(0o500)).unwrap();
    replace(&place, &new_tree()[..]).unwrap();
    assert_eq!(place.read("target/d/new"), "new");
    assert!(!place.path("target/old").exists());
    assert_eq!(place.names(), ["target"]);
}

#[test]
fn a_tree_takes_the_place_of_nothing_of_a_file_and_of_a_link() {
    let place = Place::new();
    replace(&place, &new_tree()[..]).unwrap();
    fs::remove_dir_all(place.path("target")).unwrap();
    fs::write(place.path("target"), "file").unwrap();
    replace(&place, &new_tree()[..]).unwrap();
    fs::remove_dir_all(place.path("target")).unwrap();
    symlink(place.outside(""), place.path("target")).unwrap();
    replace(&place, &new_tree()[..]).unwrap();
    assert_eq!(place.names(), ["target"]);
    assert!(place.path("target").symlink_metadata().unwrap().is_dir());
}

#[test]
fn the_new_root_has_the_mode_and_time_of_its_entry() {
    let place = Place::new();
    replace(&place, &new_tree()[..]).unwrap();
    assert_eq!(fs::metadata(place.path("target")).unwrap().mode() & 0o7777, 0o755);
    let archive = Forged::new()
        .header(b'5', b"./", b"", 0, |header| header.set_mode(0o750))
        .file("a", "")
        .end();
    replace(&place, &archive[..]).unwrap();
    let facts = fs::metadata(place.path("target")).unwrap();
    assert_eq!((facts.mode() & 0o7777, facts.mtime()), (0o750, 1_000));
}

#[test]
fn a_failure_of_any_kind_leaves_the_old_tree_as_it_was_and_nothing_else() {
    let place = Place::new();
    fs::create_dir_all(place.path("target/old")).unwrap();
    fs::write(place.path("target/old/file"), "old").unwrap();
    let before: Vec<_> = place.tree().into_iter().skip(1).collect();
    let whole = new_tree();
    let refused = Forged::new().file("a", "").file("../b", "").end();
    for archive in [&whole[..700], &whole[..1024], &refused[..], &[1; 512][..], &[][..]] {
        replace(&place, archive).unwrap_err();
        let after: Vec<_> = place.tree().into_iter().skip(1).collect();
        assert_eq!(after, before);
    }
    let caps = Caps { entries: 1, ..Caps::default() };
    let options = UnpackOptions { caps, ..UnpackOptions::default() };
    unpack_replacing(&place.root(), "target", &whole[..], &options, &mut Watch::none())
        .unwrap_err();
    let stop = true.into();
    let mut watch = Watch::none().cancelled_by(&stop);
    let options = UnpackOptions::default();
    let cancelled = unpack_replacing(&place.root(), "target", &whole[..], &options, &mut watch);
    assert!(matches!(cancelled, Err(ArchiveError::Cancelled)));
    assert_eq!(place.names(), ["target"]);
    assert_eq!(place.read("target/old/file"), "old");
}

#[test]
fn only_a_single_component_can_be_replaced() {
    let place = Place::new();
    for name in ["", ".", "..", "a/b", "/", "../outside"] {
        let options = UnpackOptions::default();
        let archive = new_tree();
        let result =
            unpack_replacing(&place.root(), name, &archive[..], &options, &mut Watch::none());
        assert!(
            matches!(
                result,
                Err(ArchiveError::Refused {
                    reason: Refusal::EmptyName | Refusal::ParentComponent | Refusal::NotADirectory,
                    ..
                })
            ),
            "{name}"
        );
    }
    assert!(place.names().is_empty());
    place.assert_confined();
}

#[test]
fn a_tree_on_disk_before_it_takes_its_place_is_there_like_any_other() {
    let place = Place::new();
    let options = UnpackOptions { durable: true, ..UnpackOptions::default() };
    let archive = new_tree();
    unpack_replacing(&place.root(), "target", &archive[..], &options, &mut Watch::none()).unwrap();
    assert_eq!(place.read("target/d/new"), "new");
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os(VICTIM) else { return };
    let root = Root::open(folder).unwrap();
    let mut report = |progress: leasehold_archive::Progress| {
        // In the middle of the second file; then the pipe has no more for it, and it waits.
        if progress.entries == 2 && progress.bytes > 1 {
            println!("\nhalf way");
        }
    };
    let mut watch = Watch::none().reporting_to(&mut report);
    let options = UnpackOptions::default();
    let _ = unpack_replacing(&root, "target", std::io::stdin(), &options, &mut watch);
}

#[test]
fn a_run_that_is_killed_leaves_the_old_tree_and_what_the_next_run_cleans() {
    let place = Place::new();
    fs::create_dir_all(place.path("target")).unwrap();
    fs::write(place.path("target/old"), "old").unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, place.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let half = Forged::new().file("a", "a").header(b'0', b"b", b"", 4_096, |_| {}).cut();
    let mut input = victim.stdin.take().unwrap();
    input.write_all(&half).unwrap();
    input.write_all(b"beginning").unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().is_ok_and(|line| line == "half way")).unwrap().unwrap();
    // While it lives its slot is its own, and another run takes the next one.
    clean_leftovers(&place.root()).unwrap();
    assert!(place.path(".leasehold-archive.00/b").exists());
    replace(&place, &new_tree()[..]).unwrap();
    assert!(place.path(".leasehold-archive.00/b").exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(place.read("target/d/new"), "new");
    assert!(place.path(".leasehold-archive.00/a").exists());
    replace(&place, &new_tree()[..]).unwrap();
    assert_eq!(place.names(), ["target"]);
}

#[test]
fn leftovers_are_removed_whatever_a_hostile_process_made_of_them() {
    let place = Place::new();
    fs::create_dir(place.path(".leasehold-archive.00")).unwrap();
    symlink(place.outside(""), place.path(".leasehold-archive.00/link")).unwrap();
    fs::write(place.path(".leasehold-archive.00.lock"), "").unwrap();
    symlink(place.outside(""), place.path(".leasehold-archive.01")).unwrap();
    fs::write(place.path(".leasehold-archive.01.lock"), "").unwrap();
    symlink("../outside/canary", place.path(".leasehold-archive.01.name")).unwrap();
    fs::write(place.path(".leasehold-archive.01.aside"), "").unwrap();
    fs::write(place.path(".leasehold-archive.file.00"), "").unwrap();
    clean_leftovers(&place.root()).unwrap();
    assert!(place.names().is_empty());
    place.assert_confined();
}

#[test]
fn an_old_tree_that_its_owner_may_not_enter_is_removed_all_the_same() {
    let place = Place::new();
    fs::create_dir_all(place.path("target/closed/deep")).unwrap();
    fs::write(place.path("target/closed/deep/file"), "old").unwrap();
    let as_nobody = rustix::process::geteuid().is_root();
    for path in ["target/closed/deep", "target/closed", "target", ""] {
        if as_nobody {
            std::os::unix::fs::chown(place.path(path), Some(65_534), None).unwrap();
        }
        if path.starts_with("target/") {
            fs::set_permissions(place.path(path), PermissionsExt::from_mode(0o000)).unwrap();
        }
    }
    let root = place.root();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if as_nobody {
                // This thread alone.
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_uid(nobody).unwrap();
            }
            let (archive, options) = (new_tree(), UnpackOptions::default());
            let summary =
                unpack_replacing(&root, "target", &archive[..], &options, &mut Watch::none());
            assert_eq!(summary.unwrap().noticed, 0);
        });
    });
    assert_eq!(place.names(), ["target"]);
    assert_eq!(place.read("target/d/new"), "new");
}

#[test]
fn a_slot_that_is_not_a_lock_file_is_passed_over() {
    let place = Place::new();
    symlink(place.outside("canary"), place.path(".leasehold-archive.00.lock")).unwrap();
    fs::create_dir(place.path(".leasehold-archive.01.lock")).unwrap();
    symlink(place.outside("canary"), place.path(".leasehold-archive.file.00")).unwrap();
    replace(&place, &new_tree()[..]).unwrap();
    replace(&place, &new_tree()[..]).unwrap();
    assert_eq!(place.read("target/d/new"), "new");
}
