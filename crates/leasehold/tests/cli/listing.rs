//! What is shown: `ls`, `show`, `history`, prefixes of ids. Reading changes nothing.

use crate::support::{Answer, Site};

/// Ids, times and names differ from run to run.
fn with_filters(test: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"ls_[a-z2-7]{26}", "[lease]");
    settings.add_filter(r"node_[a-z2-7]{16}", "[node]");
    settings.add_filter(r"lh[a-z2-7]{20}", "[name]");
    settings.add_filter(r"[a-z2-7]{26,}-[a-z2-7]{10,}", "[sandbox]");
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.add_filter(r"uid-\d+", "[account]");
    settings.add_filter(r"local/[a-z0-9_.-]+", "[owner]");
    settings.bind(test);
}

#[test]
fn ls_is_an_object_with_a_list_of_leases() {
    let site = Site::new();
    assert_eq!(site.json(&["ls"]), serde_json::json!({ "leases": [] }));
    let lease = site.acquire(&[]);
    let listed = site.json(&["ls"]);
    with_filters(|| insta::assert_json_snapshot!(listed));
    site.ok(&["release", &lease]);
    assert_eq!(site.json(&["ls"]), serde_json::json!({ "leases": [] }));
    assert_eq!(site.leases(true).len(), 1);
}

#[test]
fn ls_shows_one_owner_or_all() {
    let site = Site::new();
    let one = site.acquire(&["--owner", "acme/one"]);
    let two = site.acquire(&["--owner", "acme/two"]);
    assert_eq!(site.leases(false).len(), 2);
    let listed = site.json(&["ls", "--owner", "acme/two"]);
    assert_eq!(listed["leases"][0]["id"], *two);
    assert_eq!(listed["leases"].as_array().unwrap().len(), 1);
    let table = site.ok(&["ls"]);
    assert!(table.starts_with("LEASE"), "{table}");
    assert_eq!(table.lines().count(), 3, "{table}");
    for lease in [one, two] {
        site.ok(&["destroy", "--as-operator", &lease]);
    }
}

/// The ids that `ls` answers with.
fn listed(site: &Site, arguments: &[&str]) -> Vec<String> {
    let text = site.ok(&[&["ls", "--quiet"], arguments].concat());
    text.lines().map(str::to_owned).collect()
}

#[test]
fn ls_shows_what_is_asked_for() {
    let site = Site::new();
    let ended = site.acquire(&[]);
    site.ok(&["release", &ended]);
    let active = site.acquire(&["--for", "2h", "--idle", "2h"]);
    let parked = site.acquire(&[]);
    site.ok(&["park", &parked]);
    let all = [ended.clone(), active.clone(), parked.clone()];
    assert_eq!(listed(&site, &[]), all[1..], "the oldest first");
    assert_eq!(listed(&site, &["--all"]), all);
    assert_eq!(listed(&site, &["--closed"]), [&*ended]);
    assert_eq!(listed(&site, &["--state", "closed"]), [ended]);
    assert_eq!(listed(&site, &["--state", "parked"]), [&*parked]);
    assert_eq!(listed(&site, &["--state", "active,parked"]), all[1..]);
    assert_eq!(listed(&site, &["--kind", "template"]), Vec::<String>::new());
    assert_eq!(listed(&site, &["--kind", "lease", "--provider", "local"]), all[1..]);
    assert_eq!(listed(&site, &["--provider", "elsewhere"]), Vec::<String>::new());
    assert_eq!(listed(&site, &["--endpoint", "local:sandboxes"]), all[1..]);
    assert_eq!(listed(&site, &["--older-than", "1d"]), Vec::<String>::new());
    assert_eq!(listed(&site, &["--older-than", "0s"]), all[1..]);
    assert_eq!(listed(&site, &["--expiring-within", "90m"]), [&*parked]);
    assert_eq!(listed(&site, &["--attention"]), Vec::<String>::new());
    for lease in [active, parked] {
        site.ok(&["release", &lease]);
    }
}

#[test]
fn a_long_list_is_read_page_by_page() {
    let site = Site::new();
    let leases: Vec<String> = (0..5).map(|_| site.acquire(&[])).collect();
    let first = site.json(&["ls", "--limit", "2"]);
    assert_eq!(first["leases"].as_array().unwrap().len(), 2);
    assert_eq!(first["next"], *leases[1]);
    let answer = site.call(&["ls", "--limit", "2", "--after", &leases[1]]);
    assert!(answer.stderr.contains(&format!("repeat it with --after {}", leases[3])), "{answer:?}");
    let last = site.json(&["ls", "--limit", "2", "--after", &leases[3]]);
    assert_eq!((&last["leases"][0]["id"], last.get("next")), (&(*leases[4]).into(), None));
    for lease in leases {
        site.ok(&["release", &lease]);
    }
}

