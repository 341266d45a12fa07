//! The two calls by which a single thread takes on another user's rights to files.
#![expect(unsafe_code, reason = "no safe wrapper exists for setfsuid and setfsgid")]

/// An id no user has: the kernel refuses it, changes nothing and still tells the id in force.
const NO_ID: libc::c_long = -1;

/// Sets the calling thread's user for file access. Leaving 0 takes the file capabilities with it.
/// Tells whether the kernel did it; these calls report no error of their own.
pub(super) fn set_fs_uid(uid: u32) -> bool {
    // SAFETY: the system call takes a number and touches no memory of ours. It is made raw because
    // it has to act on this thread alone.
    let current = unsafe {
        libc::syscall(libc::SYS_setfsuid, libc::c_long::from(uid));
        libc::syscall(libc::SYS_setfsuid, NO_ID)
    };
    current == libc::c_long::from(uid)
}

/// The user whose rights to files the calling thread has.
pub(crate) fn user_for_files() -> Option<u32> {
    // SAFETY: as for `set_fs_uid`; nothing changes.
    u32::try_from(unsafe { libc::syscall(libc::SYS_setfsuid, NO_ID) }).ok()
}

/// Sets the calling thread's group for file access, and tells whether the kernel did it.
pub(super) fn set_fs_gid(gid: u32) -> bool {
    // SAFETY: as for `set_fs_uid`.
    let current = unsafe {
        libc::syscall(libc::SYS_setfsgid, libc::c_long::from(gid));
        libc::syscall(libc::SYS_setfsgid, NO_ID)
    };
    current == libc::c_long::from(gid)
}
