//! Randomness from a seed, one stream for each component: another draw in one of them leaves the
//! others as they were, so that a history stays recognisable while code is changed.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_ports::Random;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What draws from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The choice among ready tasks.
    Executor,
    /// The provider's facts, ids, processes.
    World,
    /// How long calls and writes take.
    Latency,
    /// Which calls go wrong at the provider.
    ProviderFaults,
    /// Which writes go wrong in the ledger.
    LedgerFaults,
    /// The schedule of a history: who calls what when, and which node crashes.
    History,
    /// Settings of a history that hold from its beginning.
    Facts,
    /// A keeper process, by its number.
    Keeper(u32),
}

impl Component {
    const fn stream(self) -> u64 {
        match self {
            Component::Executor => 1,
            Component::World => 2,
            Component::Latency => 3,
            Component::ProviderFaults => 4,
            Component::LedgerFaults => 5,
            Component::History => 6,
            Component::Facts => 7,
            Component::Keeper(number) => 100 + number as u64,
        }
    }
}

/// A stream of random numbers that only its owner draws from.
#[derive(Clone)]
pub struct RandomStream {
    generator: ChaCha8Rng,
}

impl fmt::Debug for RandomStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RandomStream")
    }
}

impl RandomStream {
    /// The stream of `component` under `seed`.
    #[must_use]
    pub fn new(seed: u64, component: Component) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(component.stream());
        Self { generator }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A number below `bound`; 0 if that is 0. The bias does not matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// An index into something of that length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Whether something happens that happens so many times in a thousand.
    pub fn happens(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }

    /// One of several; none of none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        if choices.is_empty() { None } else { choices.get(self.index(choices.len())) }
    }

    /// A time from `least` to `most`, in microseconds.
    pub fn duration(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_micros();
        let span = u64::try_from(span).unwrap_or(u64::MAX - 1);
        least + Duration::from_micros(self.below(span + 1))
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.generator.fill_bytes(bytes);
    }
}

/// The port through which a keeper draws.
#[derive(Debug)]
pub struct SimulatedRandom {
    stream: Mutex<RandomStream>,
}

impl SimulatedRandom {
    /// Draws from `stream`.
    #[must_use]
    pub fn new(stream: RandomStream) -> Self {
        Self { stream: Mutex::new(stream) }
    }
}

impl Random for SimulatedRandom {
    fn fill(&self, bytes: &mut [u8]) {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
    }
}
