//! What packing keeps, leaves out and follows.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod support;

use leasehold_archive::{
    ArchiveError, Caps, Exclude, FileOptions, NOTICES, NoticeReason, PackOptions, Refusal,
    Symlinks, TimePrecision, UnpackOptions, Watch, pack, read_file, write_file,
};
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, UNIX_EPOCH};
use support::{Place, SECRET};

fn names(archive: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| String::from_utf8_lossy(&entry.unwrap().path_bytes()).into_owned())
        .collect()
}

fn follow() -> PackOptions {
    PackOptions { symlinks: Symlinks::Follow, ..PackOptions::default() }
}

#[test]
fn a_tree_comes_back_as_it_was_but_for_owners_and_special_bits() {
    let place = Place::new();
    fs::create_dir_all(place.path("a/b")).unwrap();
    fs::write(place.path("a/b/file"), "content").unwrap();
    fs::write(place.path("a/empty"), "").unwrap();
    fs::write(place.path("large"), vec![7; 1_000_003]).unwrap();
    symlink("../large", place.path("a/link")).unwrap();
    symlink("/nowhere", place.path("dangling")).unwrap();
    let long = "n".repeat(255);
    fs::create_dir(place.path(&long)).unwrap();
    fs::write(place.path(&format!("{long}/{long}")), "long").unwrap();
    symlink(&long, place.path("long")).unwrap();
    fs::write(place.path("new\nline"), "").unwrap();
    fs::write(place.path("").join(std::ffi::OsStr::from_bytes(b"not utf-8 \xff")), "").unwrap();
    let old = File::options().write(true).open(place.path("a/empty")).unwrap();
    old.set_modified(UNIX_EPOCH - Duration::from_millis(1_500)).unwrap();
    fs::set_permissions(place.path("a/b/file"), PermissionsExt::from_mode(0o751)).unwrap();
    fs::set_permissions(place.path("a/b"), PermissionsExt::from_mode(0o500)).unwrap();
    let (archive, summary) = place.pack();
    assert_eq!((summary.files, summary.directories, summary.symlinks), (6, 4, 3));
    assert_eq!(summary.noticed, 0);
    let target = Place::new();
    let unpacked = leasehold_archive::unpack_replacing(
        &target.root(),
        "tree",
        &archive[..],
        &UnpackOptions::default(),
        &mut Watch::none(),
    )
    .unwrap();
    assert_eq!(unpacked, summary);
    let root = leasehold_archive::Root::open(target.path("tree")).unwrap();
    let mut again = Vec::new();
    pack(&root, &mut again, &PackOptions::default(), &mut Watch::none()).unwrap();
    assert!(again == archive, "the second archive differs");
}

#[test]
fn names_are_in_the_order_of_their_bytes_and_headers_say_nothing_else() {
    let place = Place::new();
    for name in ["b", "a", "B", "a.b"] {
        fs::write(place.path(name), name).unwrap();
    }
    fs::create_dir(place.path("a-")).unwrap();
    fs::write(place.path("a-/z"), "").unwrap();
    let (archive, _) = place.pack();
    assert_eq!(names(&archive), ["./", "B", "a", "a-/", "a-/z", "a.b", "b"]);
    let mut reader = tar::Archive::new(&archive[..]);
    for entry in reader.entries().unwrap() {
        let header = entry.unwrap().header().clone();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        assert_eq!((header.username().unwrap(), header.groupname().unwrap()), (Some(""), Some("")));
    }
    assert_eq!(place.pack().0, archive);
}

#[test]
fn gnu_tar_reads_what_is_packed_and_what_it_packs_is_read() {
    if !std::process::Command::new("tar")
        .arg("--version")
        .output()
        .is_ok_and(|out| out.status.success())
    {
        assert!(std::env::var_os("CI").is_none(), "CI has tar");
        eprintln!("SKIPPED: no tar on this machine");
        return;
    }
    let place = Place::new();
    let long = "n".repeat(200);
    fs::write(place.path(&long), "content").unwrap();
    symlink(&long, place.path("link")).unwrap();
    fs::write(place.path("first"), "one").unwrap();
    fs::hard_link(place.path("first"), place.path("second")).unwrap();
    let (archive, _) = place.pack();
    let target = Place::new();
    let mut tar = std::process::Command::new("tar")
        .args(["-x", "-C"])
        .arg(target.path(""))
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    tar.stdin.take().unwrap().write_all(&archive).unwrap();
    assert!(tar.wait().unwrap().success());
    assert_eq!(target.pack().0, archive);
    for format in ["v7", "ustar", "gnu", "pax", "oldgnu"] {
        let short = matches!(format, "v7" | "ustar");
        let mut tar = std::process::Command::new("tar");
        tar.arg("--format").arg(format).arg("-c").arg("-C").arg(place.path(""));
        if short {
            tar.args(["--exclude", &long]);
            let _ = fs::remove_file(place.path("link"));
            symlink("first", place.path("link")).unwrap();
        }
        let output = tar.arg(".").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let target = Place::new();
        let summary = target.unpack(&output.stdout).unwrap();
        assert_eq!(summary.files + summary.hard_links, if short { 2 } else { 3 }, "{format}");
        assert_eq!(target.read("second"), "one");
    }
}

