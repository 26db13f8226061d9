//! Conditional writes: versions, keys, pins, limits, all or nothing.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{AttemptState, DestroyReason, State};
use leasehold_ports::{LeaseFilter, LedgerError, Limits};

use super::Subject;
use super::samples::*;

pub async fn a_row_is_read_as_it_was_written(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = keyed(active("ls_a"), "key");
    store(&*ledger, &row).await;
    assert_eq!(ledger.get(&row.id).await.unwrap().as_deref(), Some(&row));
    assert_eq!(ledger.get(&id("ls_none")).await.unwrap(), None);

    let (other, _) = opened(subject);
    assert_eq!(other.get(&row.id).await.unwrap().as_deref(), Some(&row));
}

pub async fn of_fifty_writers_of_one_version_one_wins(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = active("ls_a");
    store(&*ledger, &row).await;
    let writers: Vec<_> = (0..50)
        .map(|number| {
            let (ledger, row) = (Arc::clone(&ledger), row.clone());
            tokio::spawn(async move {
                let mine = next(&row, |row| row.touched_at = NOW + Duration::from_millis(number));
                (ledger.commit(vec![update(&mine)]).await, mine)
            })
        })
        .collect();
    let mut winners = Vec::new();
    for writer in writers {
        match writer.await.unwrap() {
            (Ok(()), row) => winners.push(row),
            (Err(LedgerError::Conflict { lease }), _) => assert_eq!(lease, row.id),
            (Err(other), _) => panic!("{other}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(ledger.get(&row.id).await.unwrap().as_deref(), winners.last());
}

pub async fn a_write_follows_the_stored_version(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = active("ls_a");
    store(&*ledger, &row).await;
    let mut skipping = next(&row, |_| {});
    skipping.version += 1;
    for stale in [row.clone(), skipping, next(&active("ls_unknown"), |_| {})] {
        let refused = refusal(&*ledger, update(&stale)).await;
        assert!(matches!(&refused, LedgerError::Conflict { lease } if *lease == stale.id));
    }
    assert_eq!(ledger.get(&row.id).await.unwrap().as_deref(), Some(&row));
}

pub async fn a_new_row_has_a_new_id_and_the_first_version(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = active("ls_a");
    store(&*ledger, &row).await;
    let refused = refusal(&*ledger, insert(&row)).await;
    assert!(matches!(refused, LedgerError::Conflict { .. }), "{refused}");
    let refused = refusal(&*ledger, insert(&next(&active("ls_b"), |_| {}))).await;
    assert!(matches!(refused, LedgerError::Invalid { .. }), "{refused}");
}

pub async fn a_row_that_breaks_a_rule_is_not_written(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = active("ls_a");
    store(&*ledger, &row).await;
    let unpinned = next(&row, |row| row.pin = None);
    let refused = refusal(&*ledger, update(&unpinned)).await;
    assert!(matches!(refused, LedgerError::Invalid { .. }), "{refused}");
    assert_eq!(ledger.get(&row.id).await.unwrap().as_deref(), Some(&row));
}

pub async fn owner_home_and_key_of_a_row_never_change(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = keyed(active("ls_a"), "key");
    store(&*ledger, &row).await;
    for changed in [
        next(&row, |row| row.owner = owner("another")),
        next(&row, |row| row.home = home("another")),
        next(&row, |row| row.intent = None),
        keyed(next(&row, |_| {}), "another"),
    ] {
        let refused = refusal(&*ledger, update(&changed)).await;
        assert!(matches!(refused, LedgerError::Invalid { .. }), "{refused}");
    }
    assert_eq!(ledger.get(&row.id).await.unwrap().as_deref(), Some(&row));
}

pub async fn a_key_is_used_once_for_each_owner_and_home(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let first = keyed(active("ls_first"), "key");
    store(&*ledger, &first).await;
    let again = keyed(active("ls_again"), "key");
    let refused = refusal(&*ledger, insert(&again)).await;
    assert!(matches!(refused, LedgerError::KeyTaken { lease } if lease == first.id));

    let mut of_another_owner = keyed(active("ls_owner"), "key");
    of_another_owner.owner = owner("another");
    store(&*ledger, &of_another_owner).await;
    let mut in_another_home = keyed(active("ls_home"), "key");
    in_another_home.home = home("another");
    store(&*ledger, &in_another_home).await;
    let found = ledger.find_key(&first.owner, &first.home, &key("key")).await.unwrap();
    assert_eq!(found.as_deref(), Some(&first));
    assert_eq!(ledger.find_key(&first.owner, &first.home, &key("new")).await.unwrap(), None);

    // The end of its lease does not free a key.
    replace(&*ledger, &closed(&first)).await;
    let refused = refusal(&*ledger, insert(&again)).await;
    assert!(matches!(refused, LedgerError::KeyTaken { .. }), "{refused}");
    let found = ledger.find_key(&first.owner, &first.home, &key("key")).await.unwrap().unwrap();
    assert_eq!(found.state, State::Closed);
}

pub async fn a_sandbox_is_pinned_by_one_open_row_at_most(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let holder = active("ls_holder");
    store(&*ledger, &holder).await;
    let mut rival = active("ls_rival");
    rival.pin = holder.pin.clone();
    let refused = refusal(&*ledger, insert(&rival)).await;
    assert!(matches!(refused, LedgerError::PinTaken { lease } if lease == holder.id));

    let late = requested("ls_late");
    store(&*ledger, &late).await;
    let late = next(&late, |row| {
        row.state = State::Preparing;
        row.pin = holder.pin.clone();
    });
    let refused = refusal(&*ledger, update(&late)).await;
    assert!(matches!(refused, LedgerError::PinTaken { .. }), "{refused}");

    // The same id in another home is another sandbox.
    let mut elsewhere = active("ls_elsewhere");
    elsewhere.home = home("another");
    elsewhere.pin = holder.pin.clone();
    store(&*ledger, &elsewhere).await;

    // An open row pins it until its end is proved, and not longer.
    let leaving = destroying(&holder, DestroyReason::OwnerAsked);
    replace(&*ledger, &leaving).await;
    let refused = refusal(&*ledger, insert(&rival)).await;
    assert!(matches!(refused, LedgerError::PinTaken { .. }), "{refused}");
    replace(&*ledger, &closed(&leaving)).await;
    store(&*ledger, &rival).await;
}

pub async fn a_closed_row_is_reopened_only_while_nobody_pins_its_sandbox(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let first = active("ls_first");
    store(&*ledger, &first).await;
    let first = closed(&first);
    replace(&*ledger, &first).await;
    let mut second = active("ls_second");
    second.pin = first.pin.clone();
    store(&*ledger, &second).await;

    let reopened = destroying(&first, DestroyReason::Reappeared);
    let refused = refusal(&*ledger, update(&reopened)).await;
    assert!(matches!(refused, LedgerError::PinTaken { lease } if lease == second.id));

    replace(&*ledger, &closed(&second)).await;
    replace(&*ledger, &reopened).await;
    assert_eq!(ledger.brake().await.unwrap().recent, 1, "the brake counts a reopening");
}

pub async fn a_debt_is_left_out_if_an_open_row_answers_for_its_sandbox(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let holder = active("ls_holder");
    store(&*ledger, &holder).await;
    let known = debt("ls_known", "sandbox-of-ls_holder");
    let unknown = debt("ls_unknown", "sandbox-of-nobody");
    let touched = next(&holder, |row| row.touched_at = NOW + Duration::from_secs(1));
    ledger
        .commit(vec![update(&touched), insert_debt(&known), insert_debt(&unknown)])
        .await
        .unwrap();
    assert_eq!(ledger.get(&known.id).await.unwrap(), None);
    assert_eq!(ledger.get(&unknown.id).await.unwrap().as_deref(), Some(&unknown));
    assert_eq!(ledger.get(&holder.id).await.unwrap().as_deref(), Some(&touched));
}

pub async fn g7_a_quarantined_lease_counts_until_its_end_is_proved(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let cap = Some(Limits { per_owner: 1, per_home: 100 });
    let first = active("ls_first");
    ledger.commit(vec![insert_within(&first, cap)]).await.unwrap();
    let expired = destroying(&first, DestroyReason::Deadline);
    replace(&*ledger, &expired).await;
    let quarantined = next(&expired, |row| {
        if let Some(cleanup) = &mut row.cleanup {
            cleanup.tries = 1;
        }
    });
    assert!(quarantined.is_quarantined());
    replace(&*ledger, &quarantined).await;

    let second = active("ls_second");
    let refused = refusal(&*ledger, insert_within(&second, cap)).await;
    assert!(matches!(
        refused,
        LedgerError::LimitReached { whose: "this owner", open: 1, limit: 1 }
    ));
    replace(&*ledger, &closed(&quarantined)).await;
    ledger.commit(vec![insert_within(&second, cap)]).await.unwrap();
}

pub async fn limits_are_of_one_owner_and_of_one_home(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let limits = Some(Limits { per_owner: 2, per_home: 3 });
    let of = |lease: &str, environment: &str, account: &str| {
        let mut row = active(lease);
        row.owner = owner(environment);
        row.home = home(account);
        insert_within(&row, limits)
    };
    for write in [of("ls_1", "one", "a"), of("ls_2", "one", "a"), of("ls_3", "two", "a")] {
        ledger.commit(vec![write]).await.unwrap();
    }
    let refused = refusal(&*ledger, of("ls_4", "one", "b")).await;
    assert!(matches!(refused, LedgerError::LimitReached { whose: "this owner", .. }));
    let refused = refusal(&*ledger, of("ls_4", "two", "a")).await;
    assert!(matches!(refused, LedgerError::LimitReached { whose: "this home", open: 3, .. }));
    ledger.commit(vec![of("ls_4", "two", "b")]).await.unwrap();

    // A debt is owed whatever the limits say.
    ledger.commit(vec![insert_debt(&debt("ls_debt", "late"))]).await.unwrap();
}

pub async fn a_commit_of_several_rows_is_all_or_nothing(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let (one, two) = (active("ls_one"), active("ls_two"));
    ledger.commit(vec![insert(&one), insert(&two)]).await.unwrap();

    let newer = next(&one, |row| row.touched_at = NOW + Duration::from_secs(9));
    let mut stale = next(&two, |_| {});
    stale.version += 1;
    let three = active("ls_three");
    let refused =
        ledger.commit(vec![update(&newer), insert(&three), update(&stale)]).await.unwrap_err();
    assert!(matches!(refused, LedgerError::Conflict { lease } if lease == two.id));
    assert_eq!(ledger.get(&one.id).await.unwrap().as_deref(), Some(&one));
    assert_eq!(ledger.get(&two.id).await.unwrap().as_deref(), Some(&two));
    assert_eq!(ledger.get(&three.id).await.unwrap(), None);
}

pub async fn a_refused_commit_leaves_no_trace_in_any_index(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = active("ls_row");
    store(&*ledger, &row).await;
    let before = ledger.events(&row.id, 0, 100).await.unwrap();

    let mut created = keyed(requested("ls_new"), "key");
    created.state = State::Creating;
    created.attempt = Some(attempt(1, "attempt"));
    let mut pinned = active("ls_pinned");
    pinned.home = home("another");
    let moved = next(&row, |row| {
        row.pin = Some(pin("moved"));
        row.tether = Some(node("holder"));
        row.touched_at = NOW + Duration::from_secs(5);
    });
    let braked = destroying(&moved, DestroyReason::WrongMarker);
    let writes = vec![
        insert(&created),
        insert(&pinned),
        update_noting(&moved, vec![leasehold_core::EventKind::Parked]),
        update(&braked),
        update(&row),
    ];
    ledger.commit(writes).await.unwrap_err();

    assert_eq!(ledger.get(&row.id).await.unwrap().as_deref(), Some(&row));
    assert_eq!(ledger.find_key(&created.owner, &created.home, &key("key")).await.unwrap(), None);
    assert_eq!(ledger.find_attempt(&created.home, &name("attempt")).await.unwrap(), None);
    assert!(ledger.find_pinned(&place(&pinned)).await.unwrap().is_empty());
    assert!(ledger.find_pinned(&place(&moved)).await.unwrap().is_empty());
    assert_eq!(ledger.find_pinned(&place(&row)).await.unwrap(), [Arc::new(row.clone())]);
    assert!(ledger.rows_of_node(&node("holder")).await.unwrap().is_empty());
    assert_eq!(ledger.homes().await.unwrap(), vec![row.home.clone()]);
    assert_eq!(ledger.list(&LeaseFilter::default()).await.unwrap(), [Arc::new(row.clone())]);
    assert_eq!(ledger.next_due().await.unwrap(), leasehold_core::due_at(&row));
    assert_eq!(ledger.events(&row.id, 0, 100).await.unwrap(), before);
    assert_eq!(ledger.brake().await.unwrap().recent, 0);
    assert_eq!(ledger.brake().await.unwrap().limit, 5);
}

pub async fn an_attempt_is_found_by_its_name_wherever_it_moved(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let row = requested("ls_a");
    store(&*ledger, &row).await;
    let first = next(&row, |row| {
        row.state = State::Creating;
        row.attempt = Some(attempt(1, "first"));
    });
    replace(&*ledger, &first).await;
    let found = ledger.find_attempt(&row.home, &name("first")).await.unwrap();
    assert_eq!(found.as_deref(), Some(&first));

    // Another attempt: the old one, still in doubt, moves to a debt of its own.
    let second = next(&first, |row| row.attempt = Some(attempt(2, "second")));
    let mut owed = debt("ls_debt", "unused");
    owed.pin = None;
    owed.attempt = Some(attempt(1, "first"));
    ledger.commit(vec![update(&second), insert_debt(&owed)]).await.unwrap();
    let found = ledger.find_attempt(&row.home, &name("first")).await.unwrap().unwrap();
    assert_eq!(found.id, owed.id);
    let found = ledger.find_attempt(&row.home, &name("second")).await.unwrap().unwrap();
    assert_eq!(found.id, row.id);
    assert_eq!(ledger.find_attempt(&home("another"), &name("first")).await.unwrap(), None);

    // The name outlives the lease.
    let ended = next(&second, |row| {
        if let Some(attempt) = &mut row.attempt {
            attempt.state = AttemptState::Refused;
        }
    });
    replace(&*ledger, &ended).await;
    replace(&*ledger, &closed(&ended)).await;
    let found = ledger.find_attempt(&row.home, &name("second")).await.unwrap().unwrap();
    assert_eq!(found.state, State::Closed);
}

pub async fn every_row_of_a_sandbox_is_found_an_open_one_first(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let first = active("ls_a");
    store(&*ledger, &first).await;
    replace(&*ledger, &closed(&first)).await;
    let mut second = active("ls_b");
    second.pin = first.pin.clone();
    store(&*ledger, &second).await;
    let found = ledger.find_pinned(&place(&first)).await.unwrap();
    assert_eq!(ids(&found), ["ls_b", "ls_a"]);

    // A row that was pinned to it once is found, though it is pinned to another one now.
    let moved = next(&second, |row| row.pin = Some(pin("other")));
    replace(&*ledger, &moved).await;
    let found = ledger.find_pinned(&place(&first)).await.unwrap();
    assert_eq!(ids(&found), ["ls_b", "ls_a"]);
    let mut elsewhere = place(&first);
    elsewhere.home = home("another");
    assert!(ledger.find_pinned(&elsewhere).await.unwrap().is_empty());
}
