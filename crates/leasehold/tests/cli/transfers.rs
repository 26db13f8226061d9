//! Files go in and come out, and what fails leaves nothing half done.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::{Answer, Running, Site};

/// A project on this machine.
fn project(place: &Path) -> PathBuf {
    let project = place.join("project");
    fs::create_dir_all(project.join("src")).unwrap();
    fs::write(project.join("src/main"), "content").unwrap();
    fs::write(project.join("run"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(project.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("src/main", project.join("link")).unwrap();
    project
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_project_goes_in_is_used_and_comes_out() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let project = project(place.path());
    let lease = site.acquire(&[]);
    site.ok(&["cp", path_text(&project), &format!("{lease}:")]);
    let seen = site.ok(&["exec", &lease, "-w", "project", "--", "sh", "-c", "./run; cat link"]);
    assert_eq!(seen, "ran\ncontent");
    site.ok(&["exec", &lease, "--", "sh", "-c", "echo done > project/result"]);
    let results = place.path().join("results");
    site.ok(&["cp", &format!("{lease}:project"), path_text(&results)]);
    assert_eq!(fs::read_to_string(results.join("result")).unwrap(), "done\n");
    assert_eq!(fs::read_link(results.join("link")).unwrap(), Path::new("src/main"));
    assert_eq!(fs::metadata(results.join("run")).unwrap().permissions().mode() & 0o777, 0o755);
    // Now that it is there, the source goes into it by its name; one file takes a name or gets one.
    site.ok(&["cp", &format!("{lease}:project"), path_text(&results)]);
    assert!(results.join("project/result").is_file());
    site.ok(&["cp", &format!("{lease}:project/result"), path_text(place.path())]);
    site.ok(&["cp", &format!("{lease}:project/result"), path_text(&place.path().join("other"))]);
    assert_eq!(fs::read_to_string(place.path().join("result")).unwrap(), "done\n");
    assert_eq!(fs::read_to_string(place.path().join("other")).unwrap(), "done\n");
    site.ok(&["release", &lease]);
    site.assert_nothing_left();
}

#[test]
fn what_is_excluded_stays_and_links_are_followed_only_if_asked() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let project = project(place.path());
    let lease = site.acquire(&[]);
    let contents = format!("{}/.", project.display());
    let answer =
        site.json(&["cp", "--exclude", "src", "--exclude", "*un", &contents, &format!("{lease}:")]);
    assert_eq!((&answer["files"], &answer["symlinks"]), (&0.into(), &1.into()), "{answer}");
    assert_eq!(site.ok(&["exec", &lease, "--", "ls"]), "link\n");
    site.ok(&["cp", "--follow", &contents, &format!("{lease}:followed")]);
    let kind = site.ok(&["exec", &lease, "--", "stat", "-c", "%F", "followed/link"]);
    assert_eq!(kind, "regular file\n");
    site.ok(&["release", &lease]);
}

#[test]
fn a_tar_stream_goes_both_ways() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    project(place.path());
    let lease = site.acquire(&[]);
    let tar = std::process::Command::new("tar")
        .args(["--create", "--directory", path_text(place.path()), "project"])
        .output()
        .unwrap();
    let mut command = site.command(&["cp", "-", &format!("{lease}:")]);
    command.stdin(Stdio::piped());
    let mut copy = Running::start(command);
    copy.child.stdin.take().unwrap().write_all(&tar.stdout).unwrap();
    assert_eq!(copy.code(), Some(0));
    assert_eq!(site.ok(&["exec", &lease, "--", "./project/run"]), "ran\n");
    let out = site.command(&["cp", &format!("{lease}:project"), "-"]).output().unwrap();
    let mut list = std::process::Command::new("tar")
        .arg("--list")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    list.stdin.take().unwrap().write_all(&out.stdout).unwrap();
    let listed = String::from_utf8(list.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(listed, "./\nlink\nrun\nsrc/\nsrc/main\n");
    assert_eq!(site.ok(&["cp", &format!("{lease}:project/src/main"), "-"]), "content");
    // A stream that is cut off is an error, not a smaller tree.
    let mut command = site.command(&["cp", "-", &format!("{lease}:cut")]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut copy = Running::start(command);
    let half = tar.stdout.get(..1000).unwrap();
    copy.child.stdin.take().unwrap().write_all(half).unwrap();
    let output = copy.child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("error[transfer-damaged]: in the sandbox: "), "{said}");
    site.ok(&["release", &lease]);
}

#[test]
fn what_cannot_be_copied_says_why_and_on_which_side() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let project = project(place.path());
    let lease = site.acquire(&[]);
    let inside = |path: &str| format!("{lease}:{path}");
    let (project, here) = (path_text(&project), path_text(place.path()));
    let nothing = format!("{here}/nothing");
    let cases: [(&str, &str, &[&str], &str, i32); 8] = [
        ("a", "b", &[], "bad-argument", 2),
        (&inside("a"), &inside("b"), &[], "bad-argument", 2),
        ("a", "ls_zzzz:b", &[], "no-such-lease", 4),
        (&nothing, &inside(""), &[], "transfer-failed", 125),
        (&inside("nothing"), here, &[], "transfer-failed", 125),
        (project, &inside("no/parent"), &[], "transfer-failed", 125),
        (project, &inside("few"), &["--max-entries", "1"], "transfer-limit", 3),
        (project, &inside("x"), &["--exclude", "a{"], "transfer-refused", 2),
    ];
    for (source, target, options, code, exit) in cases {
        let mut arguments = vec!["cp"];
        arguments.extend(options);
        arguments.extend([source, target]);
        let answer = site.call(&arguments);
        assert!(answer.stderr.contains(&format!("error[{code}]")), "{arguments:?}: {answer:?}");
        answer.assert_error(code, exit);
    }
    assert!(site.call(&["cp", &inside("nothing"), here]).stderr.contains("in the sandbox: "));
    // None of them has spoilt the sandbox: it is parked, not destroyed.
    site.ok(&["park", &lease]);
    assert_eq!(site.state_of(&lease), "parked");
    site.ok(&["release", &lease]);
    site.assert_nothing_left();
}

#[test]
fn a_hostile_sandbox_neither_leaves_the_target_nor_fills_the_disk() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let lease = site.acquire(&[]);
    let script = "mkdir -p t; ln -s / t/root; mkfifo t/pipe; \
        printf 'a' > \"$(printf 't/\\033[31mred')\"; head -c 3000000 /dev/zero > t/big";
    site.ok(&["exec", &lease, "--", "sh", "-c", script]);
    let out = place.path().join("out");
    let answer = site.call(&["cp", &format!("{lease}:t"), path_text(&out)]);
    assert_eq!(answer.code(), 0, "{answer:?}");
    assert_eq!(fs::read_link(out.join("root")).unwrap(), Path::new("/"));
    assert!(!out.join("pipe").exists() && answer.stderr.contains("\"pipe\""), "{answer:?}");
    assert!(!answer.stderr.contains('\u{1b}'), "{answer:?}");
    let few = place.path().join("few");
    let limited = ["cp", "--max-bytes", "100000", &format!("{lease}:t/big"), path_text(&few)];
    site.call(&limited).assert_error("transfer-limit", 3);
    assert!(!few.exists());
    // A target that became a link is not written through.
    symlink("/", out.join("t")).unwrap();
    let answer = site.call(&["cp", &format!("{lease}:t"), path_text(&out)]);
    answer.assert_error("transfer-refused", 2);
    site.ok(&["release", &lease]);
}

