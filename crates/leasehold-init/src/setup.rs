//! The birth: from the manager's `exec` to an init that serves.
//!
//! The first process still lives on the host. It clones process 1 of the sandbox, which waits until it is
//! written down who it is: whoever finds the directory later must be able to kill what runs in it. If the
//! first process dies before that, process 1 sees its pipe close and ends as well.

use crate::framing::{Decoder, encode};
use crate::identity::{ProcessIdentity, boot_id, process_stat};
use crate::kernel::{self, Side};
use crate::protocol::{
    BIRTH_FILE, DESTROYING_FILE, INSIDE_ID, LOCK_FILE, OutsideIds, RECORD_FILE, Report, Setup,
};
use crate::server::Server;
use crate::{guard, root_file_system};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::Pid;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

/// A step of the birth that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {source}")]
pub(crate) struct SetupError {
    step: &'static str,
    source: io::Error,
}

/// Adds to an error which step it befell.
pub(crate) trait Step<T> {
    /// Names the step, in words that follow "cannot".
    fn step(self, step: &'static str) -> Result<T, SetupError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: &'static str) -> Result<T, SetupError> {
        self.map_err(|error| SetupError { step, source: error.into() })
    }
}

/// Where reports to the manager go.
struct Reporter(Option<File>);

impl Reporter {
    // A manager that died reads no reports; the birth goes on, and the sandbox is found by its directory.
    fn send(&mut self, report: &Report) {
        if let (Some(output), Ok(frame)) = (&mut self.0, encode(report)) {
            let _ = output.write_all(&frame);
        }
    }

    // Tells the manager that nothing more will come.
    fn close(&mut self) {
        self.0 = None;
    }

    fn send_failure(&mut self, error: &SetupError) {
        self.send(&Report::Failed {
            step: error.step.to_owned(),
            errno: error.source.raw_os_error(),
            message: error.source.to_string(),
        });
    }
}

/// Runs the first process, and in its child process 1. The result is the exit status.
pub(crate) fn first_process() -> i32 {
    let mut reporter = Reporter(None);
    match talk_to_manager(&mut reporter).and_then(|input| give_birth(input, &mut reporter)) {
        Ok(()) => 0,
        Err(error) => {
            reporter.send_failure(&error);
            125
        }
    }
}

/// Closes what was inherited, and takes the two streams to the manager off their standard numbers, which
/// later belong to commands.
fn talk_to_manager(reporter: &mut Reporter) -> Result<OwnedFd, SetupError> {
    use rustix::stdio::{stdin, stdout};
    kernel::close_inherited_descriptors().step("close inherited descriptors")?;
    let output = rustix::io::fcntl_dupfd_cloexec(stdout(), 3).step("take the report stream")?;
    reporter.0 = Some(File::from(output));
    rustix::io::fcntl_dupfd_cloexec(stdin(), 3).step("take the setup stream")
}

fn give_birth(input: OwnedFd, reporter: &mut Reporter) -> Result<(), SetupError> {
    let setup = read_setup(File::from(input)).step("read the setup")?;
    let lock = lock_for_birth().step("lock the sandbox's directory")?;
    let (go_read, go_write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step("make a pipe")?;
    match kernel::clone_into_namespaces().step("make namespaces")? {
        Side::Child => {
            drop((lock, go_write));
            process_one(&setup, go_read, reporter)
        }
        Side::Parent(child) => {
            drop(go_read);
            let init = identity_of(child).step("identify the init")?;
            reporter.send(&Report::Born { init: init.clone() });
            map_ids(child, setup.outside)?;
            write_birth(&init).step("write down the init's identity")?;
            // The child has a copy of the lock's descriptor: only an explicit unlock is certain.
            flock(&lock, FlockOperation::Unlock).step("unlock the sandbox's directory")?;
            rustix::io::write(&go_write, b"g").step("give the go-ahead")?;
            Ok(())
        }
    }
}

fn read_setup(mut input: File) -> io::Result<Setup> {
    let mut decoder = Decoder::default();
    let mut chunk = [0; 4096];
    loop {
        if let Some(setup) = decoder.next_frame().map_err(io::Error::other)? {
            return Ok(setup);
        }
        match input.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => decoder.push(&chunk[..count]),
        }
    }
}

