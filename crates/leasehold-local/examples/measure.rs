//! Measures local sandboxes in this process, beside `bwrap` spawned by it: medians of `ROUNDS` rounds.
//!
//! ```text
//! cargo build --release -p leasehold-local && cargo run --release -p leasehold-local --example measure [STATE]
//! ```
//!
//! Run it as root and as an ordinary user. STATE is the folder for the state directory (default: the temporary
//! folder); how fast its disk is with `fsync` is part of what is measured.

#![expect(clippy::disallowed_methods, reason = "a measurement needs real time")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails has nothing to report")]

use leasehold_core::{CommandId, Grant, Pin, SandboxId, SandboxName, Spec, Timestamp};
use leasehold_local::{InitProgram, LocalProvider};
use leasehold_ports::{
    BirthKey, Call, Clock, CommandRequest, CreateRequest, Provider, Random, Work,
};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const ROUNDS: usize = 50;
const IDLE: usize = 200;

struct SystemClock;

#[async_trait::async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap())
    }
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).unwrap();
    }
}

fn call() -> Call {
    Call { credential: None, deadline: SystemClock.now() + Duration::from_secs(30) }
}

fn random_text() -> String {
    let mut bytes = [0; 8];
    SystemRandom.fill(&mut bytes);
    format!("{:016x}", u64::from_le_bytes(bytes))
}

async fn create(provider: &LocalProvider) -> Pin {
    let name = SandboxName::new(format!("measure-{}", random_text())).unwrap();
    let request = CreateRequest { name, birth_key: BirthKey("key".into()), spec: Spec::default() };
    provider.create(&request, &call()).await.unwrap().pin()
}

async fn execute(provider: &LocalProvider, sandbox: &SandboxId, argv: &[&str]) -> usize {
    let request = CommandRequest {
        id: CommandId::new(random_text()).unwrap(),
        work: Work::Program(argv.iter().map(|&argument| argument.to_owned()).collect()),
        directory: None,
        environment: BTreeMap::new(),
        input: false,
        grant: Grant(0),
    };
    let mut process = provider.start(sandbox, &request, &call()).await.unwrap();
    let mut bytes = 0;
    while let Some(frame) = process.output.recv().await {
        bytes += frame.bytes.len();
    }
    process.control.wait().await.unwrap();
    bytes
}

struct Times(Vec<Duration>);

impl Times {
    fn report(mut self, what: &str) {
        self.0.sort_unstable();
        let at = |share: usize| self.0[self.0.len() * share / 100].as_secs_f64() * 1000.0;
        println!("{what:<44} median {:6.2} ms   p90 {:6.2} ms", at(50), at(90));
    }
}

fn main() {
    leasehold_init::run_if_requested();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(measure());
}

async fn measure() {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(parent).unwrap();
    let init = InitProgram::ThisProgram;
    let state = folder.path().join("state");
    let provider =
        LocalProvider::open(&state, init, Arc::new(SystemClock), Arc::new(SystemRandom), None)
            .unwrap();
    println!("user {}", rustix::process::geteuid().as_raw());
    lives(&provider).await;
    executions(&provider).await;
    bwrap();
    memory(&provider).await;
}

async fn lives(provider: &LocalProvider) {
    let [mut creates, mut executes, mut destroys, mut totals] = [(); 4].map(|()| Times(Vec::new()));
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let sandbox = create(provider).await;
        let created = Instant::now();
        execute(provider, &sandbox.sandbox, &["/usr/bin/true"]).await;
        let executed = Instant::now();
        provider.destroy(&sandbox, &call()).await.unwrap();
        creates.0.push(created - start);
        executes.0.push(executed - created);
        destroys.0.push(executed.elapsed());
        totals.0.push(start.elapsed());
    }
    creates.report("create");
    executes.report("first exec true");
    destroys.report("destroy");
    totals.report("create + exec + destroy");
}

async fn executions(provider: &LocalProvider) {
    let sandbox = create(provider).await;
    let mut times = Times(Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        execute(provider, &sandbox.sandbox, &["/usr/bin/true"]).await;
        times.0.push(start.elapsed());
    }
    times.report("exec true in a live sandbox");
    let start = Instant::now();
    let bytes =
        execute(provider, &sandbox.sandbox, &["head", "-c", "268435456", "/dev/zero"]).await;
    let rate = bytes as f64 / start.elapsed().as_secs_f64() / 1_048_576.0;
    println!("{:<44} {rate:.0} MiB/s", "256 MiB of output");
    let mut cleans = Times(Vec::new());
    for _ in 0..ROUNDS {
        execute(
            provider,
            &sandbox.sandbox,
            &["sh", "-c", "setsid sleep 1000 & setsid sleep 1000 &"],
        )
        .await;
        let start = Instant::now();
        provider.clean(&sandbox.sandbox, Grant(1), &call()).await.unwrap();
        cleans.0.push(start.elapsed());
    }
    cleans.report("clean of two processes");
    provider.destroy(&sandbox, &call()).await.unwrap();
}

/// A sandbox of the same kind for one command.
fn bwrap() {
    let arguments = "--unshare-all --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink \
                     usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --dir /workspace --chdir /workspace true";
    let run = || {
        Command::new("bwrap")
            .args(arguments.split_ascii_whitespace())
            .stdin(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !run() {
        println!("bwrap does not run here");
        return;
    }
    let mut times = Times(Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run();
        times.0.push(start.elapsed());
    }
    times.report("one bwrap run of true");
}

async fn memory(provider: &LocalProvider) {
    let available = || {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find(|line| line.starts_with("MemAvailable")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<f64>().unwrap()
    };
    let before = available();
    let mut sandboxes = Vec::new();
    for _ in 0..IDLE {
        sandboxes.push(create(provider).await);
    }
    println!(
        "{:<44} {:.0} kB",
        "an idle sandbox, of MemAvailable",
        (before - available()) / IDLE as f64
    );
    for sandbox in &sandboxes {
        provider.destroy(sandbox, &call()).await.unwrap();
    }
}
