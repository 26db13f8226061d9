//! Who watches: the steps of a node, which can be stopped at an edge or made to fail, and the
//! commands that really start.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use leasehold_core::{LeaseId, Step};
use leasehold_keeper::{Edge, StepObserver};
use leasehold_testkit::faults::{Fault, Operation};
use leasehold_testkit::judge::Judge;
use leasehold_testkit::world::{GroundTruth, Mutation, Observer, World};
use tokio_util::sync::CancellationToken;

/// What happens to the first step of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// The node stands still at this edge of this step.
    Halt(Step, Edge),
    /// The call that is the essence of this step goes wrong like this.
    Fail(Step, Fault),
}

/// Watches the steps of one node.
pub(crate) struct StepWatch {
    world: Arc<World>,
    trouble: Trouble,
    seen: Mutex<Vec<(Step, Edge)>>,
    /// Cancelled once the trouble has come.
    pub(crate) met: CancellationToken,
    /// To be cancelled for a node that stands still to go on.
    pub(crate) go_on: CancellationToken,
}

impl StepWatch {
    pub(crate) fn new(world: Arc<World>, trouble: Trouble) -> Arc<Self> {
        let (met, go_on) = (CancellationToken::new(), CancellationToken::new());
        Arc::new(Self { world, trouble, seen: Mutex::default(), met, go_on })
    }

    /// The edges that were passed or stopped at, in their order.
    pub(crate) fn seen(&self) -> Vec<(Step, Edge)> {
        self.seen.lock().expect("no panic under this lock").clone()
    }
}

#[async_trait]
impl StepObserver for StepWatch {
    async fn step(&self, lease: &LeaseId, step: Step, edge: Edge) {
        self.world.journal().note(format_args!("{step} of {lease} is {}", edge.name()));
        self.seen.lock().expect("no panic under this lock").push((step, edge));
        if self.met.is_cancelled() {
            return;
        }
        match self.trouble {
            Trouble::Halt(of, at) if (of, at) == (step, edge) => {
                self.met.cancel();
                self.go_on.cancelled().await;
            }
            Trouble::Fail(of, fault) if (of, Edge::Planned) == (step, edge) => {
                self.met.cancel();
                self.world.faults().script(Operation::of_step(step), 0, fault);
            }
            _ => {}
        }
    }
}

/// Passes everything on to the judge, and counts how often each command starts.
pub(crate) struct StartWatch {
    judge: Arc<Judge>,
    starts: Mutex<BTreeMap<String, u32>>,
}

impl StartWatch {
    pub(crate) fn new(judge: Arc<Judge>) -> Arc<Self> {
        Arc::new(Self { judge, starts: Mutex::default() })
    }

    /// How often each command has started, by its label.
    pub(crate) fn starts(&self) -> BTreeMap<String, u32> {
        self.starts.lock().expect("no panic under this lock").clone()
    }
}

impl Observer for StartWatch {
    fn observe(&self, truth: &GroundTruth, mutation: &Mutation<'_>) {
        if let Mutation::Started { label, .. } = mutation {
            let mut starts = self.starts.lock().expect("no panic under this lock");
            *starts.entry((*label).to_owned()).or_default() += 1;
        }
        self.judge.observe(truth, mutation);
    }
}
