//! Damaged archives, and limits: each is an error of its own, and nothing past it is touched.

#![expect(clippy::panic, reason = "that is how a test fails")]

mod support;

use leasehold_archive::{
    ArchiveError, Cap, Caps, Exclude, FileOptions, Malformed, PackOptions, Progress, Root,
    UnpackOptions, Watch, pack, read_file, unpack_into, unpack_replacing, write_file,
};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Forged, Place};

fn cap<T: std::fmt::Debug>(result: Result<T, ArchiveError>) -> Cap {
    match result {
        Err(ArchiveError::Cap { cap, .. }) => cap,
        other => panic!("no cap was passed: {other:?}"),
    }
}

fn with(caps: Caps) -> UnpackOptions {
    UnpackOptions { caps, ..UnpackOptions::default() }
}

#[test]
fn an_archive_that_is_cut_off_anywhere_is_an_error() {
    let archive = Forged::new()
        .long(b'L', &[b'n'; 200])
        .file("a", &"content".repeat(100))
        .pax(b'x', &[("path", "b")])
        .file("c", "content")
        .end();
    for length in (0..archive.len() - 1024).step_by(37) {
        let place = Place::new();
        match place.unpack(&archive[..length]) {
            Err(ArchiveError::Truncated { offset }) => assert_eq!(offset, length as u64),
            other => panic!("at {length}: {other:?}"),
        }
        // No file is there that is not complete.
        for name in place.names() {
            let whole = if name == "b" { 7 } else { 700 };
            assert_eq!(fs::metadata(place.path(&name)).unwrap().len(), whole);
        }
    }
}

#[test]
fn a_size_larger_than_the_stream_is_found_to_be_a_lie() {
    let place = Place::new();
    let archive = Forged::new().header(b'0', b"a", b"", 1 << 33, |_| {}).content(b"short").cut();
    assert!(matches!(place.unpack(&archive), Err(ArchiveError::Truncated { .. })));
    assert!(place.names().is_empty());
}

#[test]
fn a_size_that_no_file_can_have_is_refused() {
    let place = Place::new();
    for size in [u64::MAX, 1 << 63, (1 << 63) - 1] {
        let archive = Forged::new().header(b'0', b"a", b"", size, |_| {}).end();
        let result = place.unpack(&archive);
        assert!(matches!(
            result,
            Err(ArchiveError::Malformed { reason: Malformed::Number, .. }
                | ArchiveError::Cap { cap: Cap::FileBytes, .. })
        ));
    }
}

