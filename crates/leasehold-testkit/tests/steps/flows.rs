//! Ways through the life of a lease, up to the call that meets trouble.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{AcquireKey, Caller, Clocks, Owner, Spec, Step};
use leasehold_keeper::{
    AcquireRequest, CommandEvent, Edge, ExecuteRequest, Keeper, KeeperError, RecoveryScope,
};
use leasehold_testkit::faults::{Fault, Operation};

use crate::site::{Site, TestNode, clocks};
use crate::watch::Trouble;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Acquire,
    /// The answer to the create is lost, and its caller waits for the sandbox to be found.
    AcquireUnanswered,
    Execute,
    Park,
    Resume,
    /// The lease was never parked.
    ResumeInUse,
    Destroy,
    /// An operator deletes a template.
    DeleteTemplate,
    /// Recovery ends a lease at its deadline.
    Expire,
    /// Recovery takes back an acquire whose answer nobody got.
    TakeBackAcquire,
    /// Recovery parks a lease whose resume nobody got the answer of.
    TakeBackResume,
    /// Recovery removes what ends with a process that has died.
    HolderDied,
    /// Recovery finishes what a node that died had planned or done.
    Recover(Abandoned),
}

/// What a node was at when it died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandoned {
    Create,
    Prepare,
    Clean,
    Verify,
    Destroy,
}

impl Flow {
    pub(crate) const ALL: [Flow; 17] = [
        Flow::Acquire,
        Flow::AcquireUnanswered,
        Flow::Execute,
        Flow::Park,
        Flow::Resume,
        Flow::ResumeInUse,
        Flow::Destroy,
        Flow::DeleteTemplate,
        Flow::Expire,
        Flow::TakeBackAcquire,
        Flow::TakeBackResume,
        Flow::HolderDied,
        Flow::Recover(Abandoned::Create),
        Flow::Recover(Abandoned::Prepare),
        Flow::Recover(Abandoned::Clean),
        Flow::Recover(Abandoned::Verify),
        Flow::Recover(Abandoned::Destroy),
    ];

    /// Goes the way to just before the call.
    pub(crate) async fn prepare(self, site: &Site, node: &TestNode) {
        let provisioning = Clocks::default().provisioning;
        match self {
            Flow::Acquire => {}
            Flow::AcquireUnanswered => {
                site.world.faults().script(Operation::Create, 0, Fault::LostAnswer);
            }
            Flow::Execute => acquire(site, node, request(site)).await,
            Flow::Park | Flow::ResumeInUse | Flow::Destroy => use_one(site, node).await,
            Flow::Resume => park_one(site, node).await,
            Flow::DeleteTemplate => {
                park_one(site, node).await;
                let promoted = node.keeper.promote(&site.lease().await, &site.owner()).await;
                promoted.expect("a template");
            }
            Flow::Expire => {
                let lifetime = Duration::from_secs(100);
                acquire(site, node, AcquireRequest { lifetime, ..request(site) }).await;
                site.pass(lifetime).await;
            }
            Flow::TakeBackAcquire => {
                acquire(site, node, AcquireRequest { delivered: false, ..request(site) }).await;
                site.pass(provisioning).await;
            }
            Flow::TakeBackResume => {
                park_one(site, node).await;
                let resumed = node.keeper.resume(&site.lease().await, &site.owner(), false).await;
                resumed.expect("a resumed lease");
                site.pass(provisioning).await;
            }
            Flow::HolderDied => {
                let holder = site.start_node(Trouble::None).await;
                acquire(site, &holder, AcquireRequest { tethered: true, ..request(site) }).await;
                site.kill(&holder).await;
            }
            Flow::Recover(Abandoned::Create) => {
                abandon(site, Flow::Acquire, Step::Create, Edge::Done).await;
            }
            Flow::Recover(Abandoned::Prepare) => {
                abandon(site, Flow::Acquire, Step::Prepare, Edge::Planned).await;
            }
            Flow::Recover(Abandoned::Clean) => {
                use_one(site, node).await;
                abandon(site, Flow::Park, Step::Clean, Edge::Planned).await;
            }
            Flow::Recover(Abandoned::Verify) => {
                park_one(site, node).await;
                abandon(site, Flow::Resume, Step::Verify, Edge::Done).await;
            }
            Flow::Recover(Abandoned::Destroy) => {
                use_one(site, node).await;
                abandon(site, Flow::Destroy, Step::Destroy, Edge::Planned).await;
            }
        }
    }

