//! How files go into a sandbox and come out of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails shall say where"
)]

mod support;

use bytes::Bytes;
use leasehold_archive::{PackOptions, Placement, Trouble, UnpackOptions, Watch, receive, send};
use leasehold_core::Grant;
use leasehold_ports::{
    CommandRequest, Incoming, NotStarted, Outgoing, ProcessEnd, ProcessInput, Provider as _,
    RunningProcess, StartError, StreamKind, Work,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use support::*;

#[test]
fn as_an_ordinary_user_all_of_this_holds_too() {
    users::run_everything_again_as_ordinary_user("as_an_ordinary_user");
}

/// What a transfer wrote, and how it ended.
struct Transferred {
    output: Vec<u8>,
    words: String,
    end: ProcessEnd,
}

fn transfer(work: Work) -> CommandRequest {
    CommandRequest { input: matches!(work, Work::Receive(_)), work, ..command(&[]) }
}

fn into_path(path: &str, name: Option<&str>) -> CommandRequest {
    transfer(Work::Receive(Incoming { path: path.to_owned(), name: name.map(str::to_owned) }))
}

fn from_path(path: &str) -> CommandRequest {
    transfer(Work::Send(Outgoing { path: path.to_owned(), ..Outgoing::default() }))
}

async fn finish(mut process: RunningProcess) -> Transferred {
    let (mut output, mut words) = (Vec::new(), Vec::new());
    while let Some(frame) = process.output.recv().await {
        match frame.stream {
            StreamKind::Output => output.extend_from_slice(&frame.bytes),
            StreamKind::Error => words.extend_from_slice(&frame.bytes),
        }
    }
    let end = process.control.wait().await.unwrap();
    Transferred { output, words: String::from_utf8(words).unwrap(), end }
}

impl Sandbox {
    /// Gives a stream to a transfer, with the end of input behind it or without.
    async fn feed(&self, request: &CommandRequest, stream: &[u8]) -> Transferred {
        let process = self.start(request).await.unwrap();
        for piece in stream.chunks(64 * 1024) {
            let bytes = ProcessInput::Bytes(Bytes::copy_from_slice(piece));
            if process.input.send(bytes).await.is_err() {
                break;
            }
        }
        // A transfer that has failed reads no end.
        let _ = process.input.send(ProcessInput::End).await;
        finish(process).await
    }

    async fn fetch(&self, path: &str) -> Transferred {
        finish(self.start(&from_path(path)).await.unwrap()).await
    }
}

/// The stream of a host's file or tree.
fn stream_of(path: &Path) -> Vec<u8> {
    let mut stream = Vec::new();
    send(path, &mut stream, &PackOptions::default(), &mut Watch::none()).unwrap();
    stream
}

/// A tree with what is easily lost: modes, empty directories, links, names with spaces.
fn tree(place: &Path) -> std::path::PathBuf {
    let tree = place.join("project");
    fs::create_dir_all(tree.join("src/empty")).unwrap();
    fs::write(tree.join("src/a file"), "content").unwrap();
    fs::write(tree.join("run"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(tree.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("src/a file", tree.join("link")).unwrap();
    tree
}

#[tokio::test]
async fn a_tree_goes_in_and_comes_out_as_it_was() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let place = tempfile::tempdir().unwrap();
    let stream = stream_of(&tree(place.path()));
    let put = sandbox.feed(&into_path("copy", Some("project")), &stream).await;
    assert_eq!((put.end, &*put.words), (ProcessEnd::Exited(0), ""));
    let seen = sandbox.output_of("cd copy; ./run; cat link; ls -d src/empty; stat -c %u run").await;
    assert_eq!(seen, "ran\ncontentsrc/empty\n1000");
    let got = sandbox.fetch("copy").await;
    assert_eq!((got.end, &*got.words), (ProcessEnd::Exited(0), ""));
    let back = place.path().join("back");
    let placement = Placement::Copy { name: None };
    receive(&back, placement, &*got.output, &UnpackOptions::default(), &mut Watch::none()).unwrap();
    // The directory itself is whoever made it; everything in it is as it was.
    let made = fs::metadata(place.path().join("project")).unwrap().modified().unwrap();
    fs::File::open(&back).unwrap().set_modified(made).unwrap();
    assert!(stream_of(&back) == stream, "modes, times, links and all");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_directory_that_exists_gets_the_source_by_its_name() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let place = tempfile::tempdir().unwrap();
    let stream = stream_of(&tree(place.path()));
    let file = stream_of(&place.path().join("project/src/a file"));
    let put = |path, name, stream| {
        let (sandbox, request) = (&sandbox, into_path(path, name));
        async move { sandbox.feed(&request, stream).await.end }
    };
    assert_eq!(put(".", Some("project"), &stream).await, ProcessEnd::Exited(0));
    assert_eq!(put("/tmp", None, &stream).await, ProcessEnd::Exited(0));
    assert_eq!(put("/tmp", Some("name"), &file).await, ProcessEnd::Exited(0));
    assert_eq!(put("/tmp/other", Some("name"), &file).await, ProcessEnd::Exited(0));
    let seen = sandbox.output_of("./project/run; /tmp/run; cat /tmp/name /tmp/other").await;
    assert_eq!(seen, "ran\nran\ncontentcontent");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_file_that_was_cut_off_replaces_nothing() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), vec![7; 100_000]).unwrap();
    let stream = stream_of(&place.path().join("file"));
    sandbox.output_of("echo old > file").await;
    for length in [0, 3, stream.len() / 2, stream.len() - 1] {
        let put = sandbox.feed(&into_path("file", None), &stream[..length]).await;
        let damaged = ProcessEnd::Exited(Trouble::Damaged.exit_status());
        assert_eq!(put.end, damaged, "{length} bytes: {}", put.words);
        assert!(put.words.contains("cut off"), "{}", put.words);
    }
    assert_eq!(sandbox.output_of("cat file").await, "old");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_transfer_may_do_what_a_command_may_and_no_more() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "new").unwrap();
    let stream = stream_of(&place.path().join("file"));
    let put = sandbox.feed(&into_path("/usr/bin/file-of-a-transfer", None), &stream).await;
    assert_eq!(put.end, ProcessEnd::Exited(Trouble::Failed.exit_status()), "{}", put.words);
    // The host's own file is nowhere in the sandbox.
    let path = place.path().join("file");
    let got = sandbox.fetch(path.to_str().unwrap()).await;
    assert_eq!(got.end, ProcessEnd::Exited(Trouble::Failed.exit_status()), "{}", got.words);
    // The init's descriptors and memory are not a transfer's to give away.
    for path in ["/proc/1/mem", "/proc/1/environ", "/proc/self/environ", "/proc/self/mem"] {
        let got = sandbox.fetch(path).await;
        assert!(
            matches!(got.end, ProcessEnd::Exited(status) if Trouble::of_exit_status(status).is_some()),
            "{path}: {:?} {}",
            got.end,
            got.words
        );
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn nobody_in_the_sandbox_looks_into_a_transfer() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let process = sandbox.start(&into_path("file", None)).await.unwrap();
    // Waits in its read; it has the init's memory, and the tags that authenticate fences are in there.
    let script = "for p in /proc/[0-9]*; do \
        case $p in /proc/1|/proc/$$|/proc/self) continue;; esac; \
        grep -qz leasehold-init $p/cmdline 2>/dev/null || continue; \
        echo found; head -c1 $p/environ >/dev/null 2>&1 && echo environ; \
        ls $p/fd 2>/dev/null && echo fd; done; true";
    assert_eq!(sandbox.output_of(script).await, "found");
    process.control.terminate(&call()).await.unwrap();
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_transfer_of_a_stale_grant_does_not_start() {
    let Some(sandbox) = Sandbox::new().await else { return };
    sandbox.provider.prepare(sandbox.id(), &preparation(3), &call()).await.unwrap();
    for request in [into_path("late", None), from_path(".")] {
        let refused = sandbox.start(&request).await.unwrap_err();
        assert!(
            matches!(refused, StartError::NotStarted(NotStarted::StaleGrant { fence: Grant(3) })),
            "{refused}"
        );
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_transfer_that_waits_is_ended_like_a_command() {
    let Some(sandbox) = Sandbox::new().await else { return };
    // One waits for input, the other for a reader.
    sandbox.output_of("head -c 10000000 /dev/zero > zeros").await;
    let receiving = sandbox.start(&into_path("file", None)).await.unwrap();
    let sending = sandbox.start(&from_path("zeros")).await.unwrap();
    receiving.control.terminate(&call()).await.unwrap();
    assert!(matches!(receiving.control.wait().await.unwrap(), ProcessEnd::Signaled(_)));
    sandbox.clean().await.unwrap();
    assert!(matches!(sending.control.wait().await.unwrap(), ProcessEnd::Signaled(_)));
    sandbox.destroy().await;
}

#[tokio::test]
async fn what_may_not_be_read_is_left_out_and_said() {
    let Some(sandbox) = Sandbox::new().await else { return };
    sandbox
        .output_of("mkdir tree; mkfifo tree/pipe; echo a > tree/closed; chmod 0 tree/closed")
        .await;
    let got = sandbox.fetch("tree").await;
    assert_eq!(got.end, ProcessEnd::Exited(0));
    assert!(got.words.contains("\"closed\": left out"), "{}", got.words);
    assert!(got.words.contains("\"pipe\": left out"), "{}", got.words);
    sandbox.destroy().await;
}
