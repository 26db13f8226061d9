//! What goes wrong at a provider, when, and how often each thing has been tried at each step.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_core::Step;

use crate::random::RandomStream;

/// A call of the provider port, or of the power over a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "they are the methods of the Provider and ProcessControl ports")]
pub enum Operation {
    Account,
    Create,
    FindByName,
    List,
    Status,
    Prepare,
    Identify,
    RaiseFence,
    ExtendTimer,
    Clean,
    Start,
    Wait,
    Signal,
    Terminate,
    Destroy,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 15] = [
        Operation::Account,
        Operation::Create,
        Operation::FindByName,
        Operation::List,
        Operation::Status,
        Operation::Prepare,
        Operation::Identify,
        Operation::RaiseFence,
        Operation::ExtendTimer,
        Operation::Clean,
        Operation::Start,
        Operation::Wait,
        Operation::Signal,
        Operation::Terminate,
        Operation::Destroy,
    ];

    /// Its name, as journals and tables spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Account => "account",
            Operation::Create => "create",
            Operation::FindByName => "find_by_name",
            Operation::List => "list",
            Operation::Status => "status",
            Operation::Prepare => "prepare",
            Operation::Identify => "identify",
            Operation::RaiseFence => "raise_fence",
            Operation::ExtendTimer => "extend_timer",
            Operation::Clean => "clean",
            Operation::Start => "start",
            Operation::Wait => "wait",
            Operation::Signal => "signal",
            Operation::Terminate => "terminate",
            Operation::Destroy => "destroy",
        }
    }

    /// The operation that is the essence of a step: fault × step is covered where it is.
    #[must_use]
    pub const fn of_step(step: Step) -> Operation {
        match step {
            Step::Create => Operation::Create,
            Step::FindAttempt => Operation::FindByName,
            Step::Prepare => Operation::Prepare,
            Step::Start => Operation::Start,
            Step::Clean => Operation::Clean,
            Step::Verify => Operation::Identify,
            Step::Destroy => Operation::Destroy,
        }
    }

    /// Whether it changes something at the provider.
    #[must_use]
    pub const fn is_mutation(self) -> bool {
        matches!(
            self,
            Operation::Create
                | Operation::Prepare
                | Operation::RaiseFence
                | Operation::ExtendTimer
                | Operation::Clean
                | Operation::Start
                | Operation::Signal
                | Operation::Terminate
                | Operation::Destroy
        )
    }

    const fn concerns_one_sandbox(self) -> bool {
        !matches!(
            self,
            Operation::Account | Operation::Create | Operation::FindByName | Operation::List
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Something that goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Definitely refused: a limit, or a request that is never accepted.
    Refused,
    /// The provider could not be reached; nothing happens.
    Unreachable,
    /// Not in a state for this now.
    Busy,
    /// The key is not accepted this time.
    Unauthorized,
    /// The request is lost: nothing happens, and nobody says so.
    LostRequest,
    /// It is done, and the answer is lost.
    LostAnswer,
    /// It is done after its caller has given up.
    Late,
    /// The node that made the call crashes while the call is under way. Injected by histories, not
    /// by the provider, and counted here.
    Crash,
    /// Another sandbox has the name.
    NameTaken,
    /// The new sandbox gets the id of one that is gone.
    RecycledId,
    /// A by-id read is as old as the provider's facts allow.
    ReadLag,
    /// A listing is as old as the provider's facts allow.
    ListLag,
    /// A removal is accepted, and takes its time.
    SlowDestroy,
    /// The sandbox vanishes by itself just before.
    Vanished,
    /// The provider tells that the sandbox has failed; it is still there.
    Failed,
    /// The sandbox's code writes another marker.
    MarkerTampered,
    /// The sandbox's code raises the fence itself.
    HostileFence,
    /// The command ignores everything but the end of its sandbox.
    Stubborn,
    /// Not everything ends in time.
    Unconfirmed,
    /// The connection to the command breaks; it runs on.
    ConnectionLost,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 20] = [
        Fault::Refused,
        Fault::Unreachable,
        Fault::Busy,
        Fault::Unauthorized,
        Fault::LostRequest,
        Fault::LostAnswer,
        Fault::Late,
        Fault::Crash,
        Fault::NameTaken,
        Fault::RecycledId,
        Fault::ReadLag,
        Fault::ListLag,
        Fault::SlowDestroy,
        Fault::Vanished,
        Fault::Failed,
        Fault::MarkerTampered,
        Fault::HostileFence,
        Fault::Stubborn,
        Fault::Unconfirmed,
        Fault::ConnectionLost,
    ];

    /// Its name, as journals and tables spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Refused => "refused",
            Fault::Unreachable => "unreachable",
            Fault::Busy => "busy",
            Fault::Unauthorized => "unauthorized",
            Fault::LostRequest => "lost_request",
            Fault::LostAnswer => "lost_answer",
            Fault::Late => "late",
            Fault::Crash => "crash",
            Fault::NameTaken => "name_taken",
            Fault::RecycledId => "recycled_id",
            Fault::ReadLag => "read_lag",
            Fault::ListLag => "list_lag",
            Fault::SlowDestroy => "slow_destroy",
            Fault::Vanished => "vanished",
            Fault::Failed => "failed",
            Fault::MarkerTampered => "marker_tampered",
            Fault::HostileFence => "hostile_fence",
            Fault::Stubborn => "stubborn",
            Fault::Unconfirmed => "unconfirmed",
            Fault::ConnectionLost => "connection_lost",
        }
    }

    /// Whether it can happen to `operation`: the table of what must be covered.
    #[must_use]
    pub const fn applies_to(self, operation: Operation) -> bool {
        use Operation as O;
        match self {
            Fault::Unreachable | Fault::Unauthorized | Fault::LostRequest => {
                !matches!(operation, O::Wait)
            }
            Fault::Crash => true,
            Fault::Refused => matches!(operation, O::Create | O::Prepare | O::Start | O::Destroy),
            Fault::Busy => {
                operation.is_mutation()
                    && !matches!(operation, O::Create | O::Signal | O::Terminate)
            }
            Fault::LostAnswer => operation.is_mutation(),
            Fault::Late => operation.is_mutation() && !matches!(operation, O::Signal),
            Fault::NameTaken | Fault::RecycledId => matches!(operation, O::Create),
            Fault::ReadLag => matches!(operation, O::Status),
            Fault::ListLag => matches!(operation, O::FindByName | O::List),
            Fault::SlowDestroy => matches!(operation, O::Destroy),
            Fault::Vanished => {
                operation.concerns_one_sandbox()
                    && !matches!(operation, O::Wait | O::Signal | O::Terminate)
            }
            Fault::Failed => matches!(operation, O::Status | O::Prepare | O::Start),
            Fault::MarkerTampered => matches!(operation, O::Identify),
            Fault::HostileFence => matches!(operation, O::Identify | O::RaiseFence | O::Start),
            Fault::Stubborn => matches!(operation, O::Start),
            Fault::Unconfirmed => matches!(operation, O::Clean | O::Terminate),
            Fault::ConnectionLost => matches!(operation, O::Wait),
        }
    }

    /// Whether the simulated provider injects it by itself.
    const fn is_injected(self) -> bool {
        !matches!(self, Fault::Crash)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How often each fault happened to each operation.
#[derive(Clone, PartialEq, Eq)]
pub struct Coverage {
    counts: [[u64; Operation::ALL.len()]; Fault::ALL.len()],
}

impl fmt::Debug for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Coverage({} faults)", self.total())
    }
}

