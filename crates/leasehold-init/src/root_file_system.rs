//! The file tree that commands see, put together from pieces of the host and the sandbox's own folders.
//!
//! | path | what it is |
//! | --- | --- |
//! | `/usr`, and `/bin`, `/lib`, … as on the host | the host's, read-only |
//! | `/etc` | a small one of our own; certificates, `alternatives` and the like from the host, read-only |
//! | `/workspace`, `/sandbox-home`, `/tmp` | the sandbox's own folders, writable, kept until destroy |
//! | `/dev` | null, zero, full, random, urandom, tty, a new `pts`, an empty `shm` |
//! | `/proc` | of the sandbox's own process namespace |
//!
//! Everything else is absent, and the root itself is read-only. `/etc` is written here rather than taken over
//! because the host's holds names of users, machines and keys. Runs in the sandbox's directory, as process 1,
//! in its own mount namespace; needs nothing but paths relative to that directory, so its length is no matter.

use crate::kernel;
use crate::protocol::{
    HOME, HOME_FOLDER, INSIDE_ID, ROOT_FOLDER, TEMPORARY_FOLDER, WORKSPACE, WORKSPACE_FOLDER,
};
use crate::setup::{SetupError, Step as _};
use rustix::fs::{FileType, symlink};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::ffi::CString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | NO_PRIVILEGES;
const NO_PRIVILEGES: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// Top-level names that hold programs and libraries. Most hosts have symbolic links into `/usr` here.
const SYSTEM_FOLDERS: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// What programs need of the host's `/etc`; folders with private keys are not among it.
const HOST_CONFIGURATION: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Small files are copied: that is cheaper than one more mount.
const COPY_LIMIT: u64 = 64 * 1024;

/// Builds the tree, moves this process into it, and lets go of the host's.
pub(crate) fn enter() -> Result<(), SetupError> {
    use rustix::mount::{mount, mount_change};
    let root = Path::new(ROOT_FOLDER);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step("separate mounts from the host's")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("leasehold", root, c"tmpfs", flags, c"mode=0755,size=4m").step("mount the root")?;
    for name in SYSTEM_FOLDERS {
        show_host_entry(&Path::new("/").join(name), &root.join(name))
            .step("show the host's programs")?;
    }
    build_configuration(root).step("build /etc")?;
    build_devices(root)?;
    build_own_folders(root)?;
    let folder = make_folder(&root.join("proc")).step("make /proc")?;
    mount("proc", &folder, c"proc", flags | MountFlags::NOEXEC, None).step("mount /proc")?;
    switch_to(root)
}

/// Shows an entry of the host under another path, read-only: a link as a link, a small file as a copy, anything
/// else by a bind mount. What the host lacks is left out.
fn show_host_entry(source: &Path, target: &Path) -> io::Result<()> {
    let metadata = match std::fs::symlink_metadata(source) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent)?;
    }
    if metadata.is_symlink() {
        return Ok(symlink(std::fs::read_link(source)?, target)?);
    }
    if metadata.is_dir() {
        make_folder(target)?;
        return bind(source, target, READ_ONLY);
    }
    if metadata.is_file() && metadata.len() <= COPY_LIMIT {
        // A file that only root may read stays where it is.
        return match std::fs::copy(source, target) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other.map(drop),
        };
    }
    if metadata.is_file() {
        make_file(target)?;
        return bind(source, target, READ_ONLY);
    }
    Ok(())
}

fn build_configuration(root: &Path) -> io::Result<()> {
    let folder = make_folder(&root.join("etc"))?;
    for name in HOST_CONFIGURATION {
        show_host_entry(&Path::new("/etc").join(name), &folder.join(name))?;
    }
    let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
    let none = "/usr/sbin/nologin";
    let users = format!(
        "root:x:0:0:root:/:{none}\nagent:x:{INSIDE_ID}:{INSIDE_ID}:agent:{HOME}:{shell}\n\
         nobody:x:65534:65534:nobody:/:{none}\n"
    );
    std::fs::write(folder.join("passwd"), users)?;
    let groups = format!("root:x:0:\ntty:x:5:\nagent:x:{INSIDE_ID}:\nnogroup:x:65534:\n");
    std::fs::write(folder.join("group"), groups)?;
    let hosts = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n";
    std::fs::write(folder.join("hosts"), hosts)?;
    std::fs::write(folder.join("hostname"), "sandbox\n")?;
    std::fs::write(
        folder.join("nsswitch.conf"),
        "passwd: files\ngroup: files\nhosts: files dns\n",
    )?;
    symlink("/proc/self/mounts", folder.join("mtab"))?;
    Ok(())
}

fn build_devices(root: &Path) -> Result<(), SetupError> {
    use rustix::mount::mount;
    let folder = make_folder(&root.join("dev")).step("make /dev")?;
    for name in DEVICES {
        show_device(&Path::new("/dev").join(name), &folder.join(name)).step("show a device")?;
    }
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, folder.join(link)).step("link a device")?;
    }
    let terminals = make_folder(&folder.join("pts")).step("make /dev/pts")?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", &terminals, c"devpts", flags, c"newinstance,ptmxmode=0666,mode=0620")
        .step("mount /dev/pts")?;
    let shared = make_folder(&folder.join("shm")).step("make /dev/shm")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("shm", &shared, c"tmpfs", flags, c"mode=1777").step("mount /dev/shm")
}

// A device without NODEV must be the one that its name says: a host whose /dev/tty is something else gets none.
fn show_device(source: &Path, target: &Path) -> io::Result<()> {
    match rustix::fs::stat(source) {
        Ok(status) if FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice => {
            make_file(target)?;
            rustix::mount::mount_bind(source, target)?;
            let path = c_string(target)?;
            kernel::restrict_mount(&path, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC, false)
        }
        Ok(_) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn build_own_folders(root: &Path) -> Result<(), SetupError> {
    for (folder, target) in
        [(WORKSPACE_FOLDER, WORKSPACE), (HOME_FOLDER, HOME), (TEMPORARY_FOLDER, "/tmp")]
    {
        let target =
            make_folder(&root.join(target.trim_start_matches('/'))).step("make an own folder")?;
        bind(Path::new(folder), &target, NO_PRIVILEGES).step("show an own folder")?;
    }
    let var = make_folder(&root.join("var")).step("make /var")?;
    symlink("/tmp", var.join("tmp")).step("link /var/tmp")?;
    make_folder(&root.join("run")).step("make /run").map(drop)
}

/// Makes `root` the root, and unmounts the old one.
fn switch_to(root: &Path) -> Result<(), SetupError> {
    rustix::process::chdir(root).step("enter the root")?;
    // Both on one folder: the old root ends up on top of the new one, and comes off without a name for it.
    rustix::process::pivot_root(".", ".").step("change the root")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).step("detach the host's files")?;
    rustix::process::chdir("/").step("enter the new root")?;
    kernel::restrict_mount(c"/", READ_ONLY, false).step("make the root read-only")
}

fn bind(source: &Path, target: &Path, attributes: u64) -> io::Result<()> {
    // Recursive, because the kernel refuses to uncover what the host has mounted below.
    rustix::mount::mount_bind_recursive(source, target)?;
    kernel::restrict_mount(&c_string(target)?, attributes, true)
}

fn make_folder(path: &Path) -> io::Result<PathBuf> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // The manager's umask must not decide who can enter.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path.to_owned())
}

fn make_file(path: &Path) -> io::Result<()> {
    std::fs::File::create(path).map(drop)
}

fn c_string(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt as _;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
