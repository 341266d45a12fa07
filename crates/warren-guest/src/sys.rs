//! System calls that neither `std` nor `rustix` offers as safe ones: signal masks, signal
//! descriptors, and the spawn.

#![expect(unsafe_code, reason = "raw system calls without a safe wrapper")]

mod launch;

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

pub(crate) use launch::{Ids, Launch, LaunchError, LaunchStep, Launched, Stack, launch};

/// Blocks every signal for this thread and all threads it will start, and sets every disposition
/// back to its default. A process started later then only needs to unblock.
pub(crate) fn take_signals() -> Result<(), Errno> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set it is given, and the mask is read from that set
    // only.
    let failed = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut())
    };
    if failed != 0 {
        return Err(Errno::from_raw_os_error(failed));
    }
    // The kernel's own record, all zero: the default disposition, no flags, no mask.
    let default = [0u64; 4];
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the record outlives the call, and a default disposition installs no handler. The
        // call is raw because libc keeps two signals to itself, which may have been inherited as
        // ignored. The kernel refuses the two that cannot be changed.
        unsafe {
            let nowhere = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), nowhere, size_of::<u64>());
        }
    }
    Ok(())
}

/// A descriptor that reports these signals, which must be blocked.
pub(crate) fn signal_descriptor(signals: &[i32]) -> Result<OwnedFd, Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set; `signalfd` with -1 makes a descriptor nobody else
    // owns.
    let fd = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the descriptor was made above and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Which processes a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    Process,
    Group,
}

/// Sends any signal the kernel knows, real-time ones included. The pid must not have been reaped.
pub(crate) fn kill(pid: i32, aim: Aim, signal: i32) -> Result<(), Errno> {
    // Zero and one would mean this process's own group and everyone.
    if pid <= 1 {
        return Err(Errno::SRCH);
    }
    let target = match aim {
        Aim::Process => pid,
        Aim::Group => -pid,
    };
    // SAFETY: `kill` touches no memory of this process.
    if unsafe { libc::kill(target, signal) } < 0 { Err(last_error()) } else { Ok(()) }
}

/// Sends a signal to every process that this one may reach, itself and PID 1 excepted. Only for PID
/// 1 of a sandbox, which reaches nobody outside.
pub(crate) fn tell_all(signal: i32) -> Result<(), Errno> {
    if !rustix::process::getpid().is_init() {
        return Err(Errno::PERM);
    }
    // SAFETY: `kill` touches no memory of this process.
    if unsafe { libc::kill(-1, signal) } < 0 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