#[test]
fn devices_fifos_and_sockets_are_left_out_and_counted() {
    let place = Place::new();
    mkfifoat(CWD, place.path("fifo"), Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(place.path("socket")).unwrap();
    fs::write(place.path("file"), "").unwrap();
    symlink("fifo", place.path("link")).unwrap();
    let (archive, summary) = place.pack_with(&follow()).unwrap();
    assert_eq!(names(&archive), ["./", "file"]);
    assert_eq!(summary.noticed, 3);
    assert!(summary.notices.iter().all(|notice| notice.reason == NoticeReason::SpecialFile));
}

#[test]
fn notices_are_counted_without_end_and_kept_up_to_a_number() {
    let place = Place::new();
    for index in 0..100 {
        mkfifoat(CWD, place.path(&index.to_string()), Mode::RWXU).unwrap();
    }
    let (_, summary) = place.pack();
    assert_eq!((summary.noticed, summary.notices.len()), (100, NOTICES));
}

#[test]
fn what_may_not_be_read_is_left_out_with_a_notice() {
    let place = Place::new();
    fs::write(place.path("secret"), "").unwrap();
    fs::set_permissions(place.path("secret"), PermissionsExt::from_mode(0o000)).unwrap();
    fs::create_dir(place.path("directory")).unwrap();
    fs::set_permissions(place.path("directory"), PermissionsExt::from_mode(0o000)).unwrap();
    fs::write(place.path("file"), "").unwrap();
    let root = place.root();
    // As another user, if this one may read everything; only this thread changes.
    let packed = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                if rustix::process::geteuid().is_root() {
                    let nobody = rustix::process::Uid::from_raw(65_534);
                    rustix::thread::set_thread_uid(nobody).unwrap();
                }
                let mut archive = Vec::new();
                let options = PackOptions::default();
                let summary = pack(&root, &mut archive, &options, &mut Watch::none()).unwrap();
                (archive, summary)
            })
            .join()
            .unwrap()
    });
    assert_eq!(names(&packed.0), ["./", "file"]);
    assert_eq!(packed.1.noticed, 2);
    assert!(packed.1.notices.iter().all(|notice| notice.reason == NoticeReason::Unreadable));
}

/// Does something when so many bytes of the archive have been written.
struct At<F> {
    written: usize,
    at: usize,
    action: Option<F>,
    archive: Vec<u8>,
}

impl<F: FnOnce()> Write for At<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written += bytes.len();
        if self.written >= self.at
            && let Some(action) = self.action.take()
        {
            action();
        }
        self.archive.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pack_while(place: &Place, action: impl FnOnce()) -> (Vec<u8>, leasehold_archive::Summary) {
    let mut output = At { written: 0, at: 1 << 20, action: Some(action), archive: Vec::new() };
    let options = PackOptions::default();
    let summary = pack(&place.root(), &mut output, &options, &mut Watch::none()).unwrap();
    assert!(output.action.is_none());
    (output.archive, summary)
}

#[test]
fn a_file_that_grows_is_packed_to_the_length_that_it_had() {
    let place = Place::new();
    let path = place.path("a");
    fs::write(&path, vec![1; 4 << 20]).unwrap();
    fs::write(place.path("b"), "after").unwrap();
    let (archive, summary) = pack_while(&place, || {
        File::options().append(true).open(&path).unwrap().write_all(&[2; 4 << 20]).unwrap();
    });
    assert_eq!(summary.noticed, 0);
    let target = Place::new();
    target.unpack(&archive).unwrap();
    assert!(fs::read(target.path("a")).unwrap() == vec![1; 4 << 20]);
    assert_eq!(target.read("b"), "after");
}

#[test]
fn a_file_that_shrinks_is_filled_up_with_a_notice() {
    let place = Place::new();
    let path = place.path("a");
    fs::write(&path, vec![1; 4 << 20]).unwrap();
    fs::write(place.path("b"), "after").unwrap();
    let (archive, summary) = pack_while(&place, || {
        File::options().write(true).open(&path).unwrap().set_len(2 << 20).unwrap();
    });
    assert_eq!(summary.notices[0].reason, NoticeReason::Shrank);
    let target = Place::new();
    target.unpack(&archive).unwrap();
    let mut expected = vec![1; 2 << 20];
    expected.resize(4 << 20, 0);
    assert!(fs::read(target.path("a")).unwrap() == expected);
    assert_eq!(target.read("b"), "after");
}

