//! The tables of the memory ledger, their indexes, and how a refused commit is undone.

use std::collections::btree_map;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use leasehold_core::{
    AcquireKey, Event, Home, Lease, LeaseId, NodeId, Owner, SandboxId, SandboxName, Timestamp,
    due_at,
};
use leasehold_ports::{
    BrakeState, EventPage, HomeAndSandbox, LeaseFilter, LedgerError, LedgerMode, NodeRecord,
    RecordedEvent, Write,
};

use crate::brake::{self, Window};
use crate::filter;
use crate::rules::{self, Circumstances, Entry, Rows, Stored};
use crate::time::ClockNote;

/// Everything that is written. Rows are shared, so that a copy costs little.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) leases: BTreeMap<LeaseId, Arc<Lease>>,
    keys: BTreeMap<(Owner, Home, AcquireKey), LeaseId>,
    /// Open rows only.
    pins: BTreeMap<HomeAndSandbox, LeaseId>,
    /// Every row that was ever pinned to the sandbox.
    pin_history: BTreeMap<HomeAndSandbox, BTreeSet<LeaseId>>,
    attempts: BTreeMap<(Home, SandboxName), BTreeSet<LeaseId>>,
    pub(super) due: BTreeSet<(Timestamp, LeaseId)>,
    rows_of_nodes: BTreeMap<NodeId, BTreeSet<LeaseId>>,
    pub(super) open_by_home: BTreeMap<Home, u32>,
    open_by_owner: BTreeMap<Owner, u32>,
    open: u32,
    events: BTreeMap<LeaseId, Vec<RecordedEvent>>,
    sequence: u64,
    pub(super) nodes: BTreeMap<NodeId, NodeRecord>,
    removals: BTreeSet<(Timestamp, LeaseId)>,
    brake_on: bool,
    pub(super) floor: Timestamp,
    pub(super) note: Option<ClockNote>,
    pub(super) restored_at: Option<Timestamp>,
    pub(super) mode: LedgerMode,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            leases: BTreeMap::new(),
            keys: BTreeMap::new(),
            pins: BTreeMap::new(),
            pin_history: BTreeMap::new(),
            attempts: BTreeMap::new(),
            due: BTreeSet::new(),
            rows_of_nodes: BTreeMap::new(),
            open_by_home: BTreeMap::new(),
            open_by_owner: BTreeMap::new(),
            open: 0,
            events: BTreeMap::new(),
            sequence: 0,
            nodes: BTreeMap::new(),
            removals: BTreeSet::new(),
            brake_on: false,
            floor: Timestamp::default(),
            note: None,
            restored_at: None,
            mode: LedgerMode::Current,
        }
    }
}

/// One thing that a commit has done, as it is undone.
enum Undo {
    Row { lease: LeaseId, before: Option<Arc<Lease>> },
    Pinned(HomeAndSandbox, LeaseId),
    Attempted((Home, SandboxName), LeaseId),
    Happened { lease: LeaseId, events: usize },
    Removal(Timestamp, LeaseId),
}

/// A commit under way.
struct Transaction<'a> {
    tables: &'a mut Tables,
    done: Vec<Undo>,
}

impl Tables {
    /// Writes all or nothing.
    pub(super) fn commit(&mut self, writes: Vec<Write>, now: Timestamp) -> Result<(), LedgerError> {
        let mode = self.mode.clone();
        let mut transaction = Transaction { tables: self, done: Vec::new() };
        let circumstances = Circumstances { now, mode: &mode };
        let written = writes
            .into_iter()
            .map(Entry::from)
            .try_for_each(|entry| rules::apply(&mut transaction, &entry, circumstances));
        if let Err(refusal) = &written {
            transaction.undo();
            self.brake_on |= matches!(refusal, LedgerError::Braked { .. });
        }
        self.floor = self.floor.max(now);
        written
    }

