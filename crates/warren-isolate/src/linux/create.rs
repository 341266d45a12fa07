//! Making a sandbox: the recipe from top to bottom. A failure at any step hands what exists so far
//! to the same removal that every sandbox ends in.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use warren_core::{CreateRequest, Created, IsolationError, IsolationErrorKind, MountAccess, RootState};
use warren_wire::guest::{
    AgentConfig, BindMount, BootPlan, Machine, Outside, Rlimit, ShownMount, ShownTree, TreeMount,
};

use super::cgroup::{Entrance, Gauges};
use super::claims::ClaimError;
use super::data::Lock;
use super::layers::{self, Bind, LayerError, ReadOnlyTree, ShownLayers, Tree};
use super::networks::Order;
use super::quota::{Area, QuotaKind};
use super::reaper::Reaper;
use super::record::Record;
use super::step::CrashPoint;
use super::userns::{self, Mapping};
use super::warden::Watched;
use super::{Backend, Hold, deferred, destroy, halt, resume, users};

/// Capabilities that stay: what package managers and ordinary services need over the sandbox's own
/// ids. Low ports are everybody's in the sandbox's network namespace, and need none.
pub(crate) const KEPT_CAPABILITIES: u64 = 1 << 0 // CHOWN
    | 1 << 1 // DAC_OVERRIDE
    | 1 << 3 // FOWNER
    | 1 << 4 // FSETID
    | 1 << 5 // KILL
    | 1 << 6 // SETGID
    | 1 << 7; // SETUID

/// The host name of a sandbox without one of its own. Templates have it in their `/etc/hosts`.
pub(crate) const DEFAULT_HOSTNAME: &str = "sandbox";

/// How long a boot may take on a busy machine.
pub(crate) const BOOT_PATIENCE: Duration = Duration::from_secs(30);

/// How long a sandbox that moves back waits for the removal of what it left.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn create(
    backend: &Backend,
    reaper: &Reaper,
    request: CreateRequest,
) -> Result<Created, IsolationError> {
    match request.state {
        RootState::Fresh => create_fresh(backend, reaper, request),
        RootState::Kept => resume::resume(backend, &request),
    }
}

fn create_fresh(
    backend: &Backend,
    reaper: &Reaper,
    request: CreateRequest,
) -> Result<Created, IsolationError> {
    let id = request.id.clone();
    if !backend.data.await_removal(&id, REMOVAL_PATIENCE) {
        let action = format!("what {id} left here earlier is still being removed: try again later");
        return Err(IsolationError::new(IsolationErrorKind::Busy, action));
    }
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
    match build(backend, &lock, &request, None, &mut hold) {
        Ok(pid) => {
            halt::keep(backend, &id, request.owner, hold, lock);
            Ok(Created { id, pid })
        }
        Err(error) => {
            // What cannot be put away is an orphan, which the next search finds.
            drop(destroy::discard(backend, reaper, &id, hold, lock));
            Err(error)
        }
    }
}

