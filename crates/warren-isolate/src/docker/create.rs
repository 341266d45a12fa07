//! Making a sandbox, and starting one again from its files.
//!
//! ```text
//! directory ─► record ─► container ─► start ─► the agent answers ─► sealed ─► record
//! ```

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::{
    CreateRequest, Created, IsolationError, IsolationErrorKind, OwnerBond, Root, RootState, SandboxId,
};
use warren_wire::guest::{Connection, Reply, Request};

use super::client::{Lifeline, refused};
use super::far::Bells;
use super::keeper::Keeper;
use super::record::{Record, Stage};
use super::{
    Engine, Hold, Site, container, door, end, etc, far, images, not_found, shape, shared, snapshots, upper,
};
use crate::linux::{
    BOOT_PATIENCE, CrashPoint, DialError, Lock, Order, layer, set_hostname, start_time, try_lock,
};

/// The pause between two looks at something that takes milliseconds.
const PAUSE: Duration = Duration::from_millis(2);
/// How long an engine elsewhere takes at most to notice an end.
const NOTICE_PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn create(
    engine: &Arc<Engine>,
    keeper: &Keeper,
    request: CreateRequest,
) -> Result<Created, IsolationError> {
    engine.require()?;
    match request.state {
        RootState::Fresh => fresh(engine, keeper, &request),
        RootState::Kept => again(engine, &request),
    }
}

fn fresh(engine: &Arc<Engine>, keeper: &Keeper, request: &CreateRequest) -> Result<Created, IsolationError> {
    let id = &request.id;
    let making = engine.data.begin(id);
    let lock = engine.data.register(id).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            IsolationError::new(IsolationErrorKind::AlreadyExists, format!("there is a sandbox {id} already"))
        }
        _ => layer("directory", error),
    })?;
    engine.steps.passed(CrashPoint::CreateDirectory);
    let made = make(engine, request);
    drop(making);
    match made {
        Ok((created, lifeline)) => {
            keep(engine, request, lock, lifeline);
            Ok(created)
        }
        Err(error) => {
            keeper.discard(id, lock);
            Err(error)
        }
    }
}

fn make(engine: &Engine, request: &CreateRequest) -> Result<(Created, Option<Lifeline>), IsolationError> {
    let id = &request.id;
    let Root::Image { image, .. } = &request.root else {
        return Err(layer("root", io::Error::other("an engine starts from an image")));
    };
    let (found, _) = images::find(engine, image)?;
    let image = found.image.digest.unwrap_or_default();
    let directory = engine.data.sandbox(id);
    let mut written = Record::new(request);
    written.store(&directory).map_err(|error| layer("record", error))?;
    engine.steps.passed(CrashPoint::CreateRecord);
    let instance = engine.data.instance();
    let body = match &engine.site {
        Site::Here(_) => {
            let (shared, door) = (directory.join(shared::DIRECTORY), engine.abilities.doors());
            let door = door.then(|| door::name(engine));
            if door.is_some() {
                etc::make(&directory, request).map_err(|error| layer("names of hosts", error))?;
                door::make(engine, id, &image)?;
                written.door = true;
            }
            // The engine wants to see what it is to mount.
            shared::make(&directory, &[]).map_err(|error| layer("shared directory", error))?;
            let (agent, directory, door) = (&engine.agent, &directory, door.as_deref());
            let given = shape::Given::Here { agent, shared: &shared, directory, door };
            shape::body(request, &image, instance, given)
        }
        Site::Far(_) => {
            far::supply(engine, id, &image)?;
            shape::body(request, &image, instance, shape::Given::Far { volume: &far::volume(engine) })
        }
    };
    let body = body.map_err(|error| layer("container", error))?;
    engine.client.create(&container(id), body).map_err(|error| refused(id, "make", error))?;
    engine.steps.passed(CrashPoint::DockerMade);
    if engine.abilities.shows() {
        let seen = engine.client.inspect(&container(id)).map_err(|error| refused(id, "look at", error))?;
        let shown = || io::Error::other("the engine does not say where it keeps the files");
        let place = upper::place(&seen).ok_or_else(|| layer("files", shown()))?;
        place.prepare(shape::AGENT).map_err(|error| layer("files", error))?;
        written.files = Some(place.upper);
    }
    start(engine, request, written)
}

