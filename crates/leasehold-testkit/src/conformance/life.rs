//! From the create to the proof of absence.

use leasehold_core::{Grant, Pin, SandboxName};
use leasehold_ports::{InventoryEntry, Preparation, ProviderError, Removal, StartError, Status};

use super::bench::{
    Bench, Failure, bare, call, command, create_request, ensure, fence, new_name, prepared, soon,
    unknown_sandbox,
};

pub(super) async fn a_created_sandbox_is_present(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = bare(bench).await?;
    match sandbox.status().await? {
        Status::Present { birth, .. } => {
            ensure!(birth == sandbox.created.birth, "a read told birth {birth}");
        }
        other => ensure!(false, "a read right after the create told {other:?}"),
    }
    sandbox.remove().await
}

pub(super) async fn a_name_makes_one_sandbox(bench: &dyn Bench) -> Result<(), Failure> {
    let provider = bench.provider();
    let sandbox = bare(bench).await?;
    let again = provider.create(&create_request(bench, &sandbox.name), &call(bench)).await;
    if provider.capabilities().unique_names {
        match again {
            Err(ProviderError::NameTaken) => {}
            Ok(again) => ensure!(
                again == sandbox.created,
                "the same name made {again:?} beside {:?}",
                sandbox.created
            ),
            Err(other) => return Err(other.into()),
        }
        let found = provider.find_by_name(&sandbox.name, &call(bench)).await?;
        ensure!(found.len() == 1, "{} sandboxes bear one name", found.len());
    } else if let Ok(second) = again
        && second != sandbox.created
    {
        let removal = provider.destroy(&second.pin(), &call(bench)).await?;
        ensure!(!matches!(removal, Removal::Absent(_)), "the second was not found: {removal:?}");
    }
    sandbox.remove().await
}

pub(super) async fn a_sandbox_is_found_by_its_name(bench: &dyn Bench) -> Result<(), Failure> {
    let provider = bench.provider();
    let (sandbox, other) = (bare(bench).await?, bare(bench).await?);
    let found = provider.find_by_name(&sandbox.name, &call(bench)).await?;
    let ours = |entry: &InventoryEntry| {
        entry.sandbox == sandbox.created.sandbox
            && entry.birth == sandbox.created.birth
            && entry.name.as_ref() == Some(&sandbox.name)
    };
    ensure!(found.len() == 1 && found.iter().all(ours), "its name found {found:?}");
    let nothing = provider.find_by_name(&new_name(bench), &call(bench)).await?;
    ensure!(nothing.is_empty(), "a name that nobody has found {nothing:?}");
    sandbox.remove().await?;
    other.remove().await
}

async fn listed(bench: &dyn Bench, name: &SandboxName) -> Result<Option<InventoryEntry>, Failure> {
    let provider = bench.provider();
    let mut from: Option<String> = None;
    let mut found = None;
    loop {
        let page = provider.list(from.as_deref(), &call(bench)).await?;
        for entry in page.entries {
            if entry.name.as_ref() == Some(name) {
                ensure!(found.is_none(), "a listing holds it twice: {entry:?}");
                found = Some(entry);
            }
        }
        match page.next {
            Some(next) => {
                ensure!(from.as_ref() != Some(&next), "a page is its own next: {next}");
                from = Some(next);
            }
            None => return Ok(found),
        }
    }
}

pub(super) async fn a_listing_holds_it_until_its_end(bench: &dyn Bench) -> Result<(), Failure> {
    let provider = bench.provider();
    if !provider.capabilities().list {
        return Ok(());
    }
    let lag = provider.facts().list_lag;
    let sandbox = bare(bench).await?;
    let name = sandbox.name.clone();
    bench.clock().sleep(lag).await;
    let entry = listed(bench, &name).await?;
    let ours = entry.as_ref().is_some_and(|entry| {
        entry.sandbox == sandbox.created.sandbox && entry.birth == sandbox.created.birth
    });
    ensure!(ours, "a listing told {entry:?}");
    sandbox.remove().await?;
    bench.clock().sleep(lag).await;
    let entry = listed(bench, &name).await?;
    ensure!(entry.is_none(), "a listing holds what was removed: {entry:?}");
    Ok(())
}

pub(super) async fn two_sandboxes_are_told_apart(bench: &dyn Bench) -> Result<(), Failure> {
    let (one, other) = (bare(bench).await?, bare(bench).await?);
    ensure!(one.created.sandbox != other.created.sandbox, "two sandboxes have one id");
    ensure!(one.created.birth != other.created.birth, "two sandboxes have one birth");
    one.remove().await?;
    let status = other.status().await?;
    ensure!(matches!(status, Status::Present { .. }), "the other went with it: {status:?}");
    other.remove().await
}