impl Default for Coverage {
    fn default() -> Self {
        Self { counts: [[0; Operation::ALL.len()]; Fault::ALL.len()] }
    }
}

impl Coverage {
    /// Counts one.
    pub const fn count(&mut self, fault: Fault, operation: Operation) {
        self.counts[fault as usize][operation as usize] += 1;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Coverage) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }

    /// How many faults there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Pairs that can happen and never did.
    #[must_use]
    pub fn missing(&self) -> Vec<(Fault, Operation)> {
        let pairs = Fault::ALL
            .into_iter()
            .flat_map(|fault| Operation::ALL.into_iter().map(move |operation| (fault, operation)));
        pairs
            .filter(|&(fault, operation)| {
                fault.applies_to(operation) && self.counts[fault as usize][operation as usize] == 0
            })
            .collect()
    }
}

impl fmt::Display for Coverage {
    /// A table: faults down, operations across; `·` where the fault cannot happen.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<16}", "")?;
        for operation in Operation::ALL {
            write!(formatter, " {:>12}", operation.name())?;
        }
        for fault in Fault::ALL {
            write!(formatter, "\n{:<16}", fault.name())?;
            for operation in Operation::ALL {
                if fault.applies_to(operation) {
                    let count = self.counts[fault as usize][operation as usize];
                    write!(formatter, " {count:>12}")?;
                } else {
                    write!(formatter, " {:>12}", "·")?;
                }
            }
        }
        Ok(())
    }
}