/// Starts a sandbox again. Whatever fails, its files stay.
fn again(engine: &Arc<Engine>, request: &CreateRequest) -> Result<Created, IsolationError> {
    let id = &request.id;
    let directory = engine.data.sandbox(id);
    let record = Record::load(&directory).filter(Record::is_whole).ok_or_else(|| not_found(id))?;
    if runs_on(engine, id, &record)? {
        let action = format!("the sandbox {id} runs already");
        return Err(IsolationError::new(IsolationErrorKind::AlreadyExists, action));
    }
    // The one that this process holds already is the one of an earlier life.
    engine.holds.lock().remove(id);
    let lock = try_lock(&directory).map_err(|error| layer("directory", error))?.ok_or_else(|| {
        let action = format!("another process works on {id}");
        IsolationError::new(IsolationErrorKind::AlreadyExists, action)
    })?;
    await_end(engine, id)?;
    let trees = request.root.trees().to_vec();
    let resuming = Record { spec: request.spec.clone(), trees, ..record.at(Stage::Resuming) };
    resuming.store(&directory).map_err(|error| layer("record", error))?;
    engine.steps.passed(CrashPoint::ResumeRecord);
    match start(engine, request, resuming) {
        Ok((created, lifeline)) => {
            keep(engine, request, lock, lifeline);
            Ok(created)
        }
        Err(error) => {
            drop(end::halt_as(engine, id, &record));
            keep(engine, request, lock, None);
            Err(error)
        }
    }
}

/// From a container to a sandbox whose agent answers.
fn start(
    engine: &Engine,
    request: &CreateRequest,
    record: Record,
) -> Result<(Created, Option<Lifeline>), IsolationError> {
    let (id, name) = (&request.id, container(&request.id));
    let directory = engine.data.sandbox(id);
    let image = request.spec.image.as_ref().ok_or_else(|| not_found(id))?;
    let (_, config) = images::find(engine, image)?;
    let plan = minicbor::to_vec(shape::plan(request, &config)).map_err(|error| layer("agent plan", error))?;
    match &engine.site {
        Site::Here(_) => {
            shared::make(&directory, &plan).map_err(|error| layer("shared directory", error))?;
        }
        Site::Far(_) => far::plan(engine, id, &plan)?,
    }
    let record = lay(engine, request, record).map_err(|error| layer("files", error))?;
    let bound = request.owner == OwnerBond::DiesWithOwner;
    let lifeline = bound.then(|| engine.client.hold(&name)).transpose();
    let lifeline = lifeline.map_err(|error| refused(id, "hold", error))?;
    let record = match &engine.site {
        Site::Here(_) => boot(engine, request, record)?,
        Site::Far(bells) => boot_elsewhere(engine, bells, id, record)?,
    };
    record.store(&directory).map_err(|error| layer("record", error))?;
    Ok((Created { id: id.clone(), pid: record.pid }, lifeline))
}

/// Starts the container, until its agent answers.
fn boot(engine: &Engine, request: &CreateRequest, record: Record) -> Result<Record, IsolationError> {
    let id = &request.id;
    let pid = start_container(engine, request, &record)?;
    let group = group(pid).ok_or_else(|| gone(id))?;
    let stream = reach(engine, id, pid).map_err(|why| layer("agent", io::Error::other(why)))?;
    ask(stream).map_err(|why| layer("agent", io::Error::other(why)))?;
    shared::seal(&engine.data.sandbox(id)).map_err(|error| layer("shared directory", error))?;
    engine.steps.passed(CrashPoint::CreateBoot);
    snapshots::imprinted(record).started(pid, group).ok_or_else(|| gone(id))
}

/// As [`boot`], where nothing of it is this machine's.
fn boot_elsewhere(
    engine: &Engine,
    bells: &Bells,
    id: &SandboxId,
    record: Record,
) -> Result<Record, IsolationError> {
    engine.client.start(&container(id)).map_err(|error| refused(id, "start", error))?;
    engine.steps.passed(CrashPoint::DockerStarted);
    // The relay waits for the agent.
    let dialed = far::dial(engine, bells, id).map_err(|error| match error {
        DialError::Ended => gone(id),
        error => layer("agent", io::Error::other(error)),
    })?;
    ask(dialed.into()).map_err(|why| layer("agent", io::Error::other(why)))?;
    engine.steps.passed(CrashPoint::CreateBoot);
    Ok(record.started_elsewhere())
}

