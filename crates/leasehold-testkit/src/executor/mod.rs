//! A single-threaded executor with a virtual clock, whose every choice comes from a seed.
//!
//! What sets it apart from a runtime with a paused clock: among the tasks that are ready the seed
//! chooses, so that many seeds explore many interleavings; tasks belong to a [`Node`], and a crash
//! drops all tasks of one node at once, in the middle of whatever they were waiting for; and it is
//! cheap enough for thousands of histories a second.

mod clock;
mod join;
mod timers;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

pub use clock::{SimulatedClock, Sleep, VirtualTime, YieldNow};
pub use join::{Dropped, Join};
use timers::Timers;

use crate::random::RandomStream;

type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a task belongs to. A crash drops all tasks of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

impl Node {
    /// The test itself: callers, the schedule of a history. Never crashes.
    pub const HARNESS: Node = Node(u32::MAX);
    /// The provider's side: late effects, commands in sandboxes. Never crashes.
    pub const WORLD: Node = Node(u32::MAX - 1);
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Node::HARNESS => formatter.write_str("harness"),
            Node::WORLD => formatter.write_str("world"),
            Node(number) => write!(formatter, "node{number}"),
        }
    }
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Nobody can go on: no task is ready and no timer is set, but somebody still waits.
    Deadlock {
        /// How many tasks wait.
        waiting: usize,
    },
    /// More steps were taken than a run may need, or very many without any time passing.
    Livelock {
        /// How many steps were taken.
        steps: u64,
    },
    /// The task that was waited for was dropped by a crash of its node.
    Crashed,
}

impl fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stuck::Deadlock { waiting } => {
                write!(formatter, "deadlock: {waiting} tasks wait, and nothing can wake them")
            }
            Stuck::Livelock { steps } => write!(formatter, "livelock after {steps} steps"),
            Stuck::Crashed => formatter.write_str("the awaited task's node crashed"),
        }
    }
}

impl std::error::Error for Stuck {}

/// What tasks may ask of the executor while it runs them; done right after the current poll.
enum Request {
    Spawn { node: Node, task: BoxedTask },
    Crash { node: Node },
}

/// What tasks, timers and the executor share. One lock: there is one thread, so it never waits.
#[derive(Default)]
struct Shared {
    /// In microseconds. Beside the lock: everybody asks for it all the time.
    now: AtomicU64,
    state: Mutex<SharedState>,
}

#[derive(Default)]
struct SharedState {
    ready: Vec<TaskKey>,
    requests: Vec<Request>,
    timers: Timers,
}

impl Shared {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot, and the how-manieth task in it: a wake-up for an earlier one is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TaskKey {
    slot: u32,
    generation: u32,
}

struct TaskWaker {
    key: TaskKey,
    queued: AtomicBool,
    shared: Arc<Shared>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.shared.lock().ready.push(self.key);
        }
    }
}

struct Task {
    node: Node,
    future: BoxedTask,
    state: Arc<TaskWaker>,
    waker: Waker,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    task: Option<Task>,
}

/// The executor of one run.
pub struct Executor {
    shared: Arc<Shared>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    random: RandomStream,
    steps: u64,
    steps_at_this_time: u64,
    step_limit: u64,
    fired: Vec<Waker>,
}

