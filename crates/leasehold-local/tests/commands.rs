//! How commands are started, fed, heard and ended.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails shall say where"
)]

mod support;

use bytes::Bytes;
use leasehold_core::{CommandId, Grant};
use leasehold_ports::{
    NotStarted, ProcessEnd, ProcessInput, Provider as _, ProviderError, Signal, StartError,
};
use support::*;

#[test]
fn as_an_ordinary_user_all_of_this_holds_too() {
    users::run_everything_again_as_ordinary_user("as_an_ordinary_user");
}

#[tokio::test]
async fn output_error_and_exit_code_come_back() {
    let Some(sandbox) = Sandbox::new().await else { return };
    for code in [0, 1, 42, 125, 255] {
        let ran = sandbox.run(&script(&format!("echo out; echo err >&2; exit {code}"))).await;
        let expected =
            Ran { output: "out\n".into(), error: "err\n".into(), end: ProcessEnd::Exited(code) };
        assert_eq!(ran, expected);
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_signal_that_ends_a_command_is_told() {
    let Some(sandbox) = Sandbox::new().await else { return };
    // 37 is a real-time signal, which has no name.
    for signal in [1, 2, 6, 9, 11, 15, 37] {
        let ran = sandbox.run(&script(&format!("kill -{signal} $$"))).await;
        assert_eq!(ran.end, ProcessEnd::Signaled(Signal(signal)));
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_not_started() {
    let Some(sandbox) = Sandbox::new().await else { return };
    for name in ["no-such-program", "/no/such/program", "./no-such-program", "/etc/passwd/x"] {
        let refused = sandbox.start(&command(&[name])).await.unwrap_err();
        let StartError::NotStarted(NotStarted::NotFound { program }) = refused else {
            panic!("{refused}")
        };
        assert_eq!(program, name);
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn what_cannot_be_executed_is_not_started() {
    let Some(sandbox) = Sandbox::new().await else { return };
    sandbox.output_of("echo data > plain; echo data > text; chmod +x text").await;
    for name in ["./plain", "./text", "/usr", "/etc/passwd"] {
        let refused = sandbox.start(&command(&[name])).await.unwrap_err();
        let is_not_executable =
            matches!(&refused, StartError::NotStarted(NotStarted::NotExecutable { .. }));
        assert!(is_not_executable, "{name}: {refused}");
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut with_odd_name = script("true");
    with_odd_name.environment.insert("A=B".to_owned(), "x".into());
    for request in [command(&[]), command(&[""]), command(&["/bin/echo", "a\0b"]), with_odd_name] {
        let refused = sandbox.start(&request).await.unwrap_err();
        assert!(
            matches!(refused, StartError::Provider(ProviderError::Invalid { .. })),
            "{refused}"
        );
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn the_directory_is_the_workspace_or_the_one_asked_for() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut request = command(&["pwd"]);
    assert_eq!(sandbox.run(&request).await.output, "/workspace\n");
    for directory in ["/tmp", "/sandbox-home", "/"] {
        (request.id, request.directory) = (fresh_command(), Some(directory.to_owned()));
        assert_eq!(sandbox.run(&request).await.output, format!("{directory}\n"));
    }
    (request.id, request.directory) = (fresh_command(), Some("/absent".to_owned()));
    let refused = sandbox.start(&request).await.unwrap_err();
    assert!(matches!(refused, StartError::NotStarted(NotStarted::NoDirectory { .. })), "{refused}");
    sandbox.destroy().await;
}

#[tokio::test]
async fn environment_values_arrive_whatever_is_in_them() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let value = "spaces, \"quotes\", $dollars,\nlines, ümläute, =";
    let mut request = script(r#"printf %s "$VALUE"; printf %s "$HOME" >&2"#);
    request.environment.insert("VALUE".to_owned(), value.into());
    request.environment.insert("HOME".to_owned(), "/elsewhere".into());
    let ran = sandbox.run(&request).await;
    assert_eq!((ran.output.as_str(), ran.error.as_str()), (value, "/elsewhere"));
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_program_is_looked_up_in_the_path_that_was_asked_for() {
    let Some(sandbox) = Sandbox::new().await else { return };
    sandbox
        .output_of(
            "mkdir tools && printf '#!/bin/sh\\necho own tool\\n' > tools/ls && chmod +x tools/ls",
        )
        .await;
    let mut request = command(&["ls"]);
    request.environment.insert("PATH".to_owned(), "/absent:/workspace/tools:/usr/bin".into());
    assert_eq!(sandbox.run(&request).await.output, "own tool\n");
    sandbox.destroy().await;
}

#[tokio::test]
async fn without_input_a_command_reads_the_end_at_once() {
    let Some(sandbox) = Sandbox::new().await else { return };
    assert_eq!(sandbox.run(&script("cat; echo done")).await.output, "done\n");
    sandbox.destroy().await;
}

#[tokio::test]
async fn input_flows_until_its_end_and_output_answers_meanwhile() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut request = script("read first; echo got $first; wc -c");
    request.input = true;
    let mut process = sandbox.start(&request).await.unwrap();
    process.input.send(ProcessInput::Bytes(Bytes::from_static(b"one\n"))).await.unwrap();
    assert_eq!(wait_for_line(&mut process, "got ").await, "one");
    let input = process.input.clone();
    tokio::spawn(async move {
        for _ in 0..16 {
            input.send(ProcessInput::Bytes(vec![b'x'; 65_536].into())).await.unwrap();
        }
        input.send(ProcessInput::End).await.unwrap();
    });
    let ran = collect(process).await;
    assert_eq!((ran.output.trim(), ran.end), ("1048576", ProcessEnd::Exited(0)));
    sandbox.destroy().await;
}

#[tokio::test]
async fn input_for_a_command_that_does_not_read_harms_nobody() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut request = script("exit 7");
    request.input = true;
    let process = sandbox.start(&request).await.unwrap();
    let input = process.input.clone();
    let sender = tokio::spawn(async move {
        while input.send(ProcessInput::Bytes(vec![0; 65_536].into())).await.is_ok() {}
    });
    assert_eq!(collect(process).await.end, ProcessEnd::Exited(7));
    sender.await.unwrap();
    sandbox.destroy().await;
}

#[tokio::test]
async fn output_arrives_while_the_command_runs() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut request = script("while read line; do echo heard $line; done");
    request.input = true;
    let mut process = sandbox.start(&request).await.unwrap();
    for word in ["one", "two", "three"] {
        let line = Bytes::from(format!("{word}\n"));
        process.input.send(ProcessInput::Bytes(line)).await.unwrap();
        assert_eq!(wait_for_line(&mut process, "heard ").await, word);
    }
    sandbox.destroy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_output_with_a_slow_reader_needs_little_memory_and_loses_nothing() {
    const SIZE: usize = 64 * 1024 * 1024;
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut process =
        sandbox.start(&command(&["head", "-c", &SIZE.to_string(), "/dev/zero"])).await.unwrap();
    let before = resident_bytes();
    let (mut received, mut peak) = (0, before);
    while let Some(frame) = process.output.recv().await {
        received += frame.bytes.len();
        // Slow: everything else gets its turn first.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        peak = peak.max(resident_bytes());
    }
    assert_eq!(received, SIZE);
    assert_eq!(process.control.wait().await.unwrap(), ProcessEnd::Exited(0));
    // Other tests run in this process, too; without a bound it would be 64 MiB.
    let grown = (peak - before) / (1024 * 1024);
    assert!(grown < 24, "{grown} MiB");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_command_whose_reader_has_stopped_waits() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut process =
        sandbox.start(&script("head -c 50331648 /dev/zero; touch finished")).await.unwrap();
    // One frame, so that the pipes are in use; then nobody reads for as long as fifty other commands take. The
    // init keeps 32 MiB of one stream, so 48 MiB cannot be written without a reader's help.
    process.output.recv().await.unwrap();
    for _ in 0..50 {
        sandbox.output_of("test ! -e finished").await;
    }
    assert_eq!(collect(process).await.end, ProcessEnd::Exited(0));
    sandbox.output_of("test -e finished").await;
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_child_left_behind_neither_holds_up_the_command_nor_dies_of_it() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let ran = sandbox
        .run(&script(
            "(trap '' HUP; until test -e go; do echo noise; done; echo alive > child) & echo main",
        ))
        .await;
    assert_eq!(ran.end, ProcessEnd::Exited(0));
    assert!(ran.output.contains("main\n"));
    sandbox.output_of("touch go; until test -s child; do :; done; cat child").await;
    sandbox.destroy().await;
}

#[tokio::test]
async fn signals_reach_the_command() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let script_text = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done";
    let mut process = sandbox.start(&script(script_text)).await.unwrap();
    wait_for_line(&mut process, "ready").await;
    process.control.signal(Signal::INTERRUPT, &call()).await.unwrap();
    wait_for_line(&mut process, "caught").await;
    assert_eq!(process.control.wait().await.unwrap(), ProcessEnd::Exited(9));
    process
        .control
        .signal(Signal::KILL, &call())
        .await
        .expect("a signal to an ended command is no error");
    let refused = process.control.signal(Signal(4711), &call()).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Invalid { .. }));
    sandbox.destroy().await;
}

#[tokio::test]
async fn the_end_is_told_to_everybody_who_waits_as_often_as_they_like() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let process = sandbox.start(&script("exit 5")).await.unwrap();
    let (one, two) = tokio::join!(process.control.wait(), process.control.wait());
    assert_eq!((one.unwrap(), two.unwrap()), (ProcessEnd::Exited(5), ProcessEnd::Exited(5)));
    assert_eq!(process.control.wait().await.unwrap(), ProcessEnd::Exited(5));
    sandbox.destroy().await;
}

#[tokio::test]
async fn one_id_is_started_once() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let request = script("echo started >> starts; sleep 0.05; exit 3");
    let first = sandbox.start(&request).await.unwrap();
    let repeated = sandbox.start(&request).await.unwrap();
    assert_eq!(repeated.control.wait().await.unwrap(), ProcessEnd::Exited(3));
    assert_eq!(first.control.wait().await.unwrap(), ProcessEnd::Exited(3));
    let after_its_end = sandbox.start(&request).await.unwrap();
    assert_eq!(after_its_end.control.wait().await.unwrap(), ProcessEnd::Exited(3));
    assert_eq!(sandbox.output_of("cat starts").await, "started");
    sandbox.destroy().await;
}

#[tokio::test]
async fn one_id_is_started_once_however_many_ask_at_once() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let request = script("echo started >> starts");
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (provider, id, request) =
            (sandbox.provider.clone(), sandbox.id().clone(), request.clone());
        starts.spawn(async move {
            let process = provider.start(&id, &request, &call()).await.unwrap();
            assert_eq!(process.control.wait().await.unwrap(), ProcessEnd::Exited(0));
        });
    }
    while let Some(start) = starts.join_next().await {
        start.unwrap();
    }
    assert_eq!(sandbox.output_of("cat starts").await, "started");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_start_that_failed_stays_failed_under_its_id() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut request = command(&["./later"]);
    assert!(sandbox.start(&request).await.is_err());
    sandbox.output_of("printf '#!/bin/sh\\n' > later; chmod +x later").await;
    assert!(sandbox.start(&request).await.is_err(), "it was told that it did not start");
    request.id = fresh_command();
    assert_eq!(sandbox.run(&request).await.end, ProcessEnd::Exited(0));
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_command_of_a_stale_grant_does_not_start() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let provider = &sandbox.provider;
    provider.prepare(sandbox.id(), &preparation(3), &call()).await.unwrap();
    let mut request = script("touch stale");
    for (grant, may_start) in [(2, false), (3, true), (4, true)] {
        (request.id, request.grant) = (fresh_command(), Grant(grant));
        assert_eq!(sandbox.start(&request).await.is_ok(), may_start, "grant {grant}");
    }
    provider.raise_fence(sandbox.id(), &fence(8), &call()).await.unwrap();
    (request.id, request.grant, request.work) =
        (fresh_command(), Grant(7), script("touch late").work);
    let refused = sandbox.start(&request).await.unwrap_err();
    let StartError::NotStarted(NotStarted::StaleGrant { fence }) = refused else {
        panic!("{refused}")
    };
    assert_eq!(fence, Grant(8));
    (request.id, request.grant, request.work) =
        (fresh_command(), Grant(8), script("test ! -e late").work);
    assert_eq!(sandbox.run(&request).await.end, ProcessEnd::Exited(0), "it had no effect");
    sandbox.destroy().await;
}

