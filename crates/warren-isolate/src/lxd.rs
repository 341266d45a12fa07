//! Sandboxes as unprivileged system containers of LXD or Incus, with our agent as their first
//! process. The daemon is spoken to over its unix socket only.
//!
//! ```text
//! instance warren-<id>           its root, in a pool of the daemon's; in its configuration:
//!   user.warren.instance         the data directory it belongs to
//!   user.warren.sandbox          the sandbox
//!   user.warren.record           spec, owner, stage, image (`record.rs`)
//! <data>/lxd/agent-<digest>/     the agent's program, which sandboxes see read-only
//! <data>/lxd/sandboxes/<id>/     life.json: which process is the first one; agent/: shared with
//!                                the agent (`desk.rs`); locked by who works on the sandbox
//! <data>/lxd/gate                as `linux` has it
//! ```
//!
//! The daemon's records are the truth about what exists, and ours about who works on it: one who
//! makes, starts, halts or removes a sandbox holds the lock (`flock`) on its directory, and one
//! that dies with its maker stays locked by it. Its agent ends when the maker does, by a pipe; the
//! instance is removed by the next process that opens the data directory. An instance that was
//! never handed out and is locked by nobody is an orphan, too. While the daemon is away nothing is
//! judged or removed; what runs goes on, and can be dialed, watched and counted.
//!
//! The root is an image that the daemon has. Its files are the daemon's: they are kept over halts,
//! and are no layers of ours, so there are no snapshots.
//!
//! Lifecycle calls may come from many threads, one at a time for one id.

mod client;
mod config;
mod create;
mod desk;
mod destroy;
mod freeze;
mod halt;
mod hand_over;
mod image;
mod instance;
mod list;
mod probe;
mod record;
mod remover;
mod resume;
mod transport;
mod usage;
mod watch;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::FlockOperation;
use serde::Deserialize;
use warren_core::{
    Capabilities, Check, CreateRequest, Created, DiskQuota, DiskSpace, Found, FoundImage, Isolation,
    IsolationError, IsolationErrorKind, IsolationKind, NetworkSupport, OwnerBond, Pulse, RootImage, RootKind,
    SandboxId, SandboxSpec, SnapshotSupport, Usage,
};

use self::client::{Client, LxdError};
use self::instance::Instance;
use self::record::{Life, Record, Stage};
use self::remover::Remover;
use crate::linux::{
    CrashPoint, DataDirectory, DialError, Layout, Lock, Networks, OpenError, Place, Sockets, Steps,
    install_alone, try_lock,
};

/// Where daemons have their sockets, in this order.
const SOCKETS: [&str; 3] =
    ["/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket"];

/// Kinds of pools that hold a root to a size.
const SIZED: [&str; 4] = ["btrfs", "zfs", "lvm", "ceph"];

/// How the backend is set up.
#[derive(Debug, Clone)]
pub struct LxdOptions {
    pub data_dir: PathBuf,
    /// The daemon's socket; absent: the first of the usual ones that is there.
    pub socket: Option<PathBuf>,
    /// The storage pool of the sandboxes' roots; absent: `default`, or the only one.
    pub pool: Option<String>,
    /// As [`crate::NativeOptions::prepared_networks`].
    pub prepared_networks: usize,
    /// Where the process kills itself, in tests of what a crash leaves behind.
    pub crash_at: Option<CrashPoint>,
}

impl LxdOptions {
    /// The usual socket and pool, and nothing prepared.
    pub fn at(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), socket: None, pool: None, prepared_networks: 0, crash_at: None }
    }
}

/// The backend could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LxdOpenError {
    #[error(
        "LXD is not installed: no socket at {}; install it (Debian: apt install lxd) or Incus, name its socket in lxd.socket, or take `lxd` out of backends.enabled",
        SOCKETS.join(", ")
    )]
    Absent,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("put the agent's program below `{}`", path.display())]
    Program { path: PathBuf, source: io::Error },
    #[error("start a background thread")]
    Thread(#[source] io::Error),
}

/// The backend, see the module's documentation.
#[derive(Debug)]
pub struct Lxd {
    backend: Arc<Backend>,
    remover: Remover,
}