#[test]
fn a_copy_that_is_told_to_stop_ends_on_both_sides() {
    let site = Site::new();
    let lease = site.acquire(&[]);
    // The other side waits for a stream that never ends.
    let mut command = site.command(&["-vv", "cp", "-", &format!("{lease}:endless")]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut copy = Running::start(command);
    let mut stdin = copy.child.stdin.take().unwrap();
    // Taken up by the sandbox's side: more than all pipes hold.
    stdin.write_all(&half_an_archive()).unwrap();
    copy.signal(rustix::process::Signal::TERM);
    assert_eq!(copy.code(), Some(143));
    drop(stdin);
    assert_eq!(site.state_of(&lease), "active");
    Answer::assert_error(&site.call(&["exec", &lease, "--", "none"]), "program-not-found", 127);
    site.ok(&["release", &lease]);
    site.assert_nothing_left();
}

/// The first half of an archive of 8 MiB.
fn half_an_archive() -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let file = fs::File::create(place.path().join("large")).unwrap();
    file.set_len(4 << 20).unwrap();
    let tar = std::process::Command::new("tar")
        .args(["--create", "--directory", path_text(place.path()), "large", "large"])
        .output()
        .unwrap();
    tar.stdout.get(..(4 << 20)).unwrap().to_vec()
}

