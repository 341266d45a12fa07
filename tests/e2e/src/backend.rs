use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use warren_core::{
    CreateRequest, Isolation, IsolationErrorKind, Layered, OwnerBond, SandboxId, SandboxSpec, TemplateName,
};
use warren_isolate::{
    CrashPoint, Docker, DockerOptions, EngineAddress, FarEngine, LinuxBackend, Lxd, LxdOpenError, LxdOptions,
    Native, NativeOptions, Oci, OciOptions, Runtime,
};
use warren_store::TemplateStore;
use warren_wire::guest::{
    CallError, Connection, Exit, FrameKind, Reader, Reply, Request, Start, parse_reply,
};

use crate::env::TestEnv;
use crate::wait::eventually;

/// A backend behind its port, in this process.
pub struct Backend<'env> {
    port: Box<dyn Isolation>,
    templates: TemplateStore,
    env: &'env TestEnv,
}

impl std::fmt::Debug for Backend<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend").field("name", &self.port.name()).finish_non_exhaustive()
    }
}

/// How a command in a sandbox went.
#[derive(Debug, Clone)]
pub struct ExecResult {
    pub exit: Exit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub missed_bytes: u64,
}

impl ExecResult {
    /// Standard output of a command that succeeded, without the final line break.
    #[track_caller]
    pub fn line(&self) -> String {
        assert_eq!(self.exit.code, 0, "{}", String::from_utf8_lossy(&self.stderr));
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }
}

/// Opens the backend that `WARREN_TEST_BACKEND` names.
pub(crate) fn open(data_dir: &Path) -> Box<dyn Isolation> {
    Box::new(open_named(&named(), data_dir, None).expect("the backend opens"))
}

/// Each backend of this machine that has anything in a data directory.
pub(crate) fn open_all(data_dir: &Path) -> Vec<Box<dyn Isolation>> {
    let runtimes = Runtime::ALL.map(Runtime::name).into_iter();
    let used = runtimes.filter(|name| data_dir.join("oci").join(name).is_dir());
    let opened = used.map(|name| open_named(name, data_dir, None).expect("the backend opens"));
    std::iter::once(open(data_dir)).chain(opened.map(|backend| Box::new(backend) as _)).collect()
}

/// Ends all that a test that failed left running behind any wall.
pub(crate) fn remove_all(data_dir: &Path) {
    for backend in open_all(data_dir) {
        for found in backend.list().unwrap_or_default() {
            drop(backend.destroy(&found.id));
        }
        backend.settle(Duration::from_secs(60));
    }
}

/// The backend that `WARREN_TEST_BACKEND` names, or `native`.
pub fn named() -> String {
    std::env::var("WARREN_TEST_BACKEND").unwrap_or_else(|_| "native".to_owned())
}

/// Opens a backend of this machine by its name, to be killed at a step.
pub fn open_named(
    name: &str,
    data_dir: &Path,
    crash_at: Option<CrashPoint>,
) -> Result<LinuxBackend, Box<dyn std::error::Error>> {
    // The command line prepares none, so both ways are taken by some test.
    let prepared_networks = 2;
    if name == "native" {
        let options = NativeOptions { prepared_networks, crash_at, ..NativeOptions::at(data_dir) };
        return Ok(Native::open(options)?);
    }
    let runtime = Runtime::named(name).ok_or_else(|| format!("there is no backend `{name}` to test"))?;
    Ok(Oci::open(OciOptions { prepared_networks, crash_at, ..OciOptions::at(runtime, data_dir) })?)
}

/// As [`open_named`], and also one that has no layers.
pub fn open_any(
    name: &str,
    data_dir: &Path,
    crash_at: Option<CrashPoint>,
) -> Result<Box<dyn Isolation>, Box<dyn std::error::Error>> {
    if name != "docker" {
        return Ok(Box::new(open_named(name, data_dir, crash_at)?));
    }
    let at = std::env::var("WARREN_TEST_DOCKER").map_err(|_| "no engine is named")?;
    let certificates = std::env::var_os("WARREN_TEST_DOCKER_CERTIFICATES").map(PathBuf::from);
    Ok(open_docker(engine_address(&at, certificates), data_dir, crash_at))
}

/// The engine that has this socket, or that is at this address.
pub(crate) fn engine_address(at: &str, certificates: Option<PathBuf>) -> EngineAddress {
    match at.parse() {
        Ok(at) => EngineAddress::Far(FarEngine { at, certificates }),
        Err(_) => EngineAddress::Socket(at.into()),
    }
}

/// Opens the backend `docker` on an engine.
pub(crate) fn open_docker(
    engine: EngineAddress,
    data_dir: &Path,
    crash_at: Option<CrashPoint>,
) -> Box<dyn Isolation> {
    let options = DockerOptions { engine, crash_at, ..DockerOptions::at(data_dir, fill) };
    Box::new(Docker::open(options).expect("the backend opens"))
}

/// Copies layers as the server lets it be done.
pub fn fill(layers: &[std::path::PathBuf], into: std::os::fd::BorrowedFd<'_>) -> std::io::Result<()> {
    warren_store::fill(layers, into).map_err(std::io::Error::other)
}

/// Opens the backend `lxd` on the daemon that has this socket.
pub fn open_lxd(socket: &Path, data_dir: &Path, crash_at: Option<CrashPoint>) -> Result<Lxd, LxdOpenError> {
    let socket = Some(socket.to_owned());
    Lxd::open(LxdOptions { socket, crash_at, ..LxdOptions::at(data_dir) })
}

impl<'env> Backend<'env> {
    pub(crate) fn open(env: &'env TestEnv) -> Self {
        Self::around(env, open(&env.data_dir()))
    }