/// Goes through all steps, in a directory that exists and is locked. `kept` is the sandbox's record
/// if it ran before. After a failure the caller removes what was made.
pub(super) fn build(
    backend: &Backend,
    lock: &Lock,
    request: &CreateRequest,
    kept: Option<&Record>,
    hold: &mut Hold,
) -> Result<u32, IsolationError> {
    let _start = backend.starts.begin();
    let id = &request.id;
    let directory = backend.data.sandbox(id);
    let network = match &request.network {
        Some(given) => Order::Given(Arc::clone(given)),
        None => backend.networks.order().map_err(|error| layer("network namespace", error))?,
    };
    let id_base = backend.data.ranges().claim(id).map_err(claim_error)?;
    backend.passed(CrashPoint::CreateRange);
    let namespace = userns::make(Mapping::of_tenants(id_base), Mapping::of_tenants(id_base))
        .map_err(|error| layer("user namespace", error))?;
    let limits = &request.spec.limits;
    let area = open_area(backend, request, kept)?;
    let quota = area.kind;
    hold.watched = Watched::begin(backend, id, limits, quota);
    let root = open_root(backend, request, area, namespace.as_fd(), id_base)?;
    backend.passed(CrashPoint::CreateLayers);
    let entrance = backend.cgroups.create(id.as_str()).map_err(|error| layer("cgroup", error))?;
    let gauges = backend.cgroups.gauges(id.as_str()).map_err(|error| layer("machine", error))?;
    backend.passed(CrashPoint::CreateCgroup);
    let cpus = backend.machines.processors(limits.cpus.visible(), id_base);
    let tree = backend.machines.tree(u32::try_from(cpus.len()).unwrap_or(u32::MAX), namespace.as_fd());
    let tree = tree.map_err(|errno| layer("machine", io::Error::from(errno)))?;
    let machine = MachineParts { tree, gauges, cpus };
    let listener = backend.data.listen(lock).map_err(|error| layer("agent socket", error))?;
    backend.passed(CrashPoint::CreateListener);
    let network = network.wait().map_err(|error| layer("network namespace", error))?;
    let parts = Parts { root, namespace, entrance, listener, network, machine, id_base, quota };
    let pid = backend.starter.start(backend, request, parts, hold).inspect_err(|_| hold.kill())?;
    backend.known.lock().insert(id.clone());
    let record = Record::new(request, pid, id_base, quota, kept);
    record.store(&directory).map_err(|error| layer("record", error))?;
    backend.passed(CrashPoint::CreateRecord);
    Ok(pid)
}

fn open_area(
    backend: &Backend,
    request: &CreateRequest,
    kept: Option<&Record>,
) -> Result<Area, IsolationError> {
    let directory = backend.data.sandbox(&request.id);
    let (limits, required) = (&request.spec.limits, request.disk_limit_required);
    let area = match kept {
        None => backend.quotas.prepare(&request.id, &directory, limits, required),
        Some(record) => backend.quotas.reopen(&directory, record.quota, limits, required),
    };
    area.map_err(|error| layer("disk quota", error))
}

/// The root's layers, as descriptors.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) trees: Vec<Tree>,
    writable: OwnedFd,
    dev: OwnedFd,
    /// Directories of the host without a writable layer yet, and where the sandbox sees them.
    pub(crate) shown: Vec<(PathBuf, ShownLayers)>,
    pub(crate) binds: Vec<Bind>,
}

fn open_root(
    backend: &Backend,
    request: &CreateRequest,
    area: Area,
    namespace: BorrowedFd<'_>,
    id_base: u32,
) -> Result<Root, IsolationError> {
    let (mut trees, mut shown, mut binds) = (Vec::new(), Vec::new(), Vec::new());
    for (number, tree) in request.root.trees().iter().enumerate() {
        let deferred = backend.starter.defers() && deferred::is_deferred(tree, number, request, &area);
        match if deferred { MountAccess::ReadOnly } else { tree.access } {
            MountAccess::ReadWrite => {
                layers::make_writable(&area.path, trees.len(), tree, request.state).map_err(layer_error)?;
                trees.push(layers::open(tree, namespace).map_err(layer_error)?);
            }
            MountAccess::ReadOnly => match layers::show(tree, namespace).map_err(layer_error)? {
                ReadOnlyTree::Shown(at, layers) => shown.push((at, layers)),
                ReadOnlyTree::Bind(bind) => binds.push(bind),
            },
        }
    }
    // Templates have the default name in their files.
    if let (Some(name), RootState::Fresh) = (&request.spec.hostname, request.state) {
        layers::seed_file(&area.path, "etc/hostname", &format!("{name}\n")).map_err(layer_error)?;
        let hosts = format!("127.0.0.1\tlocalhost {name}\n::1\tlocalhost ip6-localhost ip6-loopback\n");
        layers::seed_file(&area.path, "etc/hosts", &hosts).map_err(layer_error)?;
    }
    layers::map_area(area.mount.as_fd(), &area.path, namespace).map_err(layer_error)?;
    let dev = layers::clone_prepared(&backend.dev, namespace, layers::prepare_dev)
        .map_err(|errno| layer("/dev", io::Error::from(errno)))?;
    if !request.spec.mounts.is_empty() {
        let user = users::ids(request.root.trees(), request.user.as_deref()).map_err(|error| {
            IsolationError::caused(
                IsolationErrorKind::Invalid,
                "find the user that the mounts belong to",
                error,
            )
        })?;
        for mount in &request.spec.mounts {
            if backend.data.overlaps(&mount.source) {
                let message = format!(
                    "`{}` may not be mounted: Warren keeps its own data there",
                    mount.source.display()
                );
                return Err(IsolationError::new(IsolationErrorKind::Invalid, message));
            }
            binds.push(layers::bind(mount, user, id_base).map_err(layer_error)?);
        }
    }
    Ok(Root { trees, writable: area.mount, dev, shown, binds })
}

