//! From parts to a first process, through a runtime: write the bundle, let the stage mount the root
//! and become the runtime, wait until that is done, and ask the agent.

use std::fs;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use warren_core::{CreateRequest, IsolationError, SandboxId};
use warren_wire::guest::{
    BindMount, BootPlan, ByteString, Connection, Reply, Request, ServePlan, ServedMachine, StagePlan, Staged,
};

use super::config::Shape;
use super::runtime::{ENVIRONMENT, Run, Runtime};
use super::{Oci, memory};
use crate::linux::{
    BOOT_PATIENCE, Backend, CrashPoint, DialError, Hold, Parts, clone_mount, layer, remove_tree,
};

/// The part of a sandbox's directory that a sandbox of runsc can write to.
pub(super) const SHARED: &str = "agent";
/// The agent's program in it.
pub(super) const AGENT: &str = "warren-guest";
/// The agent's plan in it, until the agent has read it.
const PLAN: &str = "plan";
/// The part that the runtime works in, and what it finds there and leaves there.
pub(super) const RUNTIME: &str = "runtime";
const BUNDLE: &str = "bundle";
const CONFIGURATION: &str = "bundle/config.json";
pub(super) const STATE: &str = "state";
const PID: &str = "pid";

/// Directories that every machine has one of, into which everybody may go: a sandbox's root has to
/// reach what the stage mounts there, and could not enter the data directory.
const PLACES: [&str; 5] = ["/mnt", "/srv", "/media", "/opt", "/tmp"];

/// The pause between two looks at something that takes milliseconds.
const PAUSE: Duration = Duration::from_millis(2);
/// More of what a runtime says is not told.
const MOST_SAID: u64 = 4096;
/// The first descriptor that a runtime passes down.
const FIRST: usize = 3;