impl fmt::Debug for Executor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Executor").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl Executor {
    /// The most steps of a run, unless [`Executor::set_step_limit`] says otherwise.
    pub const STEP_LIMIT: u64 = 2_000_000;
    /// The most steps without any time passing.
    const STEP_LIMIT_AT_ONE_TIME: u64 = 100_000;

    /// An executor that chooses among ready tasks by `random`.
    #[must_use]
    pub fn new(random: RandomStream) -> Self {
        Self {
            shared: Arc::default(),
            slots: Vec::with_capacity(32),
            free: Vec::with_capacity(32),
            random,
            steps: 0,
            steps_at_this_time: 0,
            step_limit: Self::STEP_LIMIT,
            fired: Vec::new(),
        }
    }

    /// Changes how many steps (polls of a task) the run may take before it counts as a livelock.
    pub fn set_step_limit(&mut self, steps: u64) {
        self.step_limit = steps;
    }

    /// How many steps were taken.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// What starts and drops tasks.
    #[must_use]
    pub fn spawner(&self) -> Spawner {
        Spawner { shared: self.shared.clone() }
    }

    /// The virtual time, as providers and journals tell it.
    #[must_use]
    pub fn time(&self) -> VirtualTime {
        VirtualTime::new(self.shared.clone())
    }

    /// A clock for one machine; each has a wall clock of its own, which may jump.
    #[must_use]
    pub fn clock(&self) -> Arc<SimulatedClock> {
        Arc::new(SimulatedClock::new(self.shared.clone()))
    }

    /// Runs until `future` has ended, with everything else that is due meanwhile.
    ///
    /// # Errors
    /// [`Stuck`] if it cannot end. All tasks stay as they are, to be looked at.
    pub fn block_on<T: Send + 'static>(
        &mut self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Stuck> {
        let join = self.spawner().spawn(Node::HARNESS, future);
        loop {
            if let Some(ended) = join.take() {
                return ended.map_err(|Dropped| Stuck::Crashed);
            }
            if !self.step()? {
                return Err(Stuck::Deadlock { waiting: self.waiting() });
            }
        }
    }

    /// Drops every task. Also done when the executor is dropped.
    pub fn clear(&mut self) {
        loop {
            let requests = std::mem::take(&mut self.shared.lock().requests);
            if !requests.is_empty() {
                self.serve(requests);
            } else if let Some(slot) = self.slots.iter().position(|slot| slot.task.is_some()) {
                self.drop_task(slot);
            } else {
                return;
            }
        }
    }

    /// One poll of one ready task, or one step of the time. False if there is nothing to do.
    fn step(&mut self) -> Result<bool, Stuck> {
        let key = loop {
            let requests = {
                let mut shared = self.shared.lock();
                if shared.requests.is_empty() {
                    break match shared.ready.len() {
                        0 => None,
                        1 => shared.ready.pop(),
                        ready => Some(shared.ready.swap_remove(self.random.index(ready))),
                    };
                }
                std::mem::take(&mut shared.requests)
            };
            self.serve(requests);
        };
        let Some(key) = key else { return Ok(self.advance()) };
        self.steps += 1;
        self.steps_at_this_time += 1;
        if self.steps > self.step_limit || self.steps_at_this_time > Self::STEP_LIMIT_AT_ONE_TIME {
            return Err(Stuck::Livelock { steps: self.steps });
        }
        self.poll(key);
        Ok(true)
    }

    fn poll(&mut self, key: TaskKey) {
        let slot = &mut self.slots[key.slot as usize];
        if slot.generation != key.generation {
            return;
        }
        let Some(task) = &mut slot.task else { return };
        task.state.queued.store(false, Ordering::Relaxed);
        let mut context = Context::from_waker(&task.waker);
        if let Poll::Ready(()) = task.future.as_mut().poll(&mut context) {
            self.drop_task(key.slot as usize);
        }
    }

    /// Goes to the time of the earliest timer and wakes everybody who waits for it.
    fn advance(&mut self) -> bool {
        {
            let mut shared = self.shared.lock();
            let Some(time) = shared.timers.fire_earliest(&mut self.fired) else { return false };
            if time > self.shared.now() {
                self.shared.now.store(time, Ordering::Relaxed);
                self.steps_at_this_time = 0;
            }
        }
        // Outside of the lock: a wake-up takes it.
        for waker in self.fired.drain(..) {
            waker.wake();
        }
        true
    }

    fn serve(&mut self, requests: Vec<Request>) {
        for request in requests {
            match request {
                Request::Spawn { node, task } => self.start(node, task),
                Request::Crash { node } => self.crash(node),
            }
        }
    }

    fn start(&mut self, node: Node, future: BoxedTask) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let key = TaskKey { slot, generation: self.slots[slot as usize].generation };
        let state =
            Arc::new(TaskWaker { key, queued: AtomicBool::new(true), shared: self.shared.clone() });
        let waker = Waker::from(state.clone());
        self.slots[slot as usize].task = Some(Task { node, future, state, waker });
        self.shared.lock().ready.push(key);
    }

    /// Drops all tasks of a node, in the order of their slots.
    fn crash(&mut self, node: Node) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].task.as_ref().is_some_and(|task| task.node == node) {
                self.drop_task(slot);
            }
        }
    }

    fn drop_task(&mut self, slot: usize) {
        let Slot { generation, task } = &mut self.slots[slot];
        *generation = generation.wrapping_add(1);
        // The future may spawn or wake others while it is dropped; none of that touches the slots.
        drop(task.take());
        self.free.push(u32::try_from(slot).unwrap_or(u32::MAX));
    }

    fn waiting(&self) -> usize {
        self.slots.iter().filter(|slot| slot.task.is_some()).count()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Wakers hold the shared state, and tasks hold wakers of each other: cut the circle.
        self.clear();
    }
}

/// Starts tasks, and crashes nodes. May be held by anything that runs in the executor.
#[derive(Clone)]
pub struct Spawner {
    shared: Arc<Shared>,
}

impl fmt::Debug for Spawner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Spawner")
    }
}

impl Spawner {
    /// Starts a task of `node`; the answer can be awaited, and tells whether a crash dropped it.
    pub fn spawn<T: Send + 'static>(
        &self,
        node: Node,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Join<T> {
        let (join, task) = join::joined(future);
        self.spawn_detached(node, task);
        join
    }

    /// Starts a task of `node` that nobody waits for.
    pub fn spawn_detached(&self, node: Node, future: impl Future<Output = ()> + Send + 'static) {
        self.shared.lock().requests.push(Request::Spawn { node, task: Box::pin(future) });
    }

    /// Drops all tasks of `node` once the current task waits. What they were waiting for goes on
    /// without them, like a request on its way when its sender dies.
    pub fn crash(&self, node: Node) {
        self.shared.lock().requests.push(Request::Crash { node });
    }
}

#[cfg(test)]
mod tests;