struct Scripted {
    operation: Operation,
    calls_before: u32,
    fault: Fault,
}

struct PlanState {
    stream: RandomStream,
    per_mille: u32,
    scripted: Vec<Scripted>,
    coverage: Coverage,
}

/// Which calls go wrong, and how.
pub struct FaultPlan {
    state: Mutex<PlanState>,
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FaultPlan({:?})", self.coverage())
    }
}

impl FaultPlan {
    /// So many calls in a thousand go wrong, each in a way that it can.
    #[must_use]
    pub fn new(stream: RandomStream, per_mille: u32) -> Self {
        let coverage = Coverage::default();
        Self { state: Mutex::new(PlanState { stream, per_mille, scripted: Vec::new(), coverage }) }
    }

    /// Changes how many calls in a thousand go wrong by chance; 0 for quiet.
    pub fn set_rate(&self, per_mille: u32) {
        self.lock().per_mille = per_mille;
    }

    /// Lets the call of `operation` after the next `calls_before` of them go wrong like this. What
    /// does not apply to the operation is a mistake of the test, and never happens.
    pub fn script(&self, operation: Operation, calls_before: u32, fault: Fault) {
        if fault.applies_to(operation) {
            self.lock().scripted.push(Scripted { operation, calls_before, fault });
        }
    }

    /// Forgets what was scripted and has not happened, and lets nothing go wrong any more.
    pub fn quiet(&self) {
        let mut state = self.lock();
        state.scripted.clear();
        state.per_mille = 0;
    }

    /// Whether this call goes wrong, and how. Called once for each call.
    pub fn draw(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.lock();
        let fault = state.scripted(operation).or_else(|| state.by_chance(operation))?;
        state.coverage.count(fault, operation);
        Some(fault)
    }

    /// Counts a fault that happened otherwise: a crash.
    pub fn count(&self, fault: Fault, operation: Operation) {
        self.lock().coverage.count(fault, operation);
    }

    /// What happened so far.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.lock().coverage.clone()
    }

    fn lock(&self) -> MutexGuard<'_, PlanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlanState {
    fn scripted(&mut self, operation: Operation) -> Option<Fault> {
        let mut happens = None;
        for (position, scripted) in self.scripted.iter_mut().enumerate() {
            if scripted.operation != operation {
                continue;
            }
            match scripted.calls_before.checked_sub(1) {
                Some(left) => scripted.calls_before = left,
                None => happens = happens.or(Some(position)),
            }
        }
        happens.map(|position| self.scripted.remove(position).fault)
    }

    fn by_chance(&mut self, operation: Operation) -> Option<Fault> {
        if !self.stream.happens(self.per_mille) {
            return None;
        }
        let possible = |fault: &Fault| fault.is_injected() && fault.applies_to(operation);
        let count = Fault::ALL.iter().filter(|fault| possible(fault)).count();
        let chosen = self.stream.index(count);
        Fault::ALL.into_iter().filter(possible).nth(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Component;

    #[test]
    fn every_step_has_an_operation_that_faults_reach() {
        for step in Step::ALL {
            let operation = Operation::of_step(step);
            let faults = Fault::ALL.iter().filter(|fault| fault.applies_to(operation)).count();
            assert!(faults >= 5, "{step} can fail in {faults} ways only");
        }
    }

    #[test]
    fn enough_calls_meet_every_fault_that_can_happen_to_them() {
        let plan = FaultPlan::new(RandomStream::new(1, Component::ProviderFaults), 500);
        for operation in Operation::ALL {
            for _ in 0..500 {
                plan.draw(operation);
            }
            plan.count(Fault::Crash, operation);
        }
        assert_eq!(plan.coverage().missing(), []);
    }

    #[test]
    fn a_scripted_fault_happens_to_the_call_it_was_meant_for() {
        let plan = FaultPlan::new(RandomStream::new(1, Component::ProviderFaults), 0);
        plan.script(Operation::Create, 1, Fault::LostAnswer);
        plan.script(Operation::Create, 0, Fault::Busy);
        assert_eq!(plan.draw(Operation::Destroy), None);
        assert_eq!(plan.draw(Operation::Create), None);
        assert_eq!(plan.draw(Operation::Create), Some(Fault::LostAnswer));
        assert_eq!(plan.draw(Operation::Create), None);
    }
}