    /// Replaces a row in all indexes of what is now; histories are not touched.
    fn replace(&mut self, lease: &LeaseId, after: Option<&Arc<Lease>>) -> Option<Arc<Lease>> {
        let before = match after {
            Some(row) => self.leases.insert(lease.clone(), Arc::clone(row)),
            None => self.leases.remove(lease),
        };
        self.index_open(before.as_deref(), after.map(Arc::as_ref));
        self.index_due(lease, before.as_deref(), after.map(Arc::as_ref));
        self.index_nodes(lease, before.as_deref(), after.map(Arc::as_ref));
        match (&before, after) {
            (None, Some(row)) => {
                if let Some(key) = key(row) {
                    self.keys.insert(key, lease.clone());
                }
            }
            (Some(row), None) => {
                if let Some(key) = key(row) {
                    self.keys.remove(&key);
                }
            }
            // The rules keep owner, home and key of a row for good.
            _ => {}
        }
        before
    }

    fn index_open(&mut self, before: Option<&Lease>, after: Option<&Lease>) {
        let was = before.filter(|row| row.is_open());
        let is = after.filter(|row| row.is_open());
        if was.and_then(sandbox) != is.and_then(sandbox) {
            if let Some(pin) = was.and_then(place) {
                self.pins.remove(&pin);
            }
            if let Some((row, pin)) = is.and_then(|row| Some((row, place(row)?))) {
                self.pins.insert(pin, row.id.clone());
            }
        }
        match (was, is) {
            (None, Some(row)) => {
                self.open += 1;
                *self.open_by_owner.entry(row.owner.clone()).or_default() += 1;
                *self.open_by_home.entry(row.home.clone()).or_default() += 1;
            }
            (Some(row), None) => {
                self.open -= 1;
                count_down(&mut self.open_by_owner, row.owner.clone());
                count_down(&mut self.open_by_home, row.home.clone());
            }
            _ => {}
        }
    }

    fn index_due(&mut self, lease: &LeaseId, before: Option<&Lease>, after: Option<&Lease>) {
        let (was, is) = (before.and_then(due_at), after.and_then(due_at));
        if was != is {
            if let Some(at) = was {
                self.due.remove(&(at, lease.clone()));
            }
            if let Some(at) = is {
                self.due.insert((at, lease.clone()));
            }
        }
    }

    fn index_nodes(&mut self, lease: &LeaseId, before: Option<&Lease>, after: Option<&Lease>) {
        // Most writes leave them as they were.
        if nodes(before).eq(nodes(after)) {
            return;
        }
        let was: BTreeSet<&NodeId> = nodes(before).collect();
        let is: BTreeSet<&NodeId> = nodes(after).collect();
        for &node in was.difference(&is) {
            if let btree_map::Entry::Occupied(mut rows) = self.rows_of_nodes.entry(node.clone()) {
                rows.get_mut().remove(lease);
                if rows.get().is_empty() {
                    rows.remove();
                }
            }
        }
        for &node in is.difference(&was) {
            self.rows_of_nodes.entry(node.clone()).or_default().insert(lease.clone());
        }
    }

    fn rows(&self, leases: &BTreeSet<LeaseId>) -> Vec<Arc<Lease>> {
        leases.iter().filter_map(|lease| self.leases.get(lease)).cloned().collect()
    }

    pub(super) fn find_key(
        &self,
        owner: &Owner,
        home: &Home,
        key: &AcquireKey,
    ) -> Option<Arc<Lease>> {
        let lease = self.keys.get(&(owner.clone(), home.clone(), key.clone()))?;
        self.leases.get(lease).cloned()
    }

    pub(super) fn find_pinned(&self, place: &HomeAndSandbox) -> Vec<Arc<Lease>> {
        let mut rows = self.pin_history.get(place).map(|ids| self.rows(ids)).unwrap_or_default();
        rows.sort_by_key(|row| !row.is_open());
        rows
    }

    pub(super) fn find_attempt(&self, home: &Home, name: &SandboxName) -> Option<Arc<Lease>> {
        let rows = self.rows(self.attempts.get(&(home.clone(), name.clone()))?);
        filter::answers_for_attempt(rows, name)
    }

