//! Networks of ours for sandboxes of an engine, which takes no namespace from outside: but it
//! starts a container in the network of another one, by the number of that one's first process.
//! That other one is the *door*.
//!
//! ```text
//! lock ─► the door is made and runs, if need be ─► it enters the sandbox's network ─► the engine
//! starts the sandbox "in the network of the door" ─► the door goes home ─► unlock
//! ```
//!
//! A data directory has one door, for one start at a time, and keeps it as long as it has
//! sandboxes: an engine knows the door of a container by a number that another door would not have.
//! The door is a container of our agent's binary in its mode `door`, on a read-only root without a
//! network, and the one place with the right to enter a network. No code of a sandbox runs in it.
//! When who called it is killed, the call breaks and it goes home.

use std::fs;
use std::io::{self, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use warren_core::{IsolationError, SandboxId};
use warren_wire::guest::DOOR_OPEN;

use super::client::{CallError, refused};
use super::{Docker, Engine, shape};
use crate::linux::{BOOT_PATIENCE, CrashPoint, await_lock, layer};

/// Its directory beside those of sandboxes, with the lock; `run` in it is shared with the door.
const DIRECTORY: &str = "door";
const LOCK: &str = "lock";
const SOCKET: &str = "door.sock";
const PAUSE: Duration = Duration::from_millis(2);
/// How long another start may take that has the door.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(120);

/// The door, standing in a network until this is dropped.
#[derive(Debug)]
pub(super) struct Standing {
    call: UnixStream,
    _lock: OwnedFd,
}

/// The name of a data directory's door.
pub(super) fn name(engine: &Engine) -> String {
    format!("warren-door-{}", engine.data.instance())
}

fn directory(engine: &Engine) -> PathBuf {
    engine.data.root().join(Docker::PLACE.path()).join(DIRECTORY)
}

/// Makes sure that the door is there, before a container is made that refers to it.
pub(super) fn make(engine: &Engine, id: &SandboxId, image: &str) -> Result<(), IsolationError> {
    let _lock = lock(engine).map_err(|error| layer("door", error))?;
    ready(engine, id, Some(image))
}

/// Lets the door stand in a network.
pub(super) fn stand_in(
    engine: &Engine,
    id: &SandboxId,
    network: &OwnedFd,
) -> Result<Standing, IsolationError> {
    let lock = lock(engine).map_err(|error| layer("door", error))?;
    ready(engine, id, None)?;
    let call = call(engine, network).map_err(|error| layer("door", error))?;
    engine.steps.passed(CrashPoint::DockerDoorOpen);
    Ok(Standing { call, _lock: lock })
}

impl Drop for Standing {
    fn drop(&mut self) {
        drop(self.call.shutdown(std::net::Shutdown::Write));
        // It ends the call when it is home. One that does not get there ends.
        drop(self.call.read(&mut [0]));
    }
}

/// Fails unless the first process of a sandbox is in the network that was meant for it.
pub(super) fn check(pid: u32, network: &OwnedFd) -> io::Result<()> {
    let found = fs::metadata(format!("/proc/{pid}/ns/net"))?;
    let meant = rustix::fs::fstat(network)?;
    if (found.dev(), found.ino()) == (meant.st_dev, meant.st_ino) {
        return Ok(());
    }
    Err(io::Error::other("the engine started it in another network than its own"))
}

/// Removes the door of a data directory that has no sandboxes any more.
pub(super) fn remove_if_idle(engine: &Engine) -> Result<(), IsolationError> {
    if !directory(engine).join(LOCK).exists() || engine.has_sandboxes() {
        return Ok(());
    }
    let _lock = lock(engine).map_err(|error| layer("door", error))?;
    // Who makes a sandbox has its directory before it asks for the door.
    if engine.has_sandboxes() {
        return Ok(());
    }
    let removed = engine.client.remove(&name(engine));
    removed.map_err(|error| error.during("remove the door of sandboxes"))
}

/// Waits for other starts.
fn lock(engine: &Engine) -> io::Result<OwnedFd> {
    let directory = directory(engine);
    fs::create_dir_all(directory.join(shape::SHARED_NAME))?;
    await_lock(&directory.join(LOCK), LOCK_PATIENCE)
}

/// Makes the door if there is none and an image to make it of, and starts it if it does not run.
fn ready(engine: &Engine, id: &SandboxId, image: Option<&str>) -> Result<(), IsolationError> {
    let name = name(engine);
    let seen = match (engine.client.inspect(&name), image) {
        (Err(CallError::NotFound(_)), Some(image)) => {
            let shared = directory(engine).join(shape::SHARED_NAME);
            let body = shape::door(image, engine.data.instance(), &engine.agent, &shared);
            let body = body.map_err(|error| layer("door", error))?;
            engine.client.create(&name, body).map_err(|error| refused(id, "make the door of", error))?;
            engine.steps.passed(CrashPoint::DockerDoorMade);
            engine.client.inspect(&name)
        }
        (Err(CallError::NotFound(_)), None) => {
            let why = format!("its container `{name}` was removed; a fork of the sandbox gets another");
            return Err(layer("door", io::Error::other(why)));
        }
        (seen, _) => seen,
    };
    let seen = seen.map_err(|error| refused(id, "look at the door of", error))?;
    if seen.state.and_then(|state| state.running).unwrap_or(false) {
        return Ok(());
    }
    let socket = directory(engine).join(shape::SHARED_NAME).join(SOCKET);
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(layer("door", error)),
        _ => {}
    }
    engine.client.start(&name).map_err(|error| refused(id, "start the door of", error))
}

/// Asks the door to stand in a network, as soon as it can be reached.
fn call(engine: &Engine, network: &OwnedFd) -> io::Result<UnixStream> {
    let socket = directory(engine).join(shape::SHARED_NAME).join(SOCKET);
    let deadline = Instant::now() + BOOT_PATIENCE;
    let mut call = loop {
        match UnixStream::connect(&socket) {
            Ok(call) => break call,
            Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    };
    call.set_read_timeout(Some(BOOT_PATIENCE))?;
    let lent = [network.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&lent));
    rustix::net::sendmsg(&call, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut answer = [0];
    match call.read(&mut answer)? {
        1 if answer == [DOOR_OPEN] => Ok(call),
        _ => Err(io::Error::other("it cannot enter the network: its engine gives it no right to")),
    }
}