#[test]
fn colours_are_for_terminals_only() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    assert!(!site.ok(&["ls"]).contains('\u{1b}'), "a pipe is no terminal");
    let shown = |variable: &str| {
        let mut command = site.command(&["ls"]);
        Answer::of(command.env("CLICOLOR_FORCE", "1").env(variable, "1")).stdout
    };
    assert!(shown("OTHER").contains("\u{1b}[32mactive"), "{}", shown("OTHER"));
    assert!(!shown("NO_COLOR").contains('\u{1b}'));
    site.ok(&["release", &lease]);
}

#[test]
fn show_and_history_tell_the_whole_life() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    site.ok(&["exec", &lease, "--", "true"]);
    site.ok(&["park", &lease]);
    site.ok(&["resume", &lease]);
    site.ok(&["release", &lease]);
    let (shown, history) = (site.json(&["show", &lease]), site.json(&["history", &lease]));
    with_filters(|| {
        insta::assert_json_snapshot!("show", shown);
        insta::assert_json_snapshot!("history", history);
    });
    let in_words = site.ok(&["show", &lease]);
    assert!(in_words.lines().any(|line| line.starts_with("how ")), "{in_words}");
    let in_words = site.ok(&["history", &lease]);
    assert!(in_words.contains("destroy_began"), "{in_words}");
}

#[test]
fn a_lease_is_named_by_the_beginning_of_its_id() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    for length in [4, 10, lease.len()] {
        assert_eq!(site.json(&["show", &lease[..length]])["id"], *lease);
    }
    // Without the part that all have in common, too.
    assert_eq!(site.json(&["show", &lease[3..9]])["id"], *lease);
    site.ok(&["release", &lease[..8]]);
}

#[test]
fn a_beginning_that_several_have_is_refused_with_the_candidates() {
    let site = Site::new();
    let mut leases: Vec<String> = Vec::new();
    // An id has 32 characters to choose from: some two soon begin alike.
    let (one, two) = loop {
        let lease = site.acquire(&[]);
        let alike = leases.iter().find(|other| other[..4] == lease[..4]).cloned();
        leases.push(lease.clone());
        if let Some(other) = alike {
            break (other, lease);
        }
    };
    let answer = site.call(&["release", &one[..4]]);
    answer.assert_error("ambiguous-lease-id", 2);
    assert!(answer.stderr.contains(&one) && answer.stderr.contains(&two), "{answer:?}");
    site.call(&["release", "ls_"]).assert_error("bad-argument", 2);
    assert_eq!(site.leases(false).len(), leases.len(), "nothing was released");
    for lease in leases {
        site.ok(&["release", &lease]);
    }
}

#[test]
fn a_lease_that_is_not_there_is_4() {
    let site = Site::new();
    for verb in [&["show"][..], &["history"], &["release", "--dry-run"]] {
        let mut arguments = verb.to_vec();
        arguments.push("ls_nothing");
        site.call(&arguments).assert_error("no-such-lease", 4);
    }
    site.ok(&["run", "--", "true"]);
    for verb in ["park", "resume", "release", "destroy"] {
        site.call(&[verb, "ls_nothing"]).assert_error("no-such-lease", 4);
    }
    site.call(&["exec", "ls_nothing", "--", "true"]).assert_error("no-such-lease", 125);
}

#[test]
fn reading_makes_no_ledger() {
    let site = Site::new();
    for arguments in [
        &["ls"][..],
        &["ls", "--attention"],
        &["recover", "--dry-run"],
        &["config", "show"],
        &["explain"],
        &["doctor", "--no-sandbox"],
    ] {
        site.ok(arguments);
        assert!(!site.state().exists(), "{arguments:?}");
    }
}

#[test]
fn reading_changes_no_lease() {
    let site = Site::new();
    let lease = site.acquire(&["--for", "1s"]);
    // Until it has expired, which reading must not notice by acting.
    while site.json(&["recover", "--dry-run"])["due"] == serde_json::json!([]) {}
    let before = site.json(&["history", &lease]);
    for arguments in
        [&["ls"][..], &["ls", "--attention"], &["show", &lease], &["doctor", "--no-sandbox"]]
    {
        site.ok(arguments);
    }
    assert_eq!(site.json(&["history", &lease]), before);
    site.ok(&["recover"]);
    site.assert_nothing_left();
}

#[test]
fn nothing_needs_a_person_in_a_healthy_ledger() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    assert_eq!(site.ok(&["ls", "--attention"]), "nothing needs a person\n");
    let listed = site.json(&["ls", "--attention"]);
    assert_eq!(listed, serde_json::json!({ "leases": [], "ledger": [] }));
    site.ok(&["release", &lease]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let site = Site::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = site.command(&["explain", "--json"]);
    command.stdout(writer);
    let answer = Answer::of(&mut command);
    assert_eq!((answer.code(), &*answer.stderr), (141, ""));
}
