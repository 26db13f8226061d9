//! Leases, receipts and events as users see them.
//!
//! The ledger's own rows stay inside: a view leaves out what proves a sandbox (its marker) and what
//! only the keeper reads, and writes times as people do.

use leasehold_core::{
    Attention, Cleanliness, Event, Kind, Lease, LeaseId, Receipt, SandboxId, State, Timestamp,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{style, times};

/// A lease.
#[derive(Debug, Serialize)]
pub(crate) struct LeaseView {
    pub(crate) id: LeaseId,
    kind: Kind,
    owner: String,
    state: State,
    provider: String,
    endpoint: String,
    account: String,
    sandbox: Option<SandboxId>,
    grant: u64,
    delivered: bool,
    cleanliness: Cleanliness,
    quarantined: bool,
    environment_names: Vec<String>,
    created_at: String,
    expires_at: String,
    life_until: String,
    tethered: bool,
    attention: Vec<Attention>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cleanup: Option<CleanupView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<ReceiptView>,
}

/// How a removal goes on.
#[derive(Debug, Serialize)]
struct CleanupView {
    reason: String,
    actor: String,
    since: String,
    tries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    next_try: String,
}

/// How a lease ended.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptView {
    pub(crate) ending: String,
    pub(crate) proof: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    at: String,
    actor: String,
}

impl LeaseView {
    pub(crate) fn of(lease: &Lease) -> Self {
        let cleanup = lease.cleanup.as_ref().filter(|_| lease.is_open());
        Self {
            id: lease.id.clone(),
            kind: lease.kind,
            owner: lease.owner.to_string(),
            state: lease.state,
            provider: lease.home.provider.to_string(),
            endpoint: lease.home.endpoint.to_string(),
            account: lease.home.account.to_string(),
            sandbox: lease.pin.as_ref().map(|pin| pin.sandbox.clone()),
            grant: lease.grant.0,
            delivered: lease.is_delivered(),
            cleanliness: lease.cleanliness,
            quarantined: lease.is_quarantined(),
            environment_names: lease.spec.environment_names.iter().cloned().collect(),
            created_at: lease.created_at.to_string(),
            expires_at: lease.expires_at().to_string(),
            life_until: lease.life_until.to_string(),
            tethered: lease.tether.is_some(),
            attention: lease.attention.iter().copied().collect(),
            cleanup: cleanup.map(|cleanup| CleanupView {
                reason: cleanup.reason.to_string(),
                actor: cleanup.actor.clone(),
                since: cleanup.since.to_string(),
                tries: cleanup.tries,
                problem: cleanup.problem.clone(),
                next_try: lease.retry_at.to_string(),
            }),
            receipt: lease.receipt.as_ref().map(ReceiptView::of),
        }
    }
}

impl LeaseView {
    /// For people: the name and the value of each field that has one, the most important first.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
        let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
        let mut lines = vec![
            ("id", self.id.to_string()),
            ("state", self.state.to_string()),
            ("owner", self.owner.clone()),
            ("provider", format!("{} at {} as {}", self.provider, self.endpoint, self.account)),
        ];
        lines.extend(self.sandbox.iter().map(|sandbox| ("sandbox", sandbox.to_string())));
        lines.extend([
            ("kind", self.kind.to_string()),
            ("grant", self.grant.to_string()),
            ("delivered", yes(self.delivered)),
            ("cleanliness", word(json!(self.cleanliness))),
            ("quarantined", yes(self.quarantined)),
            ("ends with its process", yes(self.tethered)),
            ("acquired", self.created_at.clone()),
        ]);
        if self.receipt.is_none() {
            lines.push(("expires", self.expires_at.clone()));
            lines.push(("lives until", self.life_until.clone()));
        }
        if !self.environment_names.is_empty() {
            lines.push(("variables", self.environment_names.join(", ")));
        }
        if let Some(cleanup) = &self.cleanup {
            lines.extend([
                ("removal decided", cleanup.since.clone()),
                ("by", cleanup.actor.clone()),
                ("since", cleanup.reason.clone()),
                ("tried without proof", cleanup.tries.to_string()),
                ("next try", cleanup.next_try.clone()),
            ]);
            lines
                .extend(cleanup.problem.iter().map(|problem| ("problem", style::visible(problem))));
        }
        if let Some(receipt) = &self.receipt {
            lines.extend([
                ("ended", receipt.at.clone()),
                ("how", receipt.ending.clone()),
                ("by", receipt.actor.clone()),
                ("proof", style::visible(&receipt.proof)),
            ]);
        }
        lines
    }
}

impl ReceiptView {
    pub(crate) fn of(receipt: &Receipt) -> Self {
        Self {
            ending: receipt.ending.to_string(),
            proof: receipt.evidence.proof.clone(),
            request_id: receipt.evidence.request_id.clone(),
            at: receipt.at.to_string(),
            actor: receipt.actor.clone(),
        }
    }
}

/// The state in one word, with what a reader should not overlook.
pub(crate) fn state_in_words(lease: &Lease) -> String {
    let text = match &lease.receipt {
        _ if lease.is_quarantined() => format!("{} (quarantined)", lease.state),
        Some(receipt) => format!("{} ({})", lease.state, receipt.ending),
        None => lease.state.to_string(),
    };
    style::state(lease, &text)
}

/// Why a person should look at a lease; empty if nobody need.
pub(crate) fn reasons_to_look(lease: &Lease, now: Timestamp) -> Vec<String> {
    let mut reasons: Vec<String> =
        lease.attention.iter().map(|attention| in_words(*attention, lease)).collect();
    if let Some(cleanup) = lease.cleanup.as_ref().filter(|_| lease.is_quarantined()) {
        let problem = style::visible(cleanup.problem.as_deref().unwrap_or("no proof came"));
        let next = times::relative(lease.retry_at, now);
        reasons.push(format!(
            "quarantined: removal tried {} times since {} ({problem}); next try {next}",
            cleanup.tries,
            times::relative(cleanup.since, now),
        ));
    }
    reasons
}

fn in_words(attention: Attention, lease: &Lease) -> String {
    match attention {
        Attention::AmbiguousAttempt => {
            "several sandboxes could be the one that its create made: see its history".to_owned()
        }
        Attention::FalseFence => {
            "the fence in its sandbox is not one that we wrote: its code is hostile".to_owned()
        }
        Attention::Stranger => {
            "another sandbox stands under its recorded id, and was left alone".to_owned()
        }
        Attention::WaitingForKey => format!("waiting for a key for {}", lease.home.endpoint),
    }
}

/// An event as JSON, its times as people write them.
pub(crate) fn event_to_json(sequence: u64, event: &Event) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("sequence".to_owned(), sequence.into());
        for name in ["at", "life_until", "retry_at"] {
            if let Some(field) = fields.get_mut(name)
                && let Some(millis) = field.as_u64()
            {
                *field = Timestamp::from_millis(millis).to_string().into();
            }
        }
    }
    value
}

/// What an event says beside its name: `attempt=1 name=...`.
pub(crate) fn event_details(event: &Value) -> String {
    const ELSEWHERE: [&str; 6] = ["sequence", "at", "epoch", "actor", "event", "lease"];
    let Some(fields) = event.as_object() else { return String::new() };
    fields
        .iter()
        .filter(|(name, _)| !ELSEWHERE.contains(&name.as_str()))
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={}", style::visible(text)),
            other => format!("{name}={other}"),
        })
        .collect::<Vec<_>>()
        .join(" ")
}
