#![expect(unsafe_code, reason = "options of netlink sockets, which rustix does not wrap")]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Sets a whole-number option of a netlink socket.
pub(super) fn set_option(socket: BorrowedFd<'_>, option: libc::c_int, value: u32) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(size_of::<u32>()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads four bytes from `value`, which is alive and that long.
    let answer = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_NETLINK, option, (&raw const value).cast(), length)
    };
    if answer == 0 { Ok(()) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}
