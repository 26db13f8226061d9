//! Known attacks by an archive, one test each.

#![expect(clippy::panic, reason = "that is how a test fails")]

mod support;

use leasehold_archive::{
    ArchiveError, Malformed, NoticeReason, Refusal, SymlinkTargets, UnpackOptions,
};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use support::{Forged, Place, SECRET, reason};

fn malformed(place: &Place, archive: &[u8]) -> Malformed {
    match place.unpack(archive) {
        Err(ArchiveError::Malformed { reason, .. }) => reason,
        other => panic!("not found to be malformed: {other:?}"),
    }
}

#[test]
fn tar_slip_a_name_with_dot_dot_is_refused() {
    for name in ["../outside/canary", "a/../../outside/canary", "a/..", "..", "a/../b"] {
        let place = Place::new();
        let archive = Forged::new().file(name, "evil").end();
        assert_eq!(reason(place.unpack(&archive)), Refusal::ParentComponent, "{name}");
        assert!(place.names().is_empty());
    }
}

#[test]
fn an_absolute_name_is_refused() {
    let place = Place::new();
    let name = place.outside("canary");
    let archive =
        Forged::new().long(b'L', name.to_str().unwrap().as_bytes()).file("short", "evil").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::Absolute);
    let archive = Forged::new().file("//etc/passwd", "evil").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::Absolute);
}

#[test]
fn symlink_then_file_below_it_is_refused() {
    for target in ["../outside", "inside"] {
        let place = Place::new();
        let archive = Forged::new()
            .directory("inside")
            .symlink("link", target)
            .file("link/canary", "evil")
            .end();
        assert_eq!(reason(place.unpack(&archive)), Refusal::LinkInTheWay);
        assert!(!place.path("inside/canary").exists());
    }
}

#[test]
fn symlink_then_deeper_file_below_it_creates_nothing_on_the_way() {
    let place = Place::new();
    let archive = Forged::new().symlink("link", "../outside").file("link/new/canary", "evil").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::LinkInTheWay);
}

#[test]
fn symlink_then_file_of_the_same_name_replaces_the_link() {
    let place = Place::new();
    let archive =
        Forged::new().symlink("name", place.outside("canary")).file("name", "harmless").end();
    place.unpack(&archive).unwrap();
    assert!(place.path("name").symlink_metadata().unwrap().is_file());
    assert_eq!(place.read("name"), "harmless");
}

#[test]
fn symlink_then_directory_of_the_same_name_changes_nothing_behind_the_link() {
    // RUSTSEC-2026-0067: the mode of the target was changed.
    let place = Place::new();
    let archive = Forged::new()
        .symlink("name", place.outside("directory"))
        .header(b'5', b"name/", b"", 0, |header| header.set_mode(0o777))
        .file("name/new", "harmless")
        .end();
    place.unpack(&archive).unwrap();
    assert!(place.path("name").symlink_metadata().unwrap().is_dir());
    assert_eq!(place.read("name/new"), "harmless");
}

#[test]
fn a_symlink_that_stands_in_the_target_already_is_not_followed() {
    let place = Place::new();
    symlink(place.outside(""), place.path("link")).unwrap();
    symlink(place.outside("canary"), place.path("file")).unwrap();
    let archive = Forged::new().file("link/canary", "evil").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::LinkInTheWay);
    place.unpack(&Forged::new().file("file", "harmless").end()).unwrap();
    assert_eq!(place.read("file"), "harmless");
}

#[test]
fn symlink_then_symlink_through_it_is_refused() {
    let place = Place::new();
    let archive = Forged::new().symlink("a", "../outside").symlink("a/b", "canary").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::LinkInTheWay);
}

#[test]
fn hard_link_to_outside_is_refused() {
    for target in ["../outside/canary", "/etc/passwd", "a/../../outside/canary"] {
        let place = Place::new();
        let archive = Forged::new().hard_link("link", target).file("link", "evil").end();
        assert_eq!(reason(place.unpack(&archive)), Refusal::HardLinkOutside, "{target}");
    }
}

#[test]
fn hard_link_to_a_symlink_is_refused() {
    let place = Place::new();
    let archive = Forged::new()
        .symlink("a", place.outside("canary"))
        .hard_link("b", "a")
        .file("b", "evil")
        .end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::HardLinkTarget);
}

