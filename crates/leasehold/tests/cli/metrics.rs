//! `metrics`: the ledger in numbers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::Site;

/// The value of a sample.
fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{sample} ")));
    line.unwrap_or_else(|| panic!("no {sample} in\n{text}")).parse().unwrap()
}

#[test]
fn the_figures_are_those_of_the_ledger() {
    let site = Site::new();
    site.call(&["metrics"]).assert_error("ledger-unsuitable", 2);
    site.ok(&["run", "--", "true"]);
    let (one, two) = (site.acquire(&["--owner", "acme/one"]), site.acquire(&[]));
    site.ok(&["park", &two]);
    let text = site.ok(&["metrics", "--by-owner"]);
    for (sample, expected) in [
        (r#"leasehold_open_leases{kind="lease",state="active"}"#, 1.0),
        (r#"leasehold_open_leases{kind="lease",state="parked"}"#, 1.0),
        (r#"leasehold_open_leases{kind="debt",state="destroying"}"#, 0.0),
        (r#"leasehold_owner_open_leases{company="acme",environment="one"}"#, 1.0),
        (r#"leasehold_attention_leases{reason="stranger"}"#, 0.0),
        ("leasehold_quarantined_leases", 0.0),
        ("leasehold_oldest_cleanup_age_seconds", 0.0),
        ("leasehold_brake_on", 0.0),
        ("leasehold_restored_mode", 0.0),
        ("leasehold_damaged_rows", 0.0),
        ("leasehold_teardown_seconds_count", 1.0),
        (r#"leasehold_teardown_seconds_bucket{le="+Inf"}"#, 1.0),
    ] {
        assert!((value(&text, sample) - expected).abs() < f64::EPSILON, "{sample}\n{text}");
    }
    assert!(value(&text, "leasehold_ledger_size_bytes") > 0.0);
    assert!(!site.ok(&["metrics"]).contains("acme"), "owners only if asked for");
    // What has a value of its own in every run is left out of the picture.
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"(?m)^(leasehold_(ledger_size_bytes|teardown_seconds_sum)) .*$", "$1 [x]");
    settings.add_filter(r#"(?m)^(leasehold_teardown_seconds_bucket\{le="\d.*) .*$"#, "$1 [x]");
    settings.bind(|| insta::assert_snapshot!("metrics", site.ok(&["metrics"])));
    site.ok(&["release", &one, "--owner", "acme/one"]);
    site.ok(&["release", &two]);
}

#[test]
fn a_file_is_replaced_whole_and_can_be_read_by_others() {
    let site = Site::new();
    site.ok(&["run", "--", "true"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.prom");
    fs::write(&file, "old").unwrap();
    let path = file.to_string_lossy().into_owned();
    assert_eq!(site.ok(&["metrics", "--output", &path]), "");
    assert!(fs::read_to_string(&file).unwrap().contains("leasehold_build_info{"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o444, 0o444);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
    site.call(&["metrics", "--output", "/nowhere/file"]).assert_error("bad-argument", 2);
}