/// The runtime gave up, or its sandbox did.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("{name} said: {said}")]
    Refused { name: &'static str, said: String },
    #[error("{name} has not finished after {} s", BOOT_PATIENCE.as_secs())]
    Slow { name: &'static str },
    #[error("{name} ran, and the agent inside does not answer: {said}")]
    Mute { name: &'static str, said: String },
}

pub(super) fn start(
    oci: &Oci,
    backend: &Backend,
    request: &CreateRequest,
    parts: Parts,
    hold: &mut Hold,
) -> Result<u32, IsolationError> {
    let name = oci.runtime.name();
    let failed = |error: StartError| layer(&format!("the sandbox with `{name}`"), error);
    if let Some(memory) = &request.memory {
        memory::check(oci, memory)?;
    }
    let needed = [backend.data.root(), oci.installed.program.as_path()];
    let desk = Desk::new(backend, request, &needed).map_err(|error| layer("bundle", error))?;
    let (mut said, output) = io::pipe().map_err(|error| layer("a pipe", error))?;
    rustix::io::ioctl_fionbio(&said, true).map_err(|errno| layer("a pipe", io::Error::from(errno)))?;
    let mut sent =
        Sent::prepare(oci, backend, request, &parts, &desk).map_err(|error| layer("agent plan", error))?;
    desk.write(oci, backend, request, &parts, &sent).map_err(|error| layer("bundle", error))?;
    if enters(oci.runtime, request) {
        sent.entered = Some(desk.open_to(parts.id_base).map_err(|error| layer("bundle", error))?);
    }
    let plan = stage_plan(oci, backend, request, &parts, &desk, &sent, output.as_raw_fd());
    let mut inherited = parts.descriptors();
    inherited.extend(sent.numbers());
    inherited.push(output.as_raw_fd());
    let group = parts.entrance.clone_into.as_ref().filter(|_| joins(oci.runtime, backend));
    let (_, control) = backend.launch("stage", inherited, libc::CLONE_NEWNS, group, hold)?;
    backend.passed(CrashPoint::CreateSpawn);
    control.converse(&plan)?;
    backend.passed(CrashPoint::OciStaged);
    // From here on only the sandbox has its listener, and breaks it when it ends.
    drop((parts, sent, output));
    wait(hold).map_err(|()| failed(StartError::Slow { name }))?;
    let pid = desk.pid().ok_or_else(|| failed(StartError::Refused { name, said: read(&mut said) }))?;
    backend.passed(CrashPoint::OciStarted);
    ask(backend, &request.id, pid).map_err(|error| {
        let text = read(&mut said);
        failed(StartError::Mute { name, said: if text.is_empty() { error } else { text } })
    })?;
    close(&desk.directory).map_err(|error| layer("agent socket", error))?;
    backend.limit(request)?;
    backend.passed(CrashPoint::CreateBoot);
    Ok(pid)
}

/// True if the runtime's own process, and so all that it starts, is in the sandbox's group from the
/// beginning. `runc` puts its sandbox there itself and wants the group empty; on a hybrid host it
/// does not see the one of v2.
fn joins(runtime: Runtime, backend: &Backend) -> bool {
    runtime != Runtime::Runc || backend.cgroups.hybrid().is_some()
}

/// True if the runtime itself is in the sandbox's user namespace. gVisor with a network runs in the
/// one that it is started in: elsewhere it would be the host's root.
fn enters(runtime: Runtime, request: &CreateRequest) -> bool {
    runtime == Runtime::Runsc && request.network.is_some()
}

/// Files of one start in the sandbox's directory.
struct Desk {
    directory: PathBuf,
    place: PathBuf,
}

impl Desk {
    /// Removes what an earlier start left and makes what the runtime needs.
    fn new(backend: &Backend, request: &CreateRequest, needed: &[&Path]) -> io::Result<Self> {
        let desk = Self { directory: backend.data.sandbox(&request.id), place: place(needed)? };
        for part in [RUNTIME, SHARED] {
            let path = desk.directory.join(part);
            if path.symlink_metadata().is_ok() && !remove_tree(&path, || {}) {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
        }
        let (runtime, shared) = (desk.runtime(), desk.directory.join(SHARED));
        for path in [runtime.join(BUNDLE), runtime.join(STATE), shared] {
            fs::DirBuilder::new().mode(0o700).recursive(true).create(path)?;
        }
        Ok(desk)
    }

    fn runtime(&self) -> PathBuf {
        self.directory.join(RUNTIME)
    }

    fn write(
        &self,
        oci: &Oci,
        backend: &Backend,
        request: &CreateRequest,
        parts: &Parts,
        sent: &Sent,
    ) -> io::Result<()> {
        let group = backend.cgroups.path(request.id.as_str());
        let shape = Shape {
            runtime: oci.runtime,
            request,
            parts,
            place: &text(&self.place)?,
            arguments: sent.arguments(),
            group: (oci.runtime == Runtime::Runc).then(|| text(&group)).transpose()?,
            shared: sent.shared.as_ref().map(|_| INSIDE),
            enters: enters(oci.runtime, request),
        };
        fs::write(self.runtime().join(CONFIGURATION), serde_json::to_vec(&shape.config())?)
    }

    /// Gives the runtime's part to a runtime that is root of the sandbox's user namespace, as a
    /// detached mount.
    fn open_to(&self, owner: u32) -> io::Result<OwnedFd> {
        let runtime = self.runtime();
        for part in [BUNDLE, CONFIGURATION, STATE] {
            chown(runtime.join(part), Some(owner), Some(owner))?;
        }
        chown(&runtime, Some(owner), Some(owner))?;
        Ok(clone_mount(&runtime)?)
    }

    /// The number of the first process, once the runtime has written it.
    fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.runtime().join(PID)).ok()?.trim().parse().ok()
    }
}

/// Takes back what was given: the sandbox can no longer fill the shared directory, nor a file in
/// it, nor put anything in the place of its agent's socket.
pub(super) fn close(directory: &Path) -> io::Result<()> {
    chown(directory.join(RUNTIME), Some(0), Some(0))?;
    let shared = directory.join(SHARED);
    chown(&shared, Some(0), Some(0))?;
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o711))?;
    // The agent has read it.
    match fs::remove_file(shared.join(PLAN)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A directory that the stage covers, for itself and the runtime only. Nothing of what is needed
/// may be in it.
fn place(needed: &[&Path]) -> io::Result<PathBuf> {
    let places = PLACES.into_iter().map(Path::new);
    let mut free = places.filter(|place| needed.iter().all(|path| !path.starts_with(place)));
    let found = free.find(|place| place.symlink_metadata().is_ok_and(|found| found.is_dir()));
    found.map(Path::to_owned).ok_or_else(|| {
        io::Error::other(format!("a runtime needs one of these directories: {}", PLACES.join(", ")))
    })
}

fn text(path: &Path) -> io::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| io::Error::other(format!("`{}` is no text that a runtime can read", path.display())))
}

/// Limits that gVisor keeps. It refuses to hear of others, most of which it has no use for.
const KNOWN_LIMITS: [u32; 3] = [libc::RLIMIT_CORE, libc::RLIMIT_NOFILE, libc::RLIMIT_FSIZE];

/// Where a sandbox of runsc finds its agent, and the agent its plan.
const INSIDE: &str = "/run/warren";

