//! Marker and fence.

use leasehold_core::Grant;
use leasehold_ports::{CommandRequest, NotStarted, ProcessEnd, StartError};

use super::bench::{Bench, Failure, bare, call, command, ensure, fence, finish, prepared};

pub(super) async fn marker_and_fence_are_read_back(bench: &dyn Bench) -> Result<(), Failure> {
    let provider = bench.provider();
    let sandbox = bare(bench).await?;
    let before = provider.identify(sandbox.id(), &call(bench)).await?;
    ensure!(
        before.marker.is_none() && before.fence.is_none(),
        "a sandbox that nobody prepared has {before:?}"
    );
    sandbox.prepare().await?;
    let after = provider.identify(sandbox.id(), &call(bench)).await?;
    ensure!(after.marker.as_ref() == Some(&sandbox.marker), "the marker is {:?}", after.marker);
    ensure!(after.fence == Some(fence(1)), "the fence is {:?}", after.fence);
    sandbox.remove().await
}

pub(super) async fn a_preparation_may_be_repeated(bench: &dyn Bench) -> Result<(), Failure> {
    let provider = bench.provider();
    let sandbox = prepared(bench).await?;
    provider.raise_fence(sandbox.id(), &fence(4), &call(bench)).await?;
    // A late repetition, when the lease has long gone on.
    sandbox.prepare().await?;
    let identity = provider.identify(sandbox.id(), &call(bench)).await?;
    ensure!(identity.marker.as_ref() == Some(&sandbox.marker), "the marker is {identity:?}");
    ensure!(identity.fence == Some(fence(4)), "the fence was lowered: {:?}", identity.fence);
    sandbox.remove().await
}

pub(super) async fn a_fence_is_never_lowered(bench: &dyn Bench) -> Result<(), Failure> {
    let provider = bench.provider();
    let sandbox = prepared(bench).await?;
    for (raised, stands) in [(3, 3), (3, 3), (2, 3), (7, 7), (1, 7)] {
        provider.raise_fence(sandbox.id(), &fence(raised), &call(bench)).await?;
        let identity = provider.identify(sandbox.id(), &call(bench)).await?;
        ensure!(
            identity.fence == Some(fence(stands)),
            "raised to {raised}, the fence is {:?}, not {stands}",
            identity.fence
        );
    }
    sandbox.remove().await
}

pub(super) async fn a_stale_command_does_not_start(bench: &dyn Bench) -> Result<(), Failure> {
    let provider = bench.provider();
    let sandbox = prepared(bench).await?;
    provider.raise_fence(sandbox.id(), &fence(5), &call(bench)).await?;
    let stale = CommandRequest { grant: Grant(4), ..command(bench, &["true"]) };
    match sandbox.start(&stale).await {
        Err(StartError::NotStarted(NotStarted::StaleGrant { fence: Grant(5) })) => {}
        other => ensure!(false, "a command of a stale grant: {other:?}"),
    }
    for grant in [5, 6] {
        let current = CommandRequest { grant: Grant(grant), ..command(bench, &["true"]) };
        let printed = finish(bench, sandbox.start(&current).await?).await?;
        ensure!(printed.end == ProcessEnd::Exited(0), "grant {grant} ended {:?}", printed.end);
    }
    sandbox.remove().await
}
