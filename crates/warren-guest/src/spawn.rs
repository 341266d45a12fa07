//! Starts processes: pipes or a terminal, the environment and the user's ids, all prepared before
//! the child exists, and every refusal on the way told in the words of the call.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Resource, Rlimit};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use warren_wire::guest::{AgentConfig, Failure, FailureCode, FailureReason, Start, Stdin, TerminalSize};

use crate::failure::{kernel, kernel_as, refuse};
use crate::files;
use crate::identity::{self, Identity};
use crate::outside::Outside;
use crate::program::{self, Environment, WorkingDirectory};
use crate::sys::{Ids, Launch, LaunchError, LaunchStep, Launched, Stack, launch};

/// The agent's own limit of open files, where the sandbox allows as many.
const OPEN_FILES: u64 = 65_536;
/// The kind of device that terminals' sides for processes are, of the first 256.
const TERMINALS: u32 = 136;

/// Facts about the agent that every spawn needs.
#[derive(Debug)]
pub(crate) struct Spawner {
    stack: Stack,
    null: Option<Rc<OwnedFd>>,
    /// The agent's own user and groups; absent where nobody else can have them, and every process
    /// has to change.
    ids: Option<(u32, u32, Vec<u32>)>,
    open_files: Option<(u64, u64)>,
    outside: Option<Arc<Outside>>,
}

/// A started process and the agent's ends of its pipes.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pid: i32,
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: Option<OwnedFd>,
}

/// Both ends of what a process reads and writes.
struct Stdio {
    /// Absent: `/dev/null`.
    child_stdin: Option<OwnedFd>,
    child_stdout: OwnedFd,
    /// Absent: the same as standard output.
    child_stderr: Option<OwnedFd>,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
}

impl Spawner {
    pub(crate) fn new(outside: Option<Arc<Outside>>) -> Self {
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let groups = rustix::process::getgroups().unwrap_or_default();
        // As PID 1 of a sandbox the agent has a user that is not mapped there, whose number reads
        // as somebody else's.
        let shared = files::user_for_files() == Some(uid);
        Self {
            stack: Stack::default(),
            null: None,
            ids: shared.then(|| (uid, gid, groups.into_iter().map(|group| group.as_raw()).collect())),
            open_files: raise_open_files(),
            outside,
        }
    }

    pub(crate) fn outside(&self) -> Option<Arc<Outside>> {
        self.outside.clone()
    }

    pub(crate) fn start(&mut self, start: &Start, config: &AgentConfig) -> Result<Child, Failure> {
        program::check(start)?;
        let identity = identity::resolve(start.user.as_ref(), config)?;
        let environment = Environment::assemble(start, config, &identity);
        let directory = WorkingDirectory::choose(start, config, &identity);
        let stdio = match start.terminal {
            Some(size) => terminal(size, &identity),
            None => pipes(start.stdin),
        };
        let stdio = stdio.map_err(|errno| kernel("make the process's pipes", errno))?;
        let null = self.null().map_err(|errno| kernel("open /dev/null", errno))?;
        let ends = [
            stdio.child_stdin.as_ref().unwrap_or(&null).as_fd(),
            stdio.child_stdout.as_fd(),
            stdio.child_stderr.as_ref().unwrap_or(&stdio.child_stdout).as_fd(),
        ];
        let launched = self.launch(start, &environment, &identity, &directory, ends)?;
        let cwd = if launched.elsewhere { PathBuf::from("/") } else { directory.path };
        let Stdio { stdin, stdout, stderr, .. } = stdio;
        Ok(Child { pid: launched.pid, cwd, stdin, stdout, stderr })
    }

    /// Starts a process with input and output that are there already, and gives its pid.
    pub(crate) fn start_on(
        &mut self,
        start: &Start,
        config: &AgentConfig,
        ends: [BorrowedFd<'_>; 3],
    ) -> Result<i32, Failure> {
        program::check(start)?;
        let identity = identity::resolve(start.user.as_ref(), config)?;
        let environment = Environment::assemble(start, config, &identity);
        let directory =
            WorkingDirectory { replaceable: true, ..WorkingDirectory::choose(start, config, &identity) };
        Ok(self.launch(start, &environment, &identity, &directory, ends)?.pid)
    }

    fn launch(
        &mut self,
        start: &Start,
        environment: &Environment<'_>,
        identity: &Identity,
        directory: &WorkingDirectory,
        stdio: [BorrowedFd<'_>; 3],
    ) -> Result<Launched, Failure> {
        if identity.uid == 0
            && let Some(outside) = &self.outside
        {
            outside.open_up();
        }
        let argv: Result<_, _> =
            start.argv.iter().map(|text| program::c_string(text.as_bytes().to_vec())).collect();
        let plan = Launch {
            programs: environment.places_of(&start.argv[0])?,
            argv: argv?,
            env: environment.to_strings()?,
            cwd: program::path_string(&directory.path)?,
            other_cwd: directory.replaceable.then(|| c"/".to_owned()),
            stdio,
            terminal: start.terminal.is_some(),
            ids: self.changes_to(identity),
            open_files: self.open_files,
        };
        let launched =
            launch(&plan, &mut self.stack).map_err(|error| explain(error, start, directory, identity))?;
        prefer_as_victim(launched.pid);
        Ok(launched)
    }

    /// `/dev/null`, opened when first needed.
    fn null(&mut self) -> Result<Rc<OwnedFd>, Errno> {
        if let Some(opened) = &self.null {
            return Ok(Rc::clone(opened));
        }
        let opened = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Rc::clone(self.null.insert(Rc::new(opened))))
    }

    /// Which ids are not right already.
    fn changes_to<'a>(&self, identity: &'a Identity) -> Ids<'a> {
        let Some((uid, gid, groups)) = &self.ids else {
            let (uid, gid) = (Some(identity.uid), Some(identity.gid));
            return Ids { groups: Some(identity.groups.as_slice()), gid, uid };
        };
        Ids {
            groups: (identity.groups != *groups).then_some(identity.groups.as_slice()),
            gid: (identity.gid != *gid).then_some(identity.gid),
            uid: (identity.uid != *uid).then_some(identity.uid),
        }
    }
}

