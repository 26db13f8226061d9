//! How a sandbox is made, found and recognised, whatever dies meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails shall say where"
)]

mod support;

use leasehold_core::{SandboxName, Spec};
use leasehold_local::{InitProgram, LocalProvider};
use leasehold_ports::{ObservedState, Provider as _, ProviderError, Removal, Status};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use support::leaks::LeakChecker;
use support::*;

#[test]
fn as_an_ordinary_user_all_of_this_holds_too() {
    users::run_everything_again_as_ordinary_user("as_an_ordinary_user");
}

#[tokio::test]
async fn a_sandbox_is_found_by_name_by_id_and_in_the_list() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let provider = &sandbox.provider;
    let page = provider.list(None, &call()).await.unwrap();
    assert_eq!((page.entries.len(), page.next), (1, None));
    let entry = &page.entries[0];
    assert_eq!((&entry.sandbox, &entry.birth), (&sandbox.created.sandbox, &sandbox.created.birth));
    assert_eq!(entry.state, ObservedState::Running);
    let name = entry.name.clone().unwrap();
    let mut found = provider.find_by_name(&name, &call()).await.unwrap();
    assert_eq!(found.len(), 1);
    // It has grown older since.
    found[0].age = entry.age;
    assert_eq!(found, page.entries);
    assert_eq!(provider.find_by_name(&fresh_name(), &call()).await.unwrap(), []);
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_taken_name_is_refused_and_nothing_is_made() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let name = sandbox.provider.list(None, &call()).await.unwrap().entries[0].name.clone().unwrap();
    let other = provider_at(&sandbox.state.path().join("state"));
    let refused = other.create(&create_request(name), &call()).await.unwrap_err();
    assert!(matches!(refused, ProviderError::NameTaken));
    assert_eq!(sandbox.provider.list(None, &call()).await.unwrap().entries.len(), 1);
    assert_eq!(sandbox.output_of("echo unharmed").await, "unharmed");
    sandbox.destroy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_creates_with_one_name_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let name = fresh_name();
    let leaks = LeakChecker::new(&state);
    let provider = provider_at(&state);
    let mut creates = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (provider, name) = (provider_at(&state), name.clone());
        creates.spawn(async move { provider.create(&create_request(name), &call()).await });
    }
    let mut made = Vec::new();
    while let Some(created) = creates.join_next().await {
        match created.unwrap() {
            Err(ProviderError::NameTaken) => {}
            other => made.extend(created_or_skip(other)),
        }
    }
    for created in &made {
        provider.destroy(&created.pin(), &call()).await.unwrap();
    }
    assert!(made.len() <= 1, "{made:?}");
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn the_list_comes_in_pages_without_loss_or_repetition() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let Some(sandbox) = Sandbox::new().await else { return };
    // Records are all that a list needs: made from one that is real.
    let provider = provider_at(&state);
    let text = std::fs::read_to_string(sandbox.directory().join("record.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    for number in 0..1201 {
        let directory = state.join(format!("fake{number}"));
        std::fs::create_dir(&directory).unwrap();
        let mut record = record.clone();
        record["id"] = format!("fake{number}-x").into();
        std::fs::write(directory.join("record.json"), record.to_string()).unwrap();
    }
    let (mut seen, mut from, mut pages) = (BTreeSet::new(), None::<String>, 0);
    loop {
        let page = provider.list(from.as_deref(), &call()).await.unwrap();
        pages += 1;
        for entry in page.entries {
            assert!(seen.insert(entry.sandbox.to_string()), "{} twice", entry.sandbox);
        }
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages), (1201, 3));
    sandbox.destroy().await;
}

