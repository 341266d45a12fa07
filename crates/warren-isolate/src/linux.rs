//! Sandboxes on this machine's kernel: layers, ids, control groups, quotas, records and their whole
//! life. A [`Starter`] makes a first process of what is ready: `native` by itself, `oci` with a
//! runtime.
//!
//! ```text
//! <data>/instance            names this data directory's control groups, marks it as Warren's
//! <data>/agent-<digest>      the agent's binary, executed by descriptor
//! <data>/ranges/<n>          id range n is taken by the sandbox the link names, with its place
//! <data>/projects/<n>        quota project n is taken by the sandbox the link names, likewise
//! <place>/sandboxes/<id>/    record.json, agent.sock, upper-<n>, work-<n> or disk.img with these
//!                            in it; sealing.json and next/ while a seal is under way;
//!                            layer.lock, locked by who gives it a writable layer
//! <place>/trash/<id>/        a destroyed sandbox whose remains are being removed
//! <place>/gate               locked shared while a sandbox is being registered, exclusively
//!                            during a search for orphans
//! ```
//!
//! The place is the data directory itself for `native`, and `<data>/oci/<runtime>` for a runtime.
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
mod hostname;
mod launch;
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
mod starter;
mod starts;
mod step;
mod suspend;
mod sys;
mod uncounted;
mod userns;
mod users;
mod warden;
mod watch;
mod window;

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
    IsolationErrorKind, Layered, Memory, MountRefusal, MountSource, Profile, Pulse, Root, RootTree,
    SandboxId, SandboxSpec, Sealed, Usage,
};

pub(crate) use self::agent::{BINARY, PROGRAM, install_alone};
pub use self::apart::{ApartError, live_apart};
pub(crate) use self::cgroup::{Layout, pulse_of, usage_of};
pub(crate) use self::connections::count_of as connections_of;
pub(crate) use self::create::{
    BOOT_PATIENCE, DEFAULT_HOSTNAME, KEPT_CAPABILITIES, Parts, layer, process_limits,
};
pub use self::data::OpenError;
pub(crate) use self::data::{DataDirectory, DialError, Lock, SOCKET, await_lock, try_lock};
pub(crate) use self::hostname::set_hostname;
pub(crate) use self::layers::clone_mount;
pub(crate) use self::networks::{Networks, Order};
pub(crate) use self::record::{place as place_file, start_time, this_boot};
pub(crate) use self::remove::{empty as empty_tree, remove_tree};
pub(crate) use self::seccomp::{document as seccomp_document, program as seccomp_program};
pub(crate) use self::sockets::Sockets;
pub(crate) use self::starter::{LinuxOptions, Place, Starter};
pub(crate) use self::step::Steps;
pub use self::step::{CrashPoint, CrashPointError};
pub(crate) use self::sys::{enter_network, network_of_socket};
pub(crate) use self::window::Window;

use self::balance::Balance;
use self::cgroup::Cgroups;
use self::deferred::{Door, Doorkeeper, Turns};
use self::disk::DataDisk;
use self::layers::Appearance;
use self::machine::Machines;
use self::quota::{QuotaKind, Quotas};
use self::reaper::Reaper;
use self::record::Record;
use self::starts::Starts;
use self::warden::{Warden, Watched};

/// A backend of this machine's kernel, opened by [`crate::Native`] or [`crate::Oci`].
#[derive(Debug)]
pub struct LinuxBackend {
    backend: Arc<Backend>,
    reaper: Reaper,
    balance: Balance,
    _warden: Warden,
    _doorkeeper: Doorkeeper,
}

/// The state that all calls and the background threads share.
#[derive(Debug)]
pub(crate) struct Backend {
    starter: Box<dyn Starter>,
    pub(crate) data: DataDirectory,
    disk: DataDisk,
    allowed_mounts: Vec<PathBuf>,
    pub(crate) cgroups: Cgroups,
    quotas: Quotas,
    networks: Networks,
    starts: Starts,
    sockets: Sockets,
    machines: Machines,
    capabilities: Capabilities,
    pub(crate) agent: OwnedFd,
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
    /// How the writable layers of sandboxes look that were found empty.
    blank: Mutex<HashMap<SandboxId, Vec<Appearance>>>,
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
pub(crate) struct Hold {
    /// The sandbox's first process, or one that starts it, to be reaped when it has ended.
    child: Option<sys::Child>,
    /// On the directory of a sandbox that dies with this process.
    lock: Option<Lock>,
    /// Present if only this process enforces the sandbox's disk limit.
    watched: Option<Watched>,
}

impl Hold {
    /// Waits a moment for the end of the child, and forgets it then.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.take_if(|child| reaper::has_ended(child));
        self.child.is_none()
    }

