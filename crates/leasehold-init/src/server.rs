//! The loop of the init: wait for a call, an ended process or a passed moment, and deal with it.

use crate::child::{self, Streams};
use crate::commands::{Answered, Caller, Commands};
use crate::connection::{Connection, ConnectionError};
use crate::guard::Guard;
use crate::identity::{boot_id, process_stat};
use crate::output::{Output, Outputs};
use crate::process_table;
use crate::protocol::{
    Answer, Call, End, Greeting, NotStarted, OLDEST_PROTOCOL, Offsets, OutsideIds, PROTOCOL,
    Refusal, Reply, Request, SOCKET_NAME, Setup, Start,
};
use crate::setup::{SetupError, Step as _};
use crate::stopping::{Cleaning, Termination};
use crate::timer::Timer;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::{WaitOptions, WaitStatus};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

/// How long to wait at most before looking again while something is being stopped. Most ends wake the loop by
/// themselves; those of processes with living parents do not.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Connections at once. A manager uses one for each running command and each request under way.
const CONNECTION_LIMIT: usize = 4096;

/// The init's whole state.
pub(crate) struct Server {
    listener: OwnedFd,
    signals: SignalFd,
    greeting: Greeting,
    outside: OutsideIds,
    guard: Guard,
    timer: Timer,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    commands: Commands,
    outputs: Outputs,
    terminations: Vec<Termination>,
    cleaning: Cleaning,
    has_children: bool,
}

/// What the loop was woken by.
enum Wake {
    Listener,
    Signals,
    Timer,
    Connection(u64),
    Command(String),
    Output(String),
}

