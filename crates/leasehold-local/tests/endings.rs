//! How a sandbox is made clean, and how it ends: with proof, and without a trace.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails shall say where"
)]

mod support;

use leasehold_ports::{
    Clock as _, ObservedState, ProcessEnd, Provider as _, ProviderError, Removal, Status,
};
use std::path::Path;
use std::sync::Arc;
use support::leaks::LeakChecker;
use support::*;

/// Starts 26 processes that try to stay: each in a session of its own, twice forked, deaf to TERM and HUP.
const CLINGING: &str = "for number in $(seq 26); do \
    setsid nohup sh -c 'trap \"\" TERM HUP INT; (trap \"\" TERM HUP INT; echo up >> ups; exec sleep 1000) & exit' \
    >/dev/null 2>&1 </dev/null & done; wait; until test \"$(wc -l < ups)\" = 26; do :; done";

/// The shell counts by itself: another program might be listed, or not yet.
const COUNT_PROCESSES: &str = "set -- /proc/[0-9]*; echo $#";
const INIT_AND_SHELL: &str = "2";

#[test]
fn as_an_ordinary_user_all_of_this_holds_too() {
    users::run_everything_again_as_ordinary_user("as_an_ordinary_user");
}

#[tokio::test]
async fn clean_ends_every_process_and_the_sandbox_is_of_use_again() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut leaks = LeakChecker::new(&sandbox.state.path().join("state"));
    sandbox.output_of(CLINGING).await;
    assert_eq!(leaks.note_processes(), 27, "26 and the init");
    sandbox.clean().await.unwrap();
    assert_eq!(leaks.note_processes(), 1, "the init");
    assert_eq!(sandbox.output_of(COUNT_PROCESSES).await, INIT_AND_SHELL);
    sandbox.clean().await.expect("cleaning what is clean is fine");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_sleep_with_a_child_in_another_session_is_gone_after_clean() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let text = "trap '' TERM; setsid sleep 1000 & echo ready; sleep 1000; wait";
    let mut process = sandbox.start(&script(text)).await.unwrap();
    wait_for_line(&mut process, "ready").await;
    sandbox.clean().await.unwrap();
    assert_eq!(
        process.control.wait().await.unwrap(),
        ProcessEnd::Signaled(leasehold_ports::Signal::KILL)
    );
    assert_eq!(sandbox.output_of(COUNT_PROCESSES).await, INIT_AND_SHELL);
    sandbox.destroy().await;
}

#[tokio::test]
async fn clean_wins_against_processes_that_fork_without_end() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let bomb = "fork() { (trap '' TERM; fork) & sleep 0.01; fork; }; echo ready; (ulimit -u 200 2>/dev/null; fork) 2>/dev/null";
    let mut process = sandbox.start(&script(bomb)).await.unwrap();
    wait_for_line(&mut process, "ready").await;
    sandbox.clean().await.unwrap();
    assert_eq!(sandbox.output_of(COUNT_PROCESSES).await, INIT_AND_SHELL);
    sandbox.destroy().await;
}

