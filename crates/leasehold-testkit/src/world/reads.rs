//! What reads answer: the truth of now, or of a moment ago.

use std::time::Duration;

use leasehold_core::{AccountId, Evidence, SandboxId, SandboxName};
use leasehold_ports::{Identity, InventoryEntry, InventoryPage, ProviderError, Status};

use super::sandbox::View;
use super::{GroundTruth, SimulatedSandbox, World};

impl World {
    pub(crate) fn read_status(
        &self,
        truth: &GroundTruth,
        account: &AccountId,
        id: &SandboxId,
        lag: Duration,
    ) -> Status {
        let at = truth.now.saturating_sub(micros(lag));
        let seen = truth.sandboxes.iter().rev().find_map(|sandbox| {
            let ours = &sandbox.id == id && &sandbox.account == account;
            match sandbox.view(at) {
                View::NotYet => None,
                view => ours.then_some((sandbox, view)),
            }
        });
        match seen {
            Some((sandbox, View::Present(state))) => {
                Status::Present { state, birth: sandbox.birth.clone() }
            }
            Some((_, View::Gone { for_micros })) if for_micros < self.ended_readable() => {
                Status::Destroyed(Evidence::of("read answered: destroyed"))
            }
            _ => Status::Absent(Evidence::of("read answered 404")),
        }
    }

    /// One page; `from` is the number of the first sandbox on it.
    pub(crate) fn read_page(
        &self,
        truth: &GroundTruth,
        account: &AccountId,
        from: Option<&str>,
        lag: Duration,
    ) -> Result<InventoryPage, ProviderError> {
        let first = match from {
            None => 0,
            Some(from) => from
                .parse()
                .map_err(|_| ProviderError::Invalid { message: "no such page".to_owned() })?,
        };
        let at = truth.now.saturating_sub(micros(lag));
        let mut page = InventoryPage::default();
        for (number, sandbox) in truth.sandboxes.iter().enumerate().skip(first) {
            if page.entries.len() == self.settings().page_size {
                page.next = Some(number.to_string());
                break;
            }
            page.entries.extend(entry(sandbox, account, at));
        }
        Ok(page)
    }

    pub(crate) fn read_by_name(
        &self,
        truth: &GroundTruth,
        account: &AccountId,
        name: &SandboxName,
        lag: Duration,
    ) -> Vec<InventoryEntry> {
        let at = truth.now.saturating_sub(micros(lag));
        let bears_name = truth.sandboxes.iter().filter(|sandbox| &sandbox.name == name);
        bears_name.filter_map(|sandbox| entry(sandbox, account, at)).collect()
    }

    pub(crate) fn read_identity(
        &self,
        truth: &GroundTruth,
        account: &AccountId,
        id: &SandboxId,
    ) -> Result<Identity, ProviderError> {
        let sandbox = &truth.sandboxes[truth.find(account, id)?];
        if !sandbox.is_usable(truth.now) {
            return Err(ProviderError::Busy { message: "not running".to_owned() });
        }
        Ok(Identity { marker: sandbox.marker.clone(), fence: sandbox.fence.clone() })
    }

    pub(crate) fn ended_readable(&self) -> u64 {
        micros(self.settings.ended_readable)
    }
}

fn entry(sandbox: &SimulatedSandbox, account: &AccountId, at: u64) -> Option<InventoryEntry> {
    match sandbox.view(at) {
        View::Present(state) if &sandbox.account == account => Some(InventoryEntry {
            sandbox: sandbox.id.clone(),
            name: Some(sandbox.name.clone()),
            birth: sandbox.birth.clone(),
            state,
            age: Duration::from_micros(at.saturating_sub(sandbox.created_micros)),
        }),
        _ => None,
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
