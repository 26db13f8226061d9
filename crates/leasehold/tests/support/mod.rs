//! A state directory of its own for each test, the program under test, and looks at the machine.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");

/// One installation: a state directory that nobody else uses.
pub(crate) struct Site {
    directory: tempfile::TempDir,
}

/// What a call answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        // The name is unique on the machine, so that what belongs to this site can be found by it.
        let directory = tempfile::Builder::new().prefix("leasehold-site-").tempdir();
        Self { directory: directory.expect("a temporary directory") }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// A call that was not made yet, for those that need more than [`Site::call`].
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LEASEHOLD_STATE_DIR", self.state())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Answer {
        Answer::of(&mut self.command(arguments))
    }

    /// A call that must be answered with 0; what it wrote to standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let answer = self.call(arguments);
        assert_eq!(answer.code(), 0, "{arguments:?}: {answer:?}");
        answer.stdout
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut with_json = vec!["--json"];
        with_json.extend(arguments);
        serde_json::from_str(&self.ok(&with_json)).expect("JSON")
    }

    /// Acquires a lease and returns its id.
    pub(crate) fn acquire(&self, arguments: &[&str]) -> String {
        let mut all = vec!["acquire", "--quiet"];
        all.extend(arguments);
        self.ok(&all).trim().to_owned()
    }

    /// The lease's state.
    pub(crate) fn state_of(&self, lease: &str) -> String {
        self.json(&["show", lease])["state"].as_str().expect("a state").to_owned()
    }

    /// Open leases, or with `all` those that have ended too.
    pub(crate) fn leases(&self, all: bool) -> Vec<Value> {
        let arguments: &[&str] = if all { &["ls", "--all"] } else { &["ls"] };
        self.json(arguments)["leases"].as_array().expect("a list").clone()
    }

    /// Sandboxes that the state directory holds, drafts and remains too.
    pub(crate) fn sandboxes(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.state().join("sandboxes")) else { return Vec::new() };
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect()
    }

    /// Processes in sandboxes of this site: their mounts come from its state directory.
    pub(crate) fn processes_inside(&self) -> Vec<u32> {
        let name = self.directory.path().file_name().expect("a name").to_string_lossy();
        processes_where(|process| {
            let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
            mounts.contains(&*name)
        })
    }

    /// The inits among them: one for each sandbox that lives.
    pub(crate) fn inits(&self) -> Vec<u32> {
        let mut inits = self.processes_inside();
        inits.retain(|process| {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            name.trim_end() == "leasehold-init"
        });
        inits
    }

    /// Waits until the kernel tells that the inits have ended by themselves; a minute is too long.
    #[track_caller]
    pub(crate) fn wait_until_inits_are_gone(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        for init in self.inits() {
            let id = i32::try_from(init).ok().and_then(rustix::process::Pid::from_raw);
            let flags = rustix::process::PidfdFlags::empty();
            // One that cannot be opened has ended meanwhile.
            let Ok(init) = rustix::process::pidfd_open(id.expect("a process id"), flags) else {
                continue;
            };
            let ended = poll(&mut [PollFd::new(&init, PollFlags::IN)], Some(&limit));
            assert_eq!(ended, Ok(1), "an init has not ended by itself");
        }
    }

    /// That nothing is left of any sandbox: no process, no directory, no mount, no open lease.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.leases(false), Vec::<Value>::new(), "open leases");
        assert_eq!(self.sandboxes(), Vec::<PathBuf>::new(), "directories");
        assert_eq!(self.processes_inside(), Vec::<u32>::new(), "processes");
        let name = self.directory.path().file_name().expect("a name").to_string_lossy();
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("our own mounts");
        assert!(!mounts.contains(&*name), "mounts on the host");
    }
}

impl Drop for Site {
    /// A test that failed leaves no sandbox behind either.
    fn drop(&mut self) {
        // Whatever state the ledger is in: with its init a sandbox ends, and the rest is a directory.
        for init in self.inits() {
            let id = i32::try_from(init).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(id) = id {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
        }
    }
}

impl Answer {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program runs");
        Self {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The exit code; 1000 + n if signal n ended the program itself.
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => code,
            (None, signal) => 1000 + signal.expect("a code or a signal"),
        }
    }

    /// That the program refused with this code of the catalogue, and says how to learn more.
    #[track_caller]
    pub(crate) fn assert_error(&self, code: &str, exit: i32) {
        assert!(self.stderr.contains(&format!("error[{code}]: ")), "{self:?}");
        assert!(self.stderr.contains(&format!("`leasehold explain {code}`")), "{self:?}");
        assert_eq!(self.code(), exit, "{self:?}");
    }
}

/// A call that runs while the test goes on.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout }
    }

    /// The next line of output. Returns when it is there, which is how a test waits.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().expect("it is not closed");
        stdout.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Goes away, as a reader in a pipeline does.
    pub(crate) fn close_output(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.expect("a process id"), signal).expect("it is ours");
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

/// A text that no other test and no other process has.
pub(crate) fn unique(what: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{what}-{}-{count}", std::process::id())
}

/// Processes one of whose arguments is `argument`.
pub(crate) fn processes_with_argument(argument: &str) -> Vec<u32> {
    processes_where(|process| {
        let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|one| one == argument.as_bytes())
    })
}

fn processes_where(mut matches: impl FnMut(&Path) -> bool) -> Vec<u32> {
    fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let id = path.file_name()?.to_str()?.parse().ok()?;
            matches(&path).then_some(id)
        })
        .collect()
}