#[tokio::test]
async fn marker_and_fence_are_read_back_and_the_fence_never_falls() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let (provider, id) = (&sandbox.provider, sandbox.id());
    let identity = provider.identify(id, &call()).await.unwrap();
    assert_eq!((identity.marker, identity.fence), (None, None));
    provider.prepare(id, &preparation(1), &call()).await.unwrap();
    provider.prepare(id, &preparation(1), &call()).await.expect("repeating is fine");
    provider.raise_fence(id, &fence(5), &call()).await.unwrap();
    provider.raise_fence(id, &fence(4), &call()).await.expect("one that stands higher stays");
    let identity = provider.identify(id, &call()).await.unwrap();
    assert_eq!(identity.marker, Some(preparation(1).marker));
    assert_eq!(identity.fence, Some(fence(5)));
    sandbox.destroy().await;
}

#[tokio::test]
async fn the_sandbox_cannot_reach_its_marker_and_fence() {
    let Some(sandbox) = Sandbox::new().await else { return };
    sandbox.provider.prepare(sandbox.id(), &preparation(1), &call()).await.unwrap();
    let text = "! find / -xdev -name 'guard.json*' -o -name ctl.sock -o -name record.json 2>/dev/null | grep .";
    let mut request = script(text);
    request.grant = Grant(1);
    assert_eq!(sandbox.run(&request).await.end, ProcessEnd::Exited(0));
    sandbox.destroy().await;
}

