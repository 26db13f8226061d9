//! That every query of the hot paths goes by an index, in order, without sorting.

use rusqlite::Connection;

use super::columns::READ;
use super::migrations::MIGRATIONS;
use super::queries::*;

fn plan(query: &str) -> String {
    plan_of(&format!("SELECT {READ} FROM leases {query}"))
}

fn plan_of(sql: &str) -> String {
    let connection = Connection::open_in_memory().unwrap();
    for migration in MIGRATIONS {
        connection.execute_batch(migration).unwrap();
    }
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let lines = statement.raw_query().mapped(|row| row.get::<_, String>(3));
    lines.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[test]
fn due_work_is_read_off_its_index() {
    assert_eq!(plan(DUE), "SEARCH leases USING INDEX leases_due (due_at<?)");
}

#[test]
fn pages_are_read_off_their_indexes_in_order() {
    for (by, index) in [
        (OPEN, "leases_open (id>? AND id<?)"),
        (EVERY, "sqlite_autoindex_leases_1 (id>? AND id<?)"),
        (OPEN_OF_OWNER, "leases_open_by_owner (owner=? AND id>? AND id<?)"),
        (EVERY_OF_OWNER, "leases_by_owner (owner=? AND id>? AND id<?)"),
        (IN_STATE, "leases_by_state (state=? AND id>? AND id<?)"),
    ] {
        let plan = plan(&format!("{by} {RANGE}"));
        assert!(plan.starts_with(&format!("SEARCH leases USING INDEX {index}")), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}

#[test]
fn searches_touch_only_what_they_find() {
    for query in [GET, FIND_KEY, FIND_PINNED, FIND_ATTEMPT, ROWS_OF_NODE] {
        let plan = plan(query);
        assert!(!plan.contains("SCAN"), "{query}: {plan}");
    }
}

#[test]
fn a_history_touches_only_its_own_events() {
    let plan = plan_of(&format!("{HISTORY} SELECT sequence FROM history ORDER BY sequence"));
    assert!(!plan.contains("SCAN events"), "{plan}");
    assert!(plan.contains("SEARCH events USING INTEGER PRIMARY KEY (rowid=?)"), "{plan}");
}
