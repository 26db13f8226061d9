//! docs/FIELD-REPORTS.md against what really ran.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The groups whose every row must be in the table.
const ROWS: &[(&str, &[u32])] = &[
    ("A", &[1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 14, 15]),
    ("B", &[1, 2, 4, 5, 6, 7, 8, 10, 11]),
    ("C", &[1, 3, 5, 6, 7, 9, 10, 11, 12]),
    ("D", &[1, 2, 3, 5, 7, 9]),
    ("E", &[1, 2, 4, 5, 6, 7, 9]),
    ("F", &[1, 2, 3, 5, 8, 9]),
    ("G", &[1, 2, 3, 4, 6, 7, 9, 10, 12, 13]),
    ("H", &[1, 2, 3, 4, 7, 8, 9, 10]),
    ("I", &[1, 2, 4, 5, 6, 8]),
    ("J", &[1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14]),
    ("K", &[1, 2, 3, 4, 5, 6, 7]),
    ("L", &[1, 3, 6]),
    ("M", &[1, 3, 4]),
];

pub(crate) fn run(results: &Path) -> Result<()> {
    let table = fs::read_to_string("docs/FIELD-REPORTS.md").context("docs/FIELD-REPORTS.md")?;
    let results = fs::read_to_string(results).with_context(|| results.display().to_string())?;
    let rows = rows_of(&table)?;
    let passed = passed_tests(&results);
    let mut problems = Vec::new();
    for (group, numbers) in ROWS {
        for number in *numbers {
            let id = format!("{group}{number}");
            match rows.get(&id) {
                None => problems.push(format!("{id}: not in the table")),
                Some(tests) => problems.extend(
                    tests
                        .iter()
                        .filter(|test| !passed.contains(test.as_str()))
                        .map(|test| format!("{id}: test {test} did not run and pass")),
                ),
            }
        }
    }
    if problems.is_empty() {
        let tests: BTreeSet<&String> = rows.values().flatten().collect();
        println!("field reports: {} rows, {} tests, all passed", rows.len(), tests.len());
        return Ok(());
    }
    bail!("field reports:\n  {}", problems.join("\n  "))
}

/// Row id to the tests that it names. A row without a test must say `later:` or `not here:`.
fn rows_of(table: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let mut rows = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, rest @ ..] = cells.as_slice() else { continue };
        let is_row = id.len() >= 2
            && id.starts_with(|first: char| first.is_ascii_uppercase())
            && id[1..].chars().all(|character| character.is_ascii_digit());
        if !is_row {
            continue;
        }
        let rest = rest.join(" ");
        let tests: Vec<String> = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if tests.is_empty() && !rest.contains("later:") && !rest.contains("not here:") {
            bail!("{id}: names no test, and does not say why");
        }
        rows.insert((*id).to_owned(), tests);
    }
    Ok(rows)
}

/// The last path segments of the tests that passed, from nextest's or cargo's output.
fn passed_tests(results: &str) -> BTreeSet<&str> {
    results
        .lines()
        .filter_map(|line| {
            let line = line.trim();
            let name = match line.strip_prefix("PASS") {
                Some(rest) => rest.split_whitespace().last(),
                None => line.strip_prefix("test ")?.strip_suffix(" ... ok"),
            }?;
            name.rsplit("::").next()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_test_says_why() {
        assert!(rows_of("| A1 | nothing |").is_err());
        assert!(rows_of("| A1 | later: CreateOS |").is_ok());
        assert_eq!(rows_of("| A1 | `a1_lost_answer` |").unwrap()["A1"], ["a1_lost_answer"]);
    }

    #[test]
    fn both_runners_are_understood() {
        let results = "        PASS [   0.004s] (1/2) leasehold-keeper::field_reports a::a1_lost\n\
                       test group::b2_liveness ... ok\n\
                       test group::b3 ... ignored";
        let passed = passed_tests(results);
        assert!(passed.contains("a1_lost") && passed.contains("b2_liveness"));
        assert!(!passed.contains("b3"));
    }
}