/// Everything that a sandbox is made of, before there is a process.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) root: Root,
    namespace: OwnedFd,
    pub(crate) entrance: Entrance,
    pub(crate) listener: OwnedFd,
    network: Arc<OwnedFd>,
    pub(crate) machine: MachineParts,
    pub(crate) id_base: u32,
    quota: QuotaKind,
}

/// The sandbox's view of its machine: the prepared tree, open gauges and processors.
#[derive(Debug)]
pub(crate) struct MachineParts {
    tree: OwnedFd,
    pub(crate) gauges: Gauges,
    /// Numbers of the host's processors that it may use.
    cpus: Vec<u32>,
}

impl MachineParts {
    fn plan(&self, memory_bytes: u64) -> Machine {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let now = Duration::try_from(now).unwrap_or_default();
        let number = |gauge: &Option<OwnedFd>| gauge.as_ref().map(AsRawFd::as_raw_fd);
        Machine {
            memory_bytes,
            cpus: u32::try_from(self.cpus.len()).unwrap_or(u32::MAX),
            began_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            tree: self.tree.as_raw_fd(),
            memory_used: number(&self.gauges.memory_used),
            memory_stat: number(&self.gauges.memory_stat),
            cpu_used: number(&self.gauges.cpu_used),
        }
    }

    fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        let Gauges { memory_used, memory_stat, cpu_used } = &self.gauges;
        [memory_used, memory_stat, cpu_used].into_iter().flatten().chain([&self.tree])
    }
}

impl Parts {
    /// The agent's plan. Descriptors are named by number, so the parts have to live until it is
    /// read.
    pub(crate) fn plan(
        &self,
        backend: &Backend,
        request: &CreateRequest,
        lifeline: Option<BorrowedFd<'_>>,
    ) -> BootPlan {
        let limits = &request.spec.limits;
        let number = |fd: &OwnedFd| fd.as_raw_fd();
        let shown = |layers: &ShownLayers| ShownMount {
            hidden: number(&layers.hidden),
            machine: number(&layers.machine),
            mapped: layers.mapped,
        };
        let tree = |tree: &Tree| TreeMount {
            at: (&tree.at).into(),
            lowers: tree.lowers.iter().map(number).collect(),
            shown: tree.shown.as_ref().map(shown),
        };
        let shown_tree =
            |(at, layers): &(PathBuf, ShownLayers)| ShownTree { at: at.into(), mount: shown(layers) };
        let bind = |bind: &Bind| BindMount {
            source: number(&bind.source),
            at: (&bind.at).into(),
            directory: bind.directory,
        };
        BootPlan {
            cgroup_tasks: self.entrance.tasks.iter().map(number).collect(),
            network: self.network.as_raw_fd(),
            hostname: request.spec.hostname.as_deref().unwrap_or(DEFAULT_HOSTNAME).into(),
            id_base: self.id_base,
            trees: self.root.trees.iter().map(tree).collect(),
            writable: number(&self.root.writable),
            dev: number(&self.root.dev),
            binds: self.root.binds.iter().map(bind).collect(),
            shm_bytes: (limits.memory.0 / 2).max(1 << 20),
            user_namespace: number(&self.namespace),
            cpus: self.machine.cpus.clone(),
            rlimits: rlimits(request, self.quota),
            capabilities: KEPT_CAPABILITIES,
            seccomp: backend.filter(request.spec.profile).to_vec(),
            listener: number(&self.listener),
            lifeline: lifeline.map(|fd| fd.as_raw_fd()),
            machine: Some(self.machine.plan(backend.machines.memory_bytes(limits.memory.0))),
            shown: self.root.shown.iter().map(shown_tree).collect(),
            outside: (!self.root.shown.is_empty()).then(|| Outside {
                socket: number(&backend.door.theirs),
                sandbox: request.id.as_str().to_owned(),
            }),
            agent: AgentConfig {
                env: request.env.iter().map(|entry| entry.as_str().into()).collect(),
                user: request.user.as_deref().map(Into::into),
                cwd: request.workdir.as_ref().map(Into::into),
            },
        }
    }