/// Locks the directory against a destroy, and makes sure that none has begun.
///
/// The lock is held until the init's identity is on disk, so a destroyer that has the lock sees either an
/// identity, or no init now and none later.
fn lock_for_birth() -> io::Result<File> {
    let lock = File::open(LOCK_FILE)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    if Path::new(DESTROYING_FILE).exists()
        || !Path::new(RECORD_FILE).exists()
        || Path::new(BIRTH_FILE).exists()
    {
        return Err(io::Error::other("the sandbox is being destroyed, or has an init"));
    }
    Ok(lock)
}

fn identity_of(process: Pid) -> io::Result<ProcessIdentity> {
    let pid = process.as_raw_nonzero().get();
    let stat = process_stat(pid)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(ProcessIdentity { pid, start_time: stat.start_time, boot_id: boot_id()? })
}

/// Says who the sandbox's users are on the host.
///
/// Done by the first process, because only it has the right to: as root it may map any id, as an ordinary
/// user its own, once `setgroups` is denied.
fn map_ids(child: Pid, outside: OutsideIds) -> Result<(), SetupError> {
    let folder = Path::new("/proc").join(child.as_raw_nonzero().to_string());
    let (users, groups) = match outside {
        OutsideIds::Own { user, group } => {
            std::fs::write(folder.join("setgroups"), "deny").step("deny setgroups")?;
            (format!("{INSIDE_ID} {user} 1\n"), format!("{INSIDE_ID} {group} 1\n"))
        }
        OutsideIds::Separate { id } => {
            let map = format!("0 0 1\n{INSIDE_ID} {id} 1\n");
            (map.clone(), map)
        }
    };
    std::fs::write(folder.join("uid_map"), users).step("map user ids")?;
    std::fs::write(folder.join("gid_map"), groups).step("map group ids")
}

// No fsync: the file matters while the process lives, and no process outlives a power cut.
fn write_birth(init: &ProcessIdentity) -> io::Result<()> {
    const DRAFT: &str = "init.json.new";
    std::fs::write(DRAFT, serde_json::to_vec(init)?)?;
    std::fs::rename(DRAFT, BIRTH_FILE)
}

/// Process 1 of the sandbox. Returns only when it failed.
fn process_one(setup: &Setup, go: OwnedFd, reporter: &mut Reporter) -> Result<(), SetupError> {
    let mut byte = [0];
    if rustix::io::read(&go, &mut byte).step("wait for the go-ahead")? == 0 {
        kernel::exit_now(125);
    }
    drop(go);
    let mut server = become_init(setup)?;
    reporter.send(&Report::Ready);
    detach_standard_streams().step("detach the standard streams")?;
    reporter.close();
    server.run().step("serve")
}

fn become_init(setup: &Setup) -> Result<Server, SetupError> {
    rustix::process::setsid().step("make a session")?;
    rustix::thread::set_name(c"leasehold-init").step("take the init's name")?;
    // Hostile code must not read this process's memory or descriptors through /proc.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .step("hide the init's memory")?;
    // A kernel without keyrings, or a used-up quota, is no reason to have no sandbox: without a session
    // keyring of its own the sandbox has none that it may search, since its user namespace is new.
    let _ = kernel::leave_session_keyring();
    rustix::system::sethostname(setup.host_name.as_bytes()).step("set the host name")?;
    // Each command's output takes several descriptors.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: limit.maximum, ..limit },
    )
    .step("raise the limit on descriptors")?;
    bring_loopback_up().step("bring the loopback interface up")?;
    let directory =
        rustix::fs::open(".", OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .step("open the sandbox's directory")?;
    let server =
        Server::listen(setup, guard::Guard::load(directory).step("read marker and fence")?)?;
    root_file_system::enter()?;
    forbid_nested_namespaces();
    Ok(server)
}

fn bring_loopback_up() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    kernel::bring_interface_up(socket, c"lo")
}

/// Lets nobody make user namespaces inside: each would give full capabilities in itself, and with them the
/// parts of the kernel that are most often broken. Where the file is read-only (some containers), commands
/// still have an empty bounding set and no new privileges.
fn forbid_nested_namespaces() {
    let _ = std::fs::write("/proc/sys/user/max_user_namespaces", "0");
}

/// Puts `/dev/null` in place of the manager's streams: one that reads them to their end must not wait for
/// the sandbox's.
fn detach_standard_streams() -> rustix::io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)
}
