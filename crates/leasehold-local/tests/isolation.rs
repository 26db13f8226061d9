//! What the code in a sandbox sees, and what it cannot reach.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails shall say where"
)]

mod support;

use leasehold_ports::ProcessEnd;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use support::*;

#[test]
fn as_an_ordinary_user_all_of_this_holds_too() {
    users::run_everything_again_as_ordinary_user("as_an_ordinary_user");
}

#[tokio::test]
async fn process_1_is_the_init() {
    let Some(sandbox) = Sandbox::new().await else { return };
    assert_eq!(sandbox.output_of("cat /proc/1/comm").await, "leasehold-init");
    sandbox.destroy().await;
}

#[tokio::test]
async fn commands_have_no_capability_and_gain_none() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let status = sandbox.output_of("cat /proc/self/status").await;
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().to_owned()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(field("NoNewPrivs"), "1");
    assert_eq!(field("Uid"), "1000");
    sandbox.destroy().await;
}

#[tokio::test]
async fn commands_are_no_user_that_the_host_trusts() {
    let Some(sandbox) = Sandbox::new().await else { return };
    sandbox.output_of("touch /workspace/file").await;
    let metadata = std::fs::metadata(sandbox.directory().join("workspace/file")).unwrap();
    let outside = std::os::unix::fs::MetadataExt::uid(&metadata);
    let own = rustix::process::geteuid().as_raw();
    if own == 0 {
        assert!(outside > 0x6fff_ffff, "root's sandboxes get an id of their own, not {outside}");
    } else {
        assert_eq!(outside, own, "an ordinary user can give only its own id");
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn nothing_of_the_host_is_there_but_its_programs() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let listing = sandbox.output_of("ls -A /").await;
    let allowed = [
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "run",
        "sandbox-home",
        "sbin",
        "tmp",
        "usr",
        "var",
        "workspace",
    ];
    for name in listing.lines() {
        assert!(allowed.contains(&name), "/{name}");
    }
    let state = sandbox.state.path().display().to_string();
    let mounts = sandbox.output_of("cat /proc/self/mountinfo").await;
    for mount in mounts.lines().filter(|line| line.split(' ').nth(4) == Some("/")) {
        assert!(mount.contains("tmpfs leasehold"), "another root is still mounted: {mount}");
    }
    sandbox
        .output_of(&format!(
            "test ! -e {state} && test ! -e /root && test ! -e /home && test ! -e /sys"
        ))
        .await;
    sandbox.output_of("test ! -e /etc/shadow && ! grep -q '^daemon:' /etc/passwd").await;
    sandbox.destroy().await;
}

#[tokio::test]
async fn programs_are_read_only_and_the_own_folders_writable() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let script = r#"
        for path in /usr/x /usr/bin/x /bin/x /etc/x /x /var/x /run/x /dev/x /etc/passwd; do
            if (: > "$path") 2>/dev/null; then echo "wrote $path"; exit 1; fi
        done
        for folder in /workspace "$HOME" /tmp /var/tmp /dev/shm; do
            echo ok > "$folder/file" && cat "$folder/file" || exit 1
        done
        echo x > /dev/null && head -c 4 /dev/urandom | wc -c && pwd"#;
    let output = sandbox.output_of(script).await;
    assert_eq!(
        output.split_whitespace().collect::<Vec<_>>(),
        ["ok", "ok", "ok", "ok", "ok", "4", "/workspace"]
    );
    let kept = sandbox.output_of("cat /workspace/file $HOME/file /tmp/file").await;
    assert_eq!(kept, "ok\nok\nok", "later commands find it again");
    sandbox.destroy().await;
}

#[tokio::test]
async fn only_loopback_exists_and_a_listener_on_it_is_reached() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let interfaces = sandbox.output_of("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await;
    assert_eq!(interfaces, "lo");
    let ran = sandbox.run(&probe(&sandbox, "probe_loopback")).await;
    assert_eq!(ran.end, ProcessEnd::Exited(0), "{ran:?}");
    assert!(ran.output.contains("heard: hello"), "{ran:?}");
    sandbox.destroy().await;
}

