//! The native backend: namespaces, overlayfs, control groups and seccomp, with nothing between us
//! and the kernel.
//!
//! ```text
//! <data>/instance            names this data directory's control groups, marks it as Warren's
//! <data>/agent-<digest>      the agent's binary, executed by descriptor
//! <data>/ranges/<n>          id range n is taken by the sandbox the link names
//! <data>/projects/<n>        quota project n is taken by the sandbox the link names
//! <data>/sandboxes/<id>/     record.json, agent.sock, upper-<n>, work-<n> or disk.img with these
//!                            in it; sealing.json and next/ while a seal is under way;
//!                            layer.lock, locked by who gives it a writable layer
//! <data>/trash/<id>/         a destroyed sandbox whose remains are being removed
//! <data>/gate                locked shared while a sandbox is being registered, exclusively
//!                            during a search for orphans
//! ```
//!
//! A process that works on a sandbox's directory holds a lock (`flock`) on it: the one that creates
//! it, the owner of a sandbox that dies with it, the reaper that removes it. An unlocked directory
//! whose sandbox is half made, dead or without owner is an orphan, and any process that opens the
//! data directory reclaims it. So correctness never depends on a clean exit. The files of a sandbox
//! that outlives its maker are never reclaimed once there is a record: a halted sandbox consists of
//! nothing but these files, and is started again from them.

mod agent;
mod apart;
mod balance;
mod cgroup;
mod claims;
mod clones;
mod connections;
mod create;
mod data;
mod deferred;
mod destroy;
mod disk;
mod flush;
mod halt;
mod hand_over;
mod layers;
mod machine;
mod mounts;
mod networks;
mod probe;
mod quota;
mod reaper;
mod reclaim;
mod record;
mod remove;
mod resume;
mod seal;
mod seccomp;
mod sockets;
mod starts;
mod step;
mod sys;
mod uncounted;
mod userns;
mod users;
mod warden;
mod watch;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use warren_core::{
    Capabilities, Check, CreateRequest, Created, DiskSpace, Found, Isolation, IsolationError,
    IsolationErrorKind, IsolationKind, Layered, MountRefusal, MountSource, NetworkSupport, Profile, Pulse,
    Root, RootKind, RootTree, SandboxId, SandboxSpec, Sealed, SnapshotSupport, Usage,
};

pub use self::apart::{ApartError, live_apart};
pub use self::data::OpenError;
pub use self::step::{CrashPoint, CrashPointError};

use self::balance::Balance;
use self::cgroup::{Cgroups, Layout};
use self::data::{DataDirectory, DialError, Lock};
use self::deferred::{Door, Doorkeeper, Turns};
use self::disk::DataDisk;
use self::machine::Machines;
use self::networks::Networks;
use self::quota::{QuotaKind, Quotas};
use self::reaper::Reaper;
use self::record::Record;
use self::sockets::Sockets;
use self::starts::Starts;
use self::step::Steps;
use self::warden::{Warden, Watched};

/// How the backend is set up.
#[derive(Debug, Clone)]
pub struct NativeOptions {
    pub data_dir: PathBuf,
    /// Network namespaces kept ready, for a process that makes many sandboxes. Making one costs as
    /// much as a fifth of a create.
    pub prepared_networks: usize,
    /// Make each sandbox's directory a btrfs subvolume, of which the kernel takes snapshots.
    pub subvolumes: bool,
    /// Directories of the machine below which mounts may be, see [`Isolation::mount_source`].
    pub allowed_mounts: Vec<PathBuf>,
    /// Where the process kills itself, in tests of what a crash leaves behind.
    pub crash_at: Option<CrashPoint>,
}

impl NativeOptions {
    /// Nothing prepared, and nothing that may be mounted.
    pub fn at(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            prepared_networks: 0,
            subvolumes: false,
            allowed_mounts: Vec::new(),
            crash_at: None,
        }
    }
}

/// The backend, see the module's documentation.
#[derive(Debug)]
pub struct Native {
    backend: Arc<Backend>,
    reaper: Reaper,
    balance: Balance,
    _warden: Warden,
    _doorkeeper: Doorkeeper,
}

/// The state that all calls and the background threads share.
#[derive(Debug)]
struct Backend {
    data: DataDirectory,
    disk: DataDisk,
    allowed_mounts: Vec<PathBuf>,
    cgroups: Cgroups,
    quotas: Quotas,
    networks: Networks,
    starts: Starts,
    sockets: Sockets,
    machines: Machines,
    capabilities: Capabilities,
    agent: OwnedFd,
    dev: OwnedFd,
    null: OwnedFd,
    /// Made when they are first needed.
    filters: [(Profile, OnceLock<Vec<u8>>); 2],
    lifeline: Lifeline,
    door: Door,
    turns: Turns,
    /// Sandboxes whose agents can ask this process, or need not.
    known: Mutex<HashSet<SandboxId>>,
    /// Sandboxes that are being given their layers.
    given: Mutex<HashSet<SandboxId>>,
    /// Sizes of the layers that sandboxes wrote.
    own_layers: quota::LayerSizes,
    /// Children and locks of the sandboxes that this process made.
    holds: Mutex<HashMap<SandboxId, Hold>>,
    steps: Steps,
}