#[test]
fn a_workspace_goes_in_before_the_command_and_out_after_a_success() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let project = project(place.path());
    let run = |script: &str| {
        site.call(&["run", "--workspace", path_text(&project), "--", "sh", "-c", script])
    };
    let answer = run("./run && rm link && echo new > src/new");
    assert_eq!((answer.code(), &*answer.stdout), (0, "ran\n"), "{answer:?}");
    assert_eq!(fs::read_to_string(project.join("src/new")).unwrap(), "new\n");
    assert!(!project.join("link").exists() && project.join("src/main").exists());
    // A command that fails changes nothing here.
    assert_eq!(run("echo broken > src/new; exit 3").code(), 3);
    assert_eq!(fs::read_to_string(project.join("src/new")).unwrap(), "new\n");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");
    site.assert_nothing_left();
}

#[test]
fn results_that_cannot_be_copied_out_are_kept_with_their_lease() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let project = project(place.path());
    // While the command runs its directory gives way to a file: there is nothing to replace then.
    let mut command = site.command(&["run", "--workspace", path_text(&project), "-i", "--"]);
    command.args(["sh", "-c", "echo result > result; echo ready; read go"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Running::start(command);
    assert_eq!(run.line(), "ready");
    let away = tempfile::tempdir().unwrap();
    fs::rename(place.path(), away.path().join("moved")).unwrap();
    run.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = run.child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("error[transfer-failed]"), "{said}");
    let leases = site.leases(false);
    let lease = leases[0]["lease"].as_str().or(leases[0]["id"].as_str()).unwrap();
    assert!(said.contains(&format!("leasehold cp {lease}:/workspace/. DIRECTORY")), "{said}");
    assert!(said.contains(&format!("leasehold release {lease}")), "{said}");
    let results = away.path().join("results");
    site.ok(&["cp", &format!("{lease}:/workspace/."), path_text(&results)]);
    assert_eq!(fs::read_to_string(results.join("result")).unwrap(), "result\n");
    site.ok(&["release", lease]);
    site.assert_nothing_left();
}

#[test]
fn l1_a_planted_link_or_a_name_like_an_option_does_not_lead_out_of_the_sandbox() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let secret = place.path().join("secret");
    fs::write(&secret, "of the host").unwrap();
    let (lease, here) = (site.acquire(&[]), path_text(place.path()));
    let script = format!("mkdir t; ln -s {here} t/link; echo data > t/--checkpoint=1");
    site.ok(&["exec", &lease, "--", "sh", "-c", &script]);
    // Through the link there is what the sandbox has there, which is nothing of the host's.
    let out = place.path().join("out");
    let through = site.call(&["cp", &format!("{lease}:t/link/secret"), path_text(&out)]);
    through.assert_error("transfer-failed", 125);
    assert!(through.stderr.contains("in the sandbox: ") && !out.exists(), "{through:?}");
    // Nor is it followed when it is in the tree: it stays a link, or is left out.
    for option in [None, Some("--follow")] {
        let mut arguments = vec!["cp"];
        arguments.extend(option);
        let (source, target) = (format!("{lease}:t/."), path_text(&out).to_owned());
        arguments.extend([&*source, &*target]);
        let answer = site.call(&arguments);
        assert_eq!(answer.code(), 0, "{answer:?}");
        assert_eq!(fs::read_to_string(out.join("--checkpoint=1")).unwrap(), "data\n");
        let link = fs::symlink_metadata(out.join("link")).map(|link| link.is_symlink());
        assert_eq!(link.ok(), option.is_none().then_some(true), "{option:?}");
        fs::remove_dir_all(&out).unwrap();
    }
    let named = format!("{lease}:t/--checkpoint=1");
    assert_eq!(site.ok(&["cp", &named, "-"]), "data\n");
    site.ok(&["release", &lease]);
}

#[test]
fn l6_a_link_to_a_secret_of_the_host_does_not_take_the_secret_in() {
    let (site, place) = (Site::new(), tempfile::tempdir().unwrap());
    let secret = place.path().join("secret");
    fs::write(&secret, "of the host").unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    symlink(&secret, tree.join("absolute")).unwrap();
    symlink("../secret", tree.join("relative")).unwrap();
    let lease = site.acquire(&[]);
    for (options, kept) in [(&[][..], "absolute\nrelative\n"), (&["--follow"][..], "")] {
        let (source, target) = (format!("{}/.", tree.display()), format!("{lease}:in"));
        let mut arguments = vec!["cp"];
        arguments.extend(options);
        arguments.extend([&*source, &*target]);
        site.ok(&arguments);
        // Whatever is there is a link; nothing has the secret.
        let script = "ls in; ! grep -rs host in; rm -r in";
        assert_eq!(site.ok(&["exec", &lease, "--", "sh", "-c", script]), kept, "{options:?}");
    }
    site.ok(&["release", &lease]);
}