#[test]
#[ignore = "runs inside a sandbox"]
fn probe_loopback() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        std::net::TcpStream::connect(address).unwrap().write_all(b"hello")
    });
    let mut heard = String::new();
    listener.accept().unwrap().0.read_to_string(&mut heard).unwrap();
    client.join().unwrap().unwrap();
    println!("heard: {heard}");
    assert!(std::net::TcpStream::connect("192.0.2.1:80").is_err(), "there is no way out");
}

#[tokio::test]
async fn abstract_sockets_of_the_host_are_out_of_reach() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let Some(sandbox) = Sandbox::new().await else { return };
    let name = sandbox.id().as_str().to_owned();
    let _listener =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let mut request = probe(&sandbox, "probe_abstract_socket");
    request.environment.insert("SOCKET".to_owned(), name.into());
    let ran = sandbox.run(&request).await;
    assert_eq!(ran.end, ProcessEnd::Exited(0), "{ran:?}");
    sandbox.destroy().await;
}

#[test]
#[ignore = "runs inside a sandbox"]
fn probe_abstract_socket() {
    use std::os::linux::net::SocketAddrExt as _;
    let name = std::env::var("SOCKET").unwrap();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    assert!(std::os::unix::net::UnixStream::connect_addr(&address).is_err());
}

#[tokio::test]
async fn nested_namespaces_give_no_privileges() {
    let Some(sandbox) = Sandbox::new().await else { return };
    for flags in ["-U", "-Ur", "-m", "-p", "-n", "-Urm", "-Urpmn --fork"] {
        let ran = sandbox.run(&script(&format!("unshare {flags} true"))).await;
        assert_ne!(ran.end, ProcessEnd::Exited(0), "unshare {flags}");
    }
    let escapes = r#"
        ! mount -t tmpfs none /tmp 2>/dev/null &&
        ! mknod /workspace/device b 8 0 2>/dev/null &&
        ! chroot / true 2>/dev/null &&
        ! (echo x > /proc/sys/kernel/core_pattern) 2>/dev/null &&
        ! (echo 9999 > /proc/sys/user/max_user_namespaces) 2>/dev/null &&
        ! (echo x > /proc/sysrq-trigger) 2>/dev/null"#;
    sandbox.output_of(escapes).await;
    sandbox.destroy().await;
}

#[tokio::test]
async fn killing_process_1_from_inside_has_no_effect() {
    let Some(sandbox) = Sandbox::new().await else { return };
    for signal in ["KILL", "TERM", "STOP", "INT", "HUP", "SEGV", "USR1"] {
        sandbox.run(&script(&format!("kill -{signal} 1"))).await;
    }
    assert_eq!(sandbox.output_of("echo alive").await, "alive");
    sandbox.destroy().await;
}

#[tokio::test]
async fn the_init_keeps_its_memory_and_descriptors_to_itself() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let script = r#"
        for name in mem environ maps exe cwd root fd ns/mnt ns/pid; do
            if (ls -L "/proc/1/$name" && cat "/proc/1/$name") >/dev/null 2>&1; then echo "reached $name"; exit 1; fi
        done
        ! ls /proc/1/root/ >/dev/null 2>&1"#;
    sandbox.output_of(script).await;
    sandbox.destroy().await;
}

