#![expect(unsafe_code, reason = "clone3 with its own stack, and system calls that rustix does not wrap")]

use std::ffi::{CStr, CString, c_void};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
use rustix::process::Pid;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the native shared knows the x86_64 system call interface only");

const STACK_BYTES: usize = 32 * 1024;

/// A clone flag that is wider than libc's type for them.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

fn last_errno() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}

fn checked(answer: libc::c_long) -> Result<libc::c_long, Errno> {
    if answer >= 0 { Ok(answer) } else { Err(last_errno()) }
}

/// A child of this process that has not been reaped, so no other process has its number. It is not
/// kept as a descriptor, because every clone copies all descriptors and every exec closes them.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: u32,
}

impl Child {
    pub(super) fn number(&self) -> Option<Pid> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw)
    }
}

/// The program of [`spawn`]'s child. All of it is prepared before the clone, because the child
/// shares this process's memory and may not allocate.
#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) executable: BorrowedFd<'a>,
    pub(super) arguments: Vec<CString>,
    /// Becomes standard input, output and error.
    pub(super) null: BorrowedFd<'a>,
    /// Stays open across the exec, under the same numbers.
    pub(super) inherited: Vec<RawFd>,
}

struct Launch<'a> {
    program: &'a Program<'a>,
    argv: Vec<*const libc::c_char>,
    failure: AtomicI32,
}

