//! Signals, which neither `std` nor `rustix` let a program take or die by.
#![expect(
    unsafe_code,
    reason = "no safe wrapper exists for signal masks, signal descriptors and dispositions"
)]

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

/// The signals that are passed on: all that others send to end or stop a program or to tell it
/// something, as far as they can be caught.
const FORWARDED: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGCONT,
    libc::SIGWINCH,
];

/// Takes the signals that are passed on, and makes a descriptor that tells of them.
pub(crate) fn forwarded_signals() -> Result<OwnedFd, Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set; all calls read that set only, and -1 makes a
    // descriptor nobody else owns.
    let fd = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in FORWARDED {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    // SAFETY: the descriptor was made above and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Ends this process by a signal, so that its parent sees the same end. Returns if the signal
/// does not end processes.
pub(crate) fn die_by(signal: i32) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set; a default disposition installs no handler; `raise`
    // touches no memory of ours.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::raise(signal);
    }
}
