//! Sandboxes that a Docker engine of this machine isolates, on images that it has. The engine makes
//! the container, its root, its limits and its groups; we give it the agent as first process, and
//! ask the engine for nothing that the agent can do.
//!
//! ```text
//! <data>/docker/agent-<digest>/         the agent's binary: `/.warren` in every sandbox, read-only
//! <data>/docker/sandboxes/<id>/record   what the sandbox is, see `record`
//! <data>/docker/sandboxes/<id>/shared/  plan and socket of the agent: `/.warren/run` inside
//! <data>/docker/sandboxes/<id>/etc/     files that name hosts and servers of names, see `etc`
//! <data>/docker/door/                   lock and socket of the door, see `door`
//! <data>/docker/trash/, gate            as `linux` has them
//! ```
//!
//! The container is called `warren-<id>` and has the labels `warren.instance` and `warren.sandbox`.
//! A sandbox exists if it has a record and a container. What has only one of the two was left by a
//! process that was killed, and is removed by the next, see `keeper`.
//!
//! Root inside is the machine's own root, kept in by seven capabilities, two filters and the
//! engine's namespaces. The one place that he shares with the machine is sealed by the file system
//! once his agent has its socket there (`shared`), and nobody follows a link in it.
//!
//! A sandbox runs on while the engine is away: dialing needs nobody. Everything else answers
//! [`IsolationErrorKind::Away`] then, and nothing is given up.
//!
//! An engine on another machine differs in what `far` lists.

mod address;
mod client;
mod create;
mod door;
mod end;
mod etc;
mod far;
mod images;
mod keeper;
mod probe;
mod record;
mod shape;
mod shared;
mod snapshots;
mod upper;
mod usage;
mod watch;

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use warren_core::{
    Capabilities, Check, CreateRequest, Created, DiskQuota, DiskSpace, Found, FoundImage, Isolation,
    IsolationError, IsolationErrorKind, IsolationKind, Layered, NetworkSupport, Pulse, Root, RootImage,
    RootKind, SandboxId, SandboxSpec, SnapshotSupport, Usage,
};

use self::address::Way;
pub use self::address::{EngineAddress, FarAddress, FarEngine, WrongAddress};
use self::client::{Client, Lifeline};
use self::far::Bells;
use self::keeper::Keeper;
use self::record::Record;
use self::watch::Watcher;
use crate::linux::{
    CrashPoint, DataDirectory, DialError, Layout, Lock, Networks, OpenError, Place, Sockets, Steps, Window,
    install_alone,
};

/// How long opening waits for an engine that is there.
const LEARN_PATIENCE: Duration = Duration::from_secs(3);

/// The engine's socket where nobody has moved it.
const USUAL_SOCKET: &str = "/var/run/docker.sock";

