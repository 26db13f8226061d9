//! The configuration: where it is read, and what it may say.

use std::fs;

use crate::support::{Answer, Site};

#[test]
fn each_value_says_where_it_comes_from() {
    let site = Site::new();
    let file = site.state().with_file_name("other.toml");
    fs::write(&file, "[defaults]\nlifetime = \"2h\"\n").unwrap();
    let shown = site.json(&["config", "show", "--config", &file.to_string_lossy()]);
    let value = |name: &str| {
        let all = shown["values"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(value("state_dir")["origin"], "variable LEASEHOLD_STATE_DIR");
    assert_eq!(value("defaults.lifetime")["value"], "2h");
    assert_eq!(value("defaults.lifetime")["origin"], *file.to_string_lossy());
    assert_eq!(value("clocks.idle_active")["origin"], "default");
    assert_eq!(value("config")["origin"], "argument --config");
}

#[test]
fn an_argument_comes_before_the_variable_and_the_default_before_nothing() {
    let site = Site::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().to_string_lossy().into_owned();
    let shown = site.json(&["config", "show", "--state-dir", &path]);
    assert_eq!(shown["values"][0]["value"], *path);
    assert_eq!(shown["values"][0]["origin"], "argument --state-dir");
    assert_eq!(shown["values"][1]["value"], "none", "there is no leasehold.toml");
    fs::write(elsewhere.path().join("leasehold.toml"), "[limits]\nleases_per_owner = 3\n").unwrap();
    let shown = site.json(&["config", "show", "--state-dir", &path]);
    let file = elsewhere.path().join("leasehold.toml");
    assert_eq!(shown["values"][1]["value"], *file.to_string_lossy());
    let limit = shown["values"].as_array().unwrap().iter();
    let limit = limit.clone().find(|one| one["name"] == "limits.leases_per_owner").unwrap();
    assert_eq!(limit["origin"], *file.to_string_lossy());
}

#[test]
fn a_field_that_is_not_known_is_an_error_that_shows_it() {
    let site = Site::new();
    fs::create_dir(site.state()).unwrap();
    let file = site.state().join("leasehold.toml");
    fs::write(&file, "[limits]\nleases_per_ower = 3\n").unwrap();
    let answer = site.call(&["ls"]);
    answer.assert_error("configuration-invalid", 2);
    assert!(answer.stderr.contains("leases_per_ower"), "{answer:?}");
    assert!(answer.stderr.contains("line 2"), "{answer:?}");
    site.call(&["run", "--", "true"]).assert_error("configuration-invalid", 125);
    assert!(!site.state().join("ledger.sqlite").exists());
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let site = Site::new();
    site.call(&["ls", "--config", "/nowhere.toml"]).assert_error("configuration-invalid", 2);
}

#[test]
fn a_file_in_the_current_directory_is_not_read() {
    let site = Site::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("leasehold.toml"), "nonsense = true\n").unwrap();
    let answer = Answer::of(site.command(&["ls"]).current_dir(elsewhere.path()));
    assert_eq!(answer.code(), 0, "{answer:?}");
}

#[test]
fn the_home_variable_has_no_say_in_where_the_ledger_is() {
    let site = Site::new();
    let shown = |home: &str| {
        let mut command = site.command(&["config", "show"]);
        Answer::of(command.env_remove("LEASEHOLD_STATE_DIR").env("HOME", home)).stdout
    };
    assert_eq!(shown("/somewhere"), shown("/else"));
    assert!(!shown("/somewhere").contains("/somewhere"));
}