/// The state that all calls and the background thread share.
#[derive(Debug)]
struct Backend {
    client: Client,
    data: DataDirectory,
    /// The directory with the agent's program.
    program: PathBuf,
    layout: Layout,
    networks: Networks,
    sockets: Sockets,
    capabilities: Capabilities,
    wanted_pool: Option<String>,
    /// Asked for once, when the daemon first answers.
    pool: OnceLock<Pool>,
    /// Locks and lifelines of the sandboxes that die with this process.
    holds: Mutex<HashMap<SandboxId, Hold>>,
    steps: Steps,
}

/// This process's share of a sandbox that dies with it.
#[derive(Debug, Default)]
struct Hold {
    lock: Option<Lock>,
    lifeline: Option<OwnedFd>,
}

/// The pool that roots are in, and the daemon's kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pool {
    name: String,
    driver: String,
    is_incus: bool,
}

impl Pool {
    fn is_sized(&self) -> bool {
        SIZED.contains(&self.driver.as_str())
    }
}

/// No pool can be used.
#[derive(Debug, thiserror::Error)]
enum PoolError {
    #[error("ask LXD for its storage pools")]
    Ask(#[source] LxdError),
    #[error("LXD has no storage pool: `lxd init` makes one")]
    None,
    #[error("LXD has no storage pool `{name}`: it has {}", known.join(", "))]
    Unknown { name: String, known: Vec<String> },
    #[error("LXD has several storage pools, {}: name one in lxd.pool", known.join(", "))]
    Several { known: Vec<String> },
}

#[derive(Debug, Deserialize)]
struct FoundPool {
    name: String,
    driver: String,
}

#[derive(Debug, Deserialize)]
struct Server {
    environment: Environment,
}

#[derive(Debug, Deserialize)]
struct Environment {
    #[serde(default)]
    server: String,
}

fn find_socket(named: Option<&Path>) -> Option<PathBuf> {
    let mut usual = SOCKETS.iter().map(PathBuf::from);
    named.map_or_else(|| usual.find(|socket| socket.exists()), |named| Some(named.to_owned()))
}

fn find_pool(client: &Client, wanted: Option<&str>) -> Result<Pool, PoolError> {
    let server: Server = client.get("/1.0").map_err(PoolError::Ask)?;
    let found: Vec<FoundPool> = client.get("/1.0/storage-pools?recursion=1").map_err(PoolError::Ask)?;
    let known = || found.iter().map(|pool| format!("`{}`", pool.name)).collect::<Vec<_>>();
    let named = |name: &str| found.iter().find(|pool| pool.name == name);
    let chosen = match (wanted, found.as_slice()) {
        (_, []) => return Err(PoolError::None),
        (Some(name), _) => {
            named(name).ok_or_else(|| PoolError::Unknown { name: name.to_owned(), known: known() })?
        }
        (None, [only]) => only,
        (None, _) => named("default").ok_or_else(|| PoolError::Several { known: known() })?,
    };
    Ok(Pool {
        name: chosen.name.clone(),
        driver: chosen.driver.clone(),
        is_incus: server.environment.server == "incus",
    })
}

impl Lxd {
    pub(crate) const PLACE: Place = Place { below: &["lxd"], shared: Some(desk::SHARED), elsewhere: false };

    /// Opens a data directory, making it if need be, and begins to reclaim what earlier processes
    /// left behind. The daemon need not answer yet.
    pub fn open(options: LxdOptions) -> Result<Self, LxdOpenError> {
        let LxdOptions { data_dir, socket, pool, prepared_networks, crash_at } = options;
        let socket = find_socket(socket.as_deref()).ok_or(LxdOpenError::Absent)?;
        let data = DataDirectory::open(&data_dir, &Self::PLACE, false)?;
        let layout = Layout::detect().map_err(|error| OpenError::Layout(Box::new(error)))?;
        let above = data.root().join(Self::PLACE.path());
        let program =
            install_alone(&above).map_err(|source| LxdOpenError::Program { path: above, source })?;
        let client = Client::new(&socket);
        let found = OnceLock::new();
        if let Ok(pool) = find_pool(&client, pool.as_deref()) {
            drop(found.set(pool));
        }
        let sized = found.get().is_some_and(Pool::is_sized);
        let backend = Arc::new(Backend {
            client,
            data,
            program,
            layout,
            networks: Networks::start(prepared_networks).map_err(LxdOpenError::Thread)?,
            sockets: Sockets::default(),
            capabilities: capabilities(sized),
            wanted_pool: pool,
            pool: found,
            holds: Mutex::default(),
            steps: Steps(crash_at),
        });
        let remover = Remover::start(Arc::clone(&backend)).map_err(LxdOpenError::Thread)?;
        Ok(Self { backend, remover })
    }

