//! Making a sandbox: the recipe from top to bottom. A failure at any step hands what exists so far
//! to the same removal that every sandbox ends in.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use warren_core::{
    CreateRequest, Created, FoundImage, IsolationError, IsolationErrorKind, Root, RootImage, RootState,
    SandboxId,
};
use warren_wire::guest::{Connection, Reply, Request};

use super::client::LxdError;
use super::config::Shape;
use super::desk::Desk;
use super::instance::name;
use super::record::{Life, RECORD, Record, Stage};
use super::remover::Remover;
use super::{Backend, Hold, Pool, image, resume};
use crate::linux::{BOOT_PATIENCE, CrashPoint, DialError, Lock, Order, layer, start_time};

/// The pause between two looks at something that takes milliseconds.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

/// The instance runs, and its agent does not.
#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error("it has no id range of its own: is the instance privileged?")]
    NoRange,
    #[error("it ended at once; its console says: {said}")]
    Ended { said: String },
    #[error("its agent does not answer ({why}); its console says: {said}")]
    Mute { why: String, said: String },
}

pub(super) fn create(
    backend: &Backend,
    remover: &Remover,
    request: &CreateRequest,
) -> Result<Created, IsolationError> {
    match request.state {
        RootState::Fresh => create_fresh(backend, remover, request),
        RootState::Kept => resume::resume(backend, request),
    }
}

fn create_fresh(
    backend: &Backend,
    remover: &Remover,
    request: &CreateRequest,
) -> Result<Created, IsolationError> {
    let id = request.id.clone();
    // Also where it is known already: it may be gone since.
    let found = image_of(&request.root).map(|image| image::find(&backend.client, image)).transpose()?;
    let Some(FoundImage { image, .. }) = found else {
        return Err(layer("root", io::Error::other("it is no image")));
    };
    let _making = backend.data.begin(&id);
    let lock = backend.data.register(&id).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::AlreadyExists => IsolationErrorKind::AlreadyExists,
            io::ErrorKind::StorageFull => IsolationErrorKind::Exhausted,
            _ => IsolationErrorKind::Host,
        };
        IsolationError::caused(kind, format!("make the directory of {id}"), error)
    })?;
    backend.passed(CrashPoint::CreateDirectory);
    let mut hold = Hold::default();
    let made = build(backend, request, &image, &mut hold);
    match made {
        Ok(pid) => {
            backend.keep(&id, request.owner, hold, lock);
            Ok(Created { id, pid })
        }
        Err(error) => {
            drop(hold);
            remover.discard(backend, id, lock);
            Err(error)
        }
    }
}

fn image_of(root: &Root) -> Option<&RootImage> {
    match root {
        Root::Image { image, .. } => Some(image),
        Root::Layers(_) => None,
    }
}

/// Goes through all steps, in a directory that exists and is locked.
fn build(
    backend: &Backend,
    request: &CreateRequest,
    image: &RootImage,
    hold: &mut Hold,
) -> Result<u32, IsolationError> {
    let id = &request.id;
    let pool = backend.pool()?;
    let record = Record::new(request, image);
    let (start, network) = Start::begin(backend, request, &record, pool)?;
    let body = start.shape(backend, &network).instance(image.digest.as_deref().unwrap_or_default());
    backend.client.make(&body).map_err(|error| failed(id, "instance", error))?;
    backend.passed(CrashPoint::LxdMade);
    let pid = start.finish(backend, network, hold)?;
    let made = json!({ RECORD: record.at(Stage::Made).to_text() });
    backend.client.configure(id, &made).map_err(|error| failed(id, "record", error))?;
    backend.passed(CrashPoint::CreateRecord);
    Ok(pid)
}

/// A start that is under way: of a new instance, or of one that was halted.
#[derive(Debug)]
pub(super) struct Start<'a> {
    request: &'a CreateRequest,
    record: &'a Record,
    pool: &'a Pool,
    desk: Desk,
    network: String,
}