    pub(super) fn list(&self, filter: &LeaseFilter) -> Vec<Arc<Lease>> {
        let states = filter::states(filter);
        let prefix = filter.id_prefix.as_deref().unwrap_or_default();
        let after = match &filter.after {
            Some(lease) => Bound::Excluded(lease),
            None => Bound::Unbounded,
        };
        self.leases
            .range::<LeaseId, _>((after, Bound::Unbounded))
            .map(|(_, row)| row)
            .skip_while(|row| row.id.as_str() < prefix)
            .take_while(|row| row.id.as_str().starts_with(prefix))
            .filter(|row| states.contains(&row.state))
            .filter(|row| filter.owner.as_ref().is_none_or(|owner| owner == &row.owner))
            .take(filter::page_size(filter))
            .cloned()
            .collect()
    }

    pub(super) fn due(&self, now: Timestamp, limit: u32) -> Vec<Arc<Lease>> {
        self.due
            .iter()
            .take_while(|(at, _)| *at <= now)
            .filter_map(|(_, lease)| self.leases.get(lease))
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .cloned()
            .collect()
    }

    pub(super) fn events(&self, lease: &LeaseId, after: u64, limit: u32) -> EventPage {
        let events = self.events.get(lease).map(Vec::as_slice).unwrap_or_default();
        let first = events.partition_point(|event| event.sequence <= after);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        EventPage {
            events: events.iter().skip(first).take(limit).cloned().collect(),
            older_removed: false,
        }
    }

    pub(super) fn rows_of_node(&self, node: &NodeId) -> Vec<Arc<Lease>> {
        self.rows_of_nodes.get(node).map(|ids| self.rows(ids)).unwrap_or_default()
    }

    pub(super) fn remove_node(&mut self, node: &NodeId) -> Result<(), LedgerError> {
        if let Some(row) = self.rows_of_node(node).into_iter().next() {
            return Err(LedgerError::Conflict { lease: row.id.clone() });
        }
        self.nodes.remove(node);
        Ok(())
    }

    fn window(&self, from: Timestamp) -> Window {
        let recent = self.removals.iter().rev().take_while(|(at, _)| *at > from).count();
        Window { on: self.brake_on, recent: u32::try_from(recent).unwrap_or(u32::MAX) }
    }

    pub(super) fn brake_state(&self, now: Timestamp) -> BrakeState {
        self.window(brake::window_start(now)).state(self.open)
    }

    pub(super) fn release_brake(&mut self) {
        self.brake_on = false;
        self.removals.clear();
    }
}

/// What makes the row's acquire unique.
fn key(row: &Lease) -> Option<(Owner, Home, AcquireKey)> {
    let intent = row.intent.as_ref()?;
    Some((row.owner.clone(), row.home.clone(), intent.key.clone()))
}

/// The row's sandbox. Its home stays the same for good.
fn sandbox(row: &Lease) -> Option<&SandboxId> {
    row.pin.as_ref().map(|pin| &pin.sandbox)
}

/// The name of the row's newest attempt.
fn attempt_name(row: &Lease) -> Option<&SandboxName> {
    row.attempt.as_ref().map(|attempt| &attempt.name)
}

/// The nodes that an open row names.
fn nodes(row: Option<&Lease>) -> impl Iterator<Item = &NodeId> {
    row.filter(|row| row.is_open()).into_iter().flat_map(Lease::nodes)
}

/// Where the row's sandbox is.
fn place(row: &Lease) -> Option<HomeAndSandbox> {
    Some(HomeAndSandbox { home: row.home.clone(), sandbox: sandbox(row)?.clone() })
}

