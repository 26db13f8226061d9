//! Looking for the sandbox that an attempt may have made.

use std::sync::Arc;

use leasehold_core::{Caller, Input, Lease, Looked, Step};
use leasehold_ports::LedgerError;

use crate::access::Access;
use crate::crash::Edge;
use crate::{Keeper, KeeperError};

impl Keeper {
    /// Looks once, for a row that this node has claimed.
    pub(crate) async fn find_attempt(&self, lease: Arc<Lease>) -> Result<Arc<Lease>, KeeperError> {
        let Some(attempt) = lease.attempt.clone() else { return Ok(lease) };
        let tries = lease.cleanup.as_ref().map_or(0, |cleanup| cleanup.tries);
        let looked = match self.access(&lease.home).await {
            Err(error) => {
                Looked::Unprovable { problem: error.to_string(), retry_at: self.retry_at(tries) }
            }
            Ok(access) => {
                let asked_at = self.now();
                let call = access.call(self, self.inner.settings.proof);
                let search = access.provider.find_by_name(&attempt.name, &call);
                let hits =
                    self.step(&lease.id, Step::FindAttempt, self.limited(&call, search)).await;
                match hits {
                    Err(error) => Looked::Unprovable {
                        problem: error.to_string(),
                        retry_at: self.retry_at(tries),
                    },
                    Ok(hits) if hits.is_empty() && self.horizon_is_doubtful(&access) => {
                        Looked::Unprovable {
                            problem: "the clock jumped a short while ago".to_owned(),
                            retry_at: self.retry_at(tries),
                        }
                    }
                    Ok(hits) if hits.is_empty() => {
                        Looked::Absent { asked_at, lag: access.provider.facts().list_lag }
                    }
                    Ok(hits) => match self.born_here(&hits, &lease) {
                        Some(made) => Looked::Found { sandbox: made.sandbox, birth: made.birth },
                        None => Looked::Ambiguous {
                            candidates: hits.into_iter().map(|hit| hit.sandbox).collect(),
                            retry_at: self.retry_at(tries.max(6)),
                        },
                    },
                }
            }
        };
        let input = Input::AttemptLooked { attempt: attempt.number, looked };
        let decided = match self.decide(&lease.id, &input, &Caller::Keeper).await {
            // Whatever its name is, it is another lease's: that is no evidence about this attempt.
            Err(KeeperError::Ledger(LedgerError::PinTaken { .. })) => {
                let problem = "what bears its name belongs to another lease".to_owned();
                let looked = Looked::Unprovable { problem, retry_at: self.retry_at(tries) };
                let input = Input::AttemptLooked { attempt: attempt.number, looked };
                self.decide(&lease.id, &input, &Caller::Keeper).await?
            }
            other => other?,
        };
        self.point(&lease.id, Step::FindAttempt, Edge::Recorded).await;
        Ok(decided.lease)
    }

    /// Whether the clock jumped so short a while ago that an attempt's horizon may have been reached
    /// by the jump alone.
    fn horizon_is_doubtful(&self, access: &Access) -> bool {
        let facts = access.provider.facts();
        let span = facts.call_limit + facts.create_horizon + facts.list_lag;
        self.is_in_jump_grace() || self.jumped_within(span)
    }
}