/// Starts the container, in the network that is meant for it. Answers the number of its first
/// process.
fn start_container(engine: &Engine, request: &CreateRequest, record: &Record) -> Result<u32, IsolationError> {
    let id = &request.id;
    let start = || engine.client.start(&container(id)).map_err(|error| refused(id, "start", error));
    if !record.door {
        start()?;
        engine.steps.passed(CrashPoint::DockerStarted);
        return first_process(engine, id);
    }
    let order = match &request.network {
        Some(given) => Ok(Order::Given(Arc::clone(given))),
        None => engine.networks.order(),
    };
    let network = order.and_then(Order::wait).map_err(|error| layer("network namespace", error))?;
    let standing = door::stand_in(engine, id, &network)?;
    start()?;
    engine.steps.passed(CrashPoint::DockerStarted);
    drop(standing);
    let pid = first_process(engine, id)?;
    door::check(pid, &network).map_err(|error| layer("network namespace", error))?;
    set_hostname(pid, etc::hostname(request)).map_err(|error| layer("host name", error))?;
    Ok(pid)
}

/// True if it runs, and not only because an engine elsewhere has not noticed its end yet.
fn runs_on(engine: &Engine, id: &SandboxId, record: &Record) -> Result<bool, IsolationError> {
    let deadline = Instant::now() + NOTICE_PATIENCE;
    while engine.runs(id, record)? {
        if matches!(engine.site, Site::Here(_)) || Instant::now() > deadline {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(false)
}

/// Waits until the engine has noticed that the first process ended: before that, a start of it
/// would start nothing.
fn await_end(engine: &Engine, id: &SandboxId) -> Result<(), IsolationError> {
    let deadline = Instant::now() + BOOT_PATIENCE;
    loop {
        let seen = engine.client.inspect(&container(id)).map_err(|error| refused(id, "look at", error))?;
        if seen.state.and_then(|state| state.running) != Some(true) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let why = format!("the engine has not noticed its end after {} s", BOOT_PATIENCE.as_secs());
            return Err(layer("container", io::Error::other(why)));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Copies the layers that a sandbox begins with to where it is going to write.
fn lay(engine: &Engine, request: &CreateRequest, record: Record) -> io::Result<Record> {
    let Some(files) = record.files.as_ref().filter(|_| record.bare) else { return Ok(record) };
    // A start that failed may have left a part of them.
    upper::empty(files)?;
    upper::fill(files, &upper::layers(request.root.trees()), engine.fill)?;
    engine.steps.passed(CrashPoint::DockerFilled);
    Ok(record)
}

/// Its number as this machine counts.
fn first_process(engine: &Engine, id: &SandboxId) -> Result<u32, IsolationError> {
    let seen = engine.client.inspect(&container(id)).map_err(|error| refused(id, "look at", error))?;
    let pid = seen.state.and_then(|state| state.pid).and_then(|pid| u32::try_from(pid).ok());
    let pid = pid.filter(|pid| *pid != 0).ok_or_else(|| gone(id))?;
    // An engine of another machine, or in a container of its own, counts differently.
    let of_ours = seen.id.is_some_and(|known| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.contains(&known)
    });
    if !of_ours {
        let why = "its processes are not this machine's: name an engine elsewhere in `backends.docker_host`";
        return Err(layer("container", io::Error::other(why)));
    }
    Ok(pid)
}

/// The group of a process below the root of each hierarchy that limits memory.
fn group(pid: u32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers.split(',').any(|known| known == wanted).then(|| path.trim_start_matches('/'))
        })
    };
    path("memory").or_else(|| path("")).map(PathBuf::from)
}

/// The agent, as soon as it can be reached.
fn reach(engine: &Engine, id: &SandboxId, pid: u32) -> Result<UnixStream, String> {
    let deadline = Instant::now() + BOOT_PATIENCE;
    loop {
        match engine.data.dial(id) {
            Ok(stream) => return Ok(UnixStream::from(stream)),
            Err(DialError::Ended | DialError::Busy)
                if Instant::now() < deadline && start_time(pid).is_some() =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Asks the agent for a sign of life.
fn ask(agent: UnixStream) -> Result<(), String> {
    agent.set_read_timeout(Some(BOOT_PATIENCE)).map_err(|error| error.to_string())?;
    match Connection::ask(agent, &Request::Ping) {
        Ok(Reply::Pong(_)) => Ok(()),
        Ok(_) => Err("it answers something else".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn gone(id: &SandboxId) -> IsolationError {
    layer("agent", io::Error::other(format!("the first process of {id} ended at once")))
}

/// Holds the lock of a sandbox that dies with this process. That of another is given back.
fn keep(engine: &Engine, request: &CreateRequest, lock: Lock, lifeline: Option<Lifeline>) {
    if request.owner == OwnerBond::DiesWithOwner {
        let hold = Hold { _lock: lock, _lifeline: lifeline };
        engine.holds.lock().insert(request.id.clone(), hold);
    }
}

/// True if a directory is where the data directory has one of a sandbox.
pub(super) fn is_there(directory: &Path) -> bool {
    directory.symlink_metadata().is_ok()
}
