//! Both sides of a copy: what is sent is received as `cp -r` would put it, or not at all.

#![allow(clippy::unwrap_used, reason = "a test that fails shall say where")]

use leasehold_archive::{
    ArchiveError, Caps, PackOptions, Placement, Trouble, UnpackOptions, Watch, receive, send,
};
use std::fs;
use std::path::Path;

fn sent(path: &Path) -> Vec<u8> {
    let mut stream = Vec::new();
    send(path, &mut stream, &PackOptions::default(), &mut Watch::none()).unwrap();
    stream
}

fn received(
    path: &Path,
    placement: Placement<'_>,
    stream: &[u8],
) -> Result<leasehold_archive::Summary, ArchiveError> {
    receive(path, placement, stream, &UnpackOptions::default(), &mut Watch::none())
}

const CONTENTS: Placement<'_> = Placement::Copy { name: None };

const fn named(name: &str) -> Placement<'_> {
    Placement::Copy { name: Some(name) }
}

#[test]
fn every_beginning_of_a_file_is_cut_off_and_more_than_it_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::write(&source, "twelve bytes").unwrap();
    fs::write(&target, "old").unwrap();
    let stream = sent(&source);
    for length in 0..stream.len() {
        let error = received(&target, CONTENTS, &stream[..length]).unwrap_err();
        assert!(matches!(error, ArchiveError::Truncated { .. }), "{length}: {error}");
    }
    let error = received(&target, CONTENTS, &[&stream[..], b"x"].concat()).unwrap_err();
    assert_eq!(error.trouble(), Trouble::Damaged, "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "old");
    received(&target, CONTENTS, &stream).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "twelve bytes");
}

#[test]
fn a_first_line_that_nobody_sends_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let long = vec![b'a'; 100_000];
    let lines: [&[u8]; 6] = [
        b"\n",
        b"trees\n",
        b"file 644 0 0\n",
        b"file 9 0 0 1\n",
        b"file 644 0 2000000000 1\n",
        &long,
    ];
    for line in lines {
        let error = received(&place.path().join("target"), CONTENTS, line).unwrap_err();
        assert!(matches!(error, ArchiveError::Malformed { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_comes_with_a_source_stays_inside_the_target() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    fs::write(&source, "content").unwrap();
    let stream = sent(&source);
    let target = place.path().join("target");
    fs::create_dir(&target).unwrap();
    for name in ["", ".", "..", "../out", "/out", "a/b"] {
        let error = received(&target, named(name), &stream).unwrap_err();
        assert_eq!(error.trouble(), Trouble::Refused, "{name}: {error}");
        let error = received(&target, named(name), b"tree\n").unwrap_err();
        assert_eq!(error.trouble(), Trouble::Refused, "{name}: {error}");
    }
    // A link there is replaced by a file, and refused as a directory; it is never gone through.
    std::os::unix::fs::symlink(&source, target.join("link")).unwrap();
    received(&target, named("link"), &stream).unwrap();
    assert!(!fs::symlink_metadata(target.join("link")).unwrap().is_symlink());
    let outside = place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, target.join("directory")).unwrap();
    received(&target, named("directory"), &sent(&target)).unwrap_err();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_file_above_a_cap_is_refused_on_both_sides_before_anything_is_written() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    fs::write(&source, [0; 100]).unwrap();
    let caps = Caps { total_bytes: 99, ..Caps::default() };
    let mut stream = Vec::new();
    let options = PackOptions { caps, ..PackOptions::default() };
    let error = send(&source, &mut stream, &options, &mut Watch::none()).unwrap_err();
    assert_eq!((error.trouble(), stream.len()), (Trouble::Cap, 0), "{error}");
    let target = place.path().join("target");
    let options = UnpackOptions { caps, ..UnpackOptions::default() };
    let error =
        receive(&target, CONTENTS, &*sent(&source), &options, &mut Watch::none()).unwrap_err();
    assert_eq!(error.trouble(), Trouble::Cap, "{error}");
    assert!(!target.exists());
}

#[test]
fn a_tree_that_replaces_is_whole_or_the_old_one_stays() {
    let place = tempfile::tempdir().unwrap();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("new"), "new").unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("old"), "old").unwrap();
    let stream = sent(&source);
    for length in [0, 4, 5, 600, stream.len() / 2] {
        received(&target, Placement::Replace, &stream[..length]).unwrap_err();
        assert_eq!(fs::read_to_string(target.join("old")).unwrap(), "old", "{length}");
    }
    received(&target, Placement::Replace, &stream).unwrap();
    assert!(target.join("new").exists() && !target.join("old").exists());
    // A file does not take the place of a directory.
    let error = received(&target, Placement::Replace, &sent(&source.join("new"))).unwrap_err();
    assert_eq!(error.trouble(), Trouble::Refused, "{error}");
}

#[test]
fn a_device_or_a_pipe_is_not_sent() {
    let mut stream = Vec::new();
    let error = send("/dev/null", &mut stream, &PackOptions::default(), &mut Watch::none());
    assert_eq!(error.unwrap_err().trouble(), Trouble::Refused);
    assert!(stream.is_empty());
}

#[test]
fn what_an_exit_status_says_of_a_trouble_comes_back() {
    for status in 0..=u8::MAX {
        if let Some(trouble) = Trouble::of_exit_status(status) {
            assert_eq!(trouble.exit_status(), status);
        }
    }
    assert_eq!(Trouble::of_exit_status(Trouble::Cap.exit_status()), Some(Trouble::Cap));
    assert_eq!(Trouble::of_exit_status(0), None);
}