#[test]
fn hard_link_through_a_symlink_is_refused() {
    let place = Place::new();
    let archive = Forged::new().symlink("a", "../outside").hard_link("b", "a/canary").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::HardLinkTarget);
}

#[test]
fn hard_link_then_file_of_the_same_name_leaves_the_first_name_alone() {
    let place = Place::new();
    let archive = Forged::new().file("a", "first").hard_link("b", "a").file("b", "second").end();
    let summary = place.unpack(&archive).unwrap();
    assert_eq!((place.read("a").as_str(), place.read("b").as_str()), ("first", "second"));
    assert_eq!((summary.files, summary.hard_links), (2, 1));
}

#[test]
fn a_file_that_has_another_name_outside_is_replaced_not_written_to() {
    let place = Place::new();
    fs::hard_link(place.outside("canary"), place.path("name")).unwrap();
    let before = fs::metadata(place.outside("canary")).unwrap().mtime();
    let archive = Forged::new().file("name", "harmless").end();
    place.unpack(&archive).unwrap();
    assert_eq!(place.read("name"), "harmless");
    assert_eq!(fs::read_to_string(place.outside("canary")).unwrap(), SECRET);
    assert_eq!(fs::metadata(place.outside("canary")).unwrap().mtime(), before);
}

#[test]
fn hard_link_to_itself_keeps_the_file() {
    let place = Place::new();
    place.unpack(&Forged::new().file("a", "kept").hard_link("a", "./a").end()).unwrap();
    assert_eq!(place.read("a"), "kept");
}

#[test]
fn hard_link_to_what_is_missing_or_a_directory_is_refused() {
    let place = Place::new();
    let archive = Forged::new().hard_link("a", "missing").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::HardLinkTarget);
    let archive = Forged::new().directory("d").hard_link("a", "d").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::HardLinkTarget);
    let archive = Forged::new().hard_link("a", "").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::EmptyName);
}

#[test]
fn a_device_node_is_refused() {
    let place = Place::new();
    for flag in [b'3', b'4'] {
        let archive = Forged::new().entry(flag, b"device", b"", b"").end();
        assert_eq!(reason(place.unpack(&archive)), Refusal::SpecialFile);
    }
}

#[test]
fn a_fifo_is_refused() {
    let place = Place::new();
    let archive = Forged::new().entry(b'6', b"fifo", b"", b"").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::SpecialFile);
}

#[test]
fn a_fifo_that_stands_in_the_target_is_replaced_and_does_not_block() {
    let place = Place::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("name"), rustix::fs::Mode::RWXU).unwrap();
    place.unpack(&Forged::new().file("name", "harmless").end()).unwrap();
    assert_eq!(place.read("name"), "harmless");
}

#[test]
fn setuid_setgid_and_sticky_bits_are_dropped() {
    let place = Place::new();
    let archive = Forged::new()
        .header(b'0', b"file", b"", 0, |header| header.set_mode(0o7751))
        .header(b'5', b"directory", b"", 0, |header| header.set_mode(0o7775))
        .end();
    place.unpack(&archive).unwrap();
    let mode = |name| fs::metadata(place.path(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("file"), mode("directory")), (0o751, 0o775));
}

#[test]
fn names_that_differ_in_case_only_are_two_files_or_the_last_one() {
    // CVE-2021-21300: where case means nothing, the second name was written through the first one.
    let place = Place::new();
    let archive = Forged::new()
        .symlink("Name", place.outside("canary"))
        .file("name", "harmless")
        .file("NAME", "harmless")
        .end();
    place.unpack(&archive).unwrap();
    assert_eq!(place.read("name"), "harmless");
    assert_eq!(place.read("NAME"), "harmless");
}

