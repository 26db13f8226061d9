//! Every call to a provider as one line of the log, at the finest level.
//!
//! The keeper gets hold of providers only through what is made here, so that no call is missing
//! from the log: "no provider was asked" can be read from it. A line names the operation and the
//! sandbox, and holds nothing of the request: no key, no command, no variable.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::{AccountId, Grant, MachineId, Pin, SandboxId, SandboxName};
use leasehold_ports::{
    Call, Capabilities, CommandRequest, CreateRequest, Created, Facts, Fence, Identity,
    InventoryEntry, InventoryPage, Preparation, ProcessControl, ProcessEnd, Provider,
    ProviderError, Removal, RunningProcess, Signal, StartError, Status,
};

/// A provider whose calls are logged.
pub(crate) struct Traced(pub(crate) Arc<dyn Provider>);

/// A command whose calls are logged.
struct TracedControl {
    control: Arc<dyn ProcessControl>,
    sandbox: SandboxId,
}

/// Written when a call is about to be sent, not when it is made ready.
fn log(operation: &'static str, sandbox: Option<&SandboxId>) {
    let sandbox = sandbox.map(tracing::field::display);
    tracing::trace!(operation, sandbox, "provider_call");
}

#[async_trait]
impl Provider for Traced {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn machine(&self) -> Option<MachineId> {
        self.0.machine()
    }

    async fn account(&self, call: &Call) -> Result<AccountId, ProviderError> {
        log("account", None);
        self.0.account(call).await
    }

    async fn create(&self, request: &CreateRequest, call: &Call) -> Result<Created, ProviderError> {
        log("create", None);
        self.0.create(request, call).await
    }

    async fn find_by_name(
        &self,
        name: &SandboxName,
        call: &Call,
    ) -> Result<Vec<InventoryEntry>, ProviderError> {
        log("find_by_name", None);
        self.0.find_by_name(name, call).await
    }

    async fn list(&self, from: Option<&str>, call: &Call) -> Result<InventoryPage, ProviderError> {
        log("list", None);
        self.0.list(from, call).await
    }

    async fn status(&self, sandbox: &SandboxId, call: &Call) -> Result<Status, ProviderError> {
        log("status", Some(sandbox));
        self.0.status(sandbox, call).await
    }

    async fn prepare(
        &self,
        sandbox: &SandboxId,
        preparation: &Preparation,
        call: &Call,
    ) -> Result<(), ProviderError> {
        log("prepare", Some(sandbox));
        self.0.prepare(sandbox, preparation, call).await
    }

    async fn identify(&self, sandbox: &SandboxId, call: &Call) -> Result<Identity, ProviderError> {
        log("identify", Some(sandbox));
        self.0.identify(sandbox, call).await
    }

    async fn raise_fence(
        &self,
        sandbox: &SandboxId,
        fence: &Fence,
        call: &Call,
    ) -> Result<(), ProviderError> {
        log("raise_fence", Some(sandbox));
        self.0.raise_fence(sandbox, fence, call).await
    }

    async fn extend_timer(
        &self,
        sandbox: &SandboxId,
        left: Option<Duration>,
        call: &Call,
    ) -> Result<(), ProviderError> {
        log("extend_timer", Some(sandbox));
        self.0.extend_timer(sandbox, left, call).await
    }

    async fn clean(
        &self,
        sandbox: &SandboxId,
        over: Grant,
        call: &Call,
    ) -> Result<(), ProviderError> {
        log("clean", Some(sandbox));
        self.0.clean(sandbox, over, call).await
    }

    async fn start(
        &self,
        sandbox: &SandboxId,
        request: &CommandRequest,
        call: &Call,
    ) -> Result<RunningProcess, StartError> {
        log("start", Some(sandbox));
        let process = self.0.start(sandbox, request, call).await?;
        let control = TracedControl { control: process.control, sandbox: sandbox.clone() };
        Ok(RunningProcess { control: Arc::new(control), ..process })
    }

    async fn destroy(&self, pin: &Pin, call: &Call) -> Result<Removal, ProviderError> {
        log("destroy", Some(&pin.sandbox));
        self.0.destroy(pin, call).await
    }
}

#[async_trait]
impl ProcessControl for TracedControl {
    async fn signal(&self, signal: Signal, call: &Call) -> Result<(), ProviderError> {
        log("signal", Some(&self.sandbox));
        self.control.signal(signal, call).await
    }

    async fn wait(&self) -> Result<ProcessEnd, ProviderError> {
        log("wait", Some(&self.sandbox));
        self.control.wait().await
    }

    async fn terminate(&self, call: &Call) -> Result<(), ProviderError> {
        log("terminate", Some(&self.sandbox));
        self.control.terminate(call).await
    }
}