#[test]
fn what_vanishes_or_turns_into_something_else_is_left_out_with_a_notice() {
    let place = Place::new();
    fs::write(place.path("a"), vec![1; 4 << 20]).unwrap();
    fs::write(place.path("b"), "").unwrap();
    fs::write(place.path("c"), "").unwrap();
    fs::create_dir(place.path("d")).unwrap();
    let (archive, summary) = pack_while(&place, || {
        fs::remove_file(place.path("b")).unwrap();
        fs::remove_file(place.path("c")).unwrap();
        symlink(place.outside("canary"), place.path("c")).unwrap();
        fs::remove_dir(place.path("d")).unwrap();
        symlink(place.outside(""), place.path("d")).unwrap();
    });
    assert_eq!(names(&archive), ["./", "a"]);
    assert_eq!(summary.noticed, 3);
    assert!(summary.notices.iter().all(|notice| notice.reason == NoticeReason::Vanished));
}

#[test]
fn links_are_followed_inside_the_root_only() {
    let place = Place::new();
    fs::create_dir_all(place.path("real/deep")).unwrap();
    fs::write(place.path("real/deep/file"), "content").unwrap();
    symlink("real/deep", place.path("directory")).unwrap();
    symlink("directory/file", place.path("file")).unwrap();
    symlink("../outside/canary", place.path("out")).unwrap();
    symlink(place.path("real"), place.path("absolute")).unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    symlink("loop", place.path("loop")).unwrap();
    symlink("..", place.path("real/up")).unwrap();
    symlink("/proc/self/root", place.path("magic")).unwrap();
    let (archive, summary) = place.pack_with(&follow()).unwrap();
    assert_eq!(
        names(&archive),
        ["./", "directory/", "directory/file", "file", "real/", "real/deep/", "real/deep/file"]
    );
    let left_out: Vec<_> =
        summary.notices.iter().map(|notice| (notice.path.as_str(), notice.reason)).collect();
    let outside = NoticeReason::LinkLeadsOutside;
    assert_eq!(
        left_out,
        [
            ("absolute", outside),
            ("dangling", outside),
            ("loop", outside),
            ("magic", outside),
            ("out", outside),
            ("real/up", NoticeReason::LinkLoop),
        ]
    );
    assert!(!archive.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
}

#[test]
fn links_can_be_refused() {
    let place = Place::new();
    symlink("a", place.path("link")).unwrap();
    let options = PackOptions { symlinks: Symlinks::Refuse, ..PackOptions::default() };
    match place.pack_with(&options) {
        Err(ArchiveError::Refused { path, reason: Refusal::Symlink }) => assert_eq!(path, "link"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn times_are_kept_to_the_second_where_a_plain_archive_is_wanted() {
    let place = Place::new();
    fs::write(place.path("a"), "").unwrap();
    let file = File::options().write(true).open(place.path("a")).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_millis(1_500)).unwrap();
    let options = PackOptions { times: TimePrecision::Seconds, ..PackOptions::default() };
    let (archive, _) = place.pack_with(&options).unwrap();
    // Root, file and end, without any extended header.
    assert_eq!(archive.len(), 4 * 512);
}

#[test]
fn exclusions_are_those_of_gitignore_on_both_sides() {
    let place = Place::new();
    for name in [
        "a.o",
        "keep.o",
        "target/x",
        "sub/target/x",
        "sub/a.o",
        "docs/a.html",
        "docs/b/a.html",
        "build",
        "c",
    ] {
        let path = place.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    fs::create_dir(place.path("sub/build")).unwrap();
    let patterns =
        ["# a comment", "", "*.o", "!keep.o", "/target", "!/target/x", "docs/*.html", "build/"];
    let exclude = Exclude::new(patterns).unwrap();
    let options = PackOptions { exclude: exclude.clone(), ..PackOptions::default() };
    let expected = [
        "./",
        "build",
        "c",
        "docs/",
        "docs/b/",
        "docs/b/a.html",
        "keep.o",
        "sub/",
        "sub/target/",
        "sub/target/x",
    ];
    let (archive, summary) = place.pack_with(&options).unwrap();
    assert_eq!(names(&archive), expected);
    assert_eq!(summary.excluded, 5);
    let (everything, _) = place.pack();
    let target = Place::new();
    let options = UnpackOptions { exclude, ..UnpackOptions::default() };
    let summary = target.unpack_with(&everything, &options).unwrap();
    // A directory that is left out counts with everything in it here.
    assert_eq!(summary.excluded, 6);
    assert_eq!(names(&target.pack().0), expected);
    assert!(matches!(Exclude::new(["{a"]), Ok(_) | Err(ArchiveError::Pattern { .. })));
    match Exclude::new(["fine", "[z-a]"]) {
        Err(ArchiveError::Pattern { pattern, .. }) => assert_eq!(pattern, "[z-a]"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn temporary_files_of_other_runs_are_not_packed() {
    let place = Place::new();
    fs::create_dir(place.path(".leasehold-archive.00")).unwrap();
    fs::write(place.path(".leasehold-archive.file.00"), "").unwrap();
    let (archive, summary) = place.pack();
    assert_eq!(names(&archive), ["./"]);
    assert_eq!(summary.noticed, 2);
}

#[test]
fn merging_keeps_what_the_archive_does_not_name() {
    let place = Place::new();
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("d/new"), "new").unwrap();
    let (archive, _) = place.pack();
    let target = Place::new();
    fs::create_dir(target.path("d")).unwrap();
    fs::write(target.path("d/new"), "old").unwrap();
    fs::write(target.path("d/other"), "kept").unwrap();
    target.unpack(&archive).unwrap();
    assert_eq!((target.read("d/new").as_str(), target.read("d/other").as_str()), ("new", "kept"));
}

#[test]
fn a_single_file_goes_there_and_back() {
    let place = Place::new();
    let content = vec![5; 700_000];
    let modified = Some((1_000, 5));
    let options = FileOptions {
        mode: 0o4750,
        modified,
        create_parents: true,
        durable: true,
        ..FileOptions::default()
    };
    let written =
        write_file(&place.root(), "a/b/c", &content[..], &options, &mut Watch::none()).unwrap();
    assert_eq!((written.bytes, written.mode), (700_000, 0o750));
    let mut copy = Vec::new();
    let read =
        read_file(&place.root(), "a/b/c", &mut copy, &Caps::default(), &mut Watch::none()).unwrap();
    assert_eq!(read, written);
    assert!(copy == content);
    let options = FileOptions::default();
    let missing = write_file(&place.root(), "x/y", &b""[..], &options, &mut Watch::none());
    assert!(matches!(missing, Err(ArchiveError::FileSystem { .. })));
}

#[test]
fn a_single_file_is_neither_read_nor_written_through_a_link() {
    let place = Place::new();
    symlink(place.outside(""), place.path("d")).unwrap();
    symlink(place.outside("canary"), place.path("f")).unwrap();
    fs::create_dir(place.path("e")).unwrap();
    mkfifoat(CWD, place.path("fifo"), Mode::RWXU).unwrap();
    let refusal = |path: &str| {
        let mut content = Vec::new();
        let caps = Caps::default();
        match read_file(&place.root(), path, &mut content, &caps, &mut Watch::none()) {
            Err(ArchiveError::Refused { reason, .. }) => reason,
            other => panic!("{path}: {other:?}"),
        }
    };
    assert_eq!(refusal("d/canary"), Refusal::LinkInTheWay);
    assert_eq!(refusal("../outside/canary"), Refusal::ParentComponent);
    assert_eq!(refusal("/etc/passwd"), Refusal::Absolute);
    for path in ["f", "e", "fifo", "."] {
        assert_eq!(refusal(path), Refusal::NotAFile, "{path}");
    }
    let write = |path: &str| {
        let options = FileOptions::default();
        write_file(&place.root(), path, &b"new"[..], &options, &mut Watch::none())
    };
    assert!(matches!(write("d/canary"), Err(ArchiveError::Refused { .. })));
    assert!(matches!(write("."), Err(ArchiveError::Refused { .. })));
    write("f").unwrap();
    write("e").unwrap();
    write("fifo").unwrap();
    assert_eq!(place.read("f"), "new");
    place.assert_confined();
}

#[test]
fn a_root_inside_a_root_is_opened_without_following_links() {
    let place = Place::new();
    fs::create_dir_all(place.path("a/b")).unwrap();
    symlink("a", place.path("link")).unwrap();
    let root = place.root();
    root.open_inside("a/b").unwrap();
    root.open_inside(".").unwrap();
    for path in ["link/b", "..", "/etc", "a/../a"] {
        assert!(matches!(root.open_inside(path), Err(ArchiveError::Refused { .. })), "{path}");
    }
    assert!(matches!(root.open_inside("missing"), Err(ArchiveError::FileSystem { .. })));
}