/// A pair of sockets. Every sandbox that dies with this process has one end, and sees the other
/// close when this process ends.
#[derive(Debug)]
struct Lifeline {
    _ours: UnixStream,
    theirs: UnixStream,
}

impl Lifeline {
    fn new() -> io::Result<Self> {
        UnixStream::pair().map(|(ours, theirs)| Self { _ours: ours, theirs })
    }
}

/// The child, lock and disk limit of a sandbox that this process made.
#[derive(Debug, Default)]
struct Hold {
    /// The sandbox's first process, to be reaped when it has ended.
    child: Option<sys::Child>,
    /// On the directory of a sandbox that dies with this process.
    lock: Option<Lock>,
    /// Present if only this process enforces the sandbox's disk limit.
    watched: Option<Watched>,
}

impl Hold {
    fn is_empty(&self) -> bool {
        self.child.is_none() && self.lock.is_none() && self.watched.is_none()
    }
}

impl Native {
    /// Opens a data directory, making it if need be, and begins to reclaim what earlier processes
    /// left behind.
    pub fn open(options: NativeOptions) -> Result<Self, OpenError> {
        let data = DataDirectory::open(&options.data_dir, options.subvolumes)?;
        let layout = Layout::detect().map_err(|error| OpenError::Layout(Box::new(error)))?;
        let cgroups =
            Cgroups::open(layout, data.instance()).map_err(|error| OpenError::Cgroups(Box::new(error)))?;
        let quotas = Quotas::detect(data.root());
        let backend = Arc::new(Backend {
            networks: Networks::start(options.prepared_networks).map_err(OpenError::Thread)?,
            starts: Starts::new(),
            sockets: Sockets::default(),
            machines: Machines::new(),
            lifeline: Lifeline::new().map_err(OpenError::Lifeline)?,
            door: Door::new().map_err(OpenError::Lifeline)?,
            turns: Turns::default(),
            known: Mutex::default(),
            given: Mutex::default(),
            agent: agent::install(data.root())?,
            dev: layers::prepare_dev().map_err(|errno| OpenError::Dev(errno.into()))?,
            null: data::open_null()?,
            filters: [Profile::Standard, Profile::Strict].map(|profile| (profile, OnceLock::new())),
            own_layers: quota::LayerSizes::default(),
            holds: Mutex::default(),
            steps: Steps(options.crash_at),
            disk: DataDisk::of(data.root()).map_err(OpenError::Disk)?,
            allowed_mounts: options.allowed_mounts,
            capabilities: capabilities(&quotas),
            data,
            cgroups,
            quotas,
        });
        let reaper = Reaper::start(Arc::clone(&backend)).map_err(OpenError::Thread)?;
        let warden = Warden::start(Arc::clone(&backend)).map_err(OpenError::Thread)?;
        let doorkeeper = Doorkeeper::start(&backend).map_err(OpenError::Thread)?;
        Ok(Self { backend, reaper, balance: Balance::default(), _warden: warden, _doorkeeper: doorkeeper })
    }

    /// Checks the machine for each feature the backend needs. The data directory need not exist.
    pub fn examine(data_dir: &std::path::Path) -> Vec<Check> {
        probe::examine(data_dir)
    }
}

fn capabilities(quotas: &Quotas) -> Capabilities {
    Capabilities {
        snapshots: SnapshotSupport::Sealed,
        memory_snapshots: false,
        roots: vec![RootKind::Layers],
        network: NetworkSupport::Namespace,
        host_mounts: true,
        disk_quota: quotas.strongest(),
        freeze: true,
        socket: true,
        outlives_server: true,
        isolation: IsolationKind::Namespaces,
    }
}

