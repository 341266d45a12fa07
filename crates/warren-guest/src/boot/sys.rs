#![expect(
    unsafe_code,
    reason = "system calls that rustix does not wrap, and descriptors inherited by number"
)]

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, LinkNameSpaceType, UnshareFlags};

/// Turns the raw answer of a system call into a result.
fn checked(answer: libc::c_long) -> Result<(), Errno> {
    if answer >= 0 {
        return Ok(());
    }
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    Err(Errno::from_raw_os_error(code))
}

/// Takes ownership of a descriptor that the backend left open for this process.
pub(super) fn inherit(number: i32) -> Result<OwnedFd, Errno> {
    if number < 3 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is only asked about; a wrong one is answered with EBADF.
    let probe = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_getfd(probe)?;
    // SAFETY: the descriptor is open, the plan names each number once, and nothing else in this
    // single-threaded process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// As [`inherit`], and of the standard descriptors a copy: whatever writes there later finds what
/// it was.
pub(super) fn inherit_any(number: i32) -> Result<OwnedFd, Errno> {
    if number >= 3 {
        return inherit(number);
    }
    // SAFETY: the number is only copied; a wrong one is answered with EBADF.
    let standard = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(standard, 3)
}

/// Makes sure that no inherited descriptor outlives an exec.
pub(super) fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    // SAFETY: takes three numbers and touches no memory.
    match checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
    {
        // A kernel in user space that only closes.
        Err(Errno::INVAL | Errno::NOSYS) => mark_each(first),
        answer => answer,
    }
}

/// More than any runtime passes down.
const MOST_INHERITED: u32 = 1024;

fn mark_each(first: u32) -> Result<(), Errno> {
    for number in first..MOST_INHERITED {
        let number = i32::try_from(number).map_err(|_| Errno::BADF)?;
        // SAFETY: takes numbers and touches no memory; one that is not open is answered with EBADF.
        match checked(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) }.into()) {
            Ok(()) | Err(Errno::BADF) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub(super) fn unshare_cgroup() -> Result<(), Errno> {
    // SAFETY: unsharing the cgroup namespace changes no descriptor and no memory.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWCGROUP) }
}

/// For children only: the process itself changes when it enters.
pub(super) fn unshare_time() -> Result<(), Errno> {
    // SAFETY: unsharing the time namespace changes no descriptor and no memory.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWTIME) }
}

pub(super) fn enter_time_namespace(namespace: &OwnedFd) -> Result<(), Errno> {
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Time))
}

pub(super) fn enter_network(namespace: &OwnedFd) -> Result<(), Errno> {
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

pub(super) fn enter_user_namespace(namespace: &OwnedFd) -> Result<(), Errno> {
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))
}

/// Makes new files belong to this id as user and group. Only this process has the ids, and only for
/// files.
pub(super) fn set_file_ids(id: u32) -> Result<(), Errno> {
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

/// Gives up the capability that lets its holder exceed disk quotas.
pub(super) fn drop_quota_override() -> Result<(), Errno> {
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective.remove(CapabilitySet::SYS_RESOURCE);
    rustix::thread::set_capabilities(None, sets)
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Makes the mount at `path` below `directory` read-only.
pub(super) fn make_read_only(directory: &OwnedFd, path: &CStr) -> Result<(), Errno> {
    let attr = MountAttr { set: libc::MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the path is a C string and the attribute struct has the kernel's layout, with its
    // size beside it; both live across the call.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_raw_fd(),
            path.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
}

/// A fresh session keyring, so that no key of the backend's can be reached.
pub(super) fn new_session_keyring() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for an anonymous keyring; no memory is passed.
    match checked(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0usize) }) {
        // A kernel without keyrings has nothing to leak.
        Err(Errno::NOSYS) => Ok(()),
        answer => answer,
    }
}

/// Sets soft and hard limit alike; a hard limit that is lower already stays.
pub(super) fn set_rlimit(resource: u32, value: u64) -> Result<(), Errno> {
    let mut held = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid and lives across both calls.
    unsafe {
        checked(libc::getrlimit(resource, &raw mut held).into())?;
        let value = value.min(held.rlim_max);
        let wanted = libc::rlimit { rlim_cur: value, rlim_max: value };
        checked(libc::setrlimit(resource, &raw const wanted).into())
    }
}

/// The kernel's highest capability is found by dropping until it refuses.
pub(super) fn limit_bounding_set(kept: u64) -> Result<(), Errno> {
    for number in (0..64).filter(|number| kept & (1 << number) == 0) {
        // SAFETY: takes numbers and touches no memory.
        match checked(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) }.into()) {
            Err(Errno::INVAL) => return Ok(()),
            answer => answer?,
        }
    }
    Ok(())
}

pub(super) fn bounding_set_exceeds(kept: u64) -> bool {
    (0..64).any(|number| {
        // SAFETY: takes numbers and touches no memory. A capability unknown to the kernel is
        // answered by an error.
        let held = unsafe { libc::prctl(libc::PR_CAPBSET_READ, number, 0, 0, 0) } == 1;
        held && kept & (1 << number) == 0
    })
}

/// Loads a seccomp program given in the kernel's encoding: eight bytes an instruction.
pub(super) fn load_seccomp(program: &[u8]) -> Result<(), Errno> {
    let instructions: Vec<libc::sock_filter> = program
        .chunks_exact(8)
        .map(|bytes| libc::sock_filter {
            code: u16::from_ne_bytes([bytes[0], bytes[1]]),
            jt: bytes[2],
            jf: bytes[3],
            k: u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
        .collect();
    let length = u16::try_from(instructions.len()).map_err(|_| Errno::INVAL)?;
    let filter = libc::sock_fprog { len: length, filter: instructions.as_ptr().cast_mut() };
    // SAFETY: the program points at `length` instructions that live across the call; the kernel
    // copies them.
    checked(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) })
}

/// Numbers from which descriptors are moved out of the way of those that they are to get.
const OUT_OF_THE_WAY: i32 = 1 << 9;

/// Makes these the descriptors 0, 1 and 2, 3, 4 and so on, all of them for the program that is
/// executed next. Without an input 0 stays what it is.
pub(super) fn place_descriptors(
    input: Option<&OwnedFd>,
    output: &OwnedFd,
    others: &[OwnedFd],
) -> Result<(), Errno> {
    let wanted = input.map(|input| (0, input)).into_iter().chain([(1, output), (2, output)]);
    let wanted = wanted.chain((3..).zip(others));
    let mut moved = Vec::new();
    for (number, fd) in wanted {
        moved.push((number, rustix::io::fcntl_dupfd_cloexec(fd, OUT_OF_THE_WAY)?));
    }
    for (number, fd) in &moved {
        // SAFETY: takes two numbers. What the second was is lost on purpose: this process executes
        // another program next, or ends, and uses no descriptor by its old number.
        checked(unsafe { libc::dup2(fd.as_raw_fd(), *number) }.into())?;
    }
    Ok(())
}

/// Executes a program in place of this one. Returns why it could not.
pub(super) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> Errno {
    let pointers = |words: &[CString]| -> Vec<*const libc::c_char> {
        words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both lists end with a null pointer and hold pointers to C strings that live across
    // the call.
    let answer = unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    checked(answer.into()).err().unwrap_or(Errno::INVAL)
}
