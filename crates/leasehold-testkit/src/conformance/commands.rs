//! Commands: output, input, ends.

use std::time::Duration;

use bytes::Bytes;
use leasehold_core::Grant;
use leasehold_ports::{
    CommandRequest, NotStarted, ProcessEnd, ProcessInput, ProviderError, Signal, StartError,
};
use secrecy::SecretString;

use super::bench::{Bench, Failure, call, command, ensure, finish, prepared, soon};

pub(super) async fn exit_codes_are_told(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let commands: [(&[&str], u8); 4] = [
        (&["true"], 0),
        (&["false"], 1),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "exit 255"], 255),
    ];
    for (argv, code) in commands {
        let end = sandbox.run(argv).await?.end;
        ensure!(end == ProcessEnd::Exited(code), "{argv:?} ended {end:?}, not with {code}");
    }
    sandbox.remove().await
}

pub(super) async fn a_signal_as_the_end_is_told(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let end = sandbox.run(&["sh", "-c", "kill -9 $$"]).await?.end;
    ensure!(end == ProcessEnd::Signaled(Signal::KILL), "it ended {end:?}");
    sandbox.remove().await
}

pub(super) async fn output_comes_on_both_streams(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let printed = sandbox.run(&["sh", "-c", "echo one; echo two >&2; exit 3"]).await?;
    ensure!(printed.output == b"one\n", "standard output: {:?}", printed.output);
    ensure!(printed.error == b"two\n", "standard error: {:?}", printed.error);
    ensure!(printed.end == ProcessEnd::Exited(3), "it ended {:?}", printed.end);
    sandbox.remove().await
}

pub(super) async fn input_is_read_to_its_end(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let request = CommandRequest { input: true, ..command(bench, &["cat"]) };
    let process = sandbox.start(&request).await?;
    for piece in ["one ", "two"] {
        let piece = ProcessInput::Bytes(Bytes::from_static(piece.as_bytes()));
        let sent = soon(bench, "the input", process.input.send(piece)).await?;
        ensure!(sent.is_ok(), "nobody reads the input");
    }
    let sent = soon(bench, "the end of input", process.input.send(ProcessInput::End)).await?;
    ensure!(sent.is_ok(), "nobody reads the input");
    let printed = finish(bench, process).await?;
    ensure!(printed.output == b"one two", "it printed {:?}", printed.output);
    ensure!(printed.end == ProcessEnd::Exited(0), "it ended {:?}", printed.end);
    sandbox.remove().await
}

pub(super) async fn without_input_its_end_is_read_at_once(
    bench: &dyn Bench,
) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let printed = sandbox.run(&["cat"]).await?;
    ensure!(printed.output.is_empty(), "it printed {:?}", printed.output);
    ensure!(printed.end == ProcessEnd::Exited(0), "it ended {:?}", printed.end);
    sandbox.remove().await
}

pub(super) async fn variables_reach_the_command(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let mut request = command(bench, &["sh", "-c", "echo $GREETING"]);
    request.environment.insert("GREETING".to_owned(), SecretString::from("hello"));
    let printed = finish(bench, sandbox.start(&request).await?).await?;
    ensure!(printed.output == b"hello\n", "it printed {:?}", printed.output);
    let printed = sandbox.run(&["sh", "-c", "echo $GREETING"]).await?;
    ensure!(printed.output == b"\n", "the next command has it too: {:?}", printed.output);
    sandbox.remove().await
}

pub(super) async fn a_program_that_is_missing_does_not_start(
    bench: &dyn Bench,
) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    for program in ["no-such-program", "/no/such/program"] {
        match sandbox.start(&command(bench, &[program])).await {
            Err(StartError::NotStarted(NotStarted::NotFound { program: told })) => {
                ensure!(told == program, "it told that {told:?} is missing, not {program:?}");
            }
            other => ensure!(false, "{program:?}: {other:?}"),
        }
    }
    sandbox.remove().await
}

pub(super) async fn a_directory_that_is_missing_is_told(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let directory = Some("/no/such/directory".to_owned());
    let request = CommandRequest { directory, ..command(bench, &["true"]) };
    let started = sandbox.start(&request).await;
    ensure!(
        matches!(started, Err(StartError::NotStarted(NotStarted::NoDirectory { .. }))),
        "it told {started:?}"
    );
    sandbox.remove().await
}