/// Clones a child into the namespaces that `flags` name (and into the cgroup behind `cgroup`) and
/// lets it execute the program. The cost does not grow with this process's memory: the child
/// borrows it and this thread waits.
pub(super) fn spawn(
    program: &Program<'_>,
    flags: u64,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Child, Errno> {
    let argv = program.arguments.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
    let launch = Launch { program, argv, failure: AtomicI32::new(0) };
    let flags = flags | (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    let mask = block_signals()?;
    let child = clone(flags, cgroup, libc::SIGCHLD, launch_child, (&raw const launch).cast());
    restore_signals(&mask);
    let child = child?;
    match launch.failure.load(Ordering::Acquire) {
        0 => Ok(child.0),
        code => {
            wait_for(&child.0);
            Err(Errno::from_raw_os_error(code))
        }
    }
}

/// Runs in the child, on its own stack, in the parent's memory.
extern "C" fn launch_child(argument: *const c_void) -> ! {
    // SAFETY: `spawn` passes a Launch that outlives the child's use of it, because CLONE_VFORK
    // suspends the parent until the child has executed or exited. Only system calls follow; nothing
    // allocates, locks or unwinds.
    unsafe {
        let launch = &*argument.cast::<Launch<'_>>();
        let program = launch.program;
        libc::syscall(libc::SYS_setsid);
        let null = program.null.as_raw_fd();
        for standard in 0..3 {
            libc::syscall(libc::SYS_dup2, null, standard);
        }
        for &number in &program.inherited {
            libc::syscall(libc::SYS_fcntl, number, libc::F_SETFD, 0);
        }
        let environment: [*const libc::c_char; 1] = [std::ptr::null()];
        libc::syscall(
            libc::SYS_execveat,
            program.executable.as_raw_fd(),
            c"".as_ptr(),
            launch.argv.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
        launch.failure.store(last_errno().raw_os_error(), Ordering::Release);
        libc::syscall(libc::SYS_exit_group, 127);
        std::process::abort()
    }
}

/// A child that holds a new user namespace open until it is dropped.
#[derive(Debug)]
pub(super) struct NamespaceHolder {
    child: Child,
    /// The child's stack, freed only after the child is gone.
    _stack: Vec<u128>,
}

impl NamespaceHolder {
    /// Makes a process in new namespaces that belong to `owner`: what the kernel counts by user,
    /// such as inotify instances and message queues, it also counts for the owner of the namespace,
    /// outside.
    pub(super) fn new(flags: u64, owner: u32) -> Result<Self, Errno> {
        let mask = block_signals()?;
        let child = as_user(owner, || {
            // It does nothing, so it shares the descriptors instead of copying thousands.
            let shared = (libc::CLONE_VM | libc::CLONE_FILES) as u64;
            let parent = std::ptr::without_provenance(std::process::id() as usize);
            clone(flags | shared, None, 0, hold_namespace, parent)
        });
        restore_signals(&mask);
        let (child, stack) = child?;
        Ok(Self { child, _stack: stack })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        if let Some(number) = self.child.number() {
            let _ = rustix::process::kill_process(number, rustix::process::Signal::KILL);
        }
        wait_for(&self.child);
    }
}

/// Acts as another user, with every capability kept. Ids and capabilities belong to a thread, so no
/// other thread is affected.
fn as_user<T>(user: u32, action: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    use rustix::thread::{CapabilitiesSecureBits, Uid};
    let before = rustix::thread::capabilities_secure_bits()?;
    rustix::thread::set_capabilities_secure_bits(before | CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::from_raw(user), Uid::ROOT)?;
    let outcome = action();
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    rustix::thread::set_capabilities_secure_bits(before)?;
    outcome
}

/// Runs in the holder: sleeps until it is killed, or until the parent with the given number dies.
extern "C" fn hold_namespace(parent: *const c_void) -> ! {
    loop {
        // SAFETY: plain system calls without memory; the process does nothing else until SIGKILL.
        unsafe {
            libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            // A parent that died before that sends no signal.
            if usize::try_from(libc::syscall(libc::SYS_getppid)) != Ok(parent.addr()) {
                libc::syscall(libc::SYS_exit_group, 0);
            }
            libc::syscall(libc::SYS_pause);
        }
    }
}

/// Calls clone3 with a new stack. Returns the child, and the stack it runs on.
fn clone(
    flags: u64,
    cgroup: Option<BorrowedFd<'_>>,
    exit_signal: libc::c_int,
    entry: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> Result<(Child, Vec<u128>), Errno> {
    // Of this type because a stack is aligned to sixteen bytes.
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    let into_cgroup = if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 };
    // SAFETY: an all-zero clone_args is the kernel's default for each field.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags | into_cgroup;
    arguments.exit_signal = u64::from(exit_signal.unsigned_abs());
    arguments.stack = stack.as_mut_ptr() as u64;
    arguments.stack_size = STACK_BYTES as u64;
    arguments.cgroup = cgroup.map_or(0, |fd| u64::from(fd.as_raw_fd().unsigned_abs()));
    // SAFETY: the arguments are valid and live across the call, the stack is ours alone and is kept
    // by the caller until the child no longer uses it, and `entry` never returns.
    let answer = unsafe { clone3(&raw const arguments, entry, argument) };
    if answer < 0 {
        return Err(Errno::from_raw_os_error(i32::try_from(-answer).unwrap_or(libc::EINVAL)));
    }
    Ok((Child { pid: u32::try_from(answer).unwrap_or(0) }, stack))
}

/// The system call and the child's first jump, which no library function offers together with a new
/// stack.
///
/// # Safety
/// `arguments` names a stack that only the child uses, and `entry` must not return.
unsafe fn clone3(
    arguments: *const libc::clone_args,
    entry: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> i64 {
    let answer: i64;
    // SAFETY: by the caller's contract. In the child rax is zero: it calls the entry on the new
    // stack, which never comes back. In the parent only rax, rcx and r11 change.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r9",
            "call r8",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => answer,
            in("rdi") arguments,
            in("rsi") size_of::<libc::clone_args>(),
            in("r8") entry,
            in("r9") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    answer
}

fn block_signals() -> Result<libc::sigset_t, Errno> {
    // SAFETY: both sets are valid for the calls, which fill them.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        checked(libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before).into())?;
        Ok(before)
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: the set was filled by `block_signals`; setting a mask cannot fail with valid
    // arguments.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Waits for the end of a child and reaps it.
fn wait_for(child: &Child) {
    // SAFETY: waits for exactly this child and stores nothing.
    unsafe { libc::waitid(libc::P_PID, child.pid, std::ptr::null_mut(), libc::WEXITED | libc::__WALL) };
}

/// Reaps a child if it has ended. Also true for one that was reaped before.
pub(super) fn reap_if_ended(child: &Child) -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::__WALL;
    // SAFETY: all-zero is a valid siginfo_t, which the call fills; `si_pid` is only read after a
    // call that succeeded.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, child.pid, &raw mut info, options) != 0 || info.si_pid() != 0
    }
}

#[repr(C)]
#[derive(Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets flags of a detached mount and of all below it, and the user namespace that maps their ids.
/// They also become private: otherwise a clone and its original show mounts to each other.
pub(super) fn set_mount(
    mount: BorrowedFd<'_>,
    set: u64,
    mapping: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let attr = MountAttr {
        set: set | if mapping.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 },
        propagation: libc::MS_PRIVATE,
        user_namespace: mapping.map_or(0, |fd| u64::from(fd.as_raw_fd().unsigned_abs())),
        ..MountAttr::default()
    };
    let empty: &CStr = c"";
    // SAFETY: the struct has the kernel's layout and lives across the call, with its size beside
    // it.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            empty.as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// The kernel's `struct loop_config`: descriptor, block size, `struct loop_info64`, reserve.
#[repr(C)]
struct LoopConfig {
    descriptor: u32,
    block_size: u32,
    numbers: [u64; 5],
    kinds: [u32; 4],
    names: [u8; 160],
    init: [u64; 2],
    reserved: [u64; 8],
}

/// The number of a loop device that is free at this moment.
pub(super) fn free_loop_device(control: &std::fs::File) -> Result<libc::c_long, Errno> {
    // SAFETY: the request takes no argument.
    checked(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) }.into())
}

/// Binds a loop device to a file. It is released after its last use.
pub(super) fn configure_loop(device: &std::fs::File, backing: RawFd) -> Result<(), Errno> {
    // SAFETY: all-zero is valid for this plain struct of numbers.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.descriptor = backing.unsigned_abs();
    config.block_size = 4096;
    config.kinds[3] = LO_FLAGS_AUTOCLEAR;
    // SAFETY: the struct has the kernel's layout and lives across the call.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) }.into()).map(drop)
}

/// A project's limit or usage.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProjectLimit {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

#[repr(C)]
#[derive(Default)]
struct FsXattr {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

const FS_IOC_FSGETXATTR: libc::c_ulong = 0x801C_581F;
const FS_IOC_FSSETXATTR: libc::c_ulong = 0x401C_5820;
const FS_XFLAG_PROJINHERIT: u32 = 0x200;

/// Makes a directory, and everything made below it from now on, part of a project.
pub(super) fn set_project(directory: BorrowedFd<'_>, project: u32) -> Result<(), Errno> {
    let mut attributes = FsXattr::default();
    // SAFETY: the struct has the kernel's layout and lives across both calls.
    unsafe {
        checked(libc::ioctl(directory.as_raw_fd(), FS_IOC_FSGETXATTR, &raw mut attributes).into())?;
        attributes.project = project;
        attributes.flags |= FS_XFLAG_PROJINHERIT;
        checked(libc::ioctl(directory.as_raw_fd(), FS_IOC_FSSETXATTR, &raw const attributes).into()).map(drop)
    }
}

/// The kernel's `struct if_dqblk`.
#[repr(C)]
#[derive(Default)]
struct DiskQuotaBlock {
    hard_blocks: u64,
    soft_blocks: u64,
    used_bytes: u64,
    hard_inodes: u64,
    soft_inodes: u64,
    used_inodes: u64,
    block_time: u64,
    inode_time: u64,
    valid: u32,
}

const Q_GETQUOTA: u32 = 0x80_0007;
const Q_SETQUOTA: u32 = 0x80_0008;
const PROJECTS: u32 = 2;
const BLOCK_AND_INODE_LIMITS: u32 = 1 | 4;

/// Limits are in blocks of a kibibyte.
pub(super) fn limit_project(file: BorrowedFd<'_>, project: u32, limit: ProjectLimit) -> Result<(), Errno> {
    let mut block = DiskQuotaBlock {
        hard_blocks: limit.bytes / 1024,
        hard_inodes: limit.inodes,
        valid: BLOCK_AND_INODE_LIMITS,
        ..DiskQuotaBlock::default()
    };
    quota_call(file, Q_SETQUOTA, project, &mut block)
}

pub(super) fn project_usage(file: BorrowedFd<'_>, project: u32) -> Result<ProjectLimit, Errno> {
    let mut block = DiskQuotaBlock::default();
    quota_call(file, Q_GETQUOTA, project, &mut block)?;
    Ok(ProjectLimit { bytes: block.used_bytes, inodes: block.used_inodes })
}

fn quota_call(
    file: BorrowedFd<'_>,
    command: u32,
    project: u32,
    block: &mut DiskQuotaBlock,
) -> Result<(), Errno> {
    let command = (command << 8) | PROJECTS;
    // SAFETY: the block has the kernel's layout and lives across the call.
    checked(unsafe {
        libc::syscall(libc::SYS_quotactl_fd, file.as_raw_fd(), command, project, &raw mut *block)
    })
    .map(drop)
}

/// Moves this thread into a new network namespace.
pub(super) fn unshare_network() -> Result<(), Errno> {
    // SAFETY: unsharing the network namespace changes no descriptor and no memory.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
}

/// Moves this thread into another network namespace.
pub(crate) fn enter_network(namespace: &OwnedFd) -> Result<(), Errno> {
    rustix::thread::move_into_link_name_space(
        namespace.as_fd(),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )
}

/// The network namespace that a socket is in.
pub(crate) fn network_of_socket(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    const SIOCGSKNS: libc::Ioctl = 0x894c;
    // SAFETY: the call takes no argument and answers a new descriptor, which nobody else has.
    unsafe {
        let answer = libc::ioctl(socket.as_raw_fd(), SIOCGSKNS);
        let namespace = checked(answer.into())?;
        let namespace = RawFd::try_from(namespace).map_err(|_| Errno::BADF)?;
        Ok(<OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(namespace))
    }
}

/// Raises the loopback interface of this thread's network namespace.
pub(super) fn raise_loopback() -> Result<(), Errno> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: an all-zero ifreq is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = libc::c_char::try_from(*byte).unwrap_or_default();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
    // SAFETY: the request is a valid ifreq that lives across the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())
        .map(drop)
}
