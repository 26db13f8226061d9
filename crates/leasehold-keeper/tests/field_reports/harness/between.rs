//! What stands between a node and its provider: it counts, stops and disguises, and passes
//! everything else on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{AccountId, Grant, MachineId, Pin, SandboxId, SandboxName};
use leasehold_ports::{
    Call, Capabilities, CommandRequest, CreateRequest, Created, Facts, Fence, Identity,
    InventoryEntry, InventoryPage, Preparation, Provider, ProviderError, Removal, RunningProcess,
    StartError, Status,
};
use leasehold_testkit::SimulatedProvider;
use leasehold_testkit::faults::Operation;

use super::home::{Home, Moment};

/// One node's way to a [`Home`].
pub(super) struct Between {
    pub(super) home: Arc<Home>,
    pub(super) provider: SimulatedProvider,
}

impl Between {
    async fn pass_on<T>(&self, operation: Operation, call: impl Future<Output = T>) -> T {
        let _under_way = self.home.note_sent(operation);
        if let Some(hold) = self.home.take_hold(operation, Moment::Request) {
            hold.stop_here().await;
        }
        let answer = call.await;
        if let Some(hold) = self.home.take_hold(operation, Moment::Answer) {
            hold.stop_here().await;
        }
        answer
    }

    async fn everything(&self, call: &Call) -> Result<Vec<InventoryEntry>, ProviderError> {
        let mut entries = Vec::new();
        let mut from: Option<String> = None;
        loop {
            let page = self.provider.list(from.as_deref(), call).await?;
            entries.extend(page.entries);
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(entries),
            }
        }
    }
}

#[async_trait]
impl Provider for Between {
    fn capabilities(&self) -> Capabilities {
        self.provider.capabilities()
    }

    fn facts(&self) -> Facts {
        self.home.told_facts()
    }

    fn machine(&self) -> Option<MachineId> {
        self.provider.machine()
    }

    async fn account(&self, call: &Call) -> Result<AccountId, ProviderError> {
        self.pass_on(Operation::Account, self.provider.account(call)).await
    }

    async fn create(&self, request: &CreateRequest, call: &Call) -> Result<Created, ProviderError> {
        let name = self.home.name_at_provider(&request.name);
        let request = CreateRequest { name, ..request.clone() };
        let twice = self.home.takes_create_twice();
        self.pass_on(Operation::Create, async {
            if self.home.is_taken_by_a_disguise(&request.name) {
                return Err(ProviderError::NameTaken);
            }
            if twice {
                let _ = self.provider.create(&request, call).await;
            }
            self.provider.create(&request, call).await
        })
        .await
    }

    async fn find_by_name(
        &self,
        name: &SandboxName,
        call: &Call,
    ) -> Result<Vec<InventoryEntry>, ProviderError> {
        let name = self.home.name_at_provider(name);
        self.pass_on(Operation::FindByName, async {
            if !self.home.is_disguised() {
                return self.provider.find_by_name(&name, call).await;
            }
            let told = self.everything(call).await?.into_iter().map(|entry| self.home.told(entry));
            Ok(told.filter(|entry| entry.name.as_ref() == Some(&name)).collect())
        })
        .await
    }

    async fn list(&self, from: Option<&str>, call: &Call) -> Result<InventoryPage, ProviderError> {
        let mut page = self.pass_on(Operation::List, self.provider.list(from, call)).await?;
        page.entries = page.entries.into_iter().map(|entry| self.home.told(entry)).collect();
        Ok(page)
    }

    async fn status(&self, sandbox: &SandboxId, call: &Call) -> Result<Status, ProviderError> {
        self.pass_on(Operation::Status, self.provider.status(sandbox, call)).await
    }

    async fn prepare(
        &self,
        sandbox: &SandboxId,
        preparation: &Preparation,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let work = self.provider.prepare(sandbox, preparation, call);
        self.pass_on(Operation::Prepare, work).await
    }

    async fn identify(&self, sandbox: &SandboxId, call: &Call) -> Result<Identity, ProviderError> {
        self.pass_on(Operation::Identify, self.provider.identify(sandbox, call)).await
    }

    async fn raise_fence(
        &self,
        sandbox: &SandboxId,
        fence: &Fence,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let work = self.provider.raise_fence(sandbox, fence, call);
        self.pass_on(Operation::RaiseFence, work).await
    }

    async fn extend_timer(
        &self,
        sandbox: &SandboxId,
        left: Option<Duration>,
        call: &Call,
    ) -> Result<(), ProviderError> {
        let work = self.provider.extend_timer(sandbox, left, call);
        self.pass_on(Operation::ExtendTimer, work).await
    }

    async fn clean(
        &self,
        sandbox: &SandboxId,
        over: Grant,
        call: &Call,
    ) -> Result<(), ProviderError> {
        self.pass_on(Operation::Clean, async {
            self.provider.world().time().sleep(self.home.clean_time()).await;
            self.provider.clean(sandbox, over, call).await
        })
        .await
    }

    async fn start(
        &self,
        sandbox: &SandboxId,
        request: &CommandRequest,
        call: &Call,
    ) -> Result<RunningProcess, StartError> {
        self.pass_on(Operation::Start, self.provider.start(sandbox, request, call)).await
    }

    async fn destroy(&self, pin: &Pin, call: &Call) -> Result<Removal, ProviderError> {
        self.pass_on(Operation::Destroy, self.provider.destroy(pin, call)).await
    }
}