/// Everything that goes to the agent besides its root.
struct Sent {
    /// The descriptors 3, 4, and so on.
    passed: Vec<RawFd>,
    /// Kept open until they are inherited.
    _own: Vec<OwnedFd>,
    input: Option<RawFd>,
    /// The directory that the sandbox shares with us, as a detached mount.
    shared: Option<OwnedFd>,
    /// The runtime's part, likewise, for one that [`enters`].
    entered: Option<OwnedFd>,
    arguments: Vec<String>,
}

impl Sent {
    fn prepare(
        oci: &Oci,
        backend: &Backend,
        request: &CreateRequest,
        parts: &Parts,
        desk: &Desk,
    ) -> io::Result<Self> {
        match oci.runtime {
            Runtime::Crun | Runtime::Runc => Self::by_descriptor(backend, request, parts),
            Runtime::Runsc => Self::by_directory(backend, request, parts, desk),
        }
    }

    /// Listener, program and plan as descriptors: nothing of the host has a path inside.
    fn by_descriptor(backend: &Backend, request: &CreateRequest, parts: &Parts) -> io::Result<Self> {
        let boot = parts.plan(backend, request, None);
        let plan = rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC)?;
        let mut passed = vec![parts.listener.as_raw_fd(), backend.agent.as_raw_fd(), plan.as_raw_fd()];
        let [listener, program, own_plan] = [0, 1, 2].map(|index| FIRST + index);
        let mut pass = |fd: Option<RawFd>| -> Option<i32> {
            passed.push(fd?);
            i32::try_from(FIRST + passed.len() - 1).ok()
        };
        let lifeline = pass(backend.lifeline(request.owner).map(|end| end.as_raw_fd()));
        let machine = boot.machine.as_ref().map(|machine| ServedMachine {
            memory_bytes: machine.memory_bytes,
            cpus: machine.cpus,
            began_ns: machine.began_ns,
            memory_used: pass(machine.memory_used),
            memory_stat: pass(machine.memory_stat),
            cpu_used: pass(machine.cpu_used),
            made: 0,
        });
        let made = i32::try_from(FIRST + passed.len()).unwrap_or(i32::MAX);
        let machine = machine.map(|machine| ServedMachine { made, ..machine });
        let seccomp = backend.filter(request.spec.profile).to_vec();
        let BootPlan { agent, rlimits, cpus, .. } = boot;
        let served = ServePlan { agent, rlimits, cpus, seccomp, lifeline, machine, lifeline_at: None };
        let mut file = fs::File::from(plan);
        file.write_all(&minicbor::to_vec(&served).map_err(io::Error::other)?)?;
        io::Seek::rewind(&mut file)?;
        let arguments = [
            format!("/proc/self/fd/{program}"),
            "serve".to_owned(),
            "--fd".to_owned(),
            listener.to_string(),
            "--plan".to_owned(),
            own_plan.to_string(),
        ];
        Ok(Self {
            passed,
            _own: vec![file.into()],
            input: None,
            shared: None,
            entered: None,
            arguments: arguments.into(),
        })
    }

    /// Program, plan and socket in a directory that the sandbox shares with us.
    fn by_directory(
        backend: &Backend,
        request: &CreateRequest,
        parts: &Parts,
        desk: &Desk,
    ) -> io::Result<Self> {
        let BootPlan { agent, mut rlimits, .. } = parts.plan(backend, request, None);
        rlimits.retain(|limit| KNOWN_LIMITS.contains(&limit.resource));
        let lifeline = backend.lifeline(request.owner);
        let served = ServePlan { agent, rlimits, lifeline: lifeline.map(|_| 0), ..ServePlan::default() };
        let shared = desk.directory.join(SHARED);
        fs::write(shared.join(PLAN), minicbor::to_vec(&served).map_err(io::Error::other)?)?;
        match &request.memory {
            // What goes on is the program that was running, whatever is installed now.
            Some(memory) => drop(fs::copy(memory.join(AGENT), shared.join(AGENT))?),
            None => backend.copy_agent(&shared.join(AGENT))?,
        }
        // Until the agent has made its socket; see `close`.
        for path in [shared.join(PLAN), shared.clone()] {
            chown(&path, Some(parts.id_base), Some(parts.id_base))?;
        }
        let inside = |name: &str| format!("{INSIDE}/{name}");
        let arguments =
            [inside(AGENT), "serve".to_owned(), inside("agent.sock"), "--plan".to_owned(), inside(PLAN)];
        let input = lifeline.map(|end| end.as_raw_fd());
        let shared = Some(clone_mount(&shared)?);
        Ok(Self {
            passed: Vec::new(),
            _own: Vec::new(),
            input,
            shared,
            entered: None,
            arguments: arguments.into(),
        })
    }

    fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let mounts = self.shared.iter().chain(&self.entered).map(AsRawFd::as_raw_fd);
        self.passed.iter().copied().chain(self.input).chain(mounts)
    }

    fn arguments(&self) -> Vec<String> {
        self.arguments.clone()
    }
}