fn count_down<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K) {
    if let btree_map::Entry::Occupied(mut entry) = counts.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

impl Transaction<'_> {
    /// Takes back everything, the last first.
    fn undo(self) {
        let tables = self.tables;
        for done in self.done.into_iter().rev() {
            match done {
                Undo::Row { lease, before } => {
                    tables.replace(&lease, before.as_ref());
                }
                Undo::Pinned(place, lease) => {
                    tables.pin_history.entry(place).or_default().remove(&lease);
                }
                Undo::Attempted(attempt, lease) => {
                    tables.attempts.entry(attempt).or_default().remove(&lease);
                }
                Undo::Happened { lease, events } => {
                    let history = tables.events.entry(lease).or_default();
                    history.truncate(history.len() - events);
                    tables.sequence -= events as u64;
                }
                Undo::Removal(at, lease) => {
                    tables.removals.remove(&(at, lease));
                }
            }
        }
    }

    fn remember(&mut self, lease: &Lease, before: Option<&Lease>) {
        if before.and_then(sandbox) != sandbox(lease)
            && let Some(place) = place(lease)
            && self.tables.pin_history.entry(place.clone()).or_default().insert(lease.id.clone())
        {
            self.done.push(Undo::Pinned(place, lease.id.clone()));
        }
        if before.and_then(attempt_name) != attempt_name(lease)
            && let Some(name) = attempt_name(lease)
        {
            let attempt = (lease.home.clone(), name.clone());
            if self.tables.attempts.entry(attempt.clone()).or_default().insert(lease.id.clone()) {
                self.done.push(Undo::Attempted(attempt, lease.id.clone()));
            }
        }
    }

    fn append(&mut self, entry: &Entry, at: Timestamp) {
        let (lease, count) = (&entry.lease, entry.events.len());
        if count == 0 {
            return;
        }
        let history = self.tables.events.entry(lease.id.clone()).or_default();
        for kind in &entry.events {
            self.tables.sequence += 1;
            let event = Event {
                lease: lease.id.clone(),
                at,
                epoch: lease.epoch,
                actor: entry.actor.clone(),
                kind: kind.clone(),
            };
            history.push(RecordedEvent { sequence: self.tables.sequence, event });
        }
        self.done.push(Undo::Happened { lease: lease.id.clone(), events: count });
    }
}

impl Rows for Transaction<'_> {
    type Entry = Entry;
    type Extra = Arc<Lease>;

    fn stored(&mut self, entry: &Entry) -> Result<Option<Stored<Arc<Lease>>>, LedgerError> {
        let next = &entry.lease;
        let has_same_key = |row: &Lease| match (&row.intent, &next.intent) {
            (Some(one), Some(other)) => one.key == other.key,
            (one, other) => one.is_none() && other.is_none(),
        };
        Ok(self.tables.leases.get(&next.id).map(|row| Stored {
            version: row.version,
            state: row.state,
            sandbox: sandbox(row).cloned(),
            same_identity: row.owner == next.owner && row.home == next.home && has_same_key(row),
            extra: Arc::clone(row),
        }))
    }

    fn key_holder(&mut self, entry: &Entry) -> Result<Option<LeaseId>, LedgerError> {
        Ok(key(&entry.lease).and_then(|key| self.tables.keys.get(&key).cloned()))
    }

    fn pin_holder(
        &mut self,
        entry: &Entry,
        sandbox: &SandboxId,
    ) -> Result<Option<LeaseId>, LedgerError> {
        let place = HomeAndSandbox { home: entry.lease.home.clone(), sandbox: sandbox.clone() };
        Ok(self.tables.pins.get(&place).cloned())
    }

    fn open_of_owner(&mut self, entry: &Entry) -> Result<u32, LedgerError> {
        Ok(self.tables.open_by_owner.get(&entry.lease.owner).copied().unwrap_or(0))
    }

    fn open_of_home(&mut self, entry: &Entry) -> Result<u32, LedgerError> {
        Ok(self.tables.open_by_home.get(&entry.lease.home).copied().unwrap_or(0))
    }

    fn open(&mut self) -> Result<u32, LedgerError> {
        Ok(self.tables.open)
    }

    fn brake(&mut self, from: Timestamp) -> Result<Window, LedgerError> {
        Ok(self.tables.window(from))
    }

    fn count_removal(&mut self, lease: &LeaseId, at: Timestamp) -> Result<(), LedgerError> {
        let from = brake::window_start(at);
        // What has left the window is never counted again.
        self.tables.removals.retain(|(at, _)| *at > from);
        if self.tables.removals.insert((at, lease.clone())) {
            self.done.push(Undo::Removal(at, lease.clone()));
        }
        Ok(())
    }

    fn keep(
        &mut self,
        entry: &Entry,
        before: Option<Stored<Arc<Lease>>>,
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        let lease = &entry.lease;
        self.remember(lease, before.as_ref().map(|stored| stored.extra.as_ref()));
        let before = self.tables.replace(&lease.id, Some(lease));
        self.done.push(Undo::Row { lease: lease.id.clone(), before });
        self.append(entry, at);
        Ok(())
    }
}