#[tokio::test]
async fn destroy_leaves_nothing_behind() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut leaks = LeakChecker::new(&sandbox.state.path().join("state"));
    sandbox.output_of(CLINGING).await;
    sandbox.output_of("mkdir -p a/b/c && touch a/b/c/file && ln -s / a/root && mkfifo pipe").await;
    assert_eq!(leaks.note_processes(), 27);
    let removal = sandbox.provider.destroy(&sandbox.created.pin(), &call()).await.unwrap();
    assert!(matches!(removal, Removal::Proved(_)));
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn files_that_resist_removal_are_removed() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let leaks = LeakChecker::new(&sandbox.state.path().join("state"));
    let text = "mkdir -p closed/inner && touch closed/inner/file && chmod 000 closed/inner closed && \
        i=0; mkdir deep && cd deep && while test $i -lt 300; do mkdir a_name_that_is_rather_long && \
        cd a_name_that_is_rather_long; i=$((i+1)); done";
    sandbox.output_of(text).await;
    sandbox.provider.destroy(&sandbox.created.pin(), &call()).await.unwrap();
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn destroy_may_be_repeated_and_what_is_gone_is_absent() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let (provider, id) = (sandbox.provider.clone(), sandbox.id().clone());
    let pin = sandbox.created.pin();
    let _state = sandbox.destroy().await;
    assert!(matches!(provider.destroy(&pin, &call()).await.unwrap(), Removal::Absent(_)));
    assert!(matches!(provider.status(&id, &call()).await.unwrap(), Status::Absent(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_destroy_at_once() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let leaks = LeakChecker::new(&sandbox.state.path().join("state"));
    let mut destroys = tokio::task::JoinSet::new();
    for _ in 0..8 {
        // Each as a process of its own would: with its own view of the state directory.
        let provider = provider_at(&sandbox.state.path().join("state"));
        let pin = sandbox.created.pin();
        destroys.spawn(async move { provider.destroy(&pin, &call()).await });
    }
    let mut proved = 0;
    while let Some(removal) = destroys.join_next().await {
        match removal.unwrap().unwrap() {
            Removal::Proved(_) => proved += 1,
            Removal::Absent(_) => {}
            other => panic!("a destroy here is done when it answers: {other:?}"),
        }
    }
    assert_eq!(proved, 1);
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn an_id_never_means_a_later_sandbox_of_the_same_name() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let (provider, old) = (sandbox.provider.clone(), sandbox.id().clone());
    let old_pin = sandbox.created.pin();
    let entries = provider.list(None, &call()).await.unwrap().entries;
    let name = entries[0].name.clone().unwrap();
    let _state = sandbox.destroy().await;
    let new = provider.create(&create_request(name), &call()).await.unwrap();
    assert_ne!(new.sandbox, old);
    assert!(matches!(provider.destroy(&old_pin, &call()).await.unwrap(), Removal::Absent(_)));
    assert!(matches!(provider.status(&old, &call()).await.unwrap(), Status::Absent(_)));
    let status = provider.status(&new.sandbox, &call()).await.unwrap();
    assert_eq!(status, Status::Present { state: ObservedState::Running, birth: new.birth.clone() });
    provider.destroy(&new.pin(), &call()).await.unwrap();
}

#[tokio::test]
async fn an_init_that_died_is_seen_and_the_sandbox_can_only_be_destroyed() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut leaks = LeakChecker::new(&sandbox.state.path().join("state"));
    let mut process = sandbox.start(&script("echo ready; exec sleep 1000")).await.unwrap();
    wait_for_line(&mut process, "ready").await;
    leaks.note_processes();
    kill_init(&sandbox.directory());
    assert!(process.control.wait().await.is_err(), "its end is unknown");
    // The kernel closes the connection a moment before the init is wholly gone; destroying waits for that.
    let state = || async {
        match sandbox.provider.status(sandbox.id(), &call()).await.unwrap() {
            Status::Present { state, .. } => state,
            other => panic!("{other:?}"),
        }
    };
    while state().await == ObservedState::Running {
        tokio::task::yield_now().await;
    }
    assert_eq!(state().await, ObservedState::Failed);
    let refused = sandbox.clean().await.unwrap_err();
    assert!(matches!(refused, ProviderError::Unreachable { .. }), "{refused}");
    let removal = sandbox.provider.destroy(&sandbox.created.pin(), &call()).await.unwrap();
    assert!(matches!(removal, Removal::Proved(_)));
    leaks.assert_nothing_left();
}

/// A process that started later than `start_time`. The kernel counts in hundredths of a second, and
/// an id is not given again within one.
fn sleep_started_after(start_time: u64) -> std::process::Child {
    loop {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let stat = leasehold_init::identity::process_stat(pid).unwrap().unwrap();
        if stat.start_time > start_time {
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[tokio::test]
async fn a_process_that_has_the_inits_id_after_it_is_left_alone() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let leaks = LeakChecker::new(&sandbox.state.path().join("state"));
    let record = sandbox.directory().join("init.json");
    let mut init: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    let mut innocent = sleep_started_after(init["start_time"].as_u64().unwrap());
    kill_init(&sandbox.directory());
    init["pid"] = innocent.id().into();
    std::fs::write(&record, init.to_string()).unwrap();
    let removal = sandbox.provider.destroy(&sandbox.created.pin(), &call()).await.unwrap();
    let Removal::Proved(evidence) = removal else { panic!("{removal:?}") };
    assert!(evidence.proof.contains("start time"), "{evidence:?}");
    assert!(innocent.try_wait().unwrap().is_none(), "it lives");
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn another_boot_id_proves_the_processes_gone() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut innocent = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let record = sandbox.directory().join("init.json");
    let mut init: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    kill_init(&sandbox.directory());
    // As after a reboot: the same numbers may now be anybody's.
    let pid = i32::try_from(innocent.id()).unwrap();
    init["pid"] = pid.into();
    init["start_time"] =
        leasehold_init::identity::process_stat(pid).unwrap().unwrap().start_time.into();
    init["boot_id"] = "another".into();
    std::fs::write(&record, init.to_string()).unwrap();
    let status = sandbox.provider.status(sandbox.id(), &call()).await.unwrap();
    assert!(matches!(status, Status::Present { state: ObservedState::Failed, .. }), "{status:?}");
    let removal = sandbox.provider.destroy(&sandbox.created.pin(), &call()).await.unwrap();
    let Removal::Proved(evidence) = removal else { panic!("{removal:?}") };
    assert!(evidence.proof.contains("boot"), "{evidence:?}");
    assert!(innocent.try_wait().unwrap().is_none(), "it lives");
    innocent.kill().unwrap();
    innocent.wait().unwrap();
}

#[tokio::test]
async fn a_destroy_that_died_midway_goes_on() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let leaks = LeakChecker::new(&sandbox.state.path().join("state"));
    // As after a kill between the first two steps, with some files gone already.
    std::fs::write(sandbox.directory().join("destroying"), "").unwrap();
    std::fs::remove_dir_all(sandbox.directory().join("home")).unwrap();
    let status = sandbox.provider.status(sandbox.id(), &call()).await.unwrap();
    assert!(
        matches!(status, Status::Present { state: ObservedState::Destroying, .. }),
        "{status:?}"
    );
    let refused = sandbox.start(&script("true")).await.unwrap_err();
    assert!(refused.to_string().contains("destroyed"), "{refused}");
    let removal = sandbox.provider.destroy(&sandbox.created.pin(), &call()).await.unwrap();
    assert!(matches!(removal, Removal::Proved(_)));
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn what_a_killed_create_or_destroy_left_is_removed_when_the_state_directory_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let leaks = LeakChecker::new(&state);
    drop(provider_at(&state));
    std::fs::create_dir_all(state.join(".new-abc/workspace")).unwrap();
    std::fs::create_dir_all(state.join(".gone-abc/workspace/x")).unwrap();
    drop(provider_at(&state));
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn a_destroy_without_time_is_not_confirmed_and_changes_no_more_than_it_must() {
    let Some(sandbox) = Sandbox::new().await else { return };
    // Somebody else has the lock, as in the middle of a birth.
    let lock = std::fs::File::open(sandbox.directory().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let soon = leasehold_ports::Call {
        credential: None,
        deadline: SystemClock.now() + std::time::Duration::from_millis(20),
    };
    let unknown = sandbox.provider.destroy(&sandbox.created.pin(), &soon).await.unwrap_err();
    assert!(!unknown.is_definite(), "{unknown}");
    let status = sandbox.provider.status(sandbox.id(), &call()).await.unwrap();
    assert!(
        matches!(status, Status::Present { state: ObservedState::Destroying, .. }),
        "{status:?}"
    );
    drop(lock);
    sandbox.destroy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_sandboxes_sixteen_at_a_time_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let provider = provider_at(&state);
    let mut leaks = LeakChecker::new(&state);
    let turns = Arc::new(tokio::sync::Semaphore::new(16));
    let created = Arc::new(tokio::sync::Barrier::new(64));
    // 64 live at once, made 16 at a time; then each is used and destroyed, again 16 at a time.
    let mut lives = tokio::task::JoinSet::new();
    for number in 0..64 {
        let (provider, turns, created) =
            (provider.clone(), Arc::clone(&turns), Arc::clone(&created));
        lives.spawn(async move {
            let turn = turns.acquire().await.unwrap();
            let made =
                created_or_skip(provider.create(&create_request(fresh_name()), &call()).await);
            drop(turn);
            created.wait().await;
            let Some(made) = made else { return };
            let _turn = turns.acquire().await.unwrap();
            for round in 0..3 {
                let text = format!("echo {number} {round}; (setsid sleep 1000 &)");
                let process = provider.start(&made.sandbox, &script(&text), &call()).await.unwrap();
                assert_eq!(collect(process).await.output, format!("{number} {round}\n"));
            }
            let removal = provider.destroy(&made.pin(), &call()).await.unwrap();
            assert!(matches!(removal, Removal::Proved(_)));
        });
        leaks.note_processes();
    }
    while let Some(life) = lives.join_next().await {
        life.unwrap();
    }
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn a_timer_that_is_due_ends_the_sandbox_though_no_manager_lives_and_the_next_one_says_so() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let state = sandbox.state.path().join("state");
    let mut leaks = LeakChecker::new(&state);
    sandbox.output_of(CLINGING).await;
    assert_eq!(leaks.note_processes(), 27, "26 and the init");
    let init = hold_init(&sandbox.directory());
    let soon = std::time::Duration::from_millis(50);
    sandbox.provider.extend_timer(sandbox.id(), Some(soon), &call()).await.unwrap();
    // Nobody asks it to end: the kernel tells when process 1, and all before it, are gone.
    wait_until_gone(&init);

    let next = provider_at(&state);
    let status = next.status(sandbox.id(), &call()).await.unwrap();
    assert!(matches!(status, Status::Present { state: ObservedState::Failed, .. }), "{status:?}");
    let refused = next.start(sandbox.id(), &script("true"), &call()).await.unwrap_err();
    assert!(refused.to_string().contains("its timer ended it"), "{refused}");
    match next.destroy(&sandbox.created.pin(), &call()).await.unwrap() {
        Removal::Proved(evidence) => {
            assert!(format!("{evidence:?}").contains("timer ended it at its deadline"));
        }
        other => panic!("{other:?}"),
    }
    leaks.assert_nothing_left();
}

#[tokio::test]
async fn a_timer_only_moves_later_whatever_comes_late() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let call = call();
    let set = |left| sandbox.provider.extend_timer(sandbox.id(), left, &call);
    set(Some(std::time::Duration::from_secs(3600))).await.unwrap();
    set(Some(std::time::Duration::ZERO)).await.unwrap();
    assert_eq!(sandbox.output_of("echo lives").await, "lives");
    set(None).await.unwrap();
    set(Some(std::time::Duration::ZERO)).await.unwrap();
    assert_eq!(sandbox.output_of("echo lives").await, "lives");
    sandbox.destroy().await;
}

/// A descriptor for a sandbox's init.
fn hold_init(directory: &Path) -> std::os::fd::OwnedFd {
    let pid = rustix::process::Pid::from_raw(init_pid(directory)).unwrap();
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
}

/// Waits until the process has ended; a test that waits for half a minute fails.
fn wait_until_gone(process: &std::os::fd::OwnedFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(poll(&mut watched, Some(&limit)), Ok(1), "the init has not ended");
}

/// Kills a sandbox's init behind the provider's back.
fn kill_init(directory: &Path) {
    let pid = rustix::process::Pid::from_raw(init_pid(directory)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn init_pid(directory: &Path) -> i32 {
    let text = std::fs::read(directory.join("init.json")).unwrap();
    let init: serde_json::Value = serde_json::from_slice(&text).unwrap();
    i32::try_from(init["pid"].as_i64().unwrap()).unwrap()
}
