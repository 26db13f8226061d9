//! After the trouble: the caller asks again, everything comes to rest, and the rest is looked at.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{Ending, Kind, Lease, Refusal, State};
use leasehold_keeper::{KeeperError, RecoveryScope};
use leasehold_ports::Ledger as _;
use leasehold_testkit::world::Origin;

use crate::flows::{Flow, end, execute, operator};
use crate::site::{Site, TestNode};

/// How often a caller asks again.
const ASKED_AGAIN: u32 = 100;
/// How long it waits before it does, and recovery between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// Longer than a claim, and than the horizon of a create.
const CLAIMS_RUN_OUT: Duration = Duration::from_secs(200);

/// What there is in the end. Two runs of one flow are alike if this is the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Portrait {
    /// Rows that are open or had a sandbox: kind, state, grant, and whether it is proved to be gone.
    rows: Vec<(Kind, State, u64, bool)>,
    /// How many sandboxes were ever made, and how many there are.
    made: usize,
    existing: usize,
    /// How often each command started.
    starts: BTreeMap<String, u32>,
}

impl Portrait {
    pub(crate) async fn of(site: &Site) -> Self {
        let rows = site.rows().await;
        let mut rows: Vec<_> = rows
            .iter()
            .filter(|row| row.is_open() || row.pin.is_some())
            .map(|row| (row.kind, row.state, row.grant.0, is_proved_gone(row)))
            .collect();
        rows.sort_unstable();
        let (made, existing) = site.world.inspect(|truth| {
            let ours = |origin| origin == Origin::Keeper;
            let made = truth.sandboxes().iter().filter(|sandbox| ours(sandbox.origin)).count();
            (made, truth.existing().filter(|sandbox| ours(sandbox.origin)).count())
        });
        Self { rows, made, existing, starts: site.starts.starts() }
    }
}

/// The caller makes its call again, with another node, until it is told what came of it. It may
/// give up where the sandbox was harmed.
pub(crate) async fn insist(site: &Site, flow: Flow, node: &TestNode, harmed: bool) {
    for _ in 0..ASKED_AGAIN {
        let call = site.spawn(node, flow.call(site.clone(), node.keeper.clone()));
        match call.await.expect("a node that lives") {
            Ok(()) => return,
            Err(error) if is_final(&error) => return,
            Err(_) => {}
        }
        recover(site, node).await;
        site.pass(PAUSE).await;
    }
    assert!(harmed, "{flow:?}: never told what came of it");
}

/// Whether asking again is no use: what was asked for is over, or not known and not repeated.
pub(crate) fn is_final(error: &KeeperError) -> bool {
    match error {
        KeeperError::Refused(refusal) => !matches!(
            refusal,
            Refusal::Busy { .. }
                | Refusal::NotReady { .. }
                | Refusal::Claimed { .. }
                | Refusal::LateOutcome { .. }
        ),
        KeeperError::OutcomeUnknown { .. } | KeeperError::NotStarted(_) => true,
        _ => false,
    }
}

async fn recover(site: &Site, node: &TestNode) {
    let keeper = node.keeper.clone();
    let recovered =
        site.spawn(node, async move { keeper.recover(RecoveryScope::Everything).await.map(drop) });
    recovered.await.expect("a node that lives").expect("a ledger that can be read");
}

/// Recovers for as long as a node that stands still could keep a claim.
pub(crate) async fn recover_past_claims(site: &Site, node: &TestNode) {
    let until = site.world.time().elapsed() + CLAIMS_RUN_OUT;
    while site.world.time().elapsed() < until {
        recover(site, node).await;
        site.pass(PAUSE).await;
    }
}

/// Recovers until nothing is due, now and when nothing can be late any more; then what exists is
/// what the rows name.
pub(crate) async fn settle(site: &Site, node: &TestNode) {
    site.world.faults().quiet();
    site.ledger_plan.quiet();
    recover_until_rest(site, node).await;
    let settings = site.world.settings();
    site.pass(settings.longest_lateness + settings.facts.create_horizon).await;
    let (keeper, home) = (node.keeper.clone(), settings.home.clone());
    let swept = site.spawn(node, async move { keeper.sweep(&[home]).await.map(drop) });
    swept.await.expect("a node that lives").expect("a sweep");
    recover_until_rest(site, node).await;
    site.world.inspect(|truth| site.judge.final_check(truth));
    assert_eq!(site.judge.violations(), [], "the judge found");
}

async fn recover_until_rest(site: &Site, node: &TestNode) {
    for _ in 0..2_000 {
        recover(site, node).await;
        let due = site.memory.next_due().await.expect("a ledger that can be read");
        if site.judge.is_settled() && due.is_none_or(|due| due > site.memory.now()) {
            return;
        }
        site.pass(PAUSE).await;
    }
    panic!("it never comes to rest");
}

/// Whatever is open is in use by its owner: it can be used, unless the sandbox itself was harmed.
/// Then its owner ends it, and everything is proved to be gone.
pub(crate) async fn use_and_end(site: &Site, node: &TestNode, harmed: bool) {
    for row in site.rows().await.iter().filter(|row| row.is_open() && row.kind == Kind::Lease) {
        assert!(matches!(row.state, State::Active | State::Parked), "at rest, and {}", row.state);
        let (site, keeper, parked) =
            (site.clone(), node.keeper.clone(), row.state == State::Parked);
        let used = site.clone().spawn(node, async move {
            if parked {
                keeper.resume(&site.lease().await, &site.owner(), true).await?;
            }
            execute(&site, &keeper).await
        });
        let used = used.await.expect("a node that lives");
        assert!(used.is_ok() || harmed, "its owner cannot use it: {used:?}");
    }
    for row in site.rows().await.iter().filter(|row| row.is_open()) {
        let caller = if row.kind == Kind::Template { operator() } else { site.owner() };
        let (site, keeper) = (site.clone(), node.keeper.clone());
        let ended = site.clone().spawn(node, async move { end(&site, &keeper, caller).await });
        let _ = ended.await.expect("a node that lives");
    }
    settle(site, node).await;
    for row in site.rows().await {
        assert!(is_proved_gone(&row), "its end is not proved: {row:#?}");
    }
    let portrait = Portrait::of(site).await;
    assert_eq!(portrait.existing, 0, "sandboxes are left: {portrait:?}");
    assert!(portrait.starts.values().all(|count| *count == 1), "{portrait:?}");
}

fn is_proved_gone(row: &Lease) -> bool {
    let ending = row.receipt.as_ref().map(|receipt| receipt.ending);
    // Lost: two looks agree that the sandbox is not there.
    let gone = [Ending::Destroyed, Ending::AlreadyAbsent, Ending::NeverCreated, Ending::Lost];
    ending.is_some_and(|ending| gone.contains(&ending))
}