    pub(crate) fn open_named(env: &'env TestEnv, name: &str) -> Self {
        let port = open_named(name, &env.data_dir(), None);
        Self::around(env, Box::new(port.unwrap_or_else(|error| panic!("{name}: {error}"))))
    }

    fn around(env: &'env TestEnv, port: Box<dyn Isolation>) -> Self {
        let templates = TemplateStore::open(&env.data_dir()).expect("the template store opens");
        Self { port, templates, env }
    }

    pub fn port(&self) -> &dyn Isolation {
        &*self.port
    }

    /// The half of the port that snapshots need.
    pub fn layered(&self) -> &dyn Layered {
        self.port.layered().expect("the backend has layers")
    }

    pub fn env(&self) -> &TestEnv {
        self.env
    }

    /// A sandbox of the host template with every default.
    pub fn sandbox(&self) -> SandboxId {
        self.create(SandboxSpec::new(TemplateName::host()), OwnerBond::DiesWithOwner)
    }

    /// A sandbox with other limits.
    pub fn sandbox_with(&self, change: impl FnOnce(&mut SandboxSpec)) -> SandboxId {
        let mut spec = SandboxSpec::new(TemplateName::host());
        change(&mut spec);
        self.create(spec, OwnerBond::DiesWithOwner)
    }

    #[track_caller]
    pub fn create(&self, spec: SandboxSpec, owner: OwnerBond) -> SandboxId {
        let request = self.request(spec, owner);
        let made = self.port.create(request);
        made.unwrap_or_else(|error| panic!("the sandbox is not made: {}", causes(&error))).id
    }

    pub fn request(&self, spec: SandboxSpec, owner: OwnerBond) -> CreateRequest {
        spec.validate().expect("the spec is valid");
        let template = self.templates.get(&spec.template).expect("the template is there");
        let mut id = [0; 16];
        getrandom::fill(&mut id).expect("there is randomness");
        template.request(SandboxId::from_random(id), spec, owner)
    }

    /// Ends a sandbox as a fault would.
    pub fn kill_first_process(&self, id: &SandboxId) {
        let found = self.port.list().expect("sandboxes are listed").into_iter().find(|found| found.id == *id);
        let pid = found.and_then(|found| Pid::from_raw(i32::try_from(found.pid?).ok()?));
        rustix::process::kill_process(pid.expect("it is alive"), Signal::KILL).expect("it can be killed");
    }

    /// Dials as everybody is to: while the agent has no room for another, it is tried again.
    pub fn dial(&self, id: &SandboxId) -> UnixStream {
        let mut found = None;
        eventually(Duration::from_secs(60), "the agent has room for another call", || {
            let answer = self.port.dial(id);
            let busy = answer.as_ref().is_err_and(|error| error.kind == IsolationErrorKind::Busy);
            found = Some(answer);
            !busy
        });
        UnixStream::from(found.expect("it was tried").expect("the agent can be dialled"))
    }

    /// Runs a command to its end, with its output.
    pub fn exec<W: AsRef<str>>(&self, id: &SandboxId, argv: impl IntoIterator<Item = W>) -> ExecResult {
        self.follow(id, start(argv)).expect("the command starts")
    }

    /// Starts a command and leaves it to itself.
    pub fn spawn<W: AsRef<str>>(&self, id: &SandboxId, argv: impl IntoIterator<Item = W>) {
        let request = Request::Start(start(argv));
        match Connection::ask(self.dial(id), &request).expect("the command starts") {
            Reply::Started(_) => {}
            other => panic!("a start is answered with {other:?}"),
        }
    }

    /// Starts a process and collects what it writes until it ends. At most a minute passes without
    /// a word from it.
    pub fn follow(&self, id: &SandboxId, mut start: Start) -> Result<ExecResult, CallError> {
        start.follow = Some(Reader::Holds);
        let stream = self.dial(id);
        stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(CallError::Stream)?;
        let mut call = Connection::open(stream, &Request::Start(start))?;
        call.reply()?;
        let (mut stdout, mut stderr, mut missed_bytes) = (Vec::new(), Vec::new(), 0);
        loop {
            let frame = call.next_frame()?.ok_or(CallError::Closed)?;
            match frame.kind {
                FrameKind::Stdout => stdout.extend_from_slice(&frame.payload),
                FrameKind::Stderr => stderr.extend_from_slice(&frame.payload),
                FrameKind::Message => match parse_reply(&frame.payload)? {
                    Reply::Exited(exit) => return Ok(ExecResult { exit, stdout, stderr, missed_bytes }),
                    Reply::Missed { bytes, .. } => missed_bytes += bytes,
                    _ => {}
                },
                FrameKind::Data | FrameKind::End => {}
            }
        }
    }

    /// Ends a sandbox and waits until nothing is left of it.
    pub fn destroy(&self, id: &SandboxId) {
        self.port.destroy(id).expect("the sandbox is destroyed");
        assert!(self.port.settle(Duration::from_secs(60)), "the clean-up takes too long");
    }
}

fn start<W: AsRef<str>>(argv: impl IntoIterator<Item = W>) -> Start {
    Start { argv: argv.into_iter().map(|word| word.as_ref().into()).collect(), ..Start::default() }
}

/// True if a watched sandbox has ended, waiting at most so long.
pub fn has_ended(watched: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).expect("patience has an end");
    let mut polled = [PollFd::new(watched, PollFlags::IN)];
    rustix::event::poll(&mut polled, Some(&patience)).expect("it can be polled") == 1
}

/// An error with all that led to it.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