#[tokio::test]
async fn processes_outside_can_neither_be_seen_nor_signalled() {
    let Some(sandbox) = Sandbox::new().await else { return };
    // This very process bears the same user id when it is an ordinary user's.
    let own = std::process::id();
    let script = format!(
        "set -- /proc/[0-9]*; echo $#; test ! -e /proc/{own} && ! kill -0 {own} 2>/dev/null && ! kill -KILL {own} 2>/dev/null"
    );
    // Process ids inside are small; on a machine that has just started they could meet by chance.
    if own > 1000 {
        let count: u32 = sandbox.output_of(&script).await.parse().unwrap();
        assert!(count <= 6, "{count} processes");
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn no_descriptor_of_the_manager_is_inherited() {
    // A descriptor that any child inherits, with a secret behind it.
    let secret = tempfile::tempfile().unwrap();
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let Some(sandbox) = Sandbox::new().await else { return };
    let descriptors = sandbox.output_of("cd /proc/self/fd && echo *").await;
    let open: Vec<u32> = descriptors.split_whitespace().map(|text| text.parse().unwrap()).collect();
    // The shell may hold its own one while it expands the star; a file of the host is none of them.
    assert!(open.len() <= 4, "{descriptors}");
    let targets = sandbox.output_of("readlink /proc/self/fd/* || true").await;
    assert!(!targets.contains("(deleted)"), "{targets}");
    sandbox.destroy().await;
}

#[tokio::test]
async fn the_managers_environment_stays_outside() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let environment = sandbox.output_of("env | cut -d= -f1 | sort").await;
    let expected =
        ["HOME", "LANG", "LEASEHOLD_COMMAND_ID", "LOGNAME", "PATH", "PWD", "SHELL", "USER"];
    let allowed =
        |name: &str| expected.contains(&name) || name == "_" || name == "OLDPWD" || name == "SHLVL";
    assert!(environment.lines().all(allowed), "{environment}");
    assert!(expected.iter().all(|name| environment.contains(name)), "{environment}");
    sandbox.destroy().await;
}

#[tokio::test]
async fn a_secret_value_is_in_no_process_list() {
    const CANARY: &str = "canary-7f1c2b";
    let Some(sandbox) = Sandbox::new().await else { return };
    let mut request = script(r#"echo "ready $SECRET"; exec sleep 1000"#);
    request.environment.insert("SECRET".to_owned(), CANARY.into());
    let mut process = sandbox.start(&request).await.unwrap();
    assert_eq!(wait_for_line(&mut process, "ready ").await, CANARY, "the command has it");
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path().join("cmdline");
        let text = std::fs::read(path).unwrap_or_default();
        assert!(!text.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()));
    }
    for name in ["record.json", "init.json", "guard.json"] {
        let text = std::fs::read_to_string(sandbox.directory().join(name)).unwrap_or_default();
        assert!(!text.contains(CANARY), "{name}");
    }
    sandbox.destroy().await;
}

#[tokio::test]
async fn commands_have_no_terminal_no_core_dumps_and_a_session_keyring_of_their_own() {
    let host = std::fs::read_to_string("/proc/keys").unwrap_or_default();
    let Some(sandbox) = Sandbox::new().await else { return };
    sandbox.output_of("! (: < /dev/tty) 2>/dev/null").await;
    assert_eq!(sandbox.output_of("ulimit -c").await, "0");
    // An ordinary user's sandbox has its user id, to which the kernel shows that user's keyrings by name.
    if !rustix::process::geteuid().is_root() {
        sandbox.destroy().await;
        return;
    }
    let inside = sandbox.output_of("cat /proc/keys 2>/dev/null || true").await;
    let ids = |text: &str| {
        text.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect::<Vec<_>>()
    };
    let host_ids = ids(&host);
    assert!(ids(&inside).iter().all(|id| !host_ids.contains(id)), "{inside}\n{host}");
    sandbox.destroy().await;
}

#[tokio::test]
async fn the_state_directory_is_closed_to_other_users() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(sandbox.directory().parent().unwrap()), 0o700);
    assert_eq!(mode(&sandbox.directory().join("ctl.sock")), 0o600);
    assert_eq!(mode(&sandbox.directory().join("record.json")), 0o600);
    sandbox.destroy().await;
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = leasehold_local::LocalProvider::open(
        open.path(),
        leasehold_local::InitProgram::default(),
        std::sync::Arc::new(SystemClock),
        std::sync::Arc::new(SystemRandom),
        None,
    );
    assert!(matches!(refused, Err(leasehold_local::LocalError::ExposedDirectory { .. })));
}

#[tokio::test]
async fn terminals_can_be_opened_inside() {
    let Some(sandbox) = Sandbox::new().await else { return };
    let ran = sandbox.run(&probe(&sandbox, "probe_terminal")).await;
    assert_eq!(ran.end, ProcessEnd::Exited(0), "{ran:?}");
    sandbox.destroy().await;
}

#[test]
#[ignore = "runs inside a sandbox"]
fn probe_terminal() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    assert!(name.to_str().unwrap().starts_with("/dev/pts/"));
    // As no controlling terminal: the program would get its hangup.
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).unwrap();
}

/// A test of this binary as a command: the binary is copied into the workspace.
fn probe(sandbox: &Sandbox, test: &str) -> leasehold_ports::CommandRequest {
    let program = sandbox.directory().join("workspace/probe");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    command(&["/workspace/probe", "--exact", test, "--ignored", "--nocapture"])
}
