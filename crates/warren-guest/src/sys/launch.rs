//! Starts a program the quick way: the child borrows this process's memory until it executes
//! (`CLONE_VM`), so nothing is copied whatever the agent's size, and a failure is simply written
//! down where the parent reads it. In return the child may do nothing but raw system calls on
//! prepared values: other threads may hold any lock, and libc's own id calls would reach for them.
//!
//! The parent waits for the end of a pipe that the child alone holds, and that closes when it
//! executes or ends: after it has let go of the memory (`CLONE_VFORK` would wait as well, but for
//! ever): a process that may send signals inside can stop a child on its way, and that must not
//! stop the agent. The kernel could clear a word instead, but gVisor's does so at an end only.
//! Until then the parent does nothing that touches libc's error number, which it shares with the
//! child.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use libc::{c_char, c_int, c_long, c_void};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// How often a child that has not executed is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// One that is only slow has this long: the machine may be short of everything.
const PATIENCE: Duration = Duration::from_secs(10);
/// A killed child is gone by then, unless the kernel itself is stuck with it.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Ample for the child's few frames, the path buffer included.
const STACK_BYTES: usize = 64 * 1024;

/// The child's stack, used again for every spawn.
#[derive(Debug)]
pub(crate) struct Stack(Vec<u128>);

impl Default for Stack {
    fn default() -> Self {
        Self(vec![0; STACK_BYTES / size_of::<u128>()])
    }
}

/// Everything a child needs, prepared before it exists.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// Tried in order, as `execvp` does.
    pub(crate) programs: Vec<CString>,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) cwd: CString,
    /// Where to go when `cwd` is not there.
    pub(crate) other_cwd: Option<CString>,
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// Set if standard input is to become the controlling terminal.
    pub(crate) terminal: bool,
    pub(crate) ids: Ids<'a>,
    /// The soft and hard limit of open files for the child, where the agent's own differs.
    pub(crate) open_files: Option<(u64, u64)>,
}

/// The ids that have to change; absent ones are right already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids<'a> {
    pub(crate) groups: Option<&'a [u32]>,
    pub(crate) gid: Option<u32>,
    pub(crate) uid: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Launched {
    pub(crate) pid: i32,
    /// [`Launch::other_cwd`] had to be taken.
    pub(crate) elsewhere: bool,
}

/// The step of the child that the kernel refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaunchStep {
    Clone,
    Session,
    Terminal,
    Stdio,
    Identity,
    Directory,
    /// The working directory is not below the root.
    Unreachable,
    Execute,
    /// Somebody stopped it on the way, or it took far too long; it was killed.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaunchError {
    pub(crate) step: LaunchStep,
    pub(crate) errno: Errno,
}

/// The child's instructions, and the two words that it writes.
struct Plan<'a> {
    launch: &'a Launch<'a>,
    programs: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    stdio: [c_int; 3],
    step: LaunchStep,
    errno: c_int,
    elsewhere: bool,
}

/// Starts the program. Returns once it executes; a child that could not is reaped already.
pub(crate) fn launch(launch: &Launch<'_>, stack: &mut Stack) -> Result<Launched, LaunchError> {
    let mut plan = Plan {
        launch,
        programs: pointers(&launch.programs),
        argv: pointers(&launch.argv),
        env: pointers(&launch.env),
        stdio: launch.stdio.map(|fd| fd.as_raw_fd()),
        step: LaunchStep::Clone,
        errno: 0,
        elsewhere: false,
    };
    let argument: *mut c_void = ptr::from_mut(&mut plan).cast();
    let top: *mut c_void = stack.0.as_mut_ptr_range().end.cast();
    let flags = libc::CLONE_VM | libc::SIGCHLD;
    let pipe = pipe_with(PipeFlags::CLOEXEC);
    let (released, held) = pipe.map_err(|errno| LaunchError { step: LaunchStep::Clone, errno })?;
    // SAFETY: the stack is aligned to 16 bytes and used by this child alone, since this thread
    // stays here until the child has executed, ended or been killed; for the same reason `plan`
    // outlives its use. All signals are blocked, so no handler runs in the child, which makes
    // system calls only.
    let pid = unsafe { libc::clone(child, top, flags, argument) };
    if pid < 0 {
        return Err(LaunchError { step: LaunchStep::Clone, errno: super::last_error() });
    }
    // From here on only the child's copy is open.
    drop(held);
    if !await_release(pid, &released) {
        end(pid, &released);
        return Err(LaunchError { step: LaunchStep::Held, errno: Errno::TIMEDOUT });
    }
    // SAFETY: `plan` is alive; the read is volatile because another process wrote it.
    let errno = unsafe { ptr::read_volatile(&raw const plan.errno) };
    if errno == 0 {
        return Ok(Launched { pid, elsewhere: plan.elsewhere });
    }
    // SAFETY: waits for this very child, which has ended or is about to, and asks for no status.
    unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
    Err(LaunchError { step: plan.step, errno: Errno::from_raw_os_error(errno) })
}

