//! Events: append-only, in order.

use std::time::Duration;

use leasehold_core::{DestroyReason, EventKind, Grant};
use leasehold_ports::EventPage;

use super::Subject;
use super::samples::*;

pub async fn events_are_kept_in_order_and_read_in_pages(subject: &dyn Subject) {
    let (ledger, clock) = opened(subject);
    let (row, other) = (active("ls_row"), active("ls_other"));
    ledger.commit(vec![insert(&row), insert(&other)]).await.unwrap();
    clock.advance(Duration::from_secs(1));
    let row = next(&row, |row| row.epoch = row.epoch.next());
    let granted = EventKind::Granted { grant: Grant(2) };
    ledger
        .commit(vec![update_noting(&row, vec![granted.clone(), EventKind::Parked])])
        .await
        .unwrap();

    let history = ledger.events(&row.id, 0, 100).await.unwrap();
    let kinds: Vec<_> = history.events.iter().map(|entry| entry.event.kind.clone()).collect();
    assert_eq!(kinds, [EventKind::Requested, granted, EventKind::Parked]);
    assert!(!history.older_removed);
    assert!(history.events.is_sorted_by(|one, next| one.sequence < next.sequence));
    let last = &history.events[2].event;
    assert_eq!(last.lease, row.id);
    assert_eq!(last.at, NOW + Duration::from_secs(1));
    assert_eq!(last.epoch, row.epoch);
    assert_eq!(last.actor, "keeper");

    let first = ledger.events(&row.id, 0, 1).await.unwrap();
    assert_eq!(first.events, history.events[..1]);
    let rest = ledger.events(&row.id, first.events[0].sequence, 100).await.unwrap();
    assert_eq!(rest.events, history.events[1..]);
    let none = ledger.events(&id("ls_none"), 0, 100).await.unwrap();
    assert_eq!(none, EventPage::default());
}

pub async fn a_debt_has_a_history_from_its_first_row_on(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let owed = debt("ls_debt", "late");
    ledger.commit(vec![insert_debt(&owed)]).await.unwrap();
    let history = ledger.events(&owed.id, 0, 100).await.unwrap();
    let kinds: Vec<_> = history.events.into_iter().map(|entry| entry.event.kind).collect();
    assert_eq!(kinds, [EventKind::DestroyBegan { reason: DestroyReason::LateCreate }]);
}
