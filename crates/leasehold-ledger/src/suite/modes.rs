//! Restored mode, and time.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{DestroyReason, Timestamp};
use leasehold_ports::{Clock, LedgerError, LedgerMode};

use super::samples::*;
use super::{Subject, TestClock};

pub async fn a_restored_ledger_removes_nothing_on_its_own_word(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = active("ls_row");
    store(&*ledger, &row).await;
    assert_eq!(ledger.mode().await.unwrap(), LedgerMode::Current);
    subject.restore("it is a copy").await;
    let why = "it is a copy".to_owned();
    assert_eq!(ledger.mode().await.unwrap(), LedgerMode::Restored { why });

    for reason in [
        DestroyReason::Deadline,
        DestroyReason::Undelivered,
        DestroyReason::PreparationFailed,
        DestroyReason::StopUnconfirmed,
        DestroyReason::HolderDied,
        DestroyReason::WrongMarker,
        DestroyReason::LateCreate,
        DestroyReason::Reappeared,
    ] {
        let refused = refusal(&*ledger, update(&destroying(&row, reason))).await;
        assert!(matches!(refused, LedgerError::Restored { .. }), "{reason:?}: {refused}");
    }
    // An attempt of the record may have become a sandbox that is in use elsewhere.
    let mut in_doubt = debt("ls_in_doubt", "unused");
    in_doubt.pin = None;
    in_doubt.attempt = Some(attempt(1, "in-doubt"));
    let refused = refusal(&*ledger, insert_debt(&in_doubt)).await;
    assert!(matches!(refused, LedgerError::Restored { .. }), "{refused}");

    ledger.accept().await.unwrap();
    assert_eq!(ledger.mode().await.unwrap(), LedgerMode::Current);
    replace(&*ledger, &destroying(&row, DestroyReason::Deadline)).await;
}

pub async fn a_restored_ledger_serves_owners(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = active("ls_row");
    store(&*ledger, &row).await;
    subject.restore("it is a copy").await;

    let renewed = next(&row, |row| row.life_until = NOW + Duration::from_secs(7200));
    replace(&*ledger, &renewed).await;
    store(&*ledger, &active("ls_new")).await;
    let asked = destroying(&renewed, DestroyReason::OwnerAsked);
    replace(&*ledger, &asked).await;
    replace(&*ledger, &closed(&asked)).await;
    // What a create just answered to this process can be nobody else's.
    ledger.commit(vec![insert_debt(&debt("ls_debt", "late"))]).await.unwrap();
}

pub async fn time_never_runs_backwards(subject: &dyn Subject) {
    let (ledger, clock) = opened(subject);
    let later = NOW + Duration::from_secs(300);
    clock.set(later);
    assert_eq!(ledger.now(), later);
    clock.set(NOW);
    assert_eq!(ledger.now(), later);
    clock.set(later + Duration::from_secs(1));
    assert_eq!(ledger.now(), later + Duration::from_secs(1));
}

pub async fn time_never_runs_backwards_between_processes(subject: &dyn Subject) {
    let five_minutes = Duration::from_secs(300);
    let (ahead, clock) = opened(subject);
    clock.advance(five_minutes);
    store(&*ahead, &active("ls_ahead")).await;

    let clock = TestClock::at(Timestamp::from_millis(NOW.as_millis() - 300_000));
    let behind = subject.open(Arc::clone(&clock) as Arc<dyn Clock>);
    assert_eq!(behind.now(), NOW + five_minutes);
    let row = active("ls_behind");
    store(&*behind, &row).await;
    let history = behind.events(&row.id, 0, 1).await.unwrap();
    assert_eq!(history.events[0].event.at, NOW + five_minutes);
}
