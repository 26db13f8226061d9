//! The few calls that no safe library offers, each behind a safe function.
//!
//! This is the only module of the workspace in which `unsafe` is allowed. What may not live here: decisions.
//! Each function is one system call and the proof that it is sound.

#![allow(unsafe_code)]

use rustix::process::Pid;
use std::convert::Infallible;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// The exit status of a child that failed by a bug.
const PANICKED: i32 = 101;

/// Which side of a fork the caller is on.
pub(crate) enum Side {
    /// The new process.
    Child,
    /// The old one, with the new one's process id.
    Parent(Pid),
}

/// Makes a process in new user, pid, mount, network, IPC and UTS namespaces, as its process 1.
///
/// The child's parent is this process's own parent: the manager, which can then wait for it, while this
/// process ends. Both sides go on from here with a copy of the same memory.
///
/// # Errors
///
/// When the kernel refuses, above all where user namespaces are forbidden.
pub(crate) fn clone_into_namespaces() -> io::Result<Side> {
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_PARENT;
    // SAFETY: all-zero is a valid `clone_args`: no stack, no TLS, no descriptors. With CLONE_PARENT the exit
    // signal must be zero; the child inherits this process's.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(flags.cast_unsigned());
    // SAFETY: without CLONE_VM the child gets a copy of the address space and runs on its own copy of this
    // stack, as after fork. Only one thread exists (`run_if_requested` demands it), so no lock can be held by
    // a thread that the child lacks.
    let result = unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>())
    };
    side(result)
}

/// Forks this process.
///
/// # Errors
///
/// When the kernel refuses, for instance because of a limit on processes.
pub(crate) fn fork() -> io::Result<Side> {
    // SAFETY: the init is single-threaded, so the child may do whatever the parent may.
    side(i64::from(unsafe { libc::fork() }))
}

fn side(result: i64) -> io::Result<Side> {
    // Negative first: a process id must not even be made of it.
    check(result)?;
    match i32::try_from(result).map(Pid::from_raw) {
        Ok(None) => Ok(Side::Child),
        Ok(Some(pid)) => Ok(Side::Parent(pid)),
        Err(_) => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// Closes every descriptor from 3 on, whatever was inherited.
///
/// # Errors
///
/// When the kernel has no `close_range` (before 5.9).
pub(crate) fn close_inherited_descriptors() -> io::Result<()> {
    // SAFETY: called first in the process, before any value owns a descriptor from 3 on.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) })
}

/// Closes every descriptor from 3 on in a child that goes on without executing a program, and never
/// returns to what owns them: `then` ends the process.
///
/// # Errors
///
/// When the kernel has no `close_range` (before 5.9).
pub(crate) fn without_descriptors(then: impl FnOnce() -> Infallible) -> io::Result<Infallible> {
    // SAFETY: values up the stack still own descriptors, but nothing uses or drops them any more: control
    // does not come back from `then`, and a panic in it ends the process.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) })?;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(then));
    match ended {
        Ok(never) => match never {},
        Err(_) => exit_now(PANICKED),
    }
}

/// Marks every descriptor from 3 on to be closed when a program is executed.
///
/// # Errors
///
/// When the kernel does not know the flag (before 5.11).
pub(crate) fn close_descriptors_on_exec() -> io::Result<()> {
    // SAFETY: changes flags of descriptors only; none is closed under its owner.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
}

/// Makes a mount read-only and strips set-user-id and device files from it, with everything mounted below.
///
/// # Errors
///
/// When the path is not a mount, or the kernel has no `mount_setattr` (before 5.12).
pub(crate) fn restrict_mount(path: &CStr, attributes: u64, recursive: bool) -> io::Result<()> {
    // SAFETY: all-zero is a valid `mount_attr`: nothing set, nothing cleared.
    let mut change: libc::mount_attr = unsafe { std::mem::zeroed() };
    change.attr_set = attributes;
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is NUL-terminated and the structure outlives the call, which writes to neither.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    })
}

/// Leaves the manager's session keyring for a new, empty one.
///
/// # Errors
///
/// When the kernel has no keyrings, or the user's quota is used up.
pub(crate) fn leave_session_keyring() -> io::Result<()> {
    // SAFETY: a null name asks for an anonymous keyring; no memory is read or written.
    check(unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, 0) })
}

/// Brings a network interface up.
///
/// # Errors
///
/// When there is no such interface, or without the capability over this network namespace.
pub(crate) fn bring_interface_up(socket: impl AsFd, name: &CStr) -> io::Result<()> {
    // SAFETY: all-zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One place stays zero: the name must end with a NUL.
    let room = request.ifr_name.len() - 1;
    for (slot, byte) in request.ifr_name.iter_mut().take(room).zip(name.to_bytes()) {
        *slot = byte.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which outlives the call.
    check(i64::from(unsafe {
        libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request)
    }))
}

/// Drops every capability that this kernel knows from the bounding set.
///
/// # Errors
///
/// Without the capability to do so.
pub(crate) fn empty_bounding_set() -> io::Result<()> {
    // The kernel has at most 64; it answers EINVAL to the first number that it does not know.
    for capability in 0..64 {
        // SAFETY: PR_CAPBSET_DROP takes a number and touches no memory.
        let result =
            check(i64::from(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }));
        match result {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && capability > 0 => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives every signal its default effect and blocks none, as a fresh program expects.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL installs no code. KILL, STOP and the C library's own two refuse, harmlessly.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an all-zero set is what sigemptyset makes, which fills it in again anyway.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both calls only touch the set, which lives on this stack.
    unsafe {
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Ends this process at once, without running anything registered for its exit.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` never returns and runs no code of this program.
    unsafe { libc::_exit(status) }
}

fn check(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
