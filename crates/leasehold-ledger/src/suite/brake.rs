//! The destroy brake.

use std::time::Duration;

use leasehold_core::{DestroyReason, Lease};
use leasehold_ports::{Ledger, LedgerError};

use super::Subject;
use super::samples::*;

const BRAKED: DestroyReason = DestroyReason::Undelivered;

async fn stored(ledger: &dyn Ledger, count: usize) -> Vec<Lease> {
    let rows: Vec<Lease> = (0..count).map(|number| active(&format!("ls_{number:03}"))).collect();
    ledger.commit(rows.iter().map(insert).collect()).await.unwrap();
    rows
}

pub async fn five_removals_that_nobody_asked_for_pass_and_the_sixth_does_not(
    subject: &dyn Subject,
) {
    let (ledger, _) = opened(subject);
    let rows = stored(&*ledger, 7).await;
    for row in &rows[..5] {
        replace(&*ledger, &destroying(row, BRAKED)).await;
    }
    let state = ledger.brake().await.unwrap();
    assert_eq!((state.on, state.recent, state.limit), (false, 5, 5));

    let refused = refusal(&*ledger, update(&destroying(&rows[5], BRAKED))).await;
    assert!(matches!(refused, LedgerError::Braked { recent: 5 }), "{refused}");
    assert_eq!(ledger.get(&rows[5].id).await.unwrap().as_deref(), Some(&rows[5]));
    assert!(ledger.brake().await.unwrap().on);

    // Other processes see it too.
    let (other, _) = opened(subject);
    let refused = refusal(&*other, update(&destroying(&rows[6], BRAKED))).await;
    assert!(matches!(refused, LedgerError::Braked { .. }), "{refused}");
}

pub async fn a_tenth_of_many_leases_passes(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let rows = stored(&*ledger, 80).await;
    let eight: Vec<_> = rows[..8].iter().map(|row| update(&destroying(row, BRAKED))).collect();
    ledger.commit(eight).await.unwrap();
    let refused = refusal(&*ledger, update(&destroying(&rows[8], BRAKED))).await;
    assert!(matches!(refused, LedgerError::Braked { recent: 8 }), "{refused}");
}

pub async fn removals_spread_over_time_pass(subject: &dyn Subject) {
    let (ledger, clock) = opened(subject);
    let rows = stored(&*ledger, 20).await;
    for row in &rows {
        replace(&*ledger, &destroying(row, BRAKED)).await;
        clock.advance(Duration::from_secs(2 * 60));
    }
    assert!(!ledger.brake().await.unwrap().on);
}

pub async fn the_brake_stays_on_until_it_is_released(subject: &dyn Subject) {
    let (ledger, clock) = opened(subject);
    let rows = stored(&*ledger, 8).await;
    for row in &rows[..5] {
        replace(&*ledger, &destroying(row, BRAKED)).await;
    }
    let sixth = destroying(&rows[5], BRAKED);
    refusal(&*ledger, update(&sixth)).await;

    clock.advance(Duration::from_secs(60 * 60));
    let state = ledger.brake().await.unwrap();
    assert_eq!((state.on, state.recent), (true, 0));
    let refused = refusal(&*ledger, update(&sixth)).await;
    assert!(matches!(refused, LedgerError::Braked { .. }), "{refused}");

    ledger.release_brake().await.unwrap();
    replace(&*ledger, &sixth).await;
    let state = ledger.brake().await.unwrap();
    assert_eq!((state.on, state.recent), (false, 1));
}

pub async fn what_owners_and_deadlines_end_is_not_braked(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let rows = stored(&*ledger, 30).await;
    for (row, reason) in rows.iter().zip(
        [DestroyReason::OwnerAsked, DestroyReason::OperatorAsked, DestroyReason::Deadline]
            .into_iter()
            .cycle(),
    ) {
        replace(&*ledger, &destroying(row, reason)).await;
    }
    assert_eq!(ledger.brake().await.unwrap().recent, 0);
}
