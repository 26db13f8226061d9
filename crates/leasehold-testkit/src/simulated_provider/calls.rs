//! How one call goes: on its way, carried out, answered; or not.

use std::fmt;
use std::sync::{Arc, PoisonError};

use leasehold_core::{AccountId, BirthFingerprint, SandboxId};
use leasehold_ports::{Call, ProviderError};

use super::SimulatedProvider;
use crate::executor::Node;
use crate::faults::{Fault, Operation};
use crate::world::{GroundTruth, World};

/// What a call does when it is carried out.
pub(super) trait Effect<T, E>:
    FnOnce(&World, &mut GroundTruth, &AccountId, Option<Fault>) -> Result<T, E> + Send + 'static
{
}

impl<T, E, F> Effect<T, E> for F where
    F: FnOnce(&World, &mut GroundTruth, &AccountId, Option<Fault>) -> Result<T, E> + Send + 'static
{
}

/// Everything that carries a call out without its caller.
struct Request<F> {
    operation: Operation,
    sandbox: Option<SandboxId>,
    /// Whom the id meant when the request was sent. One that is still on its way when the id goes to
    /// another sandbox does not follow it there.
    meant: Option<BirthFingerprint>,
    call: Call,
    fault: Option<Fault>,
    effect: F,
}

impl<F> Request<F> {
    fn carry_out<T, E: From<ProviderError>>(self, world: &World) -> Result<T, E>
    where
        F: Effect<T, E>,
    {
        let mut truth = world.truth();
        let caller = world.authorise(&truth, &self.call)?;
        let account = &caller.account;
        if let Some(sandbox) = &self.sandbox {
            if truth.birth_behind(sandbox) != self.meant {
                return Err(ProviderError::NotFound.into());
            }
            match self.fault {
                Some(Fault::Vanished) => world.vanish(&mut truth, account, sandbox),
                Some(Fault::Failed) => world.fail(&mut truth, account, sandbox),
                Some(Fault::MarkerTampered) => world.tamper_marker(&mut truth, account, sandbox),
                Some(Fault::HostileFence) => {
                    world.raise_hostile_fence(&mut truth, account, sandbox);
                }
                _ => {}
            }
        }
        (self.effect)(world, &mut truth, account, self.fault)
    }
}

/// A request whose sender may die. What is on its way does not stop for that.
struct OnItsWay<F, T, E>
where
    F: Effect<T, E>,
    T: Send + 'static,
    E: From<ProviderError> + Send + 'static,
{
    world: Arc<World>,
    arrives_at: u64,
    request: Option<Request<F>>,
    answer: std::marker::PhantomData<fn() -> (T, E)>,
}

impl<F, T, E> OnItsWay<F, T, E>
where
    F: Effect<T, E>,
    T: Send + 'static,
    E: From<ProviderError> + Send + 'static,
{
    /// Carries it out when it arrives, whether somebody waits or not.
    fn go_on_alone(&mut self) {
        let Some(request) = self.request.take() else { return };
        let (world, arrives_at) = (self.world.clone(), self.arrives_at);
        let spawner = world.spawner().clone();
        spawner.spawn_detached(Node::WORLD, async move {
            world.time().sleep_until(arrives_at).await;
            let operation = request.operation;
            world.journal().note(format_args!("world carries out {operation}, nobody waits"));
            let _: Result<T, E> = request.carry_out(&world);
        });
    }
}

impl<F, T, E> Drop for OnItsWay<F, T, E>
where
    F: Effect<T, E>,
    T: Send + 'static,
    E: From<ProviderError> + Send + 'static,
{
    fn drop(&mut self) {
        let Some(request) = &self.request else { return };
        if request.operation.is_mutation() && self.world.draw_arrival() {
            self.go_on_alone();
        }
    }
}

/// Counts a call as under way, for as long as it lives.
struct UnderWay<'a> {
    provider: &'a SimulatedProvider,
    operation: Operation,
}

impl<'a> UnderWay<'a> {
    fn new(provider: &'a SimulatedProvider, operation: Operation) -> Self {
        let under_way = &provider.inner.under_way;
        under_way.lock().unwrap_or_else(PoisonError::into_inner)[operation as usize] += 1;
        Self { provider, operation }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let under_way = &self.provider.inner.under_way;
        let mut under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let count = &mut under_way[self.operation as usize];
        *count = count.saturating_sub(1);
    }
}

/// How an answer came, for the journal.
fn outcome<T, E: fmt::Debug>(answer: &Result<T, E>) -> Option<&E> {
    answer.as_ref().err()
}

