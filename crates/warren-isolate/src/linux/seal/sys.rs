#![expect(unsafe_code, reason = "moving a thread between mount namespaces, and ids that rustix does not set")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags,
};
use warren_wire::guest::STRANGER;

/// Gives this thread a root and working directory of its own.
pub(super) fn unshare_directories() -> Result<(), Errno> {
    // SAFETY: only where paths start changes, and only for this thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
}

/// Moves this thread, with a root and working directory of its own, into a copy of its mount
/// namespace.
pub(in crate::linux) fn unshare_mounts() -> Result<(), Errno> {
    // SAFETY: only where paths lead changes, and only for this thread; no descriptor and no memory
    // is touched.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS | UnshareFlags::NEWNS) }
}

/// Moves this thread, which has directories of its own, into another mount namespace, to its root.
pub(super) fn enter_mounts(namespace: &OwnedFd) -> Result<(), Errno> {
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
}

/// Makes this thread act on files as a sandbox's root, with all capabilities but the one that
/// ignores quotas: an overlay acts with the rights of the thread that mounts it.
pub(super) fn assume_file_ids(base: u32) -> Result<(), Errno> {
    rustix::thread::set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective.remove(CapabilitySet::SYS_RESOURCE);
    rustix::thread::set_capabilities(None, sets)?;
    set_file_ids(base)
}

/// Mounts something with the rights of a user that owns nothing, is in no group and has no
/// privileges. Afterwards this thread acts again as the root of the sandbox whose ids begin at
/// `base`.
pub(super) fn as_a_stranger<T>(base: u32, mount: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let sets = rustix::thread::capabilities(None)?;
    rustix::thread::set_thread_groups(&[])?;
    set_file_ids(STRANGER)?;
    let to_mount = CapabilitySets { effective: CapabilitySet::SYS_ADMIN, ..sets };
    rustix::thread::set_capabilities(None, to_mount)?;
    let mounted = mount();
    rustix::thread::set_capabilities(None, sets)?;
    set_file_ids(base)?;
    mounted
}

fn set_file_ids(id: u32) -> Result<(), Errno> {
    for call in [libc::SYS_setfsgid, libc::SYS_setfsuid] {
        // SAFETY: takes a number and touches no memory. The call answers the previous id and never
        // an error, so a second call with an impossible id reads back what holds.
        let held = unsafe {
            libc::syscall(call, id);
            libc::syscall(call, u32::MAX)
        };
        if held != libc::c_long::from(id) {
            return Err(Errno::PERM);
        }
    }
    Ok(())
}

/// The kernel's `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct SubvolumeArguments {
    descriptor: i64,
    name: [u8; 4088],
}

const BTRFS_IOC_SUBVOL_CREATE: libc::c_ulong = 0x5000_940E;

/// Makes a btrfs subvolume in a directory.
pub(in crate::linux) fn make_subvolume(parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let mut arguments = SubvolumeArguments { descriptor: 0, name: [0; 4088] };
    // One byte is left for the end.
    let place =
        arguments.name.get_mut(..name.len()).filter(|_| name.len() < 256).ok_or(Errno::NAMETOOLONG)?;
    place.copy_from_slice(name.as_bytes());
    // SAFETY: the struct has the kernel's layout and size, holds a terminated name, and lives
    // across the call.
    let answer = unsafe { libc::ioctl(parent.as_raw_fd(), BTRFS_IOC_SUBVOL_CREATE, &raw const arguments) };
    if answer == 0 {
        return Ok(());
    }
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    Err(Errno::from_raw_os_error(code))
}