    /// Checks the machine for what the backend needs.
    pub fn examine(socket: Option<&Path>, pool: Option<&str>) -> Vec<Check> {
        probe::examine(socket, pool)
    }
}

/// A pool that was not known when the backend was opened counts as one without limits.
fn capabilities(sized: bool) -> Capabilities {
    Capabilities {
        snapshots: SnapshotSupport::None,
        memory_snapshots: false,
        roots: vec![RootKind::Image],
        network: NetworkSupport::Namespace,
        host_mounts: false,
        disk_quota: if sized { DiskQuota::Project } else { DiskQuota::None },
        freeze: true,
        socket: true,
        outlives_server: true,
        isolation: IsolationKind::Namespaces,
    }
}

fn not_found(id: &SandboxId) -> IsolationError {
    IsolationError::new(IsolationErrorKind::NotFound, format!("there is no sandbox {id}"))
}

impl Backend {
    fn passed(&self, point: CrashPoint) {
        self.steps.passed(point);
    }

    fn pool(&self) -> Result<&Pool, IsolationError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let found = find_pool(&self.client, self.wanted_pool.as_deref()).map_err(|error| {
            let kind = match &error {
                PoolError::Ask(error) => error.kind(IsolationErrorKind::Host),
                _ => IsolationErrorKind::Host,
            };
            IsolationError::caused(kind, "find a storage pool", error)
        })?;
        Ok(self.pool.get_or_init(|| found))
    }

    /// The directory of a sandbox that exists.
    fn directory(&self, id: &SandboxId) -> Result<PathBuf, IsolationError> {
        let directory = self.data.sandbox(id);
        if directory.is_dir() { Ok(directory) } else { Err(not_found(id)) }
    }

    /// The instance and record of a sandbox that was handed out.
    fn find(&self, id: &SandboxId) -> Result<(Instance, Record), IsolationError> {
        let found = self.client.instance(id).map_err(|error| {
            if error.is_not_found() {
                return not_found(id);
            }
            let kind = error.kind(IsolationErrorKind::Host);
            IsolationError::caused(kind, format!("look up the instance of {id}"), error)
        })?;
        if !found.belongs_to(self.data.instance()) {
            return Err(not_found(id));
        }
        let record = list::record_of(&found).filter(|record| record.stage == Stage::Made);
        record.map(|record| (found, record)).ok_or_else(|| not_found(id))
    }

    /// The life of a sandbox that runs.
    fn life(&self, id: &SandboxId) -> Option<Life> {
        Life::load(&self.data.sandbox(id)).filter(|life| !life.is_over())
    }

    /// Takes this process's [`Hold`] on a sandbox, and the lock on its directory. Without the lock
    /// the hold stays as it was.
    fn seize(&self, id: &SandboxId) -> Result<(Hold, Lock), IsolationError> {
        let mut hold = self.holds.lock().remove(id).unwrap_or_default();
        match hold.lock.take().map_or_else(|| self.lock_unless_owned(id), Ok) {
            Ok(lock) => Ok((hold, lock)),
            Err(error) => {
                self.hold(id, hold);
                Err(error)
            }
        }
    }

    /// As [`Backend::seize`]; a directory that is gone is made again.
    fn seize_or_register(&self, id: &SandboxId) -> Result<(Hold, Lock), IsolationError> {
        match self.seize(id) {
            Err(error) if error.kind == IsolationErrorKind::NotFound => {
                let lock = self.data.register(id).map_err(|error| {
                    IsolationError::caused(IsolationErrorKind::Host, format!("lock {id}"), error)
                })?;
                Ok((Hold::default(), lock))
            }
            answer => answer,
        }
    }