#[test]
fn a_size_smaller_than_the_content_makes_the_rest_a_damaged_header() {
    let place = Place::new();
    let archive = Forged::new().header(b'0', b"a", b"", 1, |_| {}).content(&[b'x'; 1024]).end();
    match place.unpack(&archive) {
        Err(ArchiveError::Malformed { offset: 1024, reason: Malformed::Checksum }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_header_with_a_wrong_checksum_is_refused() {
    let place = Place::new();
    let mut archive = Forged::new().file("a", "content").end();
    archive[0] = b'b';
    match place.unpack(&archive) {
        Err(ArchiveError::Malformed { offset: 0, reason: Malformed::Checksum }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn something_after_the_end_is_refused_and_padding_is_not() {
    let place = Place::new();
    let mut archive = Forged::new().file("a", "").end();
    archive.resize(10_240, 0);
    place.unpack(&archive).unwrap();
    archive.extend(Forged::new().file("hidden", "evil").end());
    match place.unpack(&archive) {
        Err(ArchiveError::Malformed { reason: Malformed::TrailingData, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(place.names(), ["a"]);
}

#[test]
fn padding_without_end_is_refused() {
    let place = Place::new();
    let input = std::io::repeat(0);
    let options = UnpackOptions::default();
    match unpack_into(&place.root(), input, &options, &mut Watch::none()) {
        Err(ArchiveError::Malformed { reason: Malformed::TrailingData, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_extension_without_its_entry_is_refused() {
    let place = Place::new();
    let archive = Forged::new().long(b'L', b"a").end();
    match place.unpack(&archive) {
        Err(ArchiveError::Malformed { reason: Malformed::Dangling, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_huge_extended_header_gets_no_memory() {
    let place = Place::new();
    for flag in [b'x', b'g'] {
        let archive = Forged::new().header(flag, b"pax", b"", 1 << 40, |_| {}).end();
        assert_eq!(cap(place.unpack(&archive)), Cap::HeaderBytes);
    }
    for flag in [b'L', b'K'] {
        let archive = Forged::new().header(flag, b"long", b"", 1 << 40, |_| {}).end();
        assert_eq!(cap(place.unpack(&archive)), Cap::PathBytes);
    }
}

#[test]
fn global_headers_count_against_the_cap_on_entries() {
    let place = Place::new();
    let mut archive = Forged::new();
    for _ in 0..5 {
        archive = archive.pax(b'g', &[("comment", "again")]);
    }
    let options = with(Caps { entries: 4, ..Caps::default() });
    assert_eq!(cap(place.unpack_with(&archive.file("a", "").end(), &options)), Cap::Entries);
}

#[test]
fn a_path_of_ten_thousand_levels_is_over_the_cap() {
    let place = Place::new();
    let deep = vec!["d"; 10_000].join("/");
    let caps = Caps { path_bytes: 100_000, ..Caps::default() };
    let archive = Forged::new().long(b'L', deep.as_bytes()).file("a", "").end();
    assert_eq!(cap(place.unpack_with(&archive, &with(caps))), Cap::Depth);
    assert_eq!(cap(place.unpack(&archive)), Cap::PathBytes);
    assert!(place.names().is_empty());
}

#[test]
fn a_tree_with_far_more_levels_than_handles_goes_in_and_out_where_it_is_allowed() {
    const LEVELS: usize = 2_000;
    let place = Place::in_memory();
    let deep = vec!["d"; LEVELS].join("/");
    let caps = Caps { path_bytes: 100_000, depth: 20_000, ..Caps::default() };
    let archive = Forged::new()
        .long(b'L', format!("{deep}/a").as_bytes())
        .file("a", "content")
        .long(b'L', format!("{deep}x").as_bytes())
        .file("a", "content")
        .file("d/b", "content")
        .end();
    let (root, options, mut watch) = (place.root(), with(caps), Watch::none());
    // Not through `unpack`, which looks at the tree by path: this one is too deep for that.
    let summary = unpack_into(&root, &archive[..], &options, &mut watch).unwrap();
    assert_eq!(summary.files, 3);
    let (packed, summary) =
        place.pack_with(&PackOptions { caps, ..PackOptions::default() }).unwrap();
    assert_eq!((summary.files, summary.directories), (3, LEVELS as u64 + 1));
    let replaced = unpack_replacing(&root, "d", &packed[..], &options, &mut watch).unwrap();
    assert_eq!(replaced, summary);
    // And once more, so that the old tree is one that has such a depth too.
    unpack_replacing(&root, "d", &[0; 1024][..], &options, &mut watch).unwrap();
    assert_eq!(fs::read_dir(place.path("d")).unwrap().count(), 0);
    assert_eq!(place.names(), ["d"]);
}

#[test]
fn each_cap_is_named_when_it_is_passed_by_unpacking() {
    let place = Place::new();
    let archive = Forged::new().file("a", "123").file("b", "1234").end();
    let options = with(Caps { file_bytes: 3, ..Caps::default() });
    assert_eq!(cap(place.unpack_with(&archive, &options)), Cap::FileBytes);
    assert_eq!(place.names(), ["a"]);
    let options = with(Caps { total_bytes: 6, ..Caps::default() });
    assert_eq!(cap(place.unpack_with(&archive, &options)), Cap::TotalBytes);
    assert_eq!(place.names(), ["a"]);
    let options = with(Caps { entries: 1, ..Caps::default() });
    assert_eq!(cap(place.unpack_with(&archive, &options)), Cap::Entries);
    let options = with(Caps { path_bytes: 3, ..Caps::default() });
    let archive = Forged::new().file("abcd", "").end();
    assert_eq!(cap(place.unpack_with(&archive, &options)), Cap::PathBytes);
    let archive = Forged::new().symlink("a", "long").end();
    assert_eq!(cap(place.unpack_with(&archive, &options)), Cap::PathBytes);
    let options = with(Caps { depth: 2, ..Caps::default() });
    let archive = Forged::new().file("a/b/c", "").end();
    assert_eq!(cap(place.unpack_with(&archive, &options)), Cap::Depth);
    assert_eq!(place.names(), ["a"]);
}

#[test]
fn each_cap_is_named_when_it_is_passed_by_packing() {
    let place = Place::new();
    fs::create_dir_all(place.path("a/b")).unwrap();
    fs::write(place.path("a/b/c"), "1234").unwrap();
    fs::write(place.path("d"), "1234").unwrap();
    let attempt = |caps| {
        let options = PackOptions { caps, ..PackOptions::default() };
        cap(place.pack_with(&options).map(|(_, summary)| summary))
    };
    assert_eq!(attempt(Caps { file_bytes: 3, ..Caps::default() }), Cap::FileBytes);
    assert_eq!(attempt(Caps { total_bytes: 7, ..Caps::default() }), Cap::TotalBytes);
    assert_eq!(attempt(Caps { entries: 4, ..Caps::default() }), Cap::Entries);
    assert_eq!(attempt(Caps { path_bytes: 4, ..Caps::default() }), Cap::PathBytes);
    assert_eq!(attempt(Caps { depth: 2, ..Caps::default() }), Cap::Depth);
    let enough = Caps { file_bytes: 4, total_bytes: 8, entries: 5, path_bytes: 5, depth: 3 };
    let options = PackOptions { caps: enough, ..PackOptions::default() };
    let (archive, _) = place.pack_with(&options).unwrap();
    Place::new().unpack_with(&archive, &with(enough)).unwrap();
}

#[test]
fn a_cap_on_a_single_file_leaves_the_old_one() {
    let place = Place::new();
    fs::write(place.path("a"), "old").unwrap();
    let caps = Caps { file_bytes: 3, ..Caps::default() };
    let options = FileOptions { caps, ..FileOptions::default() };
    let result = write_file(&place.root(), "a", &b"1234"[..], &options, &mut Watch::none());
    assert_eq!(cap(result), Cap::FileBytes);
    assert_eq!(place.read("a"), "old");
    assert_eq!(place.names(), ["a"]);
    fs::write(place.path("a"), "1234").unwrap();
    let result = read_file(&place.root(), "a", std::io::sink(), &caps, &mut Watch::none());
    assert_eq!(cap(result), Cap::FileBytes);
}

/// An archive whose only entry is excluded and claims to be endless.
struct Endless {
    header: Vec<u8>,
}

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.header.is_empty() {
            buffer.fill(b'x');
            return Ok(buffer.len());
        }
        let count = self.header.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.header[..count]);
        self.header.drain(..count);
        Ok(count)
    }
}

#[test]
fn a_flag_stops_even_what_is_only_passed_over() {
    let place = Place::new();
    let header = Forged::new().header(b'0', b"a.o", b"", 1 << 60, |_| {}).cut();
    let options =
        UnpackOptions { exclude: Exclude::new(["*.o"]).unwrap(), ..UnpackOptions::default() };
    let flag = AtomicBool::new(false);
    let mut looks = 0;
    let mut report = |_| {
        looks += 1;
        flag.store(looks > 10, Ordering::Relaxed);
    };
    let mut watch = Watch::none().cancelled_by(&flag).reporting_to(&mut report);
    let result = unpack_into(&place.root(), Endless { header }, &options, &mut watch);
    assert!(matches!(result, Err(ArchiveError::Cancelled)));
}

#[test]
fn a_flag_stops_packing_and_unpacking_within_one_buffer_and_progress_tells_how_far() {
    let place = Place::new();
    fs::write(place.path("large"), vec![0; 3 << 20]).unwrap();
    let (archive, _) = place.pack();
    let target = Place::new();
    let stop_at = 1 << 20;
    let attempt = |call: &mut dyn FnMut(&mut Watch<'_>) -> Result<(), ArchiveError>| {
        let flag = AtomicBool::new(false);
        let mut last = Progress::default();
        let mut report = |progress: Progress| {
            last = progress;
            flag.store(progress.bytes >= stop_at, Ordering::Relaxed);
        };
        let mut watch = Watch::none().cancelled_by(&flag).reporting_to(&mut report);
        assert!(matches!(call(&mut watch), Err(ArchiveError::Cancelled)));
        assert_eq!(last.entries, 2);
        assert!((stop_at..=stop_at + 256 * 1024).contains(&last.bytes));
    };
    attempt(&mut |watch| {
        pack(&place.root(), std::io::sink(), &PackOptions::default(), watch).map(|_| ())
    });
    attempt(&mut |watch| {
        let options = UnpackOptions::default();
        unpack_into(&target.root(), &archive[..], &options, watch).map(|_| ())
    });
    assert!(target.names().is_empty());
}

#[test]
fn a_stream_that_fails_is_an_error_of_its_own() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
    }
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let place = Place::new();
    let root: Root = place.root();
    let options = UnpackOptions::default();
    let result = unpack_into(&root, Broken, &options, &mut Watch::none());
    assert!(matches!(result, Err(ArchiveError::Input(_))));
    let result = pack(&root, Broken, &PackOptions::default(), &mut Watch::none());
    assert!(matches!(result, Err(ArchiveError::Output(_))));
    let result = write_file(&root, "a", Broken, &FileOptions::default(), &mut Watch::none());
    assert!(matches!(result, Err(ArchiveError::Input(_))));
    assert!(place.names().is_empty());
}
