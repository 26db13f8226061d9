//! The local provider passes the suite that every provider must pass.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails shall say where"
)]

mod support;

use leasehold_core::AccountId;
use leasehold_ports::{Clock, Provider, Random};
use leasehold_testkit::conformance::{self, Bench};
use std::sync::Arc;
use support::{Sandbox, SystemClock, SystemRandom, users};

struct LocalBench(Arc<dyn Provider>);

impl Bench for LocalBench {
    fn provider(&self) -> Arc<dyn Provider> {
        self.0.clone()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    fn random(&self) -> Arc<dyn Random> {
        Arc::new(SystemRandom)
    }

    fn account(&self) -> AccountId {
        AccountId::new(format!("uid-{}", rustix::process::geteuid().as_raw())).unwrap()
    }
}

#[tokio::test]
async fn the_local_provider_conforms() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let bench = LocalBench(Arc::new(sandbox.provider.clone()));
    assert_eq!(conformance::run_all(&bench).await, Vec::new());
    sandbox.destroy().await;
}

#[test]
fn as_an_ordinary_user_all_of_this_holds_too() {
    users::run_everything_again_as_ordinary_user("as_an_ordinary_user");
}