#[tokio::test]
async fn terminating_a_command_ends_its_tree_and_nothing_else() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut other = sandbox.start(&script("echo ready; exec sleep 1000")).await.unwrap();
    wait_for_line(&mut other, "ready").await;
    // A child, a grandchild in a session of its own, and one that lost its parent: all refuse TERM.
    let tree = "trap '' TERM; (setsid sh -c 'echo $$ > a; exec sleep 1000' &); \
                sh -c 'echo $$ > b; sleep 1000 & wait' & until test -s a && test -s b; do :; done; echo ready; wait";
    let mut process = sandbox.start(&script(tree)).await.unwrap();
    wait_for_line(&mut process, "ready").await;
    process.control.terminate(&call_for(4)).await.unwrap();
    assert_eq!(process.control.wait().await.unwrap(), ProcessEnd::Signaled(Signal::KILL));
    sandbox
        .output_of("for name in a b; do ! kill -0 $(cat $name) 2>/dev/null || exit 1; done")
        .await;
    other.control.signal(Signal::TERMINATE, &call()).await.unwrap();
    assert_eq!(
        other.control.wait().await.unwrap(),
        ProcessEnd::Signaled(Signal::TERMINATE),
        "it had lived on"
    );
    sandbox.destroy().await;
}

#[tokio::test]
async fn terminating_is_polite_first() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let text = "trap 'echo saved > state; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let mut process = sandbox.start(&script(text)).await.unwrap();
    wait_for_line(&mut process, "ready").await;
    process.control.terminate(&call()).await.unwrap();
    assert_eq!(process.control.wait().await.unwrap(), ProcessEnd::Exited(0));
    assert_eq!(sandbox.output_of("cat state").await, "saved");
    process.control.terminate(&call()).await.expect("what has ended is terminated");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_command_that_stops_everything_it_can_does_not_stop_the_init() {
    let Some(sandbox) = Sandbox::new().await else { return };
    // Starts that come meanwhile may be stopped before their program runs; the init must still answer.
    let mut stopper =
        sandbox.start(&script("echo ready; while :; do kill -STOP -1; done")).await.unwrap();
    wait_for_line(&mut stopper, "ready").await;
    for _ in 0..20 {
        let request = script("true");
        let short = leasehold_ports::Call {
            credential: None,
            deadline: leasehold_ports::Clock::now(&SystemClock)
                + std::time::Duration::from_millis(20),
        };
        match sandbox.provider.start(sandbox.id(), &request, &short).await {
            Ok(_)
            | Err(StartError::Provider(
                ProviderError::NoAnswer { .. } | ProviderError::Unreachable { .. },
            )) => {}
            Err(other) => panic!("{other}"),
        }
    }
    sandbox.clean().await.unwrap();
    assert_eq!(sandbox.output_of("echo usable").await, "usable");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_sandbox_that_is_not_there_starts_nothing() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let (provider, id) = (sandbox.provider.clone(), sandbox.id().clone());
    let state = sandbox.destroy().await;
    let refused = provider.start(&id, &script("true"), &call()).await.unwrap_err();
    assert!(matches!(refused, StartError::Provider(ProviderError::NotFound)), "{refused}");
    drop(state);
}