/// When memory runs out, the kernel is to end this process and not the agent. Done from here,
/// because a child that still borrows the agent's memory has no right to its own files in `/proc`.
/// Best effort: it may have ended already.
fn prefer_as_victim(pid: i32) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if let Ok(score) = rustix::fs::open(format!("/proc/{pid}/oom_score_adj"), flags, Mode::empty()) {
        rustix::io::write(&score, b"500").ok();
    }
}

fn pipes(stdin: Stdin) -> Result<Stdio, Errno> {
    let (child_stdin, stdin) = match stdin {
        Stdin::Null => (None, None),
        Stdin::Piped => {
            let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&write, true)?;
            (Some(read), Some(write))
        }
    };
    let (stdout, child_stdout) = output_pipe()?;
    let (stderr, child_stderr) = output_pipe()?;
    let (stderr, child_stderr) = (Some(stderr), Some(child_stderr));
    Ok(Stdio { child_stdin, child_stdout, child_stderr, stdin, stdout, stderr })
}

/// A pipe whose reading end never blocks; the process's end does, as programs expect.
fn output_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// A terminal.
fn terminal(size: TerminalSize, identity: &Identity) -> Result<Stdio, Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let peer = peer(&master, flags)?;
    resize(&master, size)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    // Best effort: where ids may not be changed the terminal is already the right user's.
    let owner = rustix::fs::Uid::from_raw(identity.uid);
    rustix::fs::fchown(&peer, Some(owner), None).ok();
    let child_stdin = Some(rustix::io::fcntl_dupfd_cloexec(&peer, 3)?);
    let stdin = Some(rustix::io::fcntl_dupfd_cloexec(&master, 3)?);
    Ok(Stdio { child_stdin, child_stdout: peer, child_stderr: None, stdin, stdout: master, stderr: None })
}

/// The process's side, opened through the agent's, so that no path of the sandbox is followed.
/// gVisor's kernel has no such call: there it is opened by its name, and has to be that device.
fn peer(master: &OwnedFd, flags: OpenptFlags) -> Result<OwnedFd, Errno> {
    match rustix::pty::ioctl_tiocgptpeer(master, flags) {
        Err(Errno::NOTTY) => {}
        answer => return answer,
    }
    let name = rustix::pty::ptsname(master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let peer = rustix::fs::open(&name, flags, Mode::empty())?;
    let device = rustix::fs::fstat(&peer)?.st_rdev;
    let number = name
        .to_bytes()
        .rsplit(|byte| *byte == b'/')
        .next()
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let is_it = rustix::fs::major(device) == TERMINALS && Some(rustix::fs::minor(device)) == number;
    if is_it { Ok(peer) } else { Err(Errno::NODEV) }
}

pub(crate) fn resize(terminal: impl AsFd, size: TerminalSize) -> Result<(), Errno> {
    let winsize = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(terminal, winsize)
}

/// Raises the agent's own limit of open files; returns what its children are to have.
fn raise_open_files() -> Option<(u64, u64)> {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let (soft, hard) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let wanted = OPEN_FILES.min(hard);
    if soft >= wanted {
        return None;
    }
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).ok()?;
    Some((soft, hard))
}

fn explain(
    LaunchError { step, errno }: LaunchError,
    start: &Start,
    directory: &WorkingDirectory,
    identity: &Identity,
) -> Failure {
    let program = start.argv[0].to_text();
    let path = directory.path.display();
    match step {
        LaunchStep::Clone => kernel("create a process", errno),
        LaunchStep::Session => kernel("prepare the process", errno),
        LaunchStep::Stdio => kernel("connect the process's pipes", errno),
        LaunchStep::Terminal => kernel("give the process its terminal", errno),
        LaunchStep::Identity => kernel(format!("run as user {}", identity.uid), errno),
        // Whatever the kernel says of it: it is what was asked for that is wrong, not what was to
        // be run.
        LaunchStep::Directory => {
            kernel_as(FailureCode::Invalid, format!("enter the working directory `{path}`"), errno)
        }
        LaunchStep::Unreachable => {
            kernel_as(FailureCode::PermissionDenied, format!("`{path}` is not inside the sandbox"), errno)
        }
        LaunchStep::Execute if errno == Errno::NOENT && program.contains('/') => {
            kernel(format!("execute `{program}` (or the interpreter it names)"), errno)
        }
        LaunchStep::Execute if errno == Errno::NOENT => kernel(format!("find `{program}` in PATH"), errno),
        LaunchStep::Execute if errno == Errno::TOOBIG => Failure {
            reason: Some(FailureReason::TooLarge),
            ..kernel(format!("execute `{program}`: an argument or variable has more than 128 KiB"), errno)
        },
        LaunchStep::Execute => kernel(format!("execute `{program}`"), errno),
        LaunchStep::Held => {
            let why = "it was stopped before it could execute, or took too long, and was ended";
            refuse(FailureCode::Io, format!("execute `{program}`: {why}"))
        }
    }
}
