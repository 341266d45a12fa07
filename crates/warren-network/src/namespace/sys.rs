#![expect(unsafe_code, reason = "a thread leaves its namespace")]

use rustix::io::Errno;
use rustix::thread::UnshareFlags;

/// Moves the calling thread, and no other, into a new network namespace.
pub(super) fn unshare_network() -> Result<(), Errno> {
    // SAFETY: only with `FILES` could other threads miss descriptors; the flag given concerns the
    // network alone.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}
