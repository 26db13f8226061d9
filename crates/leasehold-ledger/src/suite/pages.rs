//! Pages, due work and homes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Cleanliness, DestroyReason, Kind, Lease, State, Timestamp, due_at};
use leasehold_ports::{LeaseFilter, Ledger};

use super::Subject;
use super::samples::*;

async fn listed(ledger: &dyn Ledger, filter: LeaseFilter) -> Vec<String> {
    ledger.list(&filter).await.unwrap().into_iter().map(|row| row.id.to_string()).collect()
}

pub async fn pages_follow_each_other_without_gap_or_repetition(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let rows: Vec<Lease> = (0..25).map(|number| active(&format!("ls_{number:02}"))).collect();
    ledger.commit(rows.iter().map(insert).collect()).await.unwrap();
    let mut filter = LeaseFilter { limit: 10, ..LeaseFilter::default() };
    let mut sizes = Vec::new();
    let mut seen = Vec::new();
    loop {
        let page = ledger.list(&filter).await.unwrap();
        sizes.push(page.len());
        let Some(last) = page.last() else { break };
        filter.after = Some(last.id.clone());
        seen.extend(page);
    }
    assert_eq!(sizes, [10, 10, 5, 0]);
    assert!(seen.iter().map(Arc::as_ref).eq(&rows));
}

pub async fn a_page_holds_what_its_filter_asks_for(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let mut others = active("ls_others");
    others.owner = owner("another");
    let parked = {
        let mut row = active("ls_parked");
        row.state = State::Parked;
        row.cleanliness = Cleanliness::Clean;
        row
    };
    let used = active("ls_used");
    let ended = active("ls_ended");
    ledger
        .commit(vec![insert(&others), insert(&parked), insert(&used), insert(&ended)])
        .await
        .unwrap();
    replace(&*ledger, &closed(&ended)).await;
    let every = LeaseFilter::default();

    assert_eq!(listed(&*ledger, every.clone()).await, ["ls_others", "ls_parked", "ls_used"]);
    let filter = LeaseFilter { closed: true, ..every.clone() };
    let all = ["ls_ended", "ls_others", "ls_parked", "ls_used"];
    assert_eq!(listed(&*ledger, filter).await, all);

    let filter = LeaseFilter { owner: Some(owner("environment")), ..every.clone() };
    assert_eq!(listed(&*ledger, filter.clone()).await, ["ls_parked", "ls_used"]);
    let filter = LeaseFilter { closed: true, ..filter };
    assert_eq!(listed(&*ledger, filter.clone()).await, ["ls_ended", "ls_parked", "ls_used"]);
    let filter = LeaseFilter { states: vec![State::Parked], ..filter };
    assert_eq!(listed(&*ledger, filter).await, ["ls_ended", "ls_parked"]);

    let states = vec![State::Parked, State::Active];
    let filter = LeaseFilter { states, limit: 2, ..every.clone() };
    assert_eq!(listed(&*ledger, filter.clone()).await, ["ls_others", "ls_parked"]);
    let filter = LeaseFilter { after: Some(id("ls_parked")), ..filter };
    assert_eq!(listed(&*ledger, filter).await, ["ls_used"]);
    let filter = LeaseFilter { states: vec![State::Destroying], ..every.clone() };
    assert!(listed(&*ledger, filter).await.is_empty());

    let filter = LeaseFilter { id_prefix: Some("ls_p".to_owned()), ..every.clone() };
    assert_eq!(listed(&*ledger, filter).await, ["ls_parked"]);
    let filter = LeaseFilter { id_prefix: Some("ls_%".to_owned()), ..every };
    assert!(listed(&*ledger, filter).await.is_empty());
}

pub async fn due_work_comes_longest_overdue_first(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    assert_eq!(ledger.next_due().await.unwrap(), None);
    let idle = active("ls_idle");
    let soon = {
        let mut row = debt("ls_soon", "soon");
        row.retry_at = NOW + Duration::from_secs(10);
        row
    };
    let sooner = {
        let mut row = debt("ls_sooner", "sooner");
        row.retry_at = NOW + Duration::from_secs(5);
        row
    };
    ledger.commit(vec![insert(&idle), insert_debt(&soon), insert_debt(&sooner)]).await.unwrap();
    assert_eq!(ledger.next_due().await.unwrap(), Some(sooner.retry_at));

    assert!(ledger.due(NOW, 10).await.unwrap().is_empty());
    let due = ledger.due(sooner.retry_at, 10).await.unwrap();
    assert_eq!(ids(&due), ["ls_sooner"]);
    let late = due_at(&idle).unwrap();
    let due = ledger.due(late, 10).await.unwrap();
    assert_eq!(ids(&due), ["ls_sooner", "ls_soon", "ls_idle"]);
    let due = ledger.due(late, 2).await.unwrap();
    assert_eq!(ids(&due), ["ls_sooner", "ls_soon"]);

    // A retry that is put off makes room, and an end takes the row off.
    let put_off = next(&sooner, |row| row.retry_at = late);
    replace(&*ledger, &put_off).await;
    assert_eq!(ledger.next_due().await.unwrap(), Some(soon.retry_at));
    replace(&*ledger, &closed(&soon)).await;
    let due = ledger.due(late, 10).await.unwrap();
    assert_eq!(ids(&due), ["ls_idle", "ls_sooner"]);
}

pub async fn what_has_no_deadline_is_never_due(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let mut template = active("ls_template");
    template.kind = Kind::Template;
    template.state = State::Parked;
    store(&*ledger, &template).await;
    let ended = active("ls_ended");
    store(&*ledger, &ended).await;
    let leaving = destroying(&ended, DestroyReason::OwnerAsked);
    replace(&*ledger, &leaving).await;
    replace(&*ledger, &closed(&leaving)).await;
    assert_eq!(ledger.next_due().await.unwrap(), None);
    let far = Timestamp::from_millis(Timestamp::NEVER.as_millis() - 1);
    assert!(ledger.due(far, 10).await.unwrap().is_empty());
}

pub async fn homes_are_those_of_open_rows(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    assert!(ledger.homes().await.unwrap().is_empty());
    let one = active("ls_one");
    let mut two = active("ls_two");
    two.home = home("another");
    let mut three = active("ls_three");
    three.home = home("another");
    for row in [&one, &two, &three] {
        store(&*ledger, row).await;
    }
    assert_eq!(ledger.homes().await.unwrap(), vec![home("account"), home("another")]);
    replace(&*ledger, &closed(&one)).await;
    replace(&*ledger, &closed(&two)).await;
    assert_eq!(ledger.homes().await.unwrap(), vec![home("another")]);
}
