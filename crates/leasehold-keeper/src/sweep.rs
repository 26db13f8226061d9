//! Sweep: the ledger against what the providers hold.
//!
//! Inventory first, then ledger: an intent precedes every create, so whatever the inventory shows
//! and the ledger does not name was not made by this ledger. Lists never decide; before anything is
//! reopened a by-id read confirms it. What is not ours is reported, and left alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{
    AttemptState, Caller, Ending, Home, Input, Lease, LeaseId, Looked, Receipt, SandboxId,
    SandboxName, State,
};
use leasehold_ports::{HomeAndSandbox, InventoryEntry, Status, Write};

use crate::access::Access;
use crate::{Keeper, KeeperError, SeededBug};

/// A sandbox that no open row names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Where it lives.
    pub home: Home,
    /// What stands there.
    pub entry: InventoryEntry,
    /// What the ledger knows about it.
    pub known_as: Option<LeaseId>,
}

/// What a sweep does about what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// Rows whose sandbox is found are opened again, or pinned.
    Reopen,
    /// It only says which they are.
    Report,
}

/// What a sweep saw and did.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// How many sandboxes were looked at.
    pub seen: usize,
    /// Rows that were opened again, or pinned, since their sandbox was found; or should be.
    pub reopened: Vec<LeaseId>,
    /// What no row names. Left alone: `leasehold destroy --orphan` is for a person.
    pub orphans: Vec<Orphan>,
    /// Rows that should have been opened again, and were not: the brake is on, or the ledger is in
    /// restored mode. And rows that cannot be read: what they name is nobody's orphan.
    pub failed: Vec<(LeaseId, KeeperError)>,
    /// Homes whose inventory could not be read to its end: nothing follows from it.
    pub incomplete: Vec<(Home, KeeperError)>,
}

impl Keeper {
    /// Compares every home that the ledger names, and those in `more`, with their inventories.
    ///
    /// # Errors
    /// Only if the ledger cannot be read.
    pub async fn sweep(&self, more: &[Home]) -> Result<SweepReport, KeeperError> {
        self.compare(more, Goal::Reopen).await
    }

    /// What [`Keeper::sweep`] would do. Changes nothing.
    ///
    /// # Errors
    /// Only if the ledger cannot be read.
    pub async fn survey(&self, more: &[Home]) -> Result<SweepReport, KeeperError> {
        self.compare(more, Goal::Report).await
    }

    async fn compare(&self, more: &[Home], goal: Goal) -> Result<SweepReport, KeeperError> {
        let mut report = SweepReport::default();
        // The scope comes from the rows, so that nothing new is overlooked.
        let mut homes: BTreeSet<Home> = self.inner.ledger.homes().await?.into_iter().collect();
        homes.extend(more.iter().cloned());
        for home in homes {
            if let Err(error) = self.sweep_home(&home, goal, &mut report).await {
                report.incomplete.push((home, error));
            }
        }
        Ok(report)
    }

    async fn sweep_home(
        &self,
        home: &Home,
        goal: Goal,
        report: &mut SweepReport,
    ) -> Result<(), KeeperError> {
        let access = self.access(home).await?;
        let entries = self.inventory(&access, home).await?;
        report.seen += entries.len();
        for entry in entries {
            match self.sweep_entry(&access, home, entry, goal, report).await {
                Ok(reopened) => report.reopened.extend(reopened),
                Err(error) => {
                    let Some(lease) = error.damaged_row() else { return Err(error) };
                    report.failed.push((lease, error));
                }
            }
        }
        if self.inner.seeded.has(SeededBug::ListBelieved) {
            self.believe_list(&access, home).await?;
        }
        Ok(())
    }

    async fn inventory(
        &self,
        access: &Access,
        home: &Home,
    ) -> Result<Vec<InventoryEntry>, KeeperError> {
        let mut entries = Vec::new();
        let mut from: Option<String> = None;
        loop {
            let call = access.call(self, self.inner.settings.proof);
            let list = access.provider.list(from.as_deref(), &call);
            let page = self.limited(&call, list).await.map_err(|source| {
                tracing::warn!(%home, code = source.code(), %source, "the inventory is incomplete");
                KeeperError::Invalid {
                    problem: format!("the inventory of {home} could not be read: {source}"),
                }
            })?;
            entries.extend(page.entries);
            match page.next {
                // A cursor that stands still would never end.
                Some(next) if from.as_ref() != Some(&next) => from = Some(next),
                _ => return Ok(entries),
            }
        }
    }

    async fn sweep_entry(
        &self,
        access: &Access,
        home: &Home,
        entry: InventoryEntry,
        goal: Goal,
        report: &mut SweepReport,
    ) -> Result<Option<LeaseId>, KeeperError> {
        let place = HomeAndSandbox { home: home.clone(), sandbox: entry.sandbox.clone() };
        let rows = self.inner.ledger.find_pinned(&place).await?;
        let same = |row: &&Arc<Lease>| row.pin.as_ref().is_some_and(|pin| pin.birth == entry.birth);
        if rows.iter().any(|row| row.is_open()) {
            return Ok(None);
        }
        let mut known = rows.iter().find(same).cloned();
        if known.is_none()
            && let Some(name) = &entry.name
        {
            // A name alone proves nothing: whoever can list ours can bear it. An attempt makes one
            // sandbox, and one that is known to have made its own has not made this one.
            let found = self.inner.ledger.find_attempt(home, name).await?;
            known = found.filter(|row| !has_made_its_own(row, name));
        }
        let Some(row) = known else {
            report.orphans.push(Orphan { home: home.clone(), entry, known_as: None });
            return Ok(None);
        };
        if row.receipt.as_ref().is_some_and(|receipt| receipt.ending == Ending::Forgotten) {
            let known_as = Some(row.id.clone());
            report.orphans.push(Orphan { home: home.clone(), entry, known_as });
            return Ok(None);
        }
        let call = access.call(self, self.inner.settings.proof);
        let status = self.limited(&call, access.provider.status(&entry.sandbox, &call)).await;
        match status {
            Ok(Status::Present { birth, .. }) if birth == entry.birth => {}
            // Gone meanwhile, or not to be told: nothing follows.
            _ => return Ok(None),
        }
        let id = row.id.clone();
        if goal == Goal::Report {
            return Ok(Some(id));
        }
        match self.reclaim(row, entry).await {
            Ok(reclaimed) => Ok(reclaimed),
            Err(error) => {
                report.failed.push((id, error));
                Ok(None)
            }
        }
    }