    /// All that the plan names.
    pub(crate) fn descriptors(&self) -> Vec<i32> {
        let root = &self.root;
        let trees = root.trees.iter().flat_map(|tree| &tree.lowers);
        let shown = root.trees.iter().filter_map(|tree| tree.shown.as_ref());
        let shown = shown.chain(root.shown.iter().map(|(_, layers)| layers));
        let shown = shown.flat_map(|layers| [&layers.hidden, &layers.machine]);
        let binds = root.binds.iter().map(|bind| &bind.source);
        let single = [&root.writable, &root.dev, &self.namespace, self.network.as_ref(), &self.listener];
        let all = trees.chain(shown).chain(binds).chain(single).chain(&self.entrance.tasks);
        let all = all.chain(self.machine.descriptors());
        all.map(AsRawFd::as_raw_fd).collect()
    }
}

fn rlimits(request: &CreateRequest, quota: QuotaKind) -> Vec<Rlimit> {
    // With a hard limit the file system refuses the write, so the program need not be killed.
    let largest_file =
        if quota == QuotaKind::Watched { request.spec.limits.disk.0 } else { libc::RLIM_INFINITY };
    process_limits(request, largest_file)
}

/// The limits of each process in a sandbox.
pub(crate) fn process_limits(request: &CreateRequest, largest_file: u64) -> Vec<Rlimit> {
    let table = [
        // One means no core dump at all, not even to a program that the host's core pattern names.
        (libc::RLIMIT_CORE, 1),
        (libc::RLIMIT_NOFILE, request.spec.limits.open_files),
        (libc::RLIMIT_FSIZE, largest_file),
        (libc::RLIMIT_MEMLOCK, 64 << 10),
        (libc::RLIMIT_MSGQUEUE, 819_200),
        (libc::RLIMIT_SIGPENDING, 4096),
        (libc::RLIMIT_RTPRIO, 0),
        (libc::RLIMIT_NICE, 0),
    ];
    table.into_iter().map(|(resource, value)| Rlimit { resource, value }).collect()
}

pub(crate) fn layer(
    name: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> IsolationError {
    IsolationError::caused(IsolationErrorKind::Layer, format!("set up {name}"), source)
}

fn layer_error(error: LayerError) -> IsolationError {
    let kind = match &error {
        LayerError::Source { .. } | LayerError::SourceKind { .. } => IsolationErrorKind::Invalid,
        LayerError::Writable { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            IsolationErrorKind::Exhausted
        }
        LayerError::Writable { .. }
        | LayerError::Open { .. }
        | LayerError::Map { .. }
        | LayerError::ManyLayers { .. }
        | LayerError::Unhidden { .. }
        | LayerError::MountIds(_) => IsolationErrorKind::Layer,
    };
    IsolationError::caused(kind, "set up the root file system", error)
}

fn claim_error(error: ClaimError) -> IsolationError {
    let kind = match error {
        ClaimError::Exhausted { .. } => IsolationErrorKind::Exhausted,
        ClaimError::Claim { .. } | ClaimError::Draw(_) => IsolationErrorKind::Host,
    };
    IsolationError::caused(kind, "claim an id range", error)
}