impl SimulatedProvider {
    /// Counts something as under way that is not a call, like waiting for a command.
    pub(super) fn under_way(&self, operation: Operation) -> impl Drop + '_ {
        UnderWay::new(self, operation)
    }

    pub(super) async fn perform_in<T, E>(
        &self,
        operation: Operation,
        sandbox: &SandboxId,
        call: &Call,
        effect: impl Effect<T, E>,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ProviderError> + fmt::Debug + Send + 'static,
    {
        self.go(operation, Some(sandbox.as_str()), Some(sandbox.clone()), call, effect).await
    }

    pub(super) async fn perform<T, E>(
        &self,
        operation: Operation,
        subject: Option<&str>,
        call: &Call,
        effect: impl Effect<T, E>,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ProviderError> + fmt::Debug + Send + 'static,
    {
        self.go(operation, subject, None, call, effect).await
    }

    async fn go<T, E>(
        &self,
        operation: Operation,
        subject: Option<&str>,
        sandbox: Option<SandboxId>,
        call: &Call,
        effect: impl Effect<T, E>,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ProviderError> + fmt::Debug + Send + 'static,
    {
        let inner = &*self.inner;
        let number = 1 + inner.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let fault = inner.world.faults().draw(operation);
        let (node, journal) = (inner.node, inner.world.journal());
        let subject = subject.unwrap_or("");
        match fault {
            None => journal.note(format_args!("{node} {operation}#{number} {subject}")),
            Some(fault) => {
                journal.note(format_args!("{node} {operation}#{number} {subject} [{fault}]"));
            }
        }
        let _under_way = UnderWay::new(self, operation);
        let meant = sandbox.as_ref().and_then(|id| self.inner.world.truth().birth_behind(id));
        let request = Request { operation, sandbox, meant, call: call.clone(), fault, effect };
        let answer = self.send(request).await;
        match outcome(&answer) {
            None => journal.note(format_args!("{node} {operation}#{number} answered")),
            Some(error) => {
                journal.note(format_args!("{node} {operation}#{number} failed: {error:?}"));
            }
        }
        answer
    }

    async fn send<T, E, F>(&self, request: Request<F>) -> Result<T, E>
    where
        F: Effect<T, E>,
        T: Send + 'static,
        E: From<ProviderError> + Send + 'static,
    {
        let inner = &*self.inner;
        let (world, time) = (&inner.world, inner.world.time());
        let left = request.call.deadline.since(leasehold_ports::Clock::now(&*inner.clock));
        if left.is_zero() {
            return Err(unreachable("the deadline had passed").into());
        }
        let sent_at = time.micros();
        let gives_up_at = sent_at + crate::world::micros(left);
        let arrives_at = sent_at + crate::world::micros(world.draw_latency());
        let fault = request.fault;
        if let Some(error) = refusal(request.operation, fault) {
            time.sleep_until(arrives_at.min(gives_up_at)).await;
            return Err(error.into());
        }
        if fault == Some(Fault::LostRequest) {
            drop(request);
            return Err(self.no_answer("the request was lost", gives_up_at).await.into());
        }
        let lateness = (fault == Some(Fault::Late)).then(|| {
            let facts = &world.settings().facts;
            let longest = match request.operation {
                Operation::Create => facts.create_horizon.mul_f64(0.9),
                _ => world.settings().longest_lateness,
            };
            crate::world::micros(world.draw_lateness(longest))
        });
        let arrives_at = lateness.map_or(arrives_at, |lateness| gives_up_at + lateness);
        // The fact is a promise, also of a request that is on its way for longer than its caller waits.
        let arrives_at = match request.operation {
            Operation::Create => arrives_at.min(
                gives_up_at + crate::world::micros(world.settings().facts.create_horizon) * 9 / 10,
            ),
            _ => arrives_at,
        };
        let mut on_its_way = OnItsWay {
            world: world.clone(),
            arrives_at,
            request: Some(request),
            answer: std::marker::PhantomData,
        };
        if arrives_at >= gives_up_at {
            on_its_way.go_on_alone();
            time.sleep_until(gives_up_at).await;
            return Err(no_answer("the time was over").into());
        }
        time.sleep_until(arrives_at).await;
        let Some(request) = on_its_way.request.take() else {
            return Err(no_answer("the request was lost").into());
        };
        let answer = request.carry_out(world);
        if fault == Some(Fault::LostAnswer) {
            return Err(self.no_answer("the answer was lost", gives_up_at).await.into());
        }
        let answered_at = arrives_at + crate::world::micros(world.draw_latency());
        if answered_at > gives_up_at {
            time.sleep_until(gives_up_at).await;
            return Err(no_answer("the time was over").into());
        }
        time.sleep_until(answered_at).await;
        answer
    }

    /// An answer that does not come: the connection breaks, or hangs until the caller gives up.
    async fn no_answer(&self, why: &str, gives_up_at: u64) -> ProviderError {
        let world = &self.inner.world;
        let breaks_at = world.time().micros() + crate::world::micros(world.draw_latency());
        let hangs = world.draw_arrival();
        let at = if hangs { gives_up_at } else { breaks_at.min(gives_up_at) };
        world.time().sleep_until(at).await;
        no_answer(why)
    }

    /// Something did not end: nobody says so before the caller gives up.
    pub(super) async fn unconfirmed(&self, call: &Call) -> ProviderError {
        let left = call.deadline.since(leasehold_ports::Clock::now(&*self.inner.clock));
        self.inner.world.time().sleep(left).await;
        no_answer("not everything has ended")
    }
}

/// Definite errors that faults make.
fn refusal(operation: Operation, fault: Option<Fault>) -> Option<ProviderError> {
    Some(match fault? {
        Fault::Refused if operation == Operation::Create => {
            ProviderError::LimitReached { message: "no room".to_owned() }
        }
        Fault::Refused => ProviderError::Invalid { message: "refused".to_owned() },
        Fault::Unreachable => unreachable("connection refused"),
        Fault::Busy => ProviderError::Busy { message: "try later".to_owned() },
        Fault::Unauthorized => ProviderError::Unauthorized,
        Fault::NameTaken => ProviderError::NameTaken,
        _ => return None,
    })
}

fn unreachable(message: &str) -> ProviderError {
    ProviderError::Unreachable { message: message.to_owned(), source: None }
}

pub(super) fn no_answer(message: &str) -> ProviderError {
    ProviderError::NoAnswer { message: message.to_owned(), source: None }
}