    /// Kills the child, which may be in no group, and leaves it to be reaped.
    fn kill(&self) {
        if let Some(pid) = self.child.as_ref().and_then(sys::Child::number) {
            // One that has ended is a zombie until it is reaped, and nobody else has its number.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    fn is_empty(&self) -> bool {
        self.child.is_none() && self.lock.is_none() && self.watched.is_none()
    }
}

impl LinuxBackend {
    /// Opens a data directory, making it if need be, and begins to reclaim what earlier processes
    /// left behind.
    pub(crate) fn open(options: LinuxOptions, starter: Box<dyn Starter>) -> Result<Self, OpenError> {
        let place = starter.place();
        let data = DataDirectory::open(&options.data_dir, &place, options.subvolumes)?;
        let layout = Layout::detect().map_err(|error| OpenError::Layout(Box::new(error)))?;
        let cgroups = Cgroups::open(layout, &place.group(data.instance()), place.elsewhere)
            .map_err(|error| OpenError::Cgroups(Box::new(error)))?;
        let quotas = Quotas::detect(data.root(), &place);
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
            blank: Mutex::default(),
            own_layers: quota::LayerSizes::default(),
            holds: Mutex::default(),
            steps: Steps(options.crash_at),
            disk: DataDisk::of(data.root()).map_err(OpenError::Disk)?,
            allowed_mounts: options.allowed_mounts,
            capabilities: starter.capabilities(quotas.strongest()),
            starter,
            data,
            cgroups,
            quotas,
        });
        let reaper = Reaper::start(Arc::clone(&backend)).map_err(OpenError::Thread)?;
        let warden = Warden::start(Arc::clone(&backend)).map_err(OpenError::Thread)?;
        let doorkeeper = Doorkeeper::start(&backend).map_err(OpenError::Thread)?;
        Ok(Self { backend, reaper, balance: Balance::default(), _warden: warden, _doorkeeper: doorkeeper })
    }
}

/// Checks the machine for each feature that every backend here needs. The data directory need not
/// exist.
pub(crate) fn examine(data_dir: &Path) -> Vec<Check> {
    probe::examine(data_dir)
}

impl Isolation for LinuxBackend {
    fn name(&self) -> &'static str {
        self.backend.starter.name()
    }

    fn probe(&self) -> Vec<Check> {
        self.backend.starter.examine(self.backend.data.root())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.backend.capabilities
    }

    fn layered(&self) -> Option<&dyn Layered> {
        Some(self)
    }

    fn memory(&self) -> Option<&dyn Memory> {
        self.backend.capabilities.memory_snapshots.then_some(self)
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
        self.backend.dial(id).map_err(|error| {
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
        if self.backend.starter.defers() {
            deferred::catch_up(&self.backend, id);
        }
    }

    fn socket(&self, id: &SandboxId, v6: bool) -> Result<Option<OwnedFd>, IsolationError> {
        if !self.backend.capabilities.socket {
            return Ok(None);
        }
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

impl Memory for LinuxBackend {
    fn suspend(&self, id: &SandboxId, into: &Path) -> Result<(), IsolationError> {
        suspend::suspend(&self.backend, id, into)
    }
}

impl Layered for LinuxBackend {
    fn seal(&self, id: &SandboxId, into: &Path, below: &[RootTree]) -> Result<Sealed, IsolationError> {
        seal::seal(&self.backend, id, into, below)
    }

    fn is_untouched(&self, id: &SandboxId) -> bool {
        seal::is_untouched(&self.backend, id)
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

    fn dial(&self, id: &SandboxId) -> Result<OwnedFd, DialError> {
        // Others than the agent may hold a socket that was made inside for a moment longer.
        let ended = |record: Record| !record.is_alive();
        if self.data.is_shared() && Record::load(&self.data.sandbox(id)).is_some_and(ended) {
            return Err(DialError::Ended);
        }
        self.data.dial(id)
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

    /// Forgets what only holds for this life of a sandbox.
    fn forget_life(&self, id: &SandboxId) {
        self.known.lock().remove(id);
        self.blank.lock().remove(id);
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

    /// The seccomp program of a profile.
    pub(crate) fn filter(&self, profile: Profile) -> &[u8] {
        let found = self.filters.iter().find(|(known, _)| *known == profile);
        found.map_or(&[], |(_, program)| program.get_or_init(|| seccomp::program(profile)))
    }
}

fn not_found(id: &SandboxId) -> IsolationError {
    IsolationError::new(IsolationErrorKind::NotFound, format!("there is no sandbox {id}"))
}
