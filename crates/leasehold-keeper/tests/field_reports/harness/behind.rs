//! Reads that are one read behind: what a cache answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::{AcquireKey, Lease, LeaseId};

/// A cache that answers with what it saw at the read before.
#[derive(Default)]
pub(super) struct Behind {
    reads: u32,
    rows: BTreeMap<LeaseId, Arc<Lease>>,
    keys: BTreeMap<AcquireKey, Arc<Lease>>,
}

impl Behind {
    /// The next so many reads of something that changes are behind.
    pub(super) fn fall(&mut self, reads: u32) {
        self.reads = reads;
    }

    /// What a read of the row answers, when this is the truth.
    pub(super) fn row(&mut self, lease: &LeaseId, truth: Option<Arc<Lease>>) -> Option<Arc<Lease>> {
        let truth = truth?;
        let seen = self.rows.insert(lease.clone(), truth.clone());
        Some(self.choose(seen.or_else(|| Some(truth.clone())), truth))
    }

    /// What a search by key answers, when this is the truth: at first that it is not used.
    pub(super) fn key(
        &mut self,
        key: &AcquireKey,
        truth: Option<Arc<Lease>>,
    ) -> Option<Arc<Lease>> {
        let truth = truth?;
        let seen = self.keys.insert(key.clone(), truth.clone());
        if self.reads > 0 && seen.is_none() {
            self.reads -= 1;
            return None;
        }
        Some(self.choose(seen, truth))
    }

    fn choose(&mut self, seen: Option<Arc<Lease>>, truth: Arc<Lease>) -> Arc<Lease> {
        match seen {
            Some(old) if self.reads > 0 && old != truth => {
                self.reads -= 1;
                old
            }
            _ => truth,
        }
    }
}
