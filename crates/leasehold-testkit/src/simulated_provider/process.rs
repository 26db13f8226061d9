//! A command as its starter sees it: output, input, signals, its end.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use leasehold_core::SandboxId;
use leasehold_ports::{
    Call, Frame, ProcessControl, ProcessEnd, ProcessInput, ProviderError, RunningProcess, Signal,
    StreamKind,
};
use tokio::sync::mpsc;

use super::SimulatedProvider;
use super::calls::no_answer;
use crate::executor::Node;
use crate::faults::{Fault, Operation};
use crate::world::SimulatedCommand;

/// Frames that may wait for their reader.
const OUTPUT_FRAMES: usize = 4;
/// Pieces of input that may wait for the command.
const INPUT_PIECES: usize = 4;

/// One connection to a command. There may be several, and the command needs none.
#[derive(Clone)]
struct Connection {
    provider: SimulatedProvider,
    sandbox: SandboxId,
    command: Arc<SimulatedCommand>,
    breaks_at: Option<u64>,
}

impl Connection {
    /// Waits until the command has ended, or the connection has broken.
    async fn wait_for_end(&self) -> Result<ProcessEnd, ProviderError> {
        let time = self.provider.world().time();
        loop {
            // Registered before the look, so that no end falls between the two.
            let ended = self.command.ended.notified();
            let now = time.micros();
            if let Some(end) = self.command.end(now) {
                return Ok(end);
            }
            if self.breaks_at.is_some_and(|breaks_at| breaks_at <= now) {
                return Err(no_answer("the connection to the command broke"));
            }
            let next = [self.command.ends_at(), self.breaks_at].into_iter().flatten().min();
            match next {
                Some(next) => {
                    select(time.sleep_until(next), std::pin::pin!(ended)).await;
                }
                None => ended.await,
            }
        }
    }

    /// Carries output and input, until the command has ended.
    async fn carry(self, output: mpsc::Sender<Frame>, mut input: mpsc::Receiver<ProcessInput>) {
        for frame in &self.command.frames {
            if output.send(frame.clone()).await.is_err() {
                return;
            }
        }
        let mut end = std::pin::pin!(self.wait_for_end());
        loop {
            let received = match select(end.as_mut(), std::pin::pin!(input.recv())).await {
                Either::Left(_) => return,
                Either::Right((received, _)) => received,
            };
            match received {
                Some(ProcessInput::Bytes(bytes)) if self.command.echoes_input => {
                    let frame = Frame { stream: StreamKind::Output, bytes };
                    if output.send(frame).await.is_err() {
                        return;
                    }
                }
                Some(ProcessInput::Bytes(_)) => {}
                Some(ProcessInput::End) | None => break,
            }
        }
        if self.command.echoes_input {
            let world = self.provider.world();
            world.input_ended(&world.settings().home.account, &self.sandbox, &self.command.id);
        }
        let _ = end.await;
    }
}

#[async_trait]
impl ProcessControl for Connection {
    async fn signal(&self, signal: Signal, call: &Call) -> Result<(), ProviderError> {
        let (id, command) = (self.sandbox.clone(), self.command.id.clone());
        self.provider
            .perform_in(Operation::Signal, &self.sandbox, call, move |world, truth, account, _| {
                world.signal(truth, account, &id, &command, signal)
            })
            .await
    }

    async fn wait(&self) -> Result<ProcessEnd, ProviderError> {
        let _under_way = self.provider.under_way(Operation::Wait);
        let end = self.wait_for_end().await;
        let (node, command) = (self.provider.inner.node, &self.command.id);
        let journal = self.provider.world().journal();
        match &end {
            Ok(end) => journal.note(format_args!("{node} wait {command}: {end:?}")),
            Err(_) => journal.note(format_args!("{node} wait {command}: the connection broke")),
        }
        end
    }

    async fn terminate(&self, call: &Call) -> Result<(), ProviderError> {
        let (id, command) = (self.sandbox.clone(), self.command.id.clone());
        let all_ended = self
            .provider
            .perform_in(
                Operation::Terminate,
                &self.sandbox,
                call,
                move |world, truth, account, fault| {
                    let all_ended = world.terminate(truth, account, &id, &command)?;
                    Ok::<_, ProviderError>(all_ended && fault != Some(Fault::Unconfirmed))
                },
            )
            .await?;
        if all_ended { Ok(()) } else { Err(self.provider.unconfirmed(call).await) }
    }
}

impl SimulatedProvider {
    /// A new connection to a command: its output from the beginning.
    pub(super) fn attach(
        &self,
        sandbox: &SandboxId,
        command: Arc<SimulatedCommand>,
    ) -> RunningProcess {
        let world = self.world();
        let breaks = world.faults().draw(Operation::Wait) == Some(Fault::ConnectionLost);
        let breaks_at = breaks.then(|| {
            let after = world.draw_lateness(std::time::Duration::from_secs(5));
            world.time().micros() + crate::world::micros(after)
        });
        let connection =
            Connection { provider: self.clone(), sandbox: sandbox.clone(), command, breaks_at };
        let (output_sender, output) = mpsc::channel(OUTPUT_FRAMES);
        let (input, input_receiver) = mpsc::channel(INPUT_PIECES);
        let carrier = connection.clone();
        world.spawner().spawn_detached(Node::WORLD, carrier.carry(output_sender, input_receiver));
        RunningProcess { output, input, control: Arc::new(connection) }
    }
}