impl<'a> Start<'a> {
    /// Makes the directory that is shared with the agent, and a network unless one is given. That
    /// has to stay open until the start is finished.
    pub(super) fn begin(
        backend: &Backend,
        request: &'a CreateRequest,
        record: &'a Record,
        pool: &'a Pool,
    ) -> Result<(Self, Arc<OwnedFd>), IsolationError> {
        let order = match &request.network {
            Some(given) => Ok(Order::Given(Arc::clone(given))),
            None => backend.networks.order(),
        };
        let network = order.and_then(Order::wait).map_err(|error| layer("network namespace", error))?;
        let desk = Desk::of(&backend.data.sandbox(&request.id));
        desk.make().map_err(|error| layer("agent directory", error))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), network.as_raw_fd());
        Ok((Self { request, record, pool, desk, network: path }, network))
    }

    pub(super) fn shape<'b>(&'b self, backend: &'b Backend, _network: &Arc<OwnedFd>) -> Shape<'b> {
        Shape {
            request: self.request,
            record: self.record,
            instance: backend.data.instance(),
            program: &backend.program,
            shared: self.desk.shared(),
            pool: &self.pool.name,
            sized: self.pool.is_sized(),
            network: &self.network,
            is_incus: self.pool.is_incus,
        }
    }

    /// Starts the instance and waits until its agent answers. Returns the number of its first
    /// process.
    pub(super) fn finish(
        self,
        backend: &Backend,
        network: Arc<OwnedFd>,
        hold: &mut Hold,
    ) -> Result<u32, IsolationError> {
        let Self { request, desk, .. } = self;
        let id = &request.id;
        let range = |error| failed(id, "id range", error);
        let found = backend.client.instance(id).map_err(range)?;
        let base = found.id_base().ok_or_else(|| layer("id range", AgentError::NoRange))?;
        hold.lifeline = desk.lay(request, base).map_err(|error| layer("agent directory", error))?;
        backend.client.start(id).map_err(|error| failed(id, "the instance's start", error))?;
        drop(network);
        backend.passed(CrashPoint::LxdStarted);
        let state = backend.client.state(id).map_err(|error| failed(id, "the instance's start", error))?;
        let pid = u32::try_from(state.pid).ok().filter(|pid| *pid > 0);
        let networked = !request.spec.network.is_none();
        let life = pid
            .and_then(|pid| Life::of(pid, &name(id), networked))
            .ok_or_else(|| layer("the agent", AgentError::Ended { said: backend.client.console(id) }))?;
        ask(backend, id, life.pid)
            .map_err(|why| layer("the agent", AgentError::Mute { why, said: backend.client.console(id) }))?;
        desk.close().map_err(|error| layer("agent socket", error))?;
        backend.passed(CrashPoint::CreateBoot);
        life.store(&backend.data.sandbox(id)).map_err(|error| layer("record", error))?;
        Ok(life.pid)
    }
}

/// Asks the agent for a sign of life, as soon as it can be reached.
fn ask(backend: &Backend, id: &SandboxId, pid: u32) -> Result<(), String> {
    let deadline = Instant::now() + BOOT_PATIENCE;
    let stream = loop {
        match backend.data.dial(id) {
            Ok(stream) => break UnixStream::from(stream),
            Err(DialError::Ended | DialError::Busy)
                if Instant::now() < deadline && start_time(pid).is_some() =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    stream.set_read_timeout(Some(BOOT_PATIENCE)).map_err(|error| error.to_string())?;
    match Connection::ask(stream, &Request::Ping) {
        Ok(Reply::Pong(_)) => Ok(()),
        Ok(_) => Err("it answers something else".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A step of a start that the daemon did not do.
pub(super) fn failed(id: &SandboxId, step: &str, error: LxdError) -> IsolationError {
    let kind = match error.kind(IsolationErrorKind::Layer) {
        IsolationErrorKind::Away => IsolationErrorKind::Away,
        _ => IsolationErrorKind::Layer,
    };
    IsolationError::caused(kind, format!("set up {step} of {id}"), error)
}

/// Forgets the life of a sandbox whose processes have ended, so that nothing is dialed or watched
/// any more.
pub(super) fn end_life(backend: &Backend, id: &SandboxId, _lock: &Lock) -> io::Result<()> {
    let directory = backend.data.sandbox(id);
    match std::fs::remove_file(directory.join(super::desk::SHARED).join(super::desk::SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Life::forget(&directory)
}