#[test]
fn of_two_entries_with_one_name_the_last_wins() {
    let place = Place::new();
    let archive = Forged::new()
        .file("a", "first")
        .file("a", "second")
        .symlink("b", "a")
        .file("c", "content")
        .symlink("c", "a")
        .directory("d")
        .file("d", "now a file")
        .file("e", "file")
        .directory("e")
        .end();
    place.unpack(&archive).unwrap();
    assert_eq!(place.read("a"), "second");
    assert!(place.path("c").symlink_metadata().unwrap().is_symlink());
    assert_eq!(place.read("d"), "now a file");
    assert!(place.path("e").is_dir());
    assert_eq!(place.names(), ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_directory_with_something_in_it_is_not_replaced_by_another_type() {
    let place = Place::new();
    let with_directory = || Forged::new().file("d/precious", "kept");
    let refused = Refusal::DirectoryInTheWay;
    assert_eq!(reason(place.unpack(&with_directory().file("d", "evil").end())), refused);
    assert_eq!(reason(place.unpack(&with_directory().symlink("d", "evil").end())), refused);
    let archive = with_directory().file("f", "").hard_link("d", "f").end();
    assert_eq!(reason(place.unpack(&archive)), refused);
    assert_eq!(place.read("d/precious"), "kept");
    assert_eq!(place.names(), ["d", "f"]);
}

#[test]
fn a_file_in_the_middle_of_a_name_is_refused() {
    let place = Place::new();
    let archive = Forged::new().file("a", "file").file("a/b", "evil").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::NotADirectory);
    assert_eq!(place.read("a"), "file");
}

#[test]
fn a_pax_path_overrides_the_name_and_is_checked_like_it() {
    let place = Place::new();
    let archive = Forged::new().pax(b'x', &[("path", "../outside/canary")]).file("a", "evil").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::ParentComponent);
    let archive = Forged::new().pax(b'x', &[("path", "real\nname")]).file("a", "content").end();
    place.unpack(&archive).unwrap();
    assert_eq!(place.names(), ["real\nname"]);
}

#[test]
fn a_pax_linkpath_is_checked_like_a_link() {
    let place = Place::new();
    let records = &[("linkpath", "../outside/canary")];
    let archive = Forged::new().pax(b'x', records).entry(b'1', b"a", b"b", b"").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::HardLinkOutside);
}

#[test]
fn a_pax_size_counts_whatever_the_header_says() {
    // RUSTSEC-2026-0068: otherwise the content would be read as entries of its own.
    let place = Place::new();
    let smuggled = Forged::new().file("smuggled", "evil").cut();
    let size = smuggled.len().to_string();
    let archive = Forged::new()
        .pax(b'x', &[("size", &size)])
        .header(b'0', b"a", b"", 512, |_| {})
        .content(&smuggled)
        .end();
    place.unpack(&archive).unwrap();
    assert_eq!(place.names(), ["a"]);
    assert_eq!(fs::read(place.path("a")).unwrap(), smuggled);
}

#[test]
fn a_pax_size_is_not_for_the_extension_between_it_and_its_entry() {
    // GHSA-3cv2-h65g-fgmm.
    let place = Place::new();
    let archive = Forged::new()
        .pax(b'x', &[("size", "7")])
        .long(b'L', b"long")
        .header(b'0', b"short", b"", 0, |_| {})
        .content(b"content")
        .end();
    place.unpack(&archive).unwrap();
    assert_eq!(place.read("long"), "content");
}

#[test]
fn a_global_header_may_comment_but_not_rename() {
    let place = Place::new();
    let archive = Forged::new().pax(b'g', &[("comment", "hello")]).file("a", "content").end();
    place.unpack(&archive).unwrap();
    for record in [("path", "b"), ("linkpath", "b"), ("size", "1"), ("GNU.sparse.major", "1")] {
        let archive = Forged::new().pax(b'g', &[record]).file("a", "").end();
        assert_eq!(malformed(&place, &archive), Malformed::GlobalOverride);
    }
}

#[test]
fn two_names_for_one_entry_are_refused() {
    let place = Place::new();
    let archive = Forged::new().long(b'L', b"a").long(b'L', b"b").file("c", "").end();
    assert_eq!(malformed(&place, &archive), Malformed::Ambiguous);
    let archive = Forged::new().long(b'L', b"a").pax(b'x', &[("path", "b")]).file("c", "").end();
    assert_eq!(malformed(&place, &archive), Malformed::Ambiguous);
    let archive = Forged::new().pax(b'x', &[("path", "a"), ("path", "b")]).file("c", "").end();
    assert_eq!(malformed(&place, &archive), Malformed::Ambiguous);
    assert!(place.names().is_empty());
}

#[test]
fn a_sparse_file_is_refused_by_its_name() {
    let place = Place::new();
    let archive = Forged::new().entry(b'S', b"sparse", b"", b"").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::Sparse);
    let records = &[("GNU.sparse.major", "1"), ("GNU.sparse.name", "../outside/canary")];
    let archive = Forged::new().pax(b'x', records).file("GNUSparseFile.0/a", "1\n").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::Sparse);
}

