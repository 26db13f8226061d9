//! What callers know: the leases that they were told of, and under which grants.

use leasehold_core::{AcquireKey, Grant, Lease, LeaseId};

use crate::random::RandomStream;

/// A lease of which a caller was told.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) id: LeaseId,
    pub(super) owner: usize,
    pub(super) grant: Grant,
    /// Whether its owner has asked for its end, or was told of it.
    pub(super) over: bool,
}

/// An acquire that was made under a key.
#[derive(Clone, Debug)]
pub(super) struct KeyedAcquire {
    pub(super) key: AcquireKey,
    pub(super) owner: usize,
    pub(super) shape: Option<String>,
    pub(super) lease: Option<LeaseId>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) leases: Vec<Known>,
    pub(super) keys: Vec<KeyedAcquire>,
    labels: u32,
}

impl Book {
    /// A lease that its owner may still use, most of the time; now and then one that is over.
    pub(super) fn draw(&self, stream: &mut RandomStream) -> Option<Known> {
        let over_too = stream.happens(100);
        let usable: Vec<&Known> =
            self.leases.iter().filter(|lease| over_too || !lease.over).collect();
        stream.pick(&usable).map(|known| Known::clone(known))
    }

    /// A caller was told of a lease.
    pub(super) fn told(&mut self, owner: usize, lease: &Lease) -> bool {
        if let Some(known) = self.leases.iter_mut().find(|known| known.id == lease.id) {
            known.grant = known.grant.max(lease.grant);
            return false;
        }
        let id = lease.id.clone();
        self.leases.push(Known { id, owner, grant: lease.grant, over: false });
        true
    }

    pub(super) fn over(&mut self, id: &LeaseId) {
        if let Some(known) = self.leases.iter_mut().find(|known| &known.id == id) {
            known.over = true;
        }
    }

    /// The ledger was put back: a key may be free again.
    pub(super) fn leases_of_keys_are_unknown(&mut self) {
        for keyed in &mut self.keys {
            keyed.lease = None;
        }
    }

    /// A label that no command had before.
    pub(super) fn new_label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }
}
