//! Making a sandbox: its directory and record first, durably, then its init. Blocking.

use crate::deadline::Deadline;
use crate::death;
use crate::error::LocalError;
use crate::layout::{Found, ID_BYTES, StateDirectory, id_of};
use crate::liveness::{self, this_boot};
use crate::outside_ids;
use crate::record::{RECORD_VERSION, Record, digest_of};
use data_encoding::BASE32_NOPAD;
use leasehold_core::{SandboxName, Timestamp};
use leasehold_init::framing::{Decoder, encode};
use leasehold_init::identity::{ProcessIdentity, process_stat};
use leasehold_init::protocol::{PROTOCOL, Report, Setup};
use leasehold_init::{INIT_ARGUMENT, INIT_NAME};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// What a birth needs to know.
pub(crate) struct BirthPlan {
    pub(crate) name: SandboxName,
    pub(crate) birth_key_digest: String,
    pub(crate) created_at: Timestamp,
    /// For the id, the draft's name and the outside ids.
    pub(crate) random: [u8; ID_BYTES + 16],
}

impl BirthPlan {
    pub(crate) fn digest_birth_key(key: &str) -> String {
        digest_of(&["birth key", key])
    }
}

/// Makes a sandbox whose init serves. After an error there is none, unless the error says that it is unknown;
/// then it is found by its name.
pub(crate) fn give_birth(
    state: &StateDirectory,
    init_program: &Path,
    plan: BirthPlan,
    deadline: Deadline,
) -> Result<Record, LocalError> {
    if deadline.is_over() {
        return Err(LocalError::TooLate);
    }
    let [id_random @ .., a, b, c, d, e, f, g, h] = plan.random;
    let (id_random, draft_random) = id_random.split_at(ID_BYTES);
    let id_random: &[u8; ID_BYTES] = id_random
        .try_into()
        .map_err(|_| LocalError::Unsuitable("too few random bytes".to_owned()))?;
    let outside = outside_ids::choose(u64::from_le_bytes([a, b, c, d, e, f, g, h]))?;
    let draft = state.draft(&BASE32_NOPAD.encode(draft_random).to_ascii_lowercase(), outside)?;
    let record = Record {
        version: RECORD_VERSION,
        id: id_of(&plan.name, id_random)?,
        name: plan.name,
        birth_key_digest: plan.birth_key_digest,
        created_at: plan.created_at,
        maker: this_process()?,
        outside,
    };
    let found = draft.publish(record)?;
    match start_init(&found, init_program, deadline) {
        Ok(()) => Ok(found.record),
        Err(error) => {
            // The usual end of any sandbox, and the same proof. If even that fails, the sandbox may exist.
            let pin = found.record.pin()?;
            let end = death::destroy(state, &pin, deadline);
            Err(if end.is_ok() {
                error
            } else {
                LocalError::DeadlinePassed("removing a sandbox that failed to start")
            })
        }
    }
}

fn this_process() -> Result<ProcessIdentity, LocalError> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let stat = process_stat(pid)
        .map_err(|source| LocalError::Kernel { action: "look at this process", source })?;
    Ok(ProcessIdentity {
        pid,
        start_time: stat.map_or(0, |stat| stat.start_time),
        boot_id: this_boot()?,
    })
}

fn start_init(found: &Found, program: &Path, deadline: Deadline) -> Result<(), LocalError> {
    let setup = Setup {
        protocol: PROTOCOL,
        sandbox: found.record.id.as_str().to_owned(),
        host_name: "sandbox".to_owned(),
        outside: found.record.outside,
    };
    let mut child = Command::new(program)
        .arg0(INIT_NAME)
        .arg(INIT_ARGUMENT)
        .current_dir(&found.directory.path)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A sandbox outlives its manager: it must not hold the manager's streams open.
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| LocalError::InitProgram { program: program.to_owned(), source })?;
    let served = talk(&mut child, &setup, deadline);
    // The first process ends by itself right after the go-ahead; only one that hangs needs the kill.
    if served.is_err() {
        let _ = child.kill();
    }
    let _ = child.wait();
    served
}

fn talk(child: &mut Child, setup: &Setup, deadline: Deadline) -> Result<(), LocalError> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(LocalError::NoReport);
    };
    // A setup is far smaller than a pipe, so this does not block. Whoever does not read it sends no report.
    let _ = input.write_all(&encode(setup)?);
    drop(input);
    let mut reports = Reports { output, decoder: Decoder::default(), deadline };
    let mut born = None;
    loop {
        match reports.next() {
            Ok(Some(Report::Born { init })) => born = Some(init),
            Ok(Some(Report::Ready)) => return Ok(()),
            failure => {
                // Its process 1 ends by itself or is killed here; as its parent, this process reaps it.
                if let Some(init) = born {
                    liveness::end(&init, deadline)?;
                }
                return Err(match failure {
                    Ok(Some(Report::Failed { step, errno, message })) => {
                        LocalError::Birth { step, errno, message }
                    }
                    Ok(_) => LocalError::NoReport,
                    Err(error) => error,
                });
            }
        }
    }
}

/// The reports of an init that is being born.
struct Reports {
    output: ChildStdout,
    decoder: Decoder,
    deadline: Deadline,
}

impl Reports {
    /// The next report; `None` when there will be none.
    fn next(&mut self) -> Result<Option<Report>, LocalError> {
        loop {
            if let Some(report) = self.decoder.next_frame()? {
                return Ok(Some(report));
            }
            let mut watched = [PollFd::new(&self.output, PollFlags::IN)];
            match poll(&mut watched, Some(&self.deadline.timeout())) {
                Ok(0) if self.deadline.is_over() => {
                    return Err(LocalError::DeadlinePassed("starting the sandbox's init"));
                }
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(LocalError::kernel("wait for the sandbox's init")(errno)),
            }
            let mut chunk = [0; 4096];
            match self.output.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => self.decoder.push(&chunk[..count]),
                Err(source) => {
                    return Err(LocalError::Kernel { action: "read the init's reports", source });
                }
            }
        }
    }
}