/// Waits until the child has executed or ended. `false`: it is stopped, or much too slow.
fn await_release(pid: c_int, released: &OwnedFd) -> bool {
    let mut began = None;
    loop {
        if released_within(released, LOOK) {
            return true;
        }
        if is_stopped(pid) || began.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return false;
        }
    }
}

fn released_within(released: &OwnedFd, time: Duration) -> bool {
    let nanos = i64::from(time.subsec_nanos());
    let time = Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: nanos };
    loop {
        match poll(&mut [PollFd::new(released, PollFlags::empty())], Some(&time)) {
            Err(Errno::INTR) => {}
            answer => return answer == Ok(1),
        }
    }
}

fn is_stopped(pid: c_int) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some())
}

/// Kills a child that has not executed. One that was killed never runs again, so that the plan and
/// the stack are its own no more.
fn end(pid: c_int, released: &OwnedFd) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, Signal::KILL).ok();
    }
    // Else it is reaped with the orphans, whenever it ends.
    if released_within(released, LAST_PATIENCE) {
        // SAFETY: waits for this very child, which is about to end, and asks for no status.
        unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Runs in the child, on its own stack in the parent's memory.
extern "C" fn child(argument: *mut c_void) -> c_int {
    // SAFETY: `argument` is the plan that `launch` passes, alive and untouched by others while the
    // child runs.
    let plan = unsafe { &mut *argument.cast::<Plan<'_>>() };
    if let Err((step, errno)) = become_program(plan) {
        plan.step = step;
        plan.errno = errno;
    }
    // SAFETY: ends the child only, without running the parent's exit handlers.
    unsafe { libc::_exit(127) }
}

type ChildError = (LaunchStep, c_int);

/// The recipe: session, terminal, descriptors, limits, identity, directory, signals, program.
/// Returns only when a step failed.
fn become_program(plan: &mut Plan<'_>) -> Result<(), ChildError> {
    let launch = plan.launch;
    call(LaunchStep::Session, libc::SYS_setsid, [0; 4])?;
    for (target, source) in plan.stdio.iter().enumerate() {
        call(LaunchStep::Stdio, libc::SYS_dup2, [c_long::from(*source), target as c_long, 0, 0])?;
    }
    if launch.terminal {
        // `TIOCSCTTY` fits a signed word on Linux.
        call(LaunchStep::Terminal, libc::SYS_ioctl, [0, libc::TIOCSCTTY as c_long, 0, 0])?;
    }
    // A second lock on a closed door, since every descriptor of the agent is close-on-exec by
    // itself.
    let rest = [3, c_long::from(u32::MAX), c_long::from(libc::CLOSE_RANGE_CLOEXEC), 0];
    call(LaunchStep::Stdio, libc::SYS_close_range, rest).ok();
    call(LaunchStep::Session, libc::SYS_umask, [0o022, 0, 0, 0])?;
    restore_open_files(launch.open_files);
    change_ids(launch.ids)?;
    plan.elsewhere = enter_directory(launch)?;
    unblock_signals()?;
    execute(plan)
}

/// Best effort: a child that keeps the agent's larger limit is no worse off.
fn restore_open_files(limits: Option<(u64, u64)>) {
    if let Some((soft, hard)) = limits {
        let new = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
        let resource = c_long::from(libc::RLIMIT_NOFILE);
        call(LaunchStep::Session, libc::SYS_prlimit64, [0, resource, (&raw const new) as c_long, 0]).ok();
    }
}

/// Groups first, the user last: each needs the rights the next one gives up.
fn change_ids(ids: Ids<'_>) -> Result<(), ChildError> {
    if let Some(groups) = ids.groups {
        let list = [groups.len() as c_long, groups.as_ptr() as c_long, 0, 0];
        call(LaunchStep::Identity, libc::SYS_setgroups, list)?;
    }
    if let Some(gid) = ids.gid {
        call(LaunchStep::Identity, libc::SYS_setresgid, [c_long::from(gid); 4])?;
    }
    if let Some(uid) = ids.uid {
        call(LaunchStep::Identity, libc::SYS_setresuid, [c_long::from(uid); 4])?;
        if uid != 0 {
            drop_capabilities()?;
        }
    }
    Ok(())
}

/// The kernel does so only for processes that were root before, and the agent's own user is not.
fn drop_capabilities() -> Result<(), ChildError> {
    /// The third version of the kernel's layout, for this very thread, and three empty sets in two
    /// halves.
    const VERSION: u32 = 0x2008_0522;
    let (header, none) = ([VERSION, 0], [0u32; 6]);
    let sets = [header.as_ptr() as c_long, none.as_ptr() as c_long, 0, 0];
    call(LaunchStep::Identity, libc::SYS_capset, sets).map(drop)
}

/// Enters the working directory as the user, and makes sure that it lies below the root: a
/// directory that was opened before the root changed would be a way out.
fn enter_directory(launch: &Launch<'_>) -> Result<bool, ChildError> {
    let enter =
        |path: &CStr| call(LaunchStep::Directory, libc::SYS_chdir, [path.as_ptr() as c_long, 0, 0, 0]);
    let elsewhere = match (enter(&launch.cwd), &launch.other_cwd) {
        (Ok(_), _) => false,
        (Err(_), Some(other)) => enter(other).map(|_| true)?,
        (Err(error), None) => return Err(error),
    };
    let mut path = [0u8; libc::PATH_MAX as usize];
    let buffer = [path.as_mut_ptr() as c_long, path.len() as c_long, 0, 0];
    call(LaunchStep::Unreachable, libc::SYS_getcwd, buffer)?;
    // SAFETY: reads a byte of a live local array; volatile because the kernel wrote it behind the
    // compiler.
    let first = unsafe { ptr::read_volatile(path.as_ptr()) };
    if first == b'/' { Ok(elsewhere) } else { Err((LaunchStep::Unreachable, libc::ENOENT)) }
}

fn unblock_signals() -> Result<(), ChildError> {
    let none = 0u64;
    let how = c_long::from(libc::SIG_SETMASK);
    let mask = [how, (&raw const none) as c_long, 0, size_of::<u64>() as c_long];
    call(LaunchStep::Session, libc::SYS_rt_sigprocmask, mask).map(drop)
}

/// Tries each place in turn. A place that may not be entered does not end the search, but is what
/// is told when no other place has the program.
fn execute(plan: &Plan<'_>) -> Result<(), ChildError> {
    let mut worst = libc::ENOENT;
    for program in plan.programs.iter().take_while(|program| !program.is_null()) {
        let arguments = [*program as c_long, plan.argv.as_ptr() as c_long, plan.env.as_ptr() as c_long, 0];
        match call(LaunchStep::Execute, libc::SYS_execve, arguments) {
            Err((_, libc::ENOENT | libc::ENOTDIR)) => {}
            Err((_, libc::EACCES)) => worst = libc::EACCES,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Err((LaunchStep::Execute, worst))
}

/// One raw system call with up to four arguments.
fn call(step: LaunchStep, number: c_long, [a, b, c, d]: [c_long; 4]) -> Result<c_long, ChildError> {
    // SAFETY: every caller in this file passes either plain numbers or pointers to values that live
    // for the length of the call. The error number goes to the suspended parent thread's own slot.
    let result = unsafe { libc::syscall(number, a, b, c, d) };
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: libc keeps this thread's error number at that address.
    Err((step, unsafe { *libc::__errno_location() }))
}