impl Isolation for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn probe(&self) -> Vec<Check> {
        probe::examine(self.backend.data.root())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.backend.capabilities
    }

    fn layered(&self) -> Option<&dyn Layered> {
        Some(self)
    }

    fn mount_source(&self, asked: &Path) -> Result<MountSource, MountRefusal> {
        mounts::source(&self.backend.allowed_mounts, asked)
    }

    fn space(&self) -> Result<Option<DiskSpace>, IsolationError> {
        self.backend.disk.space().map(Some).map_err(|error| {
            IsolationError::caused(IsolationErrorKind::Host, "ask how much room the disk has", error)
        })
    }

    fn create(&self, request: CreateRequest) -> Result<Created, IsolationError> {
        self.backend.capabilities.require(&request.needs())?;
        create::create(&self.backend, &self.reaper, request)
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

    fn adopt(&self, id: &SandboxId) {
        deferred::catch_up(&self.backend, id);
    }

    fn socket(&self, id: &SandboxId, v6: bool) -> Result<Option<OwnedFd>, IsolationError> {
        sockets::socket(&self.backend, id, v6).map(Some)
    }

    fn watch(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        watch::watch(&self.backend, id)
    }

    fn freeze(&self, id: &SandboxId) -> Result<(), IsolationError> {
        self.backend.set_frozen(id, true)
    }

    fn thaw(&self, id: &SandboxId) -> Result<(), IsolationError> {
        self.backend.set_frozen(id, false)
    }

    fn halt(&self, id: &SandboxId) -> Result<(), IsolationError> {
        halt::halt(&self.backend, id)
    }

    fn destroy(&self, id: &SandboxId) -> Result<(), IsolationError> {
        destroy::destroy(&self.backend, &self.reaper, id)
    }

    fn flush(&self, id: &SandboxId) -> Result<(), IsolationError> {
        flush::flush(&self.backend, id)
    }

    fn settle(&self, patience: Duration) -> bool {
        self.reaper.settle(patience)
    }

    fn list(&self) -> Result<Vec<Found>, IsolationError> {
        let ids = self.backend.data.sandboxes().map_err(|error| {
            IsolationError::caused(
                IsolationErrorKind::Host,
                "list the sandboxes in the data directory",
                error,
            )
        })?;
        Ok(ids.iter().filter_map(|id| self.backend.found(id)).collect())
    }

    fn usage(&self, id: &SandboxId) -> Result<Usage, IsolationError> {
        let directory = self.backend.data.sandbox(id);
        let record = Record::load(&directory).ok_or_else(|| not_found(id))?;
        let mut usage = self.backend.cgroups.usage(id.as_str());
        (usage.disk_bytes, usage.inodes) = self.backend.holdings(&record);
        usage.connections = connections::count(&record);
        usage.disk_exceeded = warden::has_ended(&directory);
        Ok(usage)
    }

    fn pulse(&self, id: &SandboxId) -> Result<Pulse, IsolationError> {
        let record = Record::load(&self.backend.data.sandbox(id)).ok_or_else(|| not_found(id))?;
        let pulse = self.backend.cgroups.pulse(id.as_str());
        Ok(Pulse { connections: connections::count(&record), ..pulse })
    }

    fn balance(&self, groups: &[Vec<SandboxId>]) {
        self.balance.restore(&self.backend.cgroups, groups);
    }
}

impl Layered for Native {
    fn seal(&self, id: &SandboxId, into: &Path, below: &[RootTree]) -> Result<Sealed, IsolationError> {
        seal::seal(&self.backend, id, into, below)
    }

    fn writable(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        seal::writable(&self.backend, id)
    }

    fn clear(&self, id: &SandboxId) -> Result<(), IsolationError> {
        seal::clear(&self.backend, id)
    }
}

impl Backend {
    fn set_frozen(&self, id: &SandboxId, frozen: bool) -> Result<(), IsolationError> {
        if !self.data.sandbox(id).exists() {
            return Err(not_found(id));
        }
        let action = if frozen { "freeze" } else { "thaw" };
        self.cgroups.set_frozen(id.as_str(), frozen).map_err(|error| {
            IsolationError::caused(IsolationErrorKind::Host, format!("{action} {id}"), error)
        })
    }

    fn found(&self, id: &SandboxId) -> Option<Found> {
        let record = seal::settle(self, id)?;
        let alive = record.is_alive();
        Some(Found {
            id: record.id.clone(),
            pid: alive.then_some(record.pid),
            alive,
            frozen: alive && self.cgroups.is_frozen(id.as_str()).unwrap_or(false),
            owner: record.owner,
            spec: record.spec,
            root: Root::Layers(record.root),
            created_unix_ms: record.created_unix_ms,
        })
    }

    /// Bytes and inodes that only this sandbox holds: its writable layers, and the layers below
    /// them that it wrote earlier.
    fn holdings(&self, record: &Record) -> (u64, u64) {
        let mut held = self.quotas.used(&self.data.sandbox(&record.id), record.quota);
        // A project's own count includes layers that were moved elsewhere.
        if !matches!(record.quota, QuotaKind::Project { .. }) {
            let layers = self.own_layers.sizes(&record.own);
            held = (held.0.saturating_add(layers.0), held.1.saturating_add(layers.1));
        }
        held
    }

    fn hold(&self, id: &SandboxId, hold: Hold) {
        if hold.is_empty() {
            return;
        }
        self.holds.lock().insert(id.clone(), hold);
    }

    fn release(&self, id: &SandboxId) -> Hold {
        self.holds.lock().remove(id).unwrap_or_default()
    }

    fn filter(&self, profile: Profile) -> &[u8] {
        let found = self.filters.iter().find(|(known, _)| *known == profile);
        found.map_or(&[], |(_, program)| program.get_or_init(|| seccomp::program(profile)))
    }
}

fn not_found(id: &SandboxId) -> IsolationError {
    IsolationError::new(IsolationErrorKind::NotFound, format!("there is no sandbox {id}"))
}