    /// A search for orphans briefly holds the locks of sandboxes, and the gate all along. So a lock
    /// that is held while the gate is free has an owner.
    fn lock_unless_owned(&self, id: &SandboxId) -> Result<Lock, IsolationError> {
        let lock = || {
            let gate = self.data.gate(FlockOperation::LockShared)?;
            let lock = try_lock(&self.data.sandbox(id));
            drop(gate);
            lock
        };
        match lock() {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(IsolationError::new(
                IsolationErrorKind::Host,
                format!("{id} belongs to another process, which destroys it itself"),
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found(id)),
            Err(error) => Err(IsolationError::caused(IsolationErrorKind::Host, format!("lock {id}"), error)),
        }
    }

    /// Releases a sandbox after a call. One that dies with this process stays locked, which marks
    /// its owner.
    fn keep(&self, id: &SandboxId, owner: OwnerBond, mut hold: Hold, lock: Lock) {
        match owner {
            OwnerBond::DiesWithOwner => hold.lock = Some(lock),
            OwnerBond::Outlives => drop(lock),
        }
        self.hold(id, hold);
    }

    fn hold(&self, id: &SandboxId, hold: Hold) {
        if hold.lock.is_some() || hold.lifeline.is_some() {
            self.holds.lock().insert(id.clone(), hold);
        }
    }
}

impl Isolation for Lxd {
    fn name(&self) -> &'static str {
        "lxd"
    }

    fn probe(&self) -> Vec<Check> {
        probe::examine(Some(self.backend.client.socket()), self.backend.wanted_pool.as_deref())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.backend.capabilities
    }

    fn image(&self, asked: &RootImage) -> Result<FoundImage, IsolationError> {
        image::find(&self.backend.client, asked)
    }

    fn space(&self) -> Result<Option<DiskSpace>, IsolationError> {
        usage::space(&self.backend)
    }

    fn create(&self, request: CreateRequest) -> Result<Created, IsolationError> {
        self.backend.capabilities.require(&request.needs())?;
        create::create(&self.backend, &self.remover, &request)
    }

    fn hand_over(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<(), IsolationError> {
        hand_over::hand_over(&self.backend, id, spec)
    }

    fn dial(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        self.backend.data.dial(id).map_err(|error| {
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
        true
    }

    fn socket(&self, id: &SandboxId, v6: bool) -> Result<Option<OwnedFd>, IsolationError> {
        self.backend.directory(id)?;
        let life = Life::load(&self.backend.data.sandbox(id));
        // Opened before the process is compared with what was written down, so it never belongs to
        // another one with the same number.
        let network =
            life.as_ref().and_then(|life| std::fs::File::open(format!("/proc/{}/ns/net", life.pid)).ok());
        let network = network.filter(|_| life.is_some_and(|life| !life.is_over()));
        let network = network.ok_or_else(|| {
            let action = format!("enter the network of {id}, which has ended");
            IsolationError::new(IsolationErrorKind::Ended, action)
        })?;
        self.backend.sockets.one(id, network.into(), v6).map(Some)
    }

    fn watch(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        watch::watch(&self.backend, id)
    }

    fn freeze(&self, id: &SandboxId) -> Result<(), IsolationError> {
        freeze::set_frozen(&self.backend, id, true)
    }

    fn thaw(&self, id: &SandboxId) -> Result<(), IsolationError> {
        freeze::set_frozen(&self.backend, id, false)
    }

    fn halt(&self, id: &SandboxId) -> Result<(), IsolationError> {
        halt::halt(&self.backend, id)
    }

    fn destroy(&self, id: &SandboxId) -> Result<(), IsolationError> {
        destroy::destroy(&self.backend, id)
    }

    fn flush(&self, id: &SandboxId) -> Result<(), IsolationError> {
        usage::flush(&self.backend, id)
    }

    fn settle(&self, patience: Duration) -> bool {
        self.remover.settle(patience)
    }

    fn list(&self) -> Result<Vec<Found>, IsolationError> {
        list::list(&self.backend)
    }

    fn usage(&self, id: &SandboxId) -> Result<Usage, IsolationError> {
        usage::usage(&self.backend, id)
    }

    fn pulse(&self, id: &SandboxId) -> Result<Pulse, IsolationError> {
        usage::pulse(&self.backend, id)
    }
}