    /// The call that meets trouble.
    pub(crate) async fn call(self, site: Site, keeper: Keeper) -> Result<(), KeeperError> {
        let owner = site.owner();
        match self {
            Flow::Acquire | Flow::AcquireUnanswered => {
                keeper.acquire(request(&site)).await.map(drop)
            }
            Flow::Execute => execute(&site, &keeper).await,
            Flow::Park => keeper.park(&site.lease().await, &owner).await.map(drop),
            Flow::Resume | Flow::ResumeInUse => {
                keeper.resume(&site.lease().await, &owner, true).await.map(drop)
            }
            Flow::Destroy => end(&site, &keeper, owner).await,
            Flow::DeleteTemplate => end(&site, &keeper, operator()).await,
            Flow::Expire
            | Flow::TakeBackAcquire
            | Flow::TakeBackResume
            | Flow::HolderDied
            | Flow::Recover(_) => {
                // Some steps follow on others, and some retries come only after a while.
                for _ in 0..4 {
                    keeper.recover(RecoveryScope::Everything).await?;
                    site.pass(Duration::from_secs(2)).await;
                }
                Ok(())
            }
        }
    }

    /// Whether a caller that got no answer may make the call again. A command is never repeated.
    pub(crate) fn may_be_repeated(self) -> bool {
        self != Flow::Execute
    }
}

/// Another node makes the call of `flow`, and dies in it.
async fn abandon(site: &Site, flow: Flow, step: Step, edge: Edge) {
    let dying = site.start_node(Trouble::Halt(step, edge)).await;
    let call = site.spawn(&dying, flow.call(site.clone(), dying.keeper.clone()));
    dying.watch.met.cancelled().await;
    site.kill(&dying).await;
    assert!(call.await.is_err(), "the call outlived its node");
}

fn request(site: &Site) -> AcquireRequest {
    AcquireRequest {
        owner: Owner::new("company-a", "production").expect("an owner"),
        home: site.world.settings().home.clone(),
        spec: Spec::default(),
        key: Some(AcquireKey::new("key").expect("a key")),
        lifetime: Duration::from_secs(86_400),
        clocks: Some(clocks()),
        tethered: false,
        delivered: true,
    }
}

async fn acquire(site: &Site, node: &TestNode, request: AcquireRequest) {
    let keeper = node.keeper.clone();
    let acquired = site.spawn(node, async move { keeper.acquire(request).await });
    acquired.await.expect("a node that lives").expect("a lease");
}

/// A lease with a command in the background.
async fn use_one(site: &Site, node: &TestNode) {
    acquire(site, node, request(site)).await;
    execute(site, &node.keeper).await.expect("a command that runs");
    node.keeper.settle_idle().await;
}

async fn park_one(site: &Site, node: &TestNode) {
    use_one(site, node).await;
    node.keeper.park(&site.lease().await, &site.owner()).await.expect("a parked lease");
}

/// Runs a command that leaves a child behind, to its end.
pub(crate) async fn execute(site: &Site, keeper: &Keeper) -> Result<(), KeeperError> {
    let script = format!("sleep 10000 & echo {}", site.new_label());
    let request = ExecuteRequest {
        work: leasehold_ports::Work::Program(vec![
            "sh".to_owned(),
            "-c".to_owned(),
            script.clone(),
        ]),
        directory: None,
        environment: BTreeMap::new(),
        input: false,
    };
    let started = keeper.execute(&site.lease().await, &site.owner(), request).await;
    if let Err(error) = &started
        && !matches!(error, KeeperError::OutcomeUnknown { .. })
    {
        site.judge.said_not_started(&script);
    }
    let mut execution = started?;
    while !matches!(execution.next().await?, CommandEvent::Ended(_)) {}
    Ok(())
}

/// Destroys the lease.
pub(crate) async fn end(site: &Site, keeper: &Keeper, caller: Caller) -> Result<(), KeeperError> {
    let lease = site.lease().await;
    site.judge.end_was_asked(&lease);
    keeper.destroy(&lease, &caller).await.map(drop)
}

pub(crate) fn operator() -> Caller {
    Caller::Operator("somebody".to_owned())
}
