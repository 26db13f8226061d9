//! Nodes: who lives, and what names them.

use leasehold_core::Claim;
use leasehold_ports::LedgerError;

use super::Subject;
use super::samples::*;

pub async fn a_registered_node_lives_until_its_process_ends(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let (process, _) = opened(subject);
    ledger.register_node(&node("survivor")).await.unwrap();
    process.register_node(&node("mortal")).await.unwrap();
    let seen = ledger.nodes().await.unwrap();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|record| !record.proved_dead && record.started_at == NOW));

    subject.kill(process, &node("mortal")).await;
    let dead: Vec<_> = ledger
        .nodes()
        .await
        .unwrap()
        .into_iter()
        .filter(|record| record.proved_dead)
        .map(|record| record.node)
        .collect();
    assert_eq!(dead, [node("mortal")]);
}

pub async fn the_rows_of_a_node_are_those_that_name_it(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    let claimed = requested("ls_claimed");
    let mut tied = active("ls_tied");
    tied.tether = Some(node("creator"));
    let mut busy = active("ls_busy");
    busy.busy_nodes.insert(node("creator"));
    busy.busy_nodes.insert(node("helper"));
    let free = active("ls_free");
    for row in [&claimed, &tied, &busy, &free] {
        store(&*ledger, row).await;
    }
    let rows = ledger.rows_of_node(&node("creator")).await.unwrap();
    assert_eq!(ids(&rows), ["ls_busy", "ls_claimed", "ls_tied"]);
    let rows = ledger.rows_of_node(&node("helper")).await.unwrap();
    assert_eq!(ids(&rows), ["ls_busy"]);

    let over = next(&busy, |row| {
        row.busy_nodes.clear();
        row.claim = Some(Claim { node: node("helper"), until: NOW });
    });
    replace(&*ledger, &over).await;
    replace(&*ledger, &closed(&tied)).await;
    let rows = ledger.rows_of_node(&node("creator")).await.unwrap();
    assert_eq!(ids(&rows), ["ls_claimed"], "a closed row names nobody");
    let rows = ledger.rows_of_node(&node("helper")).await.unwrap();
    assert_eq!(ids(&rows), ["ls_busy"]);
}

pub async fn a_node_that_rows_name_stays_on_the_list(subject: &dyn Subject) {
    let (ledger, _) = opened(subject);
    ledger.register_node(&node("creator")).await.unwrap();
    let row = requested("ls_row");
    store(&*ledger, &row).await;
    let refused = ledger.remove_node(&node("creator")).await.unwrap_err();
    assert!(matches!(refused, LedgerError::Conflict { lease } if lease == row.id));
    replace(&*ledger, &next(&row, |row| row.claim = None)).await;
    ledger.remove_node(&node("creator")).await.unwrap();
    assert!(ledger.nodes().await.unwrap().is_empty());
    ledger.remove_node(&node("creator")).await.unwrap();
}
