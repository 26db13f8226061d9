//! Signals that ask this process to stop: it then ends what it began instead of dying in the middle.

use std::future::Future;
use std::io;

use leasehold_core::catalogue::codes;
use leasehold_ports::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::failure::Failure;

/// SIGINT, SIGTERM and SIGHUP of this process. From its making on they no longer end the process.
pub(crate) struct StopSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
}

/// SIGHUP.
const HANG_UP: Signal = Signal(1);

impl StopSignals {
    pub(crate) fn catch() -> Result<Self, Failure> {
        let catch = |kind| unix::signal(kind).map_err(|error| uncatchable(&error));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    /// The next one. May be dropped; nothing is lost then.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Signal::INTERRUPT,
            _ = self.terminate.recv() => Signal::TERMINATE,
            _ = self.hang_up.recv() => HANG_UP,
        }
    }

    /// Awaits `work` to its end, and tells whether a stop was asked for meanwhile. For work that
    /// would leave something behind if it were dropped; it must have a deadline of its own.
    pub(crate) async fn after<T>(&mut self, work: impl Future<Output = T>) -> (T, Option<Signal>) {
        let mut work = std::pin::pin!(work);
        let mut asked = None;
        loop {
            tokio::select! {
                biased;
                signal = self.next() => { asked.get_or_insert(signal); }
                result = &mut work => return (result, asked),
            }
        }
    }
}

fn uncatchable(error: &io::Error) -> Failure {
    Failure::new(
        codes::BAD_ARGUMENT,
        format!("the signals of this process cannot be used: {error}"),
    )
}
