//! Several processes, killed processes, full and read-only disks.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "common/child.rs"]
mod child;
mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{SystemRandom, open_now};
use leasehold_core::Lease;
use leasehold_ledger::SqliteLedger;
use leasehold_ledger::suite::samples::{active, id, insert, next, node, store, update};
use leasehold_ports::{LeaseFilter, Ledger, LedgerError, Random as _};

/// What this binary does as another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by other tests as a process of their own"]
async fn other_process() {
    let Some((role, directory)) = child::role() else { return };
    match role.as_str() {
        "count" => count(&directory).await,
        "write-until-killed" => write_until_killed(&directory).await,
        "live-as-node" => live_as_node(&directory).await,
        "fill-the-disk" => fill_the_disk(&directory).await,
        "read-only" => read_only(&directory).await,
        other => panic!("{other}"),
    }
}

/// Adds one to the version of the row `ls_shared` 100 times, however often somebody else is faster.
async fn count(directory: &Path) {
    let ledger = open_now(directory).unwrap();
    for _ in 0..100 {
        loop {
            let row = ledger.get(&id("ls_shared")).await.unwrap().unwrap();
            match ledger.commit(vec![update(&next(&row, |_| {}))]).await {
                Ok(()) => break,
                Err(LedgerError::Conflict { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_one_file() {
    let state = tempfile::tempdir().unwrap();
    let ledger = open_now(state.path()).unwrap();
    store(&ledger, &active("ls_shared")).await;
    let mut other = child::start("other_process", "count", state.path());
    count(state.path()).await;
    assert!(other.wait().unwrap().success());
    let row = ledger.get(&id("ls_shared")).await.unwrap().unwrap();
    assert_eq!(row.version, 201);
}

/// Writes rows from eight tasks, and says so for each when it is acknowledged.
async fn write_until_killed(directory: &Path) {
    let ledger = Arc::new(open_now(directory).unwrap());
    let mut bytes = [0; 8];
    SystemRandom.fill(&mut bytes);
    let run = u64::from_le_bytes(bytes);
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                for number in 0_u64.. {
                    let row = active(&format!("ls_{run}_{task}_{number}"));
                    store(&*ledger, &row).await;
                    let row = next(&row, |_| {});
                    ledger.commit(vec![update(&row)]).await.unwrap();
                    let mut output = std::io::stdout().lock();
                    writeln!(output, "acknowledged {}", row.id).unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_kill_9() {
    let state = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for _ in 0..20 {
        let mut writer = child::start("other_process", "write-until-killed", state.path());
        let lines = child::lines(&mut writer);
        let mut random = [0; 2];
        SystemRandom.fill(&mut random);
        // At a random moment: after a random number of rows, wherever the others are by then.
        let patience = usize::from(u16::from_le_bytes(random) % 200) + 1;
        let mut seen = 0;
        for line in lines {
            if let Some((_, lease)) = line.split_once("acknowledged ") {
                acknowledged.insert(lease.to_owned());
                seen += 1;
                if seen == patience {
                    writer.kill().unwrap();
                }
            }
        }
        writer.wait().unwrap();
        let ledger = open_now(state.path()).unwrap();
        for lease in &acknowledged {
            let row = ledger.get(&id(lease)).await.unwrap().unwrap();
            assert_eq!(row.version, 2, "{lease}");
        }
        assert!(ledger.check().await.unwrap().is_whole());
    }
    assert!(acknowledged.len() >= 20);
}

async fn live_as_node(directory: &Path) {
    let ledger = open_now(directory).unwrap();
    ledger.register_node(&node("child")).await.unwrap();
    println!("registered");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn the_death_of_a_killed_node_is_proved_at_once() {
    let state = tempfile::tempdir().unwrap();
    let ledger = open_now(state.path()).unwrap();
    let mut process = child::start("other_process", "live-as-node", state.path());
    let registered = child::lines(&mut process).any(|line| line.contains("registered"));
    assert!(registered);
    assert!(!ledger.nodes().await.unwrap()[0].proved_dead);
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(ledger.nodes().await.unwrap()[0].proved_dead);
    ledger.remove_node(&node("child")).await.unwrap();
    assert_eq!(fs::read_dir(state.path().join("nodes")).unwrap().count(), 0);
}

/// A lease whose record is big.
fn big(lease: &str, kibibytes: usize) -> Lease {
    let mut row = active(lease);
    row.spec.image = Some("x".repeat(kibibytes * 1024));
    row
}

async fn limit_pages(ledger: &SqliteLedger, spare: i64) {
    ledger
        .with_connection(move |connection| {
            let pages: i64 =
                connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
            connection
                .query_row(&format!("PRAGMA max_page_count = {}", pages + spare), [], |_| Ok(()))
                .unwrap();
        })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_does_not_fit_spoils_no_other() {
    let state = tempfile::tempdir().unwrap();
    let ledger = Arc::new(open_now(state.path()).unwrap());
    store(&*ledger, &active("ls_first")).await;
    limit_pages(&ledger, 60).await;
    let writes: Vec<_> = (0..32)
        .map(|number| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                let row = match number {
                    7 => big("ls_07", 1024),
                    _ => active(&format!("ls_{number:02}")),
                };
                (ledger.commit(vec![insert(&row)]).await, row)
            })
        })
        .collect();
    for write in writes {
        let (outcome, row) = write.await.unwrap();
        match outcome {
            Ok(()) => assert_eq!(ledger.get(&row.id).await.unwrap().as_deref(), Some(&row)),
            Err(error) => {
                assert_eq!(row.id, id("ls_07"));
                assert!(error.to_string().contains("disk is full"), "{error}");
                assert_eq!(ledger.get(&row.id).await.unwrap(), None);
            }
        }
    }
    limit_pages(&ledger, 10_000).await;
    store(&*ledger, &big("ls_07", 1024)).await;
    assert!(ledger.check().await.unwrap().is_whole());
}

/// In a namespace of its own, with a file system of 4 MiB on the directory.
async fn fill_the_disk(directory: &Path) {
    let state = directory.join("state");
    let ledger = open_now(&state).unwrap();
    let filler = directory.join("filler");
    fs::write(&filler, vec![0; 1024 * 1024]).unwrap();
    let mut written = Vec::new();
    let refusal = loop {
        let row = big(&format!("ls_{:03}", written.len()), 16);
        match ledger.commit(vec![insert(&row)]).await {
            Ok(()) => written.push(Arc::new(row)),
            Err(refusal) => break refusal,
        }
    };
    assert!(refusal.to_string().contains("disk is full"), "{refusal}");
    assert!(!written.is_empty());

    fs::remove_file(&filler).unwrap();
    let row = big(&format!("ls_{:03}", written.len()), 16);
    store(&ledger, &row).await;
    written.push(Arc::new(row));
    for _ in 0..2 {
        let filter = LeaseFilter { limit: 1000, ..LeaseFilter::default() };
        let ledger = open_now(&state).unwrap();
        assert_eq!(ledger.list(&filter).await.unwrap(), written);
        assert!(ledger.check().await.unwrap().is_whole());
    }
}

/// In a namespace of its own, where the directory can be made read-only even for root.
async fn read_only(directory: &Path) {
    let state = directory.join("state");
    let ledger = open_now(&state).unwrap();
    store(&ledger, &active("ls_row")).await;
    drop(ledger);
    let mounted = Command::new("mount").args(["-o", "remount,ro"]).arg(directory).status();
    // The writer's thread may still be closing its file.
    if !mounted.unwrap().success() {
        let forced =
            Command::new("mount").args(["-o", "bind"]).arg(directory).arg(directory).status();
        assert!(forced.unwrap().success());
        let ro = Command::new("mount").args(["-o", "remount,bind,ro"]).arg(directory).status();
        assert!(ro.unwrap().success());
    }
    let refusal = open_now(&state).unwrap_err();
    assert!(matches!(refusal, LedgerError::Unsuitable { .. }), "{refusal}");
    assert!(refusal.to_string().contains("read-only"), "{refusal}");
    let refusal = open_now(&directory.join("new")).unwrap_err();
    assert!(refusal.to_string().contains("read-only"), "{refusal}");
}

/// Runs this binary in `role` where it may mount a small file system; false where nobody may.
fn in_small_file_system(role: &str) -> bool {
    let parent = tempfile::tempdir().unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount"]);
    let possible = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !possible {
        return false;
    }
    unshare
        .args(["sh", "-c", "mount -t tmpfs -o size=4m,mode=700 tmpfs \"$LEASEHOLD_TEST_DIRECTORY\" && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap());
    let output =
        child::arguments(&mut unshare, "other_process", role, parent.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    true
}

#[test]
fn a_full_disk_loses_nothing_and_the_ledger_works_again() {
    if !in_small_file_system("fill-the-disk") {
        println!("skipped: no user namespaces here; a_write_that_does_not_fit_spoils_no_other ran");
    }
}

#[test]
fn a_read_only_directory_is_refused() {
    if !in_small_file_system("read-only") {
        println!("skipped: no user namespaces here");
    }
}