#[tokio::test]
async fn what_cannot_be_had_here_is_refused_never_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let provider = provider_at(&folder.path().join("state"));
    let with_egress = |hosts: &[&str]| Spec {
        egress: Some(hosts.iter().map(|&host| host.into()).collect()),
        ..Spec::default()
    };
    let specs = [
        Spec { shape: Some("large".into()), ..Spec::default() },
        Spec { image: Some("debian".into()), ..Spec::default() },
        with_egress(&["example.org"]),
    ];
    for spec in specs {
        let mut request = create_request(fresh_name());
        request.spec = spec;
        let refused = provider.create(&request, &call()).await.unwrap_err();
        assert!(matches!(refused, ProviderError::Invalid { .. }), "{refused}");
    }
    let mut request = create_request(fresh_name());
    request.spec = with_egress(&[]);
    let Some(created) = created_or_skip(provider.create(&request, &call()).await) else { return };
    provider.destroy(&created.pin(), &call()).await.unwrap();
}

#[tokio::test]
async fn an_init_program_that_is_none_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let leaks = LeakChecker::new(&state);
    for program in ["/bin/true", "/no/such/program", "/bin/cat"] {
        let init = InitProgram::At(PathBuf::from(program));
        let provider =
            LocalProvider::open(&state, init, Arc::new(SystemClock), Arc::new(SystemRandom), None)
                .unwrap();
        let refused = provider.create(&create_request(fresh_name()), &call()).await.unwrap_err();
        assert!(refused.is_definite(), "{program}: {refused}");
        leaks.assert_nothing_left();
    }
}

#[tokio::test]
async fn a_state_directory_with_a_long_path_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = folder.path().to_owned();
    for _ in 0..8 {
        state.push("a-folder-whose-name-is-forty-characters-");
    }
    let provider = provider_at(&state);
    assert!(state.as_os_str().len() > 300, "far more than the 107 bytes of a socket address");
    let Some(created) =
        created_or_skip(provider.create(&create_request(fresh_name()), &call()).await)
    else {
        return;
    };
    let process = provider.start(&created.sandbox, &script("echo works"), &call()).await.unwrap();
    assert_eq!(collect(process).await.output, "works\n");
    provider.destroy(&created.pin(), &call()).await.unwrap();
}