#[tokio::test]
async fn a_deadline_that_has_passed_has_no_effect() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let refused = sandbox.provider.start(sandbox.id(), &script("touch late"), &call_for(0)).await;
    if let Err(StartError::Provider(error)) = refused {
        assert!(error.is_definite(), "{error}");
        sandbox.output_of("test ! -e late").await;
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_start_that_is_dropped_at_any_await_starts_at_most_once() {
    let Some(sandbox) = Sandbox::new().await else { return };
    for polls in 0..12 {
        let mut request = script("echo started >> starts");
        request.id = CommandId::new(format!("dropped-{polls}")).unwrap();
        let call = call();
        let mut start = std::pin::pin!(sandbox.start(&request));
        for _ in 0..polls {
            if poll_once(start.as_mut()).await.is_some() {
                break;
            }
        }
        let again = sandbox.provider.start(sandbox.id(), &request, &call).await.unwrap();
        again.control.wait().await.unwrap();
        let starts = sandbox.output_of("cat starts; rm starts").await;
        assert_eq!(starts, "started", "dropped after {polls} polls");
    }
    sandbox.destroy().await;
}

/// Polls a future once, and lets everything else run before it says so.
async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let output = std::future::poll_fn(|context| match future.as_mut().poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await;
    tokio::task::yield_now().await;
    output
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}
