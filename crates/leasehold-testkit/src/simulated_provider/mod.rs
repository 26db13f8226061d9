//! The provider as one node sees it: calls take time, go wrong, and may be carried out when nobody
//! waits for them any more.

mod calls;
mod process;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{AccountId, Grant, MachineId, Pin, SandboxId, SandboxName};
use leasehold_ports::{
    Call, Capabilities, CommandRequest, CreateRequest, Created, Facts, Fence, Identity,
    InventoryEntry, InventoryPage, Preparation, Provider, ProviderError, Removal, RunningProcess,
    StartError, Status,
};

use crate::executor::{Node, SimulatedClock};
use crate::faults::{Fault, Operation};
use crate::world::World;

/// One node's way to a [`World`].
#[derive(Clone)]
pub struct SimulatedProvider {
    inner: Arc<Inner>,
}

struct Inner {
    world: Arc<World>,
    clock: Arc<SimulatedClock>,
    node: Node,
    under_way: Mutex<[u32; Operation::ALL.len()]>,
    calls: AtomicU32,
}

impl fmt::Debug for SimulatedProvider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SimulatedProvider({})", self.inner.node)
    }
}

impl SimulatedProvider {
    /// For the tasks of `node`, which tells deadlines by `clock`.
    #[must_use]
    pub fn new(world: Arc<World>, clock: Arc<SimulatedClock>, node: Node) -> Self {
        let (under_way, calls) = (Mutex::default(), AtomicU32::new(0));
        Self { inner: Arc::new(Inner { world, clock, node, under_way, calls }) }
    }

    /// The world behind it.
    #[must_use]
    pub fn world(&self) -> &Arc<World> {
        &self.inner.world
    }

    /// How many calls were made through it, refused ones and reads too.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.inner.calls.load(Ordering::Relaxed)
    }

    /// Notes that the node crashes now, in the middle of the calls that are under way.
    pub fn note_crash(&self) {
        let mut under_way = self.inner.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        for operation in Operation::ALL {
            if under_way[operation as usize] > 0 {
                self.inner.world.faults().count(Fault::Crash, operation);
            }
        }
        under_way.fill(0);
    }

    fn lag(&self, fault: Option<Fault>) -> Duration {
        let facts = &self.inner.world.settings().facts;
        match fault {
            Some(Fault::ReadLag) => facts.read_lag,
            Some(Fault::ListLag) => facts.list_lag,
            _ => Duration::ZERO,
        }
    }
}

#[async_trait]
impl Provider for SimulatedProvider {
    fn capabilities(&self) -> Capabilities {
        self.inner.world.settings().capabilities
    }

    fn facts(&self) -> Facts {
        self.inner.world.settings().facts
    }

    fn machine(&self) -> Option<MachineId> {
        None
    }

    async fn account(&self, call: &Call) -> Result<AccountId, ProviderError> {
        self.perform(Operation::Account, None, call, |_, _, account, _| Ok(account.clone())).await
    }

    async fn create(&self, request: &CreateRequest, call: &Call) -> Result<Created, ProviderError> {
        let name = request.name.clone();
        let sent = self.inner.world.create_sent(&name);
        self.perform(Operation::Create, Some(name.as_str()), call, {
            let name = name.clone();
            move |world, truth, account, fault| {
                let created = world.create(truth, account, &name, fault);
                drop(sent);
                created
            }
        })
        .await
    }

    async fn find_by_name(
        &self,
        name: &SandboxName,
        call: &Call,
    ) -> Result<Vec<InventoryEntry>, ProviderError> {
        let (this, wanted) = (self.clone(), name.clone());
        self.perform(
            Operation::FindByName,
            Some(name.as_str()),
            call,
            move |world, truth, account, fault| {
                Ok(world.read_by_name(truth, account, &wanted, this.lag(fault)))
            },
        )
        .await
    }

    async fn list(&self, from: Option<&str>, call: &Call) -> Result<InventoryPage, ProviderError> {
        let (this, first) = (self.clone(), from.map(str::to_owned));
        self.perform(Operation::List, from, call, move |world, truth, account, fault| {
            world.read_page(truth, account, first.as_deref(), this.lag(fault))
        })
        .await
    }

    async fn status(&self, sandbox: &SandboxId, call: &Call) -> Result<Status, ProviderError> {
        let (this, id) = (self.clone(), sandbox.clone());
        self.perform_in(Operation::Status, sandbox, call, move |world, truth, account, fault| {
            Ok(world.read_status(truth, account, &id, this.lag(fault)))
        })
        .await
    }

    async fn prepare(
        &self,
        sandbox: &SandboxId,
        preparation: &Preparation,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let (id, preparation) = (sandbox.clone(), preparation.clone());
        self.perform_in(Operation::Prepare, sandbox, call, move |world, truth, account, _| {
            world.prepare(truth, account, &id, &preparation)
        })
        .await
    }

    async fn identify(&self, sandbox: &SandboxId, call: &Call) -> Result<Identity, ProviderError> {
        let id = sandbox.clone();
        self.perform_in(Operation::Identify, sandbox, call, move |world, truth, account, _| {
            world.read_identity(truth, account, &id)
        })
        .await
    }

    async fn raise_fence(
        &self,
        sandbox: &SandboxId,
        fence: &Fence,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let (id, fence) = (sandbox.clone(), fence.clone());
        self.perform_in(Operation::RaiseFence, sandbox, call, move |world, truth, account, _| {
            world.raise_fence(truth, account, &id, &fence)
        })
        .await
    }

    async fn extend_timer(
        &self,
        sandbox: &SandboxId,
        left: Option<Duration>,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let id = sandbox.clone();
        // Counted from the call, however long it is on its way.
        let end = left.map_or(u64::MAX, |left| {
            self.inner.world.time().micros().saturating_add(crate::world::micros(left))
        });
        self.perform_in(Operation::ExtendTimer, sandbox, call, move |world, truth, account, _| {
            world.extend_timer(truth, account, &id, end)
        })
        .await
    }

    async fn clean(
        &self,
        sandbox: &SandboxId,
        over: Grant,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let id = sandbox.clone();
        let all_ended = self
            .perform_in(Operation::Clean, sandbox, call, move |world, truth, account, fault| {
                let all_ended = world.clean(truth, account, &id, over)?;
                Ok(all_ended && fault != Some(Fault::Unconfirmed))
            })
            .await?;
        if all_ended { Ok(()) } else { Err(self.unconfirmed(call).await) }
    }

    async fn start(
        &self,
        sandbox: &SandboxId,
        request: &CommandRequest,
        call: &Call,
    ) -> Result<RunningProcess, StartError> {
        let (id, wanted) = (sandbox.clone(), request.clone());
        let command = self
            .perform_in(Operation::Start, sandbox, call, move |world, truth, account, fault| {
                world.start(truth, account, &id, &wanted, fault)
            })
            .await?;
        Ok(self.attach(sandbox, command))
    }

    async fn destroy(&self, pin: &Pin, call: &Call) -> Result<Removal, ProviderError> {
        let (id, wanted) = (pin.sandbox.clone(), pin.clone());
        self.perform_in(Operation::Destroy, &id, call, move |world, truth, account, fault| {
            Ok(world.destroy(truth, account, &wanted, fault))
        })
        .await
    }
}