#[tokio::test]
async fn the_longest_name_works_and_no_name_is_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let provider = provider_at(&folder.path().join("state"));
    for text in ["../../escape".to_owned(), "/absolute".to_owned(), "ü".repeat(64)] {
        let name = SandboxName::new(text).unwrap();
        let Some(created) = created_or_skip(provider.create(&create_request(name), &call()).await)
        else {
            return;
        };
        assert!(provider.status(&created.sandbox, &call()).await.is_ok());
        provider.destroy(&created.pin(), &call()).await.unwrap();
    }
    let nobody = |id: &leasehold_core::SandboxId| leasehold_core::Pin {
        sandbox: id.clone(),
        birth: leasehold_core::BirthFingerprint::new("nobody").unwrap(),
    };
    for text in ["../state", "..-x", ".gone-x", "a/b-c", "-", "x"] {
        let id = leasehold_core::SandboxId::new(text).unwrap();
        assert!(
            matches!(provider.status(&id, &call()).await.unwrap(), Status::Absent(_)),
            "{text}"
        );
        assert!(
            matches!(provider.destroy(&nobody(&id), &call()).await.unwrap(), Removal::Absent(_)),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_create_that_died_before_its_init_is_found_by_name_and_destroyed() {
    let Some(sandbox) = Sandbox::new().await else { return };
    // As a manager that is killed right after the record: the record stands, no init was ever born.
    let text = std::fs::read_to_string(sandbox.directory().join("record.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let name = SandboxName::new(record["name"].as_str().unwrap()).unwrap();
    let (id, path) = (sandbox.id().clone(), sandbox.directory());
    let provider = sandbox.provider.clone();
    let state = sandbox.destroy().await;
    record["maker"]["boot_id"] = "another".into();
    std::fs::create_dir_all(path.join("workspace")).unwrap();
    std::fs::write(path.join("record.json"), record.to_string()).unwrap();
    let found = provider.find_by_name(&name, &call()).await.unwrap();
    assert_eq!((&found[0].sandbox, found[0].state), (&id, ObservedState::Failed));
    let pin = pin_of(&provider, &id).await;
    let Removal::Proved(evidence) = provider.destroy(&pin, &call()).await.unwrap() else {
        panic!("not proved")
    };
    assert!(evidence.proof.contains("no process was ever started"), "{evidence:?}");
    assert_eq!(provider.find_by_name(&name, &call()).await.unwrap(), []);
    drop(state);
}

/// The manager of the next tests: makes sandboxes, starts a command that never ends, says so, and waits to be
/// killed. With a number of milliseconds it makes sandboxes without end instead.
#[test]
#[ignore = "a process of its own for other tests"]
fn manager_to_be_killed() {
    let state = PathBuf::from(std::env::var_os("STATE").unwrap());
    let endless = std::env::var_os("ENDLESS").is_some();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let provider = provider_at(&state);
        println!("\nopened");
        loop {
            let created = provider.create(&create_request(fresh_name()), &call()).await.unwrap();
            let text = "trap '' TERM HUP; (setsid sleep 1000 &); echo ready; sleep 1000";
            let mut process =
                provider.start(&created.sandbox, &script(text), &call()).await.unwrap();
            wait_for_line(&mut process, "ready").await;
            if !endless {
                println!("made {}", created.sandbox);
                std::future::pending::<()>().await;
            }
        }
    });
}

struct Manager(std::process::Child);

impl Manager {
    fn start(state: &Path, endless: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "manager_to_be_killed", "--ignored", "--nocapture"]);
        command.env("STATE", state).stdout(Stdio::piped()).stderr(Stdio::piped());
        if endless {
            command.env("ENDLESS", "1");
        }
        Self(command.spawn().unwrap())
    }

    /// The rest of the first line that starts so.
    fn wait_for_line(&mut self, prefix: &str) -> String {
        use std::io::BufRead as _;
        let mut lines = std::io::BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        lines.find_map(|line| Some(line.unwrap().strip_prefix(prefix)?.to_owned())).unwrap()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Whether namespaces can be had here at all.
async fn can_make_sandboxes() -> bool {
    match Sandbox::new().await {
        Some(sandbox) => {
            sandbox.destroy().await;
            true
        }
        None => false,
    }
}

#[tokio::test]
async fn a_sandbox_outlives_its_manager_and_is_found_used_and_destroyed_by_the_next() {
    if !can_make_sandboxes().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut leaks = LeakChecker::new(&state);
    let mut manager = Manager::start(&state, false);
    let id = leasehold_core::SandboxId::new(manager.wait_for_line("made ")).unwrap();
    manager.kill();
    let provider = provider_at(&state);
    assert!(leaks.note_processes() >= 2, "the init and the sleeper");
    let status = provider.status(&id, &call()).await.unwrap();
    assert!(matches!(status, Status::Present { state: ObservedState::Running, .. }), "{status:?}");
    provider.clean(&id, leasehold_core::Grant(1), &call()).await.unwrap();
    let process = provider.start(&id, &script("echo taken over"), &call()).await.unwrap();
    assert_eq!(collect(process).await.output, "taken over\n");
    let pin = pin_of(&provider, &id).await;
    assert!(matches!(provider.destroy(&pin, &call()).await.unwrap(), Removal::Proved(_)));
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn a_sandbox_does_not_hold_its_managers_streams_open() {
    if !can_make_sandboxes().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut manager = Manager::start(&state, false);
    let id = leasehold_core::SandboxId::new(manager.wait_for_line("made ")).unwrap();
    manager.kill();
    // Both reads end only when nobody has the other end any more.
    let mut rest = Vec::new();
    manager.0.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    manager.0.stderr.take().unwrap().read_to_end(&mut rest).unwrap();
    let provider = provider_at(&state);
    provider.destroy(&pin_of(&provider, &id).await, &call()).await.unwrap();
}

#[tokio::test]
async fn a_manager_killed_at_any_moment_leaves_nothing_that_is_not_found() {
    if !can_make_sandboxes().await {
        return;
    }
    for round in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let mut leaks = LeakChecker::new(&state);
        let mut manager = Manager::start(&state, true);
        manager.wait_for_line("opened");
        // A little further on in each round.
        for _ in 0..round {
            leaks.note_processes();
        }
        manager.kill();
        leaks.note_processes();
        let provider = provider_at(&state);
        loop {
            let page = provider.list(None, &call()).await.unwrap();
            let Some(entry) = page.entries.first() else { break };
            let name = entry.name.clone().unwrap();
            assert_eq!(
                provider.find_by_name(&name, &call()).await.unwrap()[0].sandbox,
                entry.sandbox
            );
            let removal =
                provider.destroy(&pin_of(&provider, &entry.sandbox).await, &call()).await.unwrap();
            assert!(matches!(removal, Removal::Proved(_)), "{removal:?}");
        }
        leaks.assert_nothing_left();
        // A child of the manager that had not executed its program yet may be on its way out.
        let marker = format!("STATE={}", state.display());
        while anybody_bears(&marker) {
            tokio::task::yield_now().await;
        }
        leaks.assert_nothing_left();
    }
}

fn anybody_bears(marker: &str) -> bool {
    support::leaks::process_table().keys().any(|(pid, _)| {
        let text = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        text.windows(marker.len()).any(|window| window == marker.as_bytes())
    })
}

#[tokio::test]
async fn where_user_namespaces_are_refused_the_error_says_so_and_nothing_is_left() {
    if !can_make_sandboxes().await {
        return;
    }
    // Inside a user namespace in which no further one is allowed, as on machines that forbid them.
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let text = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" --exact create_and_report --ignored --nocapture";
    let output = Command::new("unshare")
        .args(["--user", "--map-user=1234", "--map-group=1234", "--keep-caps", "sh", "-c", text])
        .arg(std::env::current_exe().unwrap())
        .env("STATE", &state)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if output.contains("unrecognized option") {
        skip("this unshare is too old to make such a namespace");
        return;
    }
    assert!(
        output.contains("refused for good: ") && output.contains("make namespaces"),
        "{output}"
    );
    LeakChecker::new(&state).assert_nothing_left();
}

#[test]
#[ignore = "a process of its own for other tests"]
fn create_and_report() {
    let state = PathBuf::from(std::env::var_os("STATE").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = runtime
        .block_on(provider_at(&state).create(&create_request(fresh_name()), &call()))
        .unwrap_err();
    assert!(matches!(refused, ProviderError::Invalid { .. }), "{refused}");
    println!("refused for good: {refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_is_dropped_at_any_await_is_found_or_never_was() {
    if !can_make_sandboxes().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let provider = provider_at(&state);
    let leaks = LeakChecker::new(&state);
    for _ in 0..10 {
        let name = fresh_name();
        let request = create_request(name.clone());
        let task_provider = provider.clone();
        let task = tokio::spawn(async move { task_provider.create(&request, &call()).await });
        tokio::task::yield_now().await;
        task.abort();
        let _ = task.await;
        // It goes on by itself: sooner or later it is there, or the name is still free.
        loop {
            match provider.find_by_name(&name, &call()).await.unwrap().first() {
                Some(entry) if entry.state == ObservedState::Creating => {
                    tokio::task::yield_now().await
                }
                Some(entry) => {
                    provider
                        .destroy(&pin_of(&provider, &entry.sandbox).await, &call())
                        .await
                        .unwrap();
                    break;
                }
                None => match provider.create(&create_request(name.clone()), &call()).await {
                    Ok(_) | Err(ProviderError::NameTaken) => {}
                    Err(other) => panic!("{other}"),
                },
            }
        }
    }
    leaks.assert_nothing_left();
}