pub(super) async fn what_never_was_is_absent(bench: &dyn Bench) -> Result<(), Failure> {
    let status = bench.provider().status(&unknown_sandbox(bench)?, &call(bench)).await?;
    ensure!(matches!(status, Status::Absent(_)), "a read told {status:?}");
    Ok(())
}

pub(super) async fn a_removal_is_proved_and_may_be_repeated(
    bench: &dyn Bench,
) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let provider = bench.provider();
    let first = provider.destroy(&sandbox.created.pin(), &call(bench)).await?;
    ensure!(!matches!(first, Removal::Absent(_)), "the first removal told {first:?}");
    sandbox.await_absence().await?;
    let again = provider.destroy(&sandbox.created.pin(), &call(bench)).await?;
    ensure!(
        matches!(again, Removal::Proved(_) | Removal::Absent(_)),
        "a removal of what is gone told {again:?}"
    );
    let status = sandbox.status().await?;
    ensure!(!matches!(status, Status::Present { .. }), "a read told {status:?}");
    Ok(())
}

pub(super) async fn a_removal_of_what_never_was_changes_nothing(
    bench: &dyn Bench,
) -> Result<(), Failure> {
    let bystander = bare(bench).await?;
    let unknown = Pin { sandbox: unknown_sandbox(bench)?, ..bystander.created.pin() };
    let removal = bench.provider().destroy(&unknown, &call(bench)).await?;
    ensure!(matches!(removal, Removal::Absent(_)), "it told {removal:?}");
    let status = bystander.status().await?;
    ensure!(matches!(status, Status::Present { .. }), "another sandbox is {status:?}");
    bystander.remove().await
}

pub(super) async fn a_removal_of_another_birth_changes_nothing(
    bench: &dyn Bench,
) -> Result<(), Failure> {
    let provider = bench.provider();
    if !provider.capabilities().compares_births {
        return Ok(());
    }
    let (sandbox, other) = (prepared(bench).await?, bare(bench).await?);
    let another = Pin { birth: other.created.birth.clone(), ..sandbox.created.pin() };
    let removal = provider.destroy(&another, &call(bench)).await?;
    ensure!(matches!(removal, Removal::Stranger(_)), "it told {removal:?}");
    let printed = sandbox.run(&["echo", "alive"]).await?;
    ensure!(printed.output == b"alive\n", "it printed {:?}", printed.output);
    other.remove().await?;
    sandbox.remove().await
}

pub(super) async fn nothing_is_done_in_what_never_was(bench: &dyn Bench) -> Result<(), Failure> {
    let provider = bench.provider();
    let bystander = prepared(bench).await?;
    let unknown = unknown_sandbox(bench)?;
    let preparation = Preparation { marker: bystander.marker.clone(), fence: fence(9) };
    let started = provider.start(&unknown, &command(bench, &["true"]), &call(bench)).await;
    let answers = [
        ("prepare", provider.prepare(&unknown, &preparation, &call(bench)).await),
        ("identify", provider.identify(&unknown, &call(bench)).await.map(drop)),
        ("raise_fence", provider.raise_fence(&unknown, &fence(9), &call(bench)).await),
        ("clean", provider.clean(&unknown, Grant(1), &call(bench)).await),
        (
            "start",
            match started {
                Err(StartError::Provider(error)) => Err(error),
                Err(StartError::NotStarted(reason)) => {
                    return Err(Failure(format!("a start told {reason:?}")));
                }
                Ok(_) => Ok(()),
            },
        ),
    ];
    for (operation, answer) in answers {
        ensure!(matches!(answer, Err(ProviderError::NotFound)), "{operation} told {answer:?}");
    }
    let identity = provider.identify(bystander.id(), &call(bench)).await?;
    ensure!(identity.fence == Some(fence(1)), "another sandbox's fence is {:?}", identity.fence);
    bystander.remove().await
}

pub(super) async fn a_removal_ends_the_commands(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let mut process = sandbox.start(&command(bench, &["sleep", "1000"])).await?;
    sandbox.remove().await?;
    // How it ended may be told, or not be known; but nobody waits for ever.
    let _ =
        soon(bench, "the end of a command in a removed sandbox", process.control.wait()).await?;
    while soon(bench, "the end of its output", process.output.recv()).await?.is_some() {}
    Ok(())
}

pub(super) async fn nothing_starts_after_a_removal(bench: &dyn Bench) -> Result<(), Failure> {
    let sandbox = prepared(bench).await?;
    let id = sandbox.id().clone();
    sandbox.remove().await?;
    match bench.provider().start(&id, &command(bench, &["true"]), &call(bench)).await {
        Err(StartError::Provider(ProviderError::NotFound)) => Ok(()),
        other => Err(Failure(format!("a start told {other:?}"))),
    }
}
