//! `leasehold doctor`: can Leasehold work here, and what to do where it cannot?

use clap::Args;
use leasehold_core::{Caller, Owner, Spec};
use leasehold_keeper::{AcquireRequest, CommandEvent, ExecuteRequest, Keeper};
use leasehold_ports::{ProcessEnd, Work};
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

use super::ls::ledger_notices;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output::table;
use crate::stop::StopSignals;
use crate::{style, times};

/// Check that Leasehold can work here, or say what to do.
///
/// It reads the state directory and the ledger, and makes one sandbox, runs `true` in it and removes
/// it, as `leasehold run` does. Exits with 1 if something is wrong.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold doctor
  leasehold doctor --no-sandbox")]
pub(crate) struct DoctorArguments {
    /// Only read: make no sandbox.
    #[arg(long)]
    no_sandbox: bool,
}

/// What one look came to.
#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    healthy: bool,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

impl Finding {
    fn healthy(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, healthy: true, found: found.into(), code: None }
    }

    fn failed(about: &'static str, failure: &Failure) -> Self {
        let found = failure.message().to_owned();
        Self { about, healthy: false, found, code: failure.code() }
    }
}

pub(crate) async fn run(
    arguments: &DoctorArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let state = installation.state.sourced();
    let place = format!("{} ({})", state.value.display(), state.origin);
    let mut findings = vec![Finding::healthy("state directory", place)];
    look_at_ledger(installation, &mut findings).await;
    if arguments.no_sandbox {
        findings.push(Finding::healthy("sandboxes", "not tried (--no-sandbox)"));
    } else {
        findings.push(match try_sandbox(installation).await {
            Ok(found) => Finding::healthy("sandboxes", found),
            Err(failure) => Finding::failed("sandboxes", &failure),
        });
    }
    findings.push(Finding::healthy(
        "deadlines",
        "a local sandbox's own timer ends its processes after its lease's life; idle times, files and \
         records wait for `leasehold recover`: run it from a timer",
    ));
    let well = findings.iter().all(|finding| finding.healthy);
    installation.output.result(&json!({ "healthy": well, "findings": findings }), || {
        let rows = findings.iter().map(|finding| {
            let mark = if finding.healthy { style::good("ok") } else { style::bad("WRONG") };
            let more = finding
                .code
                .map(|code| format!("; run `leasehold explain {code}`"))
                .unwrap_or_default();
            vec![finding.about.to_owned(), mark, format!("{}{more}", finding.found)]
        });
        table(&["WHAT", "", "FOUND"], rows)
    })?;
    Ok(if well { ExitCode::DONE } else { ExitCode::FOUND_SOMETHING })
}

async fn look_at_ledger(installation: &Installation, findings: &mut Vec<Finding>) {
    let about = "ledger";
    let ledger = match installation.ledger_to_read() {
        Ok(Some(ledger)) => ledger,
        Ok(None) => {
            findings.push(Finding::healthy(about, "none yet: the first acquire makes it"));
            return;
        }
        Err(failure) => {
            findings.push(Finding::failed(about, &failure));
            return;
        }
    };
    match ledger_notices(&*ledger).await {
        Ok(notices) if notices.is_empty() => {
            findings.push(Finding::healthy(about, "readable, current, the brake is off"));
        }
        Ok(notices) => findings.extend(notices.into_iter().map(|notice| Finding {
            about,
            healthy: false,
            found: notice.message,
            code: Some(notice.code),
        })),
        Err(failure) => findings.push(Finding::failed(about, &failure)),
    }
    match due_work(&*ledger).await {
        Ok(found) => findings.push(Finding::healthy("due work", found)),
        Err(failure) => findings.push(Finding::failed("due work", &failure)),
    }
}

async fn due_work(ledger: &dyn leasehold_ports::Ledger) -> Result<String, Failure> {
    let now = ledger.now();
    Ok(match ledger.next_due().await? {
        None => "none".to_owned(),
        Some(due) if due <= now => {
            format!("overdue since {}: run `leasehold recover`", times::short(now.since(due)))
        }
        Some(due) => format!("the next {}", times::relative(due, now)),
    })
}

/// Makes a sandbox by way of the ledger, so that nothing is lost should this process die meanwhile.
async fn try_sandbox(installation: &Installation) -> Result<String, Failure> {
    let mut signals = StopSignals::catch()?;
    let keeper = installation.keeper().await?;
    let owner = Owner::new("leasehold", "doctor")
        .map_err(|error| Failure::bad_argument("the doctor's owner", error))?;
    let began = installation.clock.monotonic();
    let acquire = keeper.acquire(AcquireRequest {
        owner: owner.clone(),
        home: installation.local_home()?,
        spec: Spec::default(),
        key: None,
        lifetime: Duration::from_secs(60),
        clocks: None,
        tethered: true,
        delivered: true,
    });
    let lease = signals.after(acquire).await.0?;
    let caller = Caller::Owner { owner, grant: Some(lease.grant) };
    let end = run_true(&keeper, &lease, &caller).await;
    signals.after(keeper.destroy(&lease.id, &caller)).await.0?;
    match end? {
        ProcessEnd::Exited(0) => {
            let took = times::short(installation.clock.monotonic().saturating_sub(began));
            Ok(format!("made one, ran `true` in it, removed it: {took}"))
        }
        other => Err(Failure::new(
            leasehold_core::catalogue::codes::ISOLATION_UNAVAILABLE,
            format!("`true` ended with {other:?} in a new sandbox"),
        )),
    }
}

async fn run_true(
    keeper: &Keeper,
    lease: &leasehold_core::Lease,
    caller: &Caller,
) -> Result<ProcessEnd, Failure> {
    let request = ExecuteRequest {
        work: Work::Program(vec!["true".to_owned()]),
        directory: None,
        environment: std::collections::BTreeMap::new(),
        input: false,
    };
    let mut execution = keeper.execute(&lease.id, caller, request).await?;
    loop {
        if let CommandEvent::Ended(end) = execution.next().await? {
            return Ok(end);
        }
    }
}
