//! Turns: one task of this node at a time leads an acquire on.
//!
//! A claim keeps other nodes away, not other tasks of the same one. Several callers may wait here
//! for one acquire, and a sandbox is not to be prepared a second time when it is in use already.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use leasehold_core::LeaseId;

use crate::lock;

/// The leases whose turn is taken.
#[derive(Default)]
pub(crate) struct Turns(Mutex<BTreeSet<LeaseId>>);

/// Given back when it is dropped.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    lease: LeaseId,
}

impl Turns {
    /// Takes the turn, unless another task has it.
    pub(crate) fn take(self: &Arc<Self>, lease: &LeaseId) -> Option<Turn> {
        let taken = lock(&self.0).insert(lease.clone());
        taken.then(|| Turn { turns: Arc::clone(self), lease: lease.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.turns.0).remove(&self.lease);
    }
}
