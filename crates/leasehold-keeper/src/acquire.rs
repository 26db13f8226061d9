//! Acquire: intent, create, preparation, and the answer.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    AcquireKey, Attempt, Caller, Claim, Clocks, CreateOutcome, EventKind, Home, Input, KeyedIntent,
    Lease, LeaseId, Marker, NewLease, Owner, Refusal, Spec, State, Step, Timestamp, answer_key,
};
use leasehold_ports::{CreateRequest, Created, InventoryEntry, LedgerError, ProviderError, Write};

use crate::access::Access;
use crate::crash::Edge;
use crate::{Keeper, KeeperError};

/// How often another name is tried when a stranger has the one that was asked for.
const NAMES: u32 = 3;

/// How long to wait at the least before a row that others work on is read again.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// For whom.
    pub owner: Owner,
    /// Where.
    pub home: Home,
    /// What.
    pub spec: Spec,
    /// The caller's name for this acquire. A repeated one with the same key is the same acquire.
    pub key: Option<AcquireKey>,
    /// How long the lease is asked for.
    pub lifetime: Duration,
    /// Its clocks; none means the keeper's.
    pub clocks: Option<Clocks>,
    /// Whether the lease ends with this process.
    pub tethered: bool,
    /// Whether the front end hands the answer over itself, so that it counts as acknowledged.
    pub delivered: bool,
}

