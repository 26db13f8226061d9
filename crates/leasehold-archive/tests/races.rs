//! A hostile process that swaps names while this crate works. A thread plays it; what is bounded is the
//! work of the victim, not time.

mod support;

use leasehold_archive::{
    Caps, FileOptions, PackOptions, Symlinks, UnpackOptions, Watch, pack, read_file, unpack_into,
    unpack_replacing, write_file,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::{Forged, Place, SECRET};

const ROUNDS: u64 = 100;

/// Exchanges two names without pause while `work` is done again and again.
fn while_swapping(left: &Path, right: &Path, mut work: impl FnMut(u64)) {
    let done = AtomicBool::new(false);
    let swaps = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // The victim may just have replaced one of them: the next turn finds both again.
                let _ = renameat_with(CWD, left, CWD, right, RenameFlags::EXCHANGE);
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut last = 0;
        for round in 0..ROUNDS {
            work(round);
            // Not a round without a swap beside it.
            while swaps.load(Ordering::Relaxed) == last {
                std::thread::yield_now();
            }
            last = swaps.load(Ordering::Relaxed);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn unpacking_into_a_directory_that_is_swapped_for_a_link_stays_inside() {
    let place = Place::in_memory();
    let (real, link) = (place.path("d"), place.path("link"));
    fs::create_dir(&real).unwrap();
    symlink(place.outside(""), &link).unwrap();
    let mut archive = Forged::new();
    for index in 0..8 {
        archive = archive.file(&format!("d/sub{index}/canary"), "evil");
        archive = archive.file("d/canary", "evil").directory("d/directory");
        archive = archive.symlink("d/a", "b").hard_link("d/c", "d/canary").file("e", "x");
    }
    let archive = archive.end();
    let mut worked = 0;
    while_swapping(&real, &link, |_| {
        let options = UnpackOptions::default();
        if unpack_into(&place.root(), &archive[..], &options, &mut Watch::none()).is_ok() {
            worked += 1;
        }
    });
    place.assert_confined();
    assert!(worked < ROUNDS, "no round met a link");
}

#[test]
fn a_file_whose_name_is_swapped_for_a_link_is_not_written_through() {
    let place = Place::in_memory();
    let (file, link) = (place.path("name"), place.path("link"));
    let archive = Forged::new().file("name", "one").file("name", "two").end();
    fs::write(&file, "").unwrap();
    while_swapping(&file, &link, |_| {
        let _ = fs::remove_file(&link);
        let _ = symlink(place.outside("canary"), &link);
        // It may fail, but never write to the canary.
        let _ =
            unpack_into(&place.root(), &archive[..], &UnpackOptions::default(), &mut Watch::none());
        let _ = write_file(
            &place.root(),
            "name",
            &b"evil"[..],
            &FileOptions::default(),
            &mut Watch::none(),
        );
    });
    place.assert_confined();
}

#[test]
fn packing_a_tree_whose_names_are_swapped_for_links_reads_nothing_outside() {
    let place = Place::in_memory();
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("d/canary"), "harmless").unwrap();
    symlink(place.outside(""), place.path("link")).unwrap();
    fs::write(place.path("f"), "harmless").unwrap();
    symlink(place.outside("canary"), place.path("d/link")).unwrap();
    for symlinks in [Symlinks::Keep, Symlinks::Follow] {
        let options = PackOptions { symlinks, ..PackOptions::default() };
        while_swapping(&place.path("d"), &place.path("link"), |_| {
            let mut archive = Vec::new();
            pack(&place.root(), &mut archive, &options, &mut Watch::none()).unwrap();
            let secret = SECRET.as_bytes();
            assert!(!archive.windows(secret.len()).any(|window| window == secret));
        });
        while_swapping(&place.path("f"), &place.path("link"), |_| {
            let mut archive = Vec::new();
            pack(&place.root(), &mut archive, &options, &mut Watch::none()).unwrap();
            let secret = SECRET.as_bytes();
            assert!(!archive.windows(secret.len()).any(|window| window == secret));
            let mut content = Vec::new();
            let caps = Caps::default();
            let _ = read_file(&place.root(), "f", &mut content, &caps, &mut Watch::none());
            assert!(content.is_empty() || content == b"harmless");
        });
    }
    place.assert_confined();
}

#[test]
fn removing_an_old_tree_whose_names_are_swapped_for_links_removes_nothing_outside() {
    let place = Place::in_memory();
    let archive = Forged::new().file("a/b/c", "x").symlink("link", place.outside("")).end();
    let options = UnpackOptions::default();
    let (real, link) = (place.path("target/a"), place.path("target/link"));
    unpack_replacing(&place.root(), "target", &archive[..], &options, &mut Watch::none()).unwrap();
    while_swapping(&real, &link, |_| {
        // The old tree is removed each time, under a name that the thread does not know; what it
        // swaps is moved there with it.
        unpack_replacing(&place.root(), "target", &archive[..], &options, &mut Watch::none())
            .unwrap();
    });
    let slot = place.path(".leasehold-archive.00");
    while_swapping(&slot.join("a"), &slot.join("link"), |_| {
        let _ =
            unpack_replacing(&place.root(), "target", &archive[..], &options, &mut Watch::none());
    });
    place.assert_confined();
}

#[test]
fn two_runs_that_replace_one_tree_at_once_leave_one_of_the_two_whole() {
    let place = Place::in_memory();
    let forged = |content: &str| {
        let mut archive = Forged::new();
        for index in 0..20 {
            archive = archive.file(&format!("d/{index}"), content);
        }
        archive.end()
    };
    let archives = [forged("one"), forged("two")];
    std::thread::scope(|scope| {
        for archive in &archives {
            scope.spawn(|| {
                for _ in 0..100 {
                    let options = UnpackOptions::default();
                    unpack_replacing(
                        &place.root(),
                        "target",
                        &archive[..],
                        &options,
                        &mut Watch::none(),
                    )
                    .unwrap();
                }
            });
        }
    });
    let first = place.read("target/d/0");
    for index in 0..20 {
        assert_eq!(place.read(&format!("target/d/{index}")), first);
    }
    assert_eq!(place.names(), ["target"]);
}
