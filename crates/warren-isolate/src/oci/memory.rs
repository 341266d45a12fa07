//! Running processes on disk: gVisor's checkpoint, and what its restore needs besides.
//!
//! ```text
//! <image>/checkpoint.img   the runtime's
//! <image>/warren-guest     the agent's program, as it runs
//! <image>/about.json       which runtime wrote it
//! ```
//!
//! A kernel that writes itself down can write no socket of the host, and ends if it has one. So the
//! agent lets go of all of them first, and makes its own again when its directory is given back.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use serde::{Deserialize, Serialize};
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};
use warren_wire::guest::{Connection, Reply, Request};

use super::Oci;
use super::start::{AGENT, RUNTIME, SHARED, STATE, ask, close};
use crate::linux::{Backend, CrashPoint, SOCKET, enter_network, network_of_socket, start_time};

const ABOUT: &str = "about.json";
/// More memory than a sandbox has is written within this time, on a slow disk.
const PATIENCE: Duration = Duration::from_secs(300);
const LET_GO_PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);
/// More of what a runtime says is not told.
const MOST_SAID: u64 = 4096;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    runtime: String,
    version: String,
}

impl About {
    fn of(oci: &Oci) -> Self {
        Self { runtime: oci.runtime.name().to_owned(), version: oci.installed.version.clone() }
    }
}

/// Refuses what another version wrote: nobody promises that it can be read.
pub(super) fn check(oci: &Oci, image: &Path) -> Result<(), IsolationError> {
    let about: About = fs::read(image.join(ABOUT))
        .and_then(|text| serde_json::from_slice(&text).map_err(io::Error::other))
        .map_err(|error| {
            IsolationError::caused(
                IsolationErrorKind::Host,
                "read what the processes were put on disk by",
                error,
            )
        })?;
    let here = About::of(oci);
    if about == here {
        return Ok(());
    }
    let action = format!(
        "the processes were put on disk by {} {}, and here is {} {}: nothing can let them go on",
        about.runtime, about.version, here.runtime, here.version
    );
    Err(IsolationError::new(IsolationErrorKind::Unsupported, action))
}

/// An answer of the kind [`IsolationErrorKind::Ended`] is about a sandbox that cannot go on.
pub(super) fn suspend(
    oci: &Oci,
    backend: &Backend,
    id: &SandboxId,
    (pid, id_base): (u32, u32),
    into: &Path,
) -> Result<(), IsolationError> {
    let directory = backend.data.sandbox(id);
    let failed = |kind, what: &str, error: io::Error| {
        IsolationError::caused(kind, format!("put the processes of {id} on disk: {what}"), error)
    };
    let network = control_network(pid)
        .map_err(|error| failed(IsolationErrorKind::Host, "find the runtime's door", error))?;
    prepare(oci, &directory, into)
        .map_err(|error| failed(IsolationErrorKind::Host, "make a place", error))?;
    let let_go = let_go(backend, id);
    backend.passed(CrashPoint::MemoryLetGo);
    let written = let_go.and_then(|()| {
        let state = directory.join(RUNTIME).join(STATE);
        checkpoint(oci, id, &state, into, network)
    });
    backend.passed(CrashPoint::MemoryWritten);
    let Err(error) = written else { return Ok(()) };
    let goes_on = start_time(pid).is_some() && open_again(backend, id, pid, id_base).is_ok();
    drop(fs::remove_dir_all(into));
    let kind = if goes_on { IsolationErrorKind::Host } else { IsolationErrorKind::Ended };
    Err(failed(kind, oci.runtime.name(), error))
}

fn prepare(oci: &Oci, directory: &Path, into: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(into)?;
    fs::copy(directory.join(SHARED).join(AGENT), into.join(AGENT))?;
    fs::write(into.join(ABOUT), serde_json::to_vec(&About::of(oci))?)
}

/// Waits until the agent has nothing of the host any more.
fn let_go(backend: &Backend, id: &SandboxId) -> io::Result<()> {
    let stream = UnixStream::from(backend.data.dial(id).map_err(io::Error::other)?);
    stream.set_read_timeout(Some(LET_GO_PATIENCE))?;
    let mut call = Connection::open(stream, &Request::LetGo).map_err(io::Error::other)?;
    if !matches!(call.reply().map_err(io::Error::other)?, Reply::Done) {
        return Err(io::Error::other("the agent answers something else"));
    }
    // It closes this connection last.
    while call.next_frame().map_err(io::Error::other)?.is_some() {}
    Ok(())
}

fn checkpoint(
    oci: &Oci,
    id: &SandboxId,
    state: &Path,
    into: &Path,
    network: Option<OwnedFd>,
) -> io::Result<()> {
    let mut command = Command::new(&oci.installed.program);
    command.arg("--root").arg(state).arg("checkpoint").arg("--image-path").arg(into).arg(id.as_str());
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = spawn_in(network, command)?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!("it has not finished after {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(PAUSE);
    };
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    let errors = child.stderr.take();
    errors.map(|errors| errors.take(MOST_SAID).read_to_string(&mut said)).transpose()?;
    Err(io::Error::other(said.trim().replace('\n', "; ")))
}

/// Starts a program in a network. A thread of its own goes there and never comes back.
fn spawn_in(network: Option<OwnedFd>, mut command: Command) -> io::Result<Child> {
    let Some(network) = network else { return command.spawn() };
    let start = move || -> io::Result<Child> {
        enter_network(&network)?;
        command.spawn()
    };
    let started = std::thread::Builder::new().name("warren-checkpoint".to_owned()).spawn(start)?.join();
    started.map_err(|_| io::Error::other("the thread that starts the runtime ended"))?
}

/// The network in which the runtime's sandbox is spoken to. Older versions of gVisor listen on a
/// name that is known there alone, and nobody else has kept that network.
fn control_network(pid: u32) -> io::Result<Option<OwnedFd>> {
    let words = fs::read(format!("/proc/{pid}/cmdline"))?;
    let number = words.split(|byte| *byte == 0).find_map(|word| {
        let number = word.strip_prefix(b"--controller-fd=")?;
        std::str::from_utf8(number).ok()?.parse::<i32>().ok()
    });
    let Some(number) = number else { return Ok(None) };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    let process = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    let socket = rustix::process::pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?;
    Ok(Some(network_of_socket(&socket)?))
}

/// Lets the agent of a sandbox that goes on make its socket again.
fn open_again(backend: &Backend, id: &SandboxId, pid: u32, owner: u32) -> Result<(), String> {
    let directory = backend.data.sandbox(id);
    let shared = directory.join(SHARED);
    let give = || -> io::Result<()> {
        match fs::remove_file(shared.join(SOCKET)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        chown(&shared, Some(owner), Some(owner))
    };
    give().map_err(|error| error.to_string())?;
    let answered = ask(backend, id, pid);
    close(&directory).map_err(|error| error.to_string())?;
    answered
}