impl Server {
    /// Listens in the present directory, which is the sandbox's on the host.
    pub(crate) fn listen(setup: &Setup, guard: Guard) -> Result<Self, SetupError> {
        let greeting = Greeting {
            protocol: PROTOCOL,
            oldest_protocol: OLDEST_PROTOCOL,
            sandbox: setup.sandbox.clone(),
            boot_id: boot_id().step("read the boot id")?,
            start_time: own_start_time().step("read the init's start time")?,
        };
        let mut ended = SigSet::empty();
        ended.add(Signal::SIGCHLD);
        ended.thread_block().step("block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self {
            listener: listen_here().step("listen on the control socket")?,
            signals: SignalFd::with_flags(&ended, flags).step("watch for ended processes")?,
            greeting,
            outside: setup.outside,
            guard,
            timer: Timer::new().step("make the timer")?,
            connections: BTreeMap::new(),
            next_connection: 0,
            commands: Commands::default(),
            outputs: Outputs::default(),
            terminations: Vec::new(),
            cleaning: Cleaning::default(),
            has_children: false,
        })
    }

    /// Serves until the timer is due. To return, then or because the kernel failed, is to end the sandbox:
    /// the kernel kills whatever is left in the process namespace before its process 1 is gone.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        loop {
            let wakes = self.wait()?;
            if self.timer.is_over() {
                // Nothing hangs on the trace but the reason that is told: a full disk keeps nothing alive.
                let _ = self.timer.leave_trace(self.guard.directory());
                return Ok(());
            }
            for wake in wakes {
                match wake {
                    Wake::Listener => self.accept(),
                    Wake::Timer => {}
                    Wake::Signals => while let Ok(Some(_)) = self.signals.read_signal() {},
                    Wake::Command(id) => {
                        let answered = self.commands.progress(&id);
                        self.answer_all(answered);
                    }
                    Wake::Output(id) => self.outputs.turn(&id),
                    Wake::Connection(number) => self.serve(number),
                }
            }
            self.reap();
            self.turn_terminations();
            self.turn_cleaning();
        }
    }

    fn wait(&self) -> io::Result<Vec<Wake>> {
        let mut wakes = vec![Wake::Listener, Wake::Signals, Wake::Timer];
        let mut watched = vec![
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.timer.watched(), PollFlags::IN),
        ];
        for (number, connection) in &self.connections {
            let writing =
                if connection.has_outgoing() { PollFlags::OUT } else { PollFlags::empty() };
            wakes.push(Wake::Connection(*number));
            watched.push(PollFd::from_borrowed_fd(connection.socket(), PollFlags::IN | writing));
        }
        for (id, progress) in self.commands.starting() {
            wakes.push(Wake::Command(id.to_owned()));
            watched.push(PollFd::from_borrowed_fd(progress, PollFlags::IN));
        }
        for (id, descriptor, flags) in self.outputs.watched() {
            wakes.push(Wake::Output(id.to_owned()));
            watched.push(PollFd::from_borrowed_fd(descriptor, flags));
        }
        let stopping = self.cleaning.is_active() || !self.terminations.is_empty();
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_AGAIN.subsec_nanos()) };
        match poll(&mut watched, stopping.then_some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = watched.iter().map(|watch| !watch.revents().is_empty()).collect();
        Ok(wakes.into_iter().zip(ready).filter_map(|(wake, ready)| ready.then_some(wake)).collect())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.listener, flags) else { return };
        // Dropping the socket is the refusal. The socket is out of the sandbox's reach and has mode 0600;
        // this is the second lock on the same door.
        // By nix, because rustix cannot represent the peer's process id: it is 0, outside this namespace.
        let known = nix::sys::socket::getsockopt(&socket, PeerCredentials)
            .is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
        if !known || self.connections.len() >= CONNECTION_LIMIT {
            return;
        }
        if let Ok(connection) = Connection::new(socket, &self.greeting) {
            self.connections.insert(self.next_connection, connection);
            self.next_connection += 1;
        }
    }

    fn serve(&mut self, number: u64) {
        if self.exchange(number).is_err() {
            self.connections.remove(&number);
            self.commands.forget_caller(number);
        }
    }

    fn exchange(&mut self, number: u64) -> Result<(), ConnectionError> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        connection.flush()?;
        connection.receive()?;
        loop {
            let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
            let Some(call) = connection.next_call()? else { return Ok(()) };
            let answered = match call {
                Ok(call) => {
                    let descriptors = match call.request {
                        Request::Start(_) | Request::Attach { .. } => connection.take_descriptors(),
                        _ => Vec::new(),
                    };
                    self.handle(call, descriptors, number)
                }
                Err(unknown) if (OLDEST_PROTOCOL..=PROTOCOL).contains(&unknown.protocol) => {
                    return Err(ConnectionError::Unknown);
                }
                Err(unknown) => {
                    let caller = Caller { connection: number, serial: unknown.serial };
                    Some((caller, Answer::Refused { reason: Refusal::Protocol }))
                }
            };
            self.answer_all(answered);
        }
    }

    /// Deals with one call. What is not answered at once is answered later.
    fn handle(
        &mut self,
        call: Call,
        descriptors: Vec<OwnedFd>,
        connection: u64,
    ) -> Option<Answered> {
        let caller = Caller { connection, serial: call.serial };
        let refused = |reason| Some((caller, Answer::Refused { reason }));
        if !(OLDEST_PROTOCOL..=PROTOCOL).contains(&call.protocol) {
            return refused(Refusal::Protocol);
        }
        match call.request {
            Request::Status => Some((caller, self.status())),
            Request::Start(start) => self.start(start, descriptors, caller),
            Request::Signal { command, signal } => Some((caller, self.signal(&command, signal))),
            Request::Wait { command } => self
                .commands
                .wait(&command, caller)
                .unwrap_or_else(|| refused(Refusal::UnknownCommand)),
            Request::Terminate { command, grace_ms, limit_ms } => {
                let (grace, limit) =
                    (Duration::from_millis(grace_ms), Duration::from_millis(limit_ms));
                self.terminations.push(Termination::new(command, caller, grace, limit));
                None
            }
            Request::Clean { over } => {
                let started = self.commands.latest_grant();
                if started > over {
                    let reason = Refusal::LaterGrant { started };
                    return Some((caller, Answer::Refused { reason }));
                }
                self.cleaning.callers.push(caller);
                None
            }
            Request::Prepare { marker, fence } => {
                let result = self.guard.prepare(marker, fence);
                Some((caller, self.fence_moved(result)))
            }
            Request::RaiseFence { fence } => {
                let result = self.guard.raise(fence);
                Some((caller, self.fence_moved(result)))
            }
            Request::ExtendTimer { at_boot_ms } => {
                let answer = match self.timer.extend(at_boot_ms) {
                    Ok(()) => Answer::Done,
                    Err(reason) => Answer::Refused { reason },
                };
                Some((caller, answer))
            }
            Request::Attach { command, from } => {
                Some((caller, self.attach(&command, descriptors, from)))
            }
            Request::Inspect => {
                let (marker, fence) = self.guard.read();
                Some((caller, Answer::Guard { marker, fence }))
            }
        }
    }

    fn status(&self) -> Answer {
        Answer::Status {
            processes: process_table::count().unwrap_or(0) as u64,
            running_commands: self.commands.running() as u64,
            cleaning: self.cleaning.is_active(),
        }
    }

    fn start(
        &mut self,
        start: Start,
        descriptors: Vec<OwnedFd>,
        caller: Caller,
    ) -> Option<Answered> {
        let refuse = |reason| Some((caller, Answer::NotStarted { reason }));
        // A repeat first: the caller of a command that runs must learn of it though the fence has risen since.
        if let Some(answered) = self.commands.repeat(&start.command, caller) {
            return answered;
        }
        if start.grant < self.guard.grant() {
            return refuse(NotStarted::StaleGrant { fence: self.guard.grant() });
        }
        if self.cleaning.is_active() {
            return refuse(NotStarted::Cleaning);
        }
        if self.commands.is_full() {
            return refuse(NotStarted::TooManyCommands);
        }
        let Ok(mut streams) = <[OwnedFd; 3]>::try_from(descriptors) else {
            return refuse(NotStarted::Invalid {
                detail: "three descriptors must come with a start".to_owned(),
            });
        };
        let (id, grant) = (start.command.clone(), start.grant);
        let mut kept = None;
        if start.keep_output {
            match Output::between(streams) {
                Ok((own, output)) => (streams, kept) = (own, Some(output)),
                Err(error) => {
                    return refuse(NotStarted::Kernel {
                        step: "make pipes".to_owned(),
                        errno: error.raw_os_error(),
                    });
                }
            }
        }
        match child::spawn(start, Streams(streams), self.outside) {
            Ok(spawned) => {
                self.has_children = true;
                if let Some(output) = kept {
                    self.outputs.insert(id.clone(), output);
                }
                self.commands.add(id, grant, spawned, caller);
                None
            }
            Err(reason) => refuse(reason),
        }
    }

    fn attach(&mut self, command: &str, descriptors: Vec<OwnedFd>, from: Offsets) -> Answer {
        let refused = |reason| Answer::Refused { reason };
        let Ok(pipes) = <[OwnedFd; 2]>::try_from(descriptors) else {
            let detail = "two descriptors must come with an attach".to_owned();
            return refused(Refusal::Invalid { detail });
        };
        if !self.commands.knows(command) {
            return refused(Refusal::UnknownCommand);
        }
        match self.outputs.attach(command, pipes, [from.output, from.error]) {
            None => refused(Refusal::OutputNotKept),
            Some(Err(errno)) => refused(Refusal::Kernel { errno: errno.raw_os_error() }),
            Some(Ok([output, error])) => Answer::Attached { from: Offsets { output, error } },
        }
    }

    fn signal(&self, command: &str, signal: i32) -> Answer {
        let refused = |reason| Answer::Refused { reason };
        let Ok(signal) = Signal::try_from(signal) else { return refused(Refusal::NoSuchSignal) };
        match self.commands.main_process(command) {
            None => refused(Refusal::UnknownCommand),
            Some(None) => refused(Refusal::Ended),
            Some(Some(pid)) => {
                let pid = nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get());
                match nix::sys::signal::kill(pid, signal) {
                    Ok(()) => Answer::Done,
                    Err(errno) => refused(Refusal::Kernel { errno: errno as i32 }),
                }
            }
        }
    }

    fn fence_moved(&mut self, result: Result<(), Refusal>) -> Answer {
        match result {
            Ok(()) => {
                self.commands.forget_below(self.guard.grant());
                self.outputs.keep_only(|id| self.commands.knows(id));
                Answer::Done
            }
            Err(reason) => Answer::Refused { reason },
        }
    }

    /// Reaps whatever has ended: main processes of commands, and orphans, whose parent the init is now.
    fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let Some(end) = end_of(status) else { continue };
                    let pid = pid.as_raw_nonzero().get();
                    if let Some(command) = self.commands.of_main_process(pid) {
                        self.outputs.main_ended(command);
                    }
                    let answered = self.commands.reaped(pid, end);
                    self.answer_all(answered);
                }
                Ok(None) => {
                    self.has_children = true;
                    return;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    self.has_children = false;
                    return;
                }
            }
        }
    }

    fn turn_terminations(&mut self) {
        let mut answered = Vec::new();
        let commands = &self.commands;
        self.terminations.retain_mut(|termination| {
            let main = commands.main_process(&termination.command).flatten();
            let Some(confirmed) = termination.turn(main) else { return true };
            answered.push((termination.caller, Answer::Terminated { confirmed }));
            false
        });
        self.answer_all(answered);
    }

    fn turn_cleaning(&mut self) {
        // An error is not an answer: the next turn tries again, and the caller's deadline bounds the wait.
        if self.cleaning.is_active() && self.cleaning.turn(self.has_children).unwrap_or(false) {
            let callers = std::mem::take(&mut self.cleaning.callers);
            self.answer_all(callers.into_iter().map(|caller| (caller, Answer::Done)));
        }
    }

    fn answer_all(&mut self, answered: impl IntoIterator<Item = Answered>) {
        for (caller, answer) in answered {
            let Some(connection) = self.connections.get_mut(&caller.connection) else { continue };
            if connection.reply(&Reply { serial: caller.serial, answer }).is_err() {
                self.connections.remove(&caller.connection);
                self.commands.forget_caller(caller.connection);
            }
        }
    }
}

fn end_of(status: WaitStatus) -> Option<End> {
    status.exit_status().map(End::Exited).or_else(|| status.terminating_signal().map(End::Signaled))
}

fn listen_here() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    // A relative name: the directory's own path may be longer than a socket address.
    let bound = SocketAddrUnix::new(SOCKET_NAME).and_then(|address| bind(&socket, &address));
    rustix::process::umask(before);
    bound?;
    listen(&socket, 128)?;
    Ok(socket)
}

fn own_start_time() -> io::Result<u64> {
    // The host's /proc is still mounted: `self` there is this process by its id on the host.
    let own: i32 = std::fs::read_link("/proc/self")?
        .to_str()
        .and_then(|pid| pid.parse().ok())
        .ok_or(io::ErrorKind::InvalidData)?;
    process_stat(own)?.map(|stat| stat.start_time).ok_or_else(|| io::ErrorKind::NotFound.into())
}
