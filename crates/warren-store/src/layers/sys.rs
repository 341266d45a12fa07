//! The requests to btrfs that no library makes for us.
#![expect(unsafe_code, reason = "btrfs makes and removes subvolumes by ioctl alone")]

use std::ffi::{CStr, c_char};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Setter, opcode};

const MAGIC: u8 = 0x94;
const SHORT_NAME: usize = 4088;
const NAME: usize = 4040;

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolumeArgs {
    fd: i64,
    name: [c_char; SHORT_NAME],
}

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct VolumeArgsV2 {
    fd: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [c_char; NAME],
}

const _: () = assert!(size_of::<VolumeArgs>() == 4096 && size_of::<VolumeArgsV2>() == 4096);

const SNAPSHOT_DESTROY: Opcode = opcode::write::<VolumeArgs>(MAGIC, 15);
const SNAPSHOT_CREATE: Opcode = opcode::write::<VolumeArgsV2>(MAGIC, 23);

/// Makes `name` in `parent` a writable snapshot of the subvolume that `source` is open on.
pub(super) fn snapshot(source: BorrowedFd<'_>, parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let args = VolumeArgsV2 {
        fd: source.as_raw_fd().into(),
        transaction: 0,
        flags: 0,
        unused: [0; 4],
        name: terminated(name)?,
    };
    // SAFETY: the opcode is the kernel's BTRFS_IOC_SNAP_CREATE_V2, which only reads one structure
    // of this size and layout; its name ends in a zero byte and its descriptor is open for as long
    // as `source` is borrowed.
    unsafe { ioctl::ioctl(parent, Setter::<SNAPSHOT_CREATE, _>::new(args)) }
}

/// Removes the subvolume `name` in `parent` with all it holds.
pub(super) fn destroy(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let args = VolumeArgs { fd: 0, name: terminated(name)? };
    // SAFETY: the opcode is the kernel's BTRFS_IOC_SNAP_DESTROY, which only reads one structure of
    // this size and layout; its name ends in a zero byte.
    unsafe { ioctl::ioctl(parent, Setter::<SNAPSHOT_DESTROY, _>::new(args)) }
}

fn terminated<const N: usize>(name: &CStr) -> Result<[c_char; N], Errno> {
    let name = name.to_bytes();
    if name.len() >= N {
        return Err(Errno::NAMETOOLONG);
    }
    let mut field = [0; N];
    for (place, &byte) in field.iter_mut().zip(name) {
        *place = c_char::from_ne_bytes([byte]);
    }
    Ok(field)
}