/// Copies layers, the topmost first, as one into an empty directory that a sandbox is going to
/// write to.
pub type FillUpper = fn(&[PathBuf], BorrowedFd<'_>) -> std::io::Result<()>;

/// How the backend is set up.
#[derive(Debug, Clone)]
pub struct DockerOptions {
    pub data_dir: PathBuf,
    pub engine: EngineAddress,
    /// Copies layers to where a sandbox writes.
    pub fill: FillUpper,
    /// As [`crate::NativeOptions::prepared_networks`].
    pub prepared_networks: usize,
    /// Where the process kills itself, in tests of what a crash leaves behind.
    pub crash_at: Option<CrashPoint>,
}

impl DockerOptions {
    /// The engine at its usual place.
    pub fn at(data_dir: impl Into<PathBuf>, fill: FillUpper) -> Self {
        Self {
            data_dir: data_dir.into(),
            engine: EngineAddress::Socket(USUAL_SOCKET.into()),
            fill,
            prepared_networks: 0,
            crash_at: None,
        }
    }
}

/// The backend, see the module's documentation.
#[derive(Debug)]
pub struct Docker {
    engine: Arc<Engine>,
    keeper: Keeper,
}

/// The state that all calls and the keeper share.
#[derive(Debug)]
struct Engine {
    client: Client,
    data: DataDirectory,
    /// The directory with the agent's binary.
    agent: PathBuf,
    layout: Layout,
    site: Site,
    abilities: Abilities,
    fill: FillUpper,
    networks: Networks,
    sockets: Sockets,
    /// Shows upper directories to those who copy them.
    window: Window,
    /// Of the sandboxes that die with this process.
    holds: Mutex<HashMap<SandboxId, Hold>>,
    steps: Steps,
}

/// Where the engine is, and with that who tells the ends of its containers.
#[derive(Debug)]
enum Site {
    Here(Watcher),
    Far(Arc<Bells>),
}

/// The lock and the lifeline of a sandbox that dies with this process.
#[derive(Debug)]
struct Hold {
    _lock: Lock,
    _lifeline: Option<Lifeline>,
}

impl Docker {
    pub(crate) const PLACE: Place =
        Place { below: &["docker"], shared: Some(shared::DIRECTORY), elsewhere: false };

    /// Opens a data directory, making it if need be. The engine need not be there yet.
    pub fn open(options: DockerOptions) -> Result<Self, OpenError> {
        let DockerOptions { data_dir, engine, fill, prepared_networks, crash_at } = options;
        let way = Way::to(&engine).map_err(|why| OpenError::Engine { at: engine.to_string(), why })?;
        let data = DataDirectory::open(&data_dir, &Self::PLACE, false)?;
        let above = data.root().join(Self::PLACE.path());
        let installed = install_alone(&above).and_then(|agent| {
            std::fs::create_dir_all(agent.join(shape::SHARED_NAME))?;
            Ok(agent)
        });
        let window = Window::new(above.clone());
        let agent = installed.map_err(|source| OpenError::Directory { path: above, source })?;
        let layout = Layout::of_engines().map_err(|error| OpenError::Layout(Box::new(error)))?;
        let client = Client::new(way).map_err(OpenError::Thread)?;
        let (site, prepared_networks) = match engine {
            EngineAddress::Socket(socket) => {
                (Site::Here(Watcher::start(socket).map_err(OpenError::Thread)?), prepared_networks)
            }
            // Nobody there could enter a network that is here.
            EngineAddress::Far(_) => {
                let bells = Arc::new(Bells::default());
                let (calls, instance) = (client.calls().clone(), data.instance().to_owned());
                client.spawn(Bells::listen(Arc::downgrade(&bells), calls, instance));
                (Site::Far(bells), 0)
            }
        };
        let engine = Arc::new(Engine {
            client,
            site,
            data,
            agent,
            layout,
            abilities: Abilities::new(),
            fill,
            networks: Networks::start(prepared_networks).map_err(OpenError::Thread)?,
            sockets: Sockets::default(),
            window,
            holds: Mutex::default(),
            steps: Steps(crash_at),
        });
        // One that is not there yet is asked when it is.
        engine.learn_soon();
        let keeper = Keeper::start(Arc::clone(&engine)).map_err(OpenError::Thread)?;
        Ok(Self { engine, keeper })
    }

    /// Checks the engine for each feature that the backend needs. The data directory need not
    /// exist.
    pub fn examine(engine: &EngineAddress) -> Vec<Check> {
        probe::examine(engine)
    }
}

/// The abilities of the backend, which depend on what the engine says of itself.
#[derive(Debug)]
struct Abilities {
    /// The ones that any engine has.
    few: Capabilities,
    known: OnceLock<Capabilities>,
}

impl Abilities {
    fn new() -> Self {
        Self { few: capabilities(false, false), known: OnceLock::new() }
    }

    fn now(&self) -> &Capabilities {
        self.known.get().unwrap_or(&self.few)
    }

    /// The engine shows what was written.
    fn shows(&self) -> bool {
        self.now().snapshots == SnapshotSupport::Copied
    }

    /// A door of ours can stand in networks.
    fn doors(&self) -> bool {
        self.now().network == NetworkSupport::Namespace
    }
}

fn capabilities(shows: bool, doors: bool) -> Capabilities {
    let none = NetworkSupport::Own { modes: vec!["none".to_owned()] };
    Capabilities {
        snapshots: if shows { SnapshotSupport::Copied } else { SnapshotSupport::None },
        memory_snapshots: false,
        roots: vec![RootKind::Image],
        network: if doors { NetworkSupport::Namespace } else { none },
        host_mounts: false,
        disk_quota: DiskQuota::None,
        freeze: true,
        socket: doors,
        outlives_server: true,
        isolation: IsolationKind::Namespaces,
    }
}

impl Isolation for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn probe(&self) -> Vec<Check> {
        probe::report(&self.engine.client)
    }

    fn capabilities(&self) -> &Capabilities {
        self.engine.capabilities()
    }

    fn layered(&self) -> Option<&dyn Layered> {
        self.engine.abilities.shows().then_some(self)
    }

    fn image(&self, asked: &RootImage) -> Result<FoundImage, IsolationError> {
        images::find(&self.engine, asked).map(|(found, _)| found)
    }

    fn space(&self) -> Result<Option<DiskSpace>, IsolationError> {
        match self.engine.site {
            Site::Here(_) => images::space(&self.engine.client),
            Site::Far(_) => Ok(None),
        }
    }

    fn create(&self, request: CreateRequest) -> Result<Created, IsolationError> {
        self.engine.capabilities().require(&request.needs())?;
        create::create(&self.engine, &self.keeper, request)
    }

    fn hand_over(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<(), IsolationError> {
        let directory = self.engine.data.sandbox(id);
        let record = Record::load(&directory).ok_or_else(|| not_found(id))?;
        Record { spec: spec.clone(), ..record }.store(&directory).map_err(|error| {
            IsolationError::caused(
                IsolationErrorKind::Host,
                format!("write down the new spec of {id}"),
                error,
            )
        })
    }

    fn dial(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        self.engine.dial(id).map_err(|error| {
            let kind = match error {
                DialError::NotFound => IsolationErrorKind::NotFound,
                DialError::Ended => IsolationErrorKind::Ended,
                DialError::Busy => IsolationErrorKind::Busy,
                DialError::Failed(_) => IsolationErrorKind::Host,
            };
            IsolationError::caused(kind, format!("dial the agent of {id}"), error)
        })
    }

    fn dials_at_once(&self) -> bool {
        matches!(self.engine.site, Site::Here(_))
    }

    fn socket(&self, id: &SandboxId, v6: bool) -> Result<Option<OwnedFd>, IsolationError> {
        if !self.engine.abilities.doors() {
            return Ok(None);
        }
        let record = Record::load(&self.engine.data.sandbox(id)).ok_or_else(|| not_found(id))?;
        // Opened before the process is compared with the record, so it never belongs to another one
        // with the same number.
        let network = std::fs::File::open(format!("/proc/{}/ns/net", record.pid)).ok();
        let network = network.filter(|_| record.is_alive()).ok_or_else(|| {
            let action = format!("enter the network of {id}, which has ended");
            IsolationError::new(IsolationErrorKind::Ended, action)
        })?;
        self.engine.sockets.one(id, network.into(), v6).map(Some)
    }

    fn watch(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        let record = self.engine.known(id)?;
        let failed = |error| IsolationError::caused(IsolationErrorKind::Host, format!("watch {id}"), error);
        match &self.engine.site {
            Site::Here(watcher) => watcher.watch(&record).map_err(failed),
            Site::Far(bells) => {
                let bell = bells.hang(id.as_str()).map_err(failed)?;
                // It may have ended before.
                if !self.engine.runs(id, &record)? {
                    bells.ring(id.as_str());
                }
                Ok(bell)
            }
        }
    }

    fn freeze(&self, id: &SandboxId) -> Result<(), IsolationError> {
        end::set_frozen(&self.engine, id, true)
    }

    fn thaw(&self, id: &SandboxId) -> Result<(), IsolationError> {
        end::set_frozen(&self.engine, id, false)
    }

    fn halt(&self, id: &SandboxId) -> Result<(), IsolationError> {
        end::halt(&self.engine, id)
    }

    fn destroy(&self, id: &SandboxId) -> Result<(), IsolationError> {
        end::destroy(&self.engine, &self.keeper, id)
    }

    fn flush(&self, id: &SandboxId) -> Result<(), IsolationError> {
        let record = Record::load(&self.engine.data.sandbox(id)).ok_or_else(|| not_found(id))?;
        // Of another machine's disks, its engine and its kernel take care.
        let Site::Here(_) = self.engine.site else { return Ok(()) };
        record.flush().map_err(|error| {
            IsolationError::caused(
                IsolationErrorKind::Host,
                format!("write the files of {id} to disk"),
                error,
            )
        })
    }

    fn settle(&self, patience: Duration) -> bool {
        self.keeper.settle(patience)
    }

    fn list(&self) -> Result<Vec<Found>, IsolationError> {
        let ids = self.engine.data.sandboxes().map_err(|error| {
            let action = "list the sandboxes in the data directory";
            IsolationError::caused(IsolationErrorKind::Host, action, error)
        })?;
        let containers = self.engine.client.list(self.engine.data.instance())?;
        Ok(ids.iter().filter_map(|id| self.engine.found(id, &containers)).collect())
    }

    fn usage(&self, id: &SandboxId) -> Result<Usage, IsolationError> {
        usage::usage(&self.engine, id, &self.engine.known(id)?)
    }

    fn pulse(&self, id: &SandboxId) -> Result<Pulse, IsolationError> {
        usage::pulse(&self.engine, id, &self.engine.known(id)?)
    }
}

impl Engine {
    fn capabilities(&self) -> &Capabilities {
        self.abilities.now()
    }

    /// Asks the engine what it can, unless it has said so already.
    fn learn(&self) {
        if self.abilities.known.get().is_none()
            && let Ok(info) = self.client.info()
        {
            // Another thread may have been faster, with the same answer.
            let here = matches!(self.site, Site::Here(_));
            let (shows, doors) = (here && upper::hidden(&info).is_none(), here && !upper::maps_ids(&info));
            drop(self.abilities.known.set(capabilities(shows, doors)));
        }
    }

    /// As [`Engine::learn`], and waits a moment for the answer.
    fn learn_soon(self: &Arc<Self>) {
        if self.client.require().is_err() {
            return;
        }
        let (told, answer) = std::sync::mpsc::sync_channel(1);
        let engine = Arc::clone(self);
        let asking = std::thread::Builder::new().name("warren-docker-info".to_owned());
        let asked = asking.spawn(move || {
            engine.learn();
            let _ = told.send(());
        });
        if asked.is_ok() {
            // One that says nothing for so long is asked again when an image is looked for.
            let _ = answer.recv_timeout(LEARN_PATIENCE);
        }
    }

    /// The record of a sandbox, while the engine is there.
    fn known(&self, id: &SandboxId) -> Result<Record, IsolationError> {
        let record = Record::load(&self.data.sandbox(id)).ok_or_else(|| not_found(id))?;
        self.require()?;
        Ok(record)
    }

    /// An error unless the engine is there.
    fn require(&self) -> Result<(), IsolationError> {
        match &self.site {
            Site::Far(bells) if bells.hear() => Ok(()),
            Site::Here(_) | Site::Far(_) => self.client.require(),
        }
    }

    /// True if the first process of a sandbox has not ended.
    fn runs(&self, id: &SandboxId, record: &Record) -> Result<bool, IsolationError> {
        match self.site {
            Site::Here(_) => Ok(record.is_alive()),
            Site::Far(_) => {
                let seen = self.client.inspect(&container(id));
                let seen = seen.map_err(|error| error.during(format!("look at {id}")))?;
                Ok(seen.state.and_then(|state| state.running) == Some(true))
            }
        }
    }

    fn dial(&self, id: &SandboxId) -> Result<OwnedFd, DialError> {
        let record = Record::load(&self.data.sandbox(id));
        match &self.site {
            Site::Far(bells) => record.map_or(Err(DialError::NotFound), |_| far::dial(self, bells, id)),
            // A socket file outlives its agent.
            Site::Here(_) if record.is_some_and(|record| !record.is_alive()) => Err(DialError::Ended),
            Site::Here(_) => self.data.dial(id),
        }
    }

    /// A sandbox of which there are a record and a container. One that is just being made is none
    /// yet.
    fn found(&self, id: &SandboxId, containers: &HashMap<String, client::Seen>) -> Option<Found> {
        let record = Record::load(&self.data.sandbox(id)).filter(|record| record.is_whole())?;
        let seen = containers.get(id.as_str())?;
        let here = matches!(self.site, Site::Here(_));
        let alive = seen.runs && (!here || record.is_alive());
        let image = record.spec.image.clone()?;
        Some(Found {
            id: id.clone(),
            pid: (alive && here).then_some(record.pid),
            alive,
            frozen: alive && seen.paused,
            owner: record.owner,
            spec: record.spec,
            root: Root::Image { image, trees: record.trees },
            created_unix_ms: record.created_unix_ms,
        })
    }
}

/// The name of a sandbox's container.
fn container(id: &SandboxId) -> String {
    format!("warren-{id}")
}

fn not_found(id: &SandboxId) -> IsolationError {
    IsolationError::new(IsolationErrorKind::NotFound, format!("there is no sandbox {id}"))
}