    /// Binds what was found to the row that knows it, and has it removed unless it is awaited.
    async fn reclaim(
        &self,
        row: Arc<Lease>,
        entry: InventoryEntry,
    ) -> Result<Option<LeaseId>, KeeperError> {
        let InventoryEntry { sandbox, birth, name, .. } = entry;
        let current = row.attempt.as_ref().filter(|attempt| name.as_ref() == Some(&attempt.name));
        let input = match (row.state, current) {
            (State::Closed, _) => {
                let proof = format!("a sweep found sandbox {sandbox}");
                Input::Reopen { sandbox, birth, proof }
            }
            (State::Creating | State::Destroying, Some(attempt)) if row.pin.is_none() => {
                Input::AttemptLooked {
                    attempt: attempt.number,
                    looked: Looked::Found { sandbox, birth },
                }
            }
            // An older attempt of a row that went on with another: a debt of its own.
            _ => Input::CreateEnded {
                attempt: 0,
                outcome: leasehold_core::CreateOutcome::Made { sandbox, birth },
                debt: self.new_lease_id(),
            },
        };
        match self.decide(&row.id, &input, &Caller::Keeper).await {
            Ok(decided) if decided.wrote => {
                // What was pinned for this node is carried on at once; what was opened again is due.
                if self.has_claim(&decided.lease) {
                    self.carry_on(decided.lease).await?;
                }
                Ok(Some(row.id.clone()))
            }
            Ok(_) | Err(KeeperError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Records an orphan as a debt and removes it. An operator's verb, for what a sweep reported.
    ///
    /// # Errors
    /// If a row names it after all, it is not there, or its removal is not proved yet.
    pub async fn destroy_orphan(
        &self,
        home: &Home,
        sandbox: &SandboxId,
        operator: &str,
    ) -> Result<Receipt, KeeperError> {
        let access = self.access(home).await?;
        let call = access.call(self, self.inner.settings.proof);
        let status = self.limited(&call, access.provider.status(sandbox, &call)).await;
        let birth = match status {
            Ok(Status::Present { birth, .. }) => birth,
            Ok(_) => {
                let problem = format!("there is no sandbox {sandbox} in {home}");
                return Err(KeeperError::Invalid { problem });
            }
            Err(source) => {
                let problem = format!("sandbox {sandbox} cannot be read: {source}");
                return Err(KeeperError::Invalid { problem });
            }
        };
        let caller = Caller::Operator(operator.to_owned());
        let debt = Lease::orphan(
            self.new_lease_id(),
            home.clone(),
            leasehold_core::Pin { sandbox: sandbox.clone(), birth },
            caller.actor(),
            self.now(),
        );
        let id = debt.id.clone();
        let insert = Write::Insert {
            lease: Arc::new(debt),
            events: vec![leasehold_core::EventKind::DestroyBegan {
                reason: leasehold_core::DestroyReason::OperatorAsked,
            }],
            actor: caller.actor(),
            limits: None,
        };
        self.inner.ledger.commit(vec![insert]).await?;
        let row = self.decide(&id, &Input::TakeOver, &Caller::Keeper).await?.lease;
        self.await_receipt(row).await
    }

    /// The mistake that [`SeededBug::ListBelieved`] puts in.
    async fn believe_list(&self, access: &Access, home: &Home) -> Result<(), KeeperError> {
        let listed: BTreeSet<SandboxId> =
            self.inventory(access, home).await?.into_iter().map(|entry| entry.sandbox).collect();
        let rows = self.inner.ledger.list(&leasehold_ports::LeaseFilter::default()).await?;
        for row in rows.into_iter().filter(|row| &row.home == home) {
            let absent = row.pin.as_ref().is_some_and(|pin| !listed.contains(&pin.sandbox));
            if absent && row.state != State::Destroying {
                let evidence = leasehold_core::Evidence::of("not in the list");
                let lag = std::time::Duration::ZERO;
                for _ in 0..2 {
                    let input = Input::SandboxAbsent {
                        evidence: evidence.clone(),
                        asked_at: self.now(),
                        lag,
                    };
                    let _ = self.decide(&row.id, &input, &Caller::Keeper).await;
                    self.inner.clock.sleep(std::time::Duration::from_millis(1)).await;
                }
            }
        }
        Ok(())
    }
}

/// Whether the attempt with this name has made the sandbox that the row is pinned to.
fn has_made_its_own(row: &Lease, name: &SandboxName) -> bool {
    let attempt = row.attempt.as_ref().filter(|attempt| &attempt.name == name);
    attempt.is_some_and(|attempt| attempt.state == AttemptState::Made)
}
