//! Output outlives the manager that asked for it, and old managers are understood.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails shall say where"
)]

mod support;

use leasehold_core::{CommandId, SandboxId};
use leasehold_init::framing::{Decoder, encode};
use leasehold_init::protocol::SOCKET_NAME;
use leasehold_ports::{OutputOffsets, ProcessEnd, Provider as _, ProviderError};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::io::{BufRead as _, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use support::*;

const MIB: usize = 1024 * 1024;

#[test]
fn as_an_ordinary_user_all_of_this_holds_too() {
    users::run_everything_again_as_ordinary_user("as_an_ordinary_user");
}

/// What is written before the manager's death, and what comes when the workspace holds `go`.
const STREAMING: &str = "seq 1 20000; echo first half >&2; while [ ! -e go ]; do sleep 0.01; done; \
                         seq 20001 40000; echo second half >&2; exit 7";

#[test]
#[ignore = "a process of its own for the next test"]
fn manager_to_be_killed() {
    let provider = provider_at(&PathBuf::from(std::env::var_os("STATE").unwrap()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let created = provider.create(&create_request(fresh_name()), &call()).await.unwrap();
        let request = script(STREAMING);
        let mut process = provider.start(&created.sandbox, &request, &call()).await.unwrap();
        process.output.recv().await.unwrap();
        println!("\nstreaming {} {}", created.sandbox, request.id);
        std::future::pending::<()>().await;
    });
}

#[tokio::test]
async fn the_next_manager_reads_all_that_a_killed_one_was_reading_and_the_exit_code() {
    let Some(probe) = Sandbox::new().await else { return };
    probe.destroy().await;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let _rescue = Rescue(state.clone());
    let mut manager = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "manager_to_be_killed", "--ignored", "--nocapture"])
        .env("STATE", &state)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(manager.stdout.take().unwrap()).lines();
    let names =
        lines.find_map(|line| Some(line.unwrap().strip_prefix("streaming ")?.to_owned())).unwrap();
    manager.kill().unwrap();
    manager.wait().unwrap();

    let (sandbox, command) = names.split_once(' ').unwrap();
    let (sandbox, command) = (SandboxId::new(sandbox).unwrap(), CommandId::new(command).unwrap());
    let provider = provider_at(&state);
    let from = OutputOffsets::default();
    let attached = provider.attach(&sandbox, &command, from, &call()).await.unwrap();
    assert_eq!(attached.from, from, "nothing is missing");
    let go = provider.start(&sandbox, &script("touch go"), &call()).await.unwrap();
    collect(go).await;
    let all: String = (1..=40_000).map(|number| format!("{number}\n")).collect();
    let error = "first half\nsecond half\n".to_owned();
    let expected = Ran { output: all.clone(), error, end: ProcessEnd::Exited(7) };
    assert_eq!(collect(attached.process).await, expected);

    // After the end too, and from wherever one likes.
    let from = OutputOffsets { output: 108_894, error: 11 };
    let attached = provider.attach(&sandbox, &command, from, &call()).await.unwrap();
    assert_eq!(attached.from, from);
    let ran = collect(attached.process).await;
    assert_eq!(ran.output, all[108_894..]);
    assert_eq!((ran.error.as_str(), ran.end), ("second half\n", ProcessEnd::Exited(7)));
    provider.destroy(&pin_of(&provider, &sandbox).await, &call()).await.unwrap();
}

#[tokio::test]
async fn with_no_reader_a_command_goes_on_and_a_later_reader_sees_a_counted_gap() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let request = command(&["head", "-c", &(40 * MIB).to_string(), "/dev/zero"]);
    let process = sandbox.start(&request).await.unwrap();
    drop(process.output);
    assert_eq!(process.control.wait().await.unwrap(), ProcessEnd::Exited(0));
    let from = OutputOffsets::default();
    let attached = sandbox.provider.attach(sandbox.id(), &request.id, from, &call()).await.unwrap();
    assert_eq!(attached.from, OutputOffsets { output: 8 * MIB as u64, error: 0 });
    assert_eq!(collect(attached.process).await.output.len(), 32 * MIB);
    sandbox.destroy().await;
}

#[tokio::test]
async fn two_readers_each_get_everything() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut request = script("read go; head -c 1000000 /dev/zero");
    request.input = true;
    let process = sandbox.start(&request).await.unwrap();
    let from = OutputOffsets::default();
    let attached = sandbox.provider.attach(sandbox.id(), &request.id, from, &call()).await.unwrap();
    process.input.send(leasehold_ports::ProcessInput::Bytes("go\n".into())).await.unwrap();
    let (first, second) = tokio::join!(collect(process), collect(attached.process));
    assert_eq!((first.output.len(), second.output.len()), (1_000_000, 1_000_000));
    sandbox.destroy().await;
}

#[tokio::test]
async fn of_a_command_that_nobody_knows_there_is_no_output() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let refused = sandbox
        .provider
        .attach(sandbox.id(), &fresh_command(), OutputOffsets::default(), &call())
        .await
        .unwrap_err();
    assert!(matches!(refused, ProviderError::Invalid { .. }), "{refused}");
    sandbox.destroy().await;
}

/// The control socket, by hand.
struct Wire(UnixStream, Decoder);

impl Wire {
    fn open(sandbox: &Sandbox) -> Self {
        let stream = UnixStream::connect(sandbox.directory().join(SOCKET_NAME)).unwrap();
        Self(stream, Decoder::default())
    }

    fn receive(&mut self) -> Value {
        loop {
            if let Some(value) = self.1.next_frame().unwrap() {
                return value;
            }
            let mut bytes = [0; 4096];
            let count = self.0.read(&mut bytes).unwrap();
            assert!(count > 0, "the init closed the connection");
            self.1.push(&bytes[..count]);
        }
    }

    fn ask(&mut self, call: &Value) -> Value {
        let frame = encode(call).unwrap();
        let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let streams = [null.as_fd(); 3];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if call["request"]["verb"] == "start" {
            ancillary.push(SendAncillaryMessage::ScmRights(&streams));
        }
        let flags = SendFlags::NOSIGNAL;
        assert_eq!(
            sendmsg(&self.0, &[IoSlice::new(&frame)], &mut ancillary, flags).unwrap(),
            frame.len()
        );
        self.receive()
    }
}

#[tokio::test]
async fn a_manager_of_version_1_gets_the_answers_that_it_got_from_its_own_init() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut wire = Wire::open(&sandbox);
    let greeting = wire.receive();
    assert_eq!((&greeting["protocol"], &greeting["oldest_protocol"]), (&json!(2), &json!(1)));
    let recorded = include_str!("../../leasehold-init/tests/fixtures/protocol-1.txt");
    let frames: Vec<Value> =
        recorded.lines().skip(1).map(|line| serde_json::from_str(&line[2..]).unwrap()).collect();
    for pair in frames.chunks(2) {
        assert_eq!(wire.ask(&pair[0]), pair[1], "to {}", pair[0]);
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_manager_of_a_version_to_come_is_refused_in_words_that_it_understands() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut wire = Wire::open(&sandbox);
    wire.receive();
    let answer =
        wire.ask(&json!({"protocol": 99, "serial": 5, "request": {"verb": "of_the_future"}}));
    let refused = json!({"answer": "refused", "reason": {"reason": "protocol"}});
    assert_eq!(answer, json!({"serial": 5, "answer": refused}));
    sandbox.destroy().await;
}
