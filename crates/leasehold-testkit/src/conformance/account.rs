//! Whose sandboxes they are.

use super::bench::{Bench, Failure, call, ensure};

pub(super) async fn the_account_is_told(bench: &dyn Bench) -> Result<(), Failure> {
    let account = bench.provider().account(&call(bench)).await?;
    ensure!(account == bench.account(), "it told {account}, not {}", bench.account());
    Ok(())
}