#[test]
fn an_unknown_type_is_refused() {
    let place = Place::new();
    for flag in [b'8', b'A', b'D', b'M', b'N', b'V', 0xff] {
        let archive = Forged::new().entry(flag, b"a", b"", b"").end();
        assert_eq!(reason(place.unpack(&archive)), Refusal::UnknownType(flag));
    }
}

#[test]
fn content_of_what_is_no_file_is_refused() {
    let place = Place::new();
    for flag in [b'1', b'2', b'5'] {
        let archive = Forged::new().entry(flag, b"a", b"b", b"evil").end();
        assert_eq!(reason(place.unpack(&archive)), Refusal::UnexpectedContent);
    }
    let archive = Forged::new().file("directory/", "evil").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::UnexpectedContent);
}

#[test]
fn an_empty_name_is_refused() {
    let place = Place::new();
    let archive = Forged::new().header(b'0', b"", b"", 0, |_| {}).end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::EmptyName);
    let archive = Forged::new().pax(b'x', &[("path", "")]).file("a", "").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::EmptyName);
    let archive = Forged::new().symlink("a", "").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::EmptyName);
}

#[test]
fn only_a_directory_can_stand_for_the_root() {
    let place = Place::new();
    for archive in [
        Forged::new().file(".", "evil").end(),
        Forged::new().symlink("./", place.outside("")).end(),
        Forged::new().file("a", "").hard_link(".", "a").end(),
    ] {
        assert_eq!(reason(place.unpack(&archive)), Refusal::NotForRoot);
    }
    let archive = Forged::new().header(b'5', b"./", b"", 0, |header| header.set_mode(0o700)).end();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o751)).unwrap();
    place.unpack(&archive).unwrap();
    assert_eq!(fs::metadata(place.path("")).unwrap().mode() & 0o7777, 0o751);
}

#[test]
fn a_zero_byte_in_a_name_is_refused() {
    let place = Place::new();
    let archive = Forged::new().pax(b'x', &[("path", "a\0b")]).file("c", "").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::ZeroByte);
    let archive = Forged::new().long(b'L', b"a\0b").file("c", "").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::ZeroByte);
    let archive =
        Forged::new().pax(b'x', &[("linkpath", "a\0b")]).entry(b'2', b"c", b"", b"").end();
    assert_eq!(reason(place.unpack(&archive)), Refusal::ZeroByte);
}

#[test]
fn links_are_created_as_far_as_the_options_allow() {
    let outside = || Forged::new().symlink("a/b/link", "../../../outside").end();
    let inside = || Forged::new().symlink("a/b/link", "../../c").end();
    let with = |symlinks| UnpackOptions { symlinks, ..UnpackOptions::default() };
    let place = Place::new();
    let only_inside = with(SymlinkTargets::Inside);
    let none = with(SymlinkTargets::None);
    assert_eq!(reason(place.unpack_with(&outside(), &only_inside)), Refusal::SymlinkOutside);
    assert_eq!(reason(place.unpack_with(&inside(), &none)), Refusal::Symlink);
    place.unpack_with(&inside(), &only_inside).unwrap();
    place.unpack(&outside()).unwrap();
    let target = fs::read_link(place.path("a/b/link")).unwrap();
    assert_eq!(target.to_str().unwrap(), "../../../outside");
}

#[test]
fn the_time_of_a_link_is_its_own() {
    let place = Place::new();
    place.unpack(&Forged::new().symlink("a", place.outside("canary")).end()).unwrap();
    assert_eq!(fs::symlink_metadata(place.path("a")).unwrap().mtime(), 1_000);
}

#[test]
fn extended_attributes_are_dropped_with_a_notice() {
    let place = Place::new();
    let records = &[("SCHILY.xattr.security.capability", "evil")];
    let archive = Forged::new().pax(b'x', records).file("a", "content").end();
    let summary = place.unpack(&archive).unwrap();
    assert_eq!(summary.notices[0].reason, NoticeReason::ExtendedAttributes);
    assert_eq!(place.read("a"), "content");
}

#[test]
fn a_name_of_a_temporary_file_is_left_out() {
    let place = Place::new();
    let archive = Forged::new()
        .file("a/.leasehold-archive.00", "evil")
        .file(".leasehold-archive.00.aside/b", "evil")
        .file("c", "content")
        .end();
    let summary = place.unpack(&archive).unwrap();
    assert_eq!(summary.noticed, 2);
    assert_eq!(place.names(), ["c"]);
}