impl Keeper {
    /// Acquires a sandbox. Returns the lease, active, with its first grant.
    ///
    /// # Errors
    /// When nothing could be made, or what was made could not be prepared: it is being removed then.
    /// `Unsettled` when nobody knows yet: asking again with the same key goes on from there.
    pub async fn acquire(&self, request: AcquireRequest) -> Result<Arc<Lease>, KeeperError> {
        self.refuse_draining()?;
        request
            .spec
            .check()
            .map_err(|error| KeeperError::Invalid { problem: error.to_string() })?;
        if request.lifetime < Duration::from_secs(1) {
            let problem = "a lease lives for at least one second".to_owned();
            return Err(KeeperError::Invalid { problem });
        }
        // The account is proved before anything is recorded or made.
        let access = self.access(&request.home).await?;
        let clocks = request.clocks.unwrap_or(self.inner.settings.clocks);
        let limit = self.now() + clocks.provisioning;
        let intent = request.key.clone().map(|key| KeyedIntent {
            key,
            digest: self.inner.secret.intent(&request.owner, &request.spec),
        });
        if let Some(intent) = &intent {
            let ledger = &self.inner.ledger;
            let found = ledger.find_key(&request.owner, &request.home, &intent.key).await?;
            if let Some(lease) = found {
                return self.repeat(lease, intent, &access, &request, limit).await;
            }
        }
        let lease = Arc::new(self.new_lease(&request, clocks, intent.clone()));
        let id = lease.id.clone();
        let insert = Write::Insert {
            lease: Arc::clone(&lease),
            events: vec![EventKind::Requested],
            actor: "owner".to_owned(),
            limits: Some(self.inner.settings.limits),
        };
        match self.inner.ledger.commit(vec![insert]).await {
            Ok(()) => {}
            Err(LedgerError::KeyTaken { lease }) => {
                let lease = self.read(&lease).await?;
                // A key can be taken only by an acquire that has one.
                let Some(intent) = intent else {
                    return Err(LedgerError::KeyTaken { lease: lease.id.clone() }.into());
                };
                return self.repeat(lease, &intent, &access, &request, limit).await;
            }
            Err(error @ LedgerError::Unavailable { .. }) => {
                // It may be recorded all the same; then it is ours, and it goes on.
                if self.read(&id).await.ok().as_ref() != Some(&lease) {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
        self.create(&access, lease, &request, limit).await
    }

    fn new_lease(
        &self,
        request: &AcquireRequest,
        clocks: Clocks,
        intent: Option<KeyedIntent>,
    ) -> Lease {
        let now = self.now();
        let mut marker = [0; 16];
        self.inner.random.fill(&mut marker);
        let new = NewLease {
            id: self.new_lease_id(),
            owner: request.owner.clone(),
            home: request.home.clone(),
            spec: request.spec.clone(),
            intent,
            marker: Marker::from_random(marker),
            clocks,
            lifetime: request.lifetime,
            tether: request.tethered.then(|| self.inner.node.clone()),
            claim: Claim { node: self.inner.node.clone(), until: now + self.inner.settings.claim },
        };
        Lease::request(new, now)
    }

    /// An acquire whose key is known: the lease of the key, once it is ready.
    async fn repeat(
        &self,
        lease: Arc<Lease>,
        intent: &KeyedIntent,
        access: &Access,
        request: &AcquireRequest,
        limit: Timestamp,
    ) -> Result<Arc<Lease>, KeeperError> {
        let mut row = lease;
        loop {
            answer_key(&row, intent)?;
            if !matches!(row.state, State::Requested | State::Creating) {
                return self.settle(&row.id, request.delivered, limit).await;
            }
            // Where the old attempt is known to have made nothing, or its time is over, this
            // caller's retry may create. The core says so.
            let send = self.send_create(&row, access);
            match self.decide(&row.id, &send, &Caller::Keeper).await {
                Ok(decided) => return self.created(access, decided.lease, request, limit).await,
                Err(KeeperError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
            if self.now() >= limit {
                return Err(KeeperError::Unsettled { lease: row.id.clone() });
            }
            self.advance(&row, request.delivered, limit).await?;
            row = self.read(&row.id).await?;
        }
    }

    /// Sends creates for a row in `Requested` until one is answered.
    async fn create(
        &self,
        access: &Access,
        lease: Arc<Lease>,
        request: &AcquireRequest,
        limit: Timestamp,
    ) -> Result<Arc<Lease>, KeeperError> {
        let send = self.send_create(&lease, access);
        match self.decide(&lease.id, &send, &Caller::Keeper).await {
            Ok(decided) => self.created(access, decided.lease, request, limit).await,
            // Another caller with the same key was faster; its create is this one's.
            Err(KeeperError::Refused(Refusal::Busy { .. } | Refusal::NotReady { .. })) => {
                self.settle(&lease.id, request.delivered, limit).await
            }
            Err(error) => Err(error),
        }
    }

    fn send_create(&self, lease: &Lease, access: &Access) -> Input {
        let mut once = [0; 16];
        self.inner.random.fill(&mut once);
        let number = lease.attempt.as_ref().map_or(1, |attempt| attempt.number + 1);
        let name = self.inner.secret.sandbox_name(&lease.id, number, once);
        let facts = access.provider.facts();
        let horizon = self.now() + facts.call_limit + facts.create_horizon;
        Input::SendCreate { name, horizon, debt: self.new_lease_id() }
    }

    /// Does the creates of a row whose create was recorded as sent.
    async fn created(
        &self,
        access: &Access,
        mut lease: Arc<Lease>,
        request: &AcquireRequest,
        limit: Timestamp,
    ) -> Result<Arc<Lease>, KeeperError> {
        let id = lease.id.clone();
        for tried in 1..=NAMES {
            let Some(attempt) = lease.attempt.clone() else {
                return Err(KeeperError::Unsettled { lease: id });
            };
            let result = self.call_create(access, &lease, &attempt).await;
            let (outcome, problem) = self.create_outcome(result, tried < NAMES);
            let input = Input::CreateEnded {
                attempt: attempt.number,
                outcome: outcome.clone(),
                debt: self.new_lease_id(),
            };
            let decided = match self.decide(&id, &input, &Caller::Keeper).await {
                Ok(decided) => decided,
                // Somebody found it before our answer came; what they made of it counts.
                Err(KeeperError::Refused(_))
                    if !matches!(outcome, CreateOutcome::Refused { .. }) =>
                {
                    return self.settle(&id, request.delivered, limit).await;
                }
                Err(error) => return Err(problem.map_or(error, |source| step_failed(&id, source))),
            };
            self.point(&id, Step::Create, Edge::Recorded).await;
            lease = decided.lease;
            match outcome {
                CreateOutcome::Made { .. } => {
                    // Made by this very call: unlike what was found, nobody can have used it.
                    if let Some(_turn) = self.inner.turns.take(&id)
                        && lease.state == State::Preparing
                    {
                        unless_late(self.prepare(lease, request.delivered, false).await)?;
                    }
                    return self.settle(&id, request.delivered, limit).await;
                }
                CreateOutcome::Lost { .. } => {
                    return self.settle(&id, request.delivered, limit).await;
                }
                CreateOutcome::Refused { again: true, .. } if lease.state == State::Creating => {
                    let send = self.send_create(&lease, access);
                    lease = self.decide(&id, &send, &Caller::Keeper).await?.lease;
                }
                CreateOutcome::Refused { .. } => {
                    let source = problem.unwrap_or(ProviderError::NameTaken);
                    return Err(step_failed(&id, source));
                }
            }
        }
        Err(step_failed(&id, ProviderError::NameTaken))
    }

    async fn call_create(
        &self,
        access: &Access,
        lease: &Lease,
        attempt: &Attempt,
    ) -> Result<Created, ProviderError> {
        // While it is under way nobody here looks for what it makes.
        let _turn = self.inner.turns.take(&lease.id);
        let Attempt { name, horizon, .. } = attempt;
        let create = CreateRequest {
            name: name.clone(),
            birth_key: self.inner.secret.birth_key(name),
            spec: lease.spec.clone(),
        };
        let mut call = access.call(self, lease.clocks.provisioning);
        // Whatever happened since the intent was written: after this it is not sent any more, since
        // the attempt's horizon counts from it.
        let latest =
            horizon.since(self.now()).saturating_sub(access.provider.facts().create_horizon);
        call.deadline = call.deadline.min(self.inner.clock.now() + latest);
        let work = async {
            match self.limited(&call, access.provider.create(&create, &call)).await {
                // Our name, and taken: by our own call, should the provider have made it and lost
                // its answer on the way to a second try; or by a stranger.
                Err(ProviderError::NameTaken) => {
                    let call = access.call(self, self.inner.settings.proof);
                    let hits = self.limited(&call, access.provider.find_by_name(name, &call)).await;
                    match hits {
                        Ok(hits) => self.born_here(&hits, lease).ok_or(ProviderError::NameTaken),
                        Err(error) => Err(ProviderError::NoAnswer {
                            message: "the name is taken, and by whom was not told".to_owned(),
                            source: Some(Box::new(error)),
                        }),
                    }
                }
                other => other,
            }
        };
        self.step(&lease.id, Step::Create, work).await
    }

    fn create_outcome(
        &self,
        result: Result<Created, ProviderError>,
        names_left: bool,
    ) -> (CreateOutcome, Option<ProviderError>) {
        match result {
            Ok(Created { sandbox, birth }) => (CreateOutcome::Made { sandbox, birth }, None),
            Err(error) if error.is_definite() => {
                let again = names_left && matches!(error, ProviderError::NameTaken);
                let problem = error.to_string();
                (CreateOutcome::Refused { problem, again }, Some(error))
            }
            Err(error) => {
                let problem = error.to_string();
                (CreateOutcome::Lost { problem, look_at: self.retry_at(0) }, Some(error))
            }
        }
    }

    /// Goes on with an acquire until the lease is active, or cannot become so, or the caller's time
    /// is over. It works on the row as recovery would, and waits where another node has the claim.
    async fn settle(
        &self,
        id: &LeaseId,
        delivered: bool,
        limit: Timestamp,
    ) -> Result<Arc<Lease>, KeeperError> {
        loop {
            let row = self.read(id).await?;
            match row.state {
                State::Active if delivered && !row.is_delivered() => {
                    let owner = row.owner.clone();
                    return self.acknowledge(id, &Caller::Owner { owner, grant: None }).await;
                }
                State::Active => return Ok(row),
                State::Preparing | State::Creating => {}
                State::Requested => return Err(KeeperError::Unsettled { lease: id.clone() }),
                _ => return Err(acquire_failed(&row)),
            }
            if self.now() >= limit {
                return Err(KeeperError::Unsettled { lease: id.clone() });
            }
            self.advance(&row, delivered, limit).await?;
        }
    }

    /// The one sandbox that bears the name, if it was made after the lease was asked for. Clocks may
    /// go at a slightly different pace.
    pub(crate) fn born_here(&self, hits: &[InventoryEntry], lease: &Lease) -> Option<Created> {
        let oldest = self.now().since(lease.created_at) + Duration::from_secs(300);
        match hits {
            [only] if only.age <= oldest => {
                Some(Created { sandbox: only.sandbox.clone(), birth: only.birth.clone() })
            }
            _ => None,
        }
    }

    /// Does what the row of an unfinished acquire asks for, or waits a moment where that is not
    /// this node's turn.
    async fn advance(
        &self,
        row: &Lease,
        delivered: bool,
        limit: Timestamp,
    ) -> Result<(), KeeperError> {
        let Some(_turn) = self.inner.turns.take(&row.id) else {
            self.inner.clock.sleep(SHORTEST_WAIT).await;
            return Ok(());
        };
        // Another task may just have led it on.
        let row = self.read(&row.id).await?;
        if self.has_claim(&row) && row.state == State::Preparing {
            return unless_late(self.prepare(row, delivered, true).await);
        }
        match self.decide(&row.id, &Input::TakeOver, &Caller::Keeper).await {
            Ok(decided) if decided.lease.state == State::Preparing => {
                unless_late(self.prepare(decided.lease, delivered, true).await)?;
            }
            Ok(decided) => unless_late(self.find_attempt(decided.lease).await)?,
            Err(KeeperError::Refused(refusal)) => {
                if let Refusal::Claimed { node, .. } = refusal
                    && self.bury_if_dead(&row.id, &node).await?
                {
                    return Ok(());
                }
                let now = self.now();
                let wait = row.retry_at.since(now).clamp(SHORTEST_WAIT, Duration::from_secs(1));
                let left = limit.since(now).max(Duration::from_millis(1));
                self.inner.clock.sleep(wait.min(left)).await;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Somebody else was faster: what they recorded counts, and the row tells it.
fn unless_late(led_on: Result<Arc<Lease>, KeeperError>) -> Result<(), KeeperError> {
    match led_on {
        Ok(_) | Err(KeeperError::Refused(Refusal::LateOutcome { .. })) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Why an acquire whose row is being removed, or was, has no lease to give.
fn acquire_failed(row: &Lease) -> KeeperError {
    let lease = row.id.clone();
    match (&row.receipt, &row.cleanup) {
        (Some(receipt), _) => Refusal::Gone { lease, ending: receipt.ending }.into(),
        (None, Some(cleanup)) => Refusal::Closing { lease, reason: cleanup.reason }.into(),
        (None, None) => KeeperError::Unsettled { lease },
    }
}

fn step_failed(lease: &LeaseId, source: ProviderError) -> KeeperError {
    KeeperError::Step { lease: lease.clone(), step: Step::Create, source }
}
