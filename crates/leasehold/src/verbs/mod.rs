//! One file for each verb: its arguments, what it asks of the keeper, and what it says.

pub(crate) mod acquire;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cp;
pub(crate) mod destroy;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod forget;
pub(crate) mod history;
pub(crate) mod ledger;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod metrics;
mod orphan;
pub(crate) mod park;
pub(crate) mod recover;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod sweep;
pub(crate) mod template;
pub(crate) mod wait;