pub(super) async fn one_id_is_one_command(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let request = command(bench, &["sh", "-c", "echo once; sleep 1000"]);
    let first = sandbox.start(&request).await?;
    let again = sandbox.start(&request).await?;
    // Were they two, the other would sleep on.
    first.control.terminate(&call(bench)).await?;
    let printed = finish(bench, again).await?;
    ensure!(
        printed.output == b"once\n" || printed.output.is_empty(),
        "the repeated start printed {:?}",
        printed.output
    );
    finish(bench, first).await?;
    // Nor does it start again once it has ended.
    if let Ok(late) = sandbox.start(&request).await {
        finish(bench, late).await?;
    }
    sandbox.remove().await
}

pub(super) async fn a_signal_reaches_the_command(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let process = sandbox.start(&command(bench, &["sleep", "1000"])).await?;
    process.control.signal(Signal::TERMINATE, &call(bench)).await?;
    let control = process.control.clone();
    let end = finish(bench, process).await?.end;
    ensure!(end == ProcessEnd::Signaled(Signal::TERMINATE), "it ended {end:?}");
    // A command that has ended takes signals without complaint.
    control.signal(Signal::TERMINATE, &call(bench)).await?;
    sandbox.remove().await
}

pub(super) async fn what_ignores_signals_is_terminated(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let argv = ["sh", "-c", "trap '' TERM; echo ready; sleep 1000"];
    let mut process = sandbox.start(&command(bench, &argv)).await?;
    // Before that it could still die of the polite signal.
    let first = soon(bench, "the first output", process.output.recv()).await?;
    ensure!(first.is_some(), "its output ended at once");
    process.control.terminate(&call(bench)).await?;
    let end = finish(bench, process).await?.end;
    ensure!(matches!(end, ProcessEnd::Signaled(_)), "it ended {end:?}");
    sandbox.remove().await
}

pub(super) async fn a_clean_ends_everything(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let scripts = [
        "sleep 1000",
        "trap '' TERM; sleep 1000",
        "sleep 1000 & sleep 1000",
        "setsid sleep 1000 & sleep 1000",
    ];
    let mut processes = Vec::new();
    for script in scripts {
        processes.push(sandbox.start(&command(bench, &["sh", "-c", script])).await?);
    }
    bench.provider().clean(sandbox.id(), Grant(1), &call(bench)).await?;
    for process in processes {
        let end = finish(bench, process).await?.end;
        ensure!(matches!(end, ProcessEnd::Signaled(_)), "after the clean one ended {end:?}");
    }
    // A clean sandbox takes commands, and a clean of it has nothing to do.
    bench.provider().clean(sandbox.id(), Grant(1), &call(bench)).await?;
    let end = sandbox.run(&["true"]).await?.end;
    ensure!(end == ProcessEnd::Exited(0), "a command after the clean ended {end:?}");
    sandbox.remove().await
}

pub(super) async fn a_clean_that_comes_late_ends_nothing_of_a_later_grant(
    bench: &dyn Bench,
) -> Result<(), Failure> {
    let provider = bench.provider();
    let sandbox = prepared(bench).await?;
    sandbox.start(&command(bench, &["sleep", "1000"])).await?;
    let over = Grant(1);
    provider.clean(sandbox.id(), over, &call(bench)).await?;
    let later = CommandRequest { grant: Grant(2), ..command(bench, &["cat"]) };
    let process = sandbox.start(&CommandRequest { input: true, ..later }).await?;
    let late = provider.clean(sandbox.id(), over, &call(bench)).await;
    ensure!(matches!(late, Err(ProviderError::Busy { .. })), "a late clean told {late:?}");
    let end = finish(bench, process).await?.end;
    ensure!(end == ProcessEnd::Exited(0), "the command of the later grant ended {end:?}");
    provider.clean(sandbox.id(), Grant(2), &call(bench)).await?;
    sandbox.remove().await
}

pub(super) async fn a_clean_leaves_other_sandboxes_alone(bench: &dyn Bench) -> Result<(), Failure> {
    let (one, other) = (prepared(bench).await?, prepared(bench).await?);
    let process = other.start(&command(bench, &["sleep", "2"])).await?;
    bench.provider().clean(one.id(), Grant(1), &call(bench)).await?;
    bench.clock().sleep(Duration::from_millis(10)).await;
    let end = finish(bench, process).await?.end;
    ensure!(end == ProcessEnd::Exited(0), "a command in the other ended {end:?}");
    one.remove().await?;
    other.remove().await
}