fn stage_plan(
    oci: &Oci,
    backend: &Backend,
    request: &CreateRequest,
    parts: &Parts,
    desk: &Desk,
    sent: &Sent,
    output: RawFd,
) -> StagePlan {
    let mut boot = parts.plan(backend, request, None);
    // The rest is the agent's, which the runtime starts.
    boot.seccomp = Vec::new();
    boot.agent = Default::default();
    if oci.runtime == Runtime::Runc {
        boot.cgroup_tasks = Vec::new();
    }
    if oci.runtime == Runtime::Runsc {
        boot.machine = None;
    }
    boot.binds.extend(sent.shared.as_ref().map(|shared| BindMount {
        source: shared.as_raw_fd(),
        at: INSIDE.into(),
        directory: true,
    }));
    // Of its own part the runtime sees a mount where it could not go to the original.
    let runtime = sent.entered.as_ref().map(|mount| {
        let name = Staged::bind(boot.binds.len());
        let at = desk.place.join(name);
        boot.binds.push(BindMount { source: mount.as_raw_fd(), at: (&at).into(), directory: true });
        at
    });
    let runtime = runtime.unwrap_or_else(|| desk.runtime());
    // crun refuses to work where it sees both kinds of control groups.
    let hidden = backend.cgroups.hybrid().filter(|_| oci.runtime == Runtime::Crun);
    let mut plan = StagePlan {
        boot,
        place: (&desk.place).into(),
        hidden: hidden.map(ByteString::from).into_iter().collect(),
        program: (&oci.installed.program).into(),
        arguments: Vec::new(),
        environment: ENVIRONMENT.map(ByteString::from).to_vec(),
        descriptors: sent.passed.clone(),
        input: sent.input,
        output,
        enters: Some(sent.entered.is_some()),
    };
    let path = |part: &str| runtime.join(part).to_string_lossy().into_owned();
    let memory = request.memory.as_ref().map(|memory| memory.to_string_lossy().into_owned());
    let run = Run {
        state: &path(STATE),
        bundle: &path(BUNDLE),
        pid_file: &path(PID),
        id: request.id.as_str(),
        descriptors: sent.passed.len() + plan.made(),
        network: request.network.is_some(),
        memory: memory.as_deref(),
    };
    let words = [oci.runtime.name(), oci.installed.extra].map(str::to_owned).into_iter();
    let words = words.filter(|word| !word.is_empty()).chain(oci.runtime.words(&run));
    plan.arguments = words.map(ByteString::from).collect();
    plan
}

/// Waits for the end of the runtime, which is this process's child until then.
fn wait(hold: &mut Hold) -> Result<(), ()> {
    let deadline = Instant::now() + BOOT_PATIENCE;
    while !hold.has_ended() {
        if Instant::now() > deadline {
            return Err(());
        }
    }
    Ok(())
}

/// Asks the agent for a sign of life, as soon as it can be reached.
pub(super) fn ask(backend: &Backend, id: &SandboxId, pid: u32) -> Result<(), String> {
    let deadline = Instant::now() + BOOT_PATIENCE;
    let told = |error: &dyn std::error::Error| {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    };
    let stream = loop {
        match backend.data.dial(id) {
            Ok(stream) => break UnixStream::from(stream),
            Err(DialError::Ended | DialError::Busy) if Instant::now() < deadline && lives(pid) => {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(told(&error)),
        }
    };
    stream.set_read_timeout(Some(BOOT_PATIENCE)).map_err(|error| told(&error))?;
    match Connection::ask(stream, &Request::Ping) {
        Ok(Reply::Pong(_)) => Ok(()),
        Ok(_) => Err("it answers something else".to_owned()),
        Err(error) => Err(told(&error)),
    }
}

fn lives(pid: u32) -> bool {
    crate::linux::start_time(pid).is_some()
}

/// The text said so far, on one line.
fn read(said: &mut PipeReader) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 512];
    while (bytes.len() as u64) < MOST_SAID {
        match said.read(&mut part) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&part[..count]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).trim().replace('\n', "; ")
}
