//! Making a sandbox: the recipe from top to bottom. A failure at any step hands what exists so far
//! to the same removal that every sandbox ends in.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use warren_core::{
    CreateRequest, Created, IsolationError, IsolationErrorKind, MountAccess, OwnerBond, RootState,
};
use warren_wire::guest::{
    AgentConfig, BindMount, BootFailure, BootPlan, BootReport, MAX_PAYLOAD, Machine, Outside, Rlimit,
    ShownMount, ShownTree, TreeMount,
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
use super::sys::{self, Program};
use super::userns::{self, Mapping};
use super::warden::Watched;
use super::{Backend, Hold, clones, deferred, destroy, halt, resume, users};

/// Capabilities that stay: what package managers and ordinary services need over the sandbox's own
/// ids. Low ports are everybody's in the sandbox's network namespace, and need none.
const KEPT_CAPABILITIES: u64 = 1 << 0 // CHOWN
    | 1 << 1 // DAC_OVERRIDE
    | 1 << 3 // FOWNER
    | 1 << 4 // FSETID
    | 1 << 5 // KILL
    | 1 << 6 // SETGID
    | 1 << 7; // SETUID

/// The host name of a sandbox without one of its own. Templates have it in their `/etc/hosts`.
const DEFAULT_HOSTNAME: &str = "sandbox";

/// How long a boot may take on a busy machine.
const BOOT_PATIENCE: Duration = Duration::from_secs(30);

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
            destroy::discard(backend, reaper, &id, hold, lock);
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
    let entrance = backend.cgroups.create(id.as_str(), limits).map_err(|error| layer("cgroup", error))?;
    let gauges = backend.cgroups.gauges(id.as_str()).map_err(|error| layer("machine", error))?;
    backend.passed(CrashPoint::CreateCgroup);
    let cpus = backend.machines.processors(limits.cpus.visible(), id_base);
    let tree = backend.machines.tree(u32::try_from(cpus.len()).unwrap_or(u32::MAX), namespace.as_fd());
    let tree = tree.map_err(|errno| layer("machine", io::Error::from(errno)))?;
    let machine = MachineParts { tree, gauges, cpus };
    let listener = backend.data.listen(lock).map_err(|error| layer("agent socket", error))?;
    backend.passed(CrashPoint::CreateListener);
    let network = network.wait().map_err(|error| layer("network namespace", error))?;
    let boot = Boot { root, namespace, entrance, listener, network, machine, id_base, quota };
    let pid = boot.start(backend, request, hold)?;
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
struct Root {
    trees: Vec<Tree>,
    writable: OwnedFd,
    dev: OwnedFd,
    /// Directories of the host without a writable layer yet, and where the sandbox sees them.
    shown: Vec<(PathBuf, ShownLayers)>,
    binds: Vec<Bind>,
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
        let deferred = deferred::is_deferred(tree, number, request, &area);
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

/// Everything that is handed to the agent.
struct Boot {
    root: Root,
    namespace: OwnedFd,
    entrance: Entrance,
    listener: OwnedFd,
    network: Arc<OwnedFd>,
    machine: MachineParts,
    id_base: u32,
    quota: QuotaKind,
}

/// The sandbox's view of its machine: the prepared tree, open gauges and processors.
struct MachineParts {
    tree: OwnedFd,
    gauges: Gauges,
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

impl Boot {
    /// Clones the agent into its namespaces, sends it the plan and waits for its report.
    fn start(
        self,
        backend: &Backend,
        request: &CreateRequest,
        hold: &mut Hold,
    ) -> Result<u32, IsolationError> {
        let (control, theirs) = UnixStream::pair().map_err(|error| layer("control socket", error))?;
        let lifeline = match request.owner {
            OwnerBond::DiesWithOwner => Some(backend.lifeline.theirs.as_fd()),
            OwnerBond::Outlives => None,
        };
        let plan = self.plan(backend, request, lifeline);
        let mut inherited = self.descriptors();
        inherited.push(theirs.as_raw_fd());
        inherited.extend(lifeline.map(|theirs| theirs.as_raw_fd()));
        inherited.extend(plan.outside.as_ref().map(|outside| outside.socket));
        let arguments = ["warren-guest".to_owned(), "boot".to_owned(), theirs.as_raw_fd().to_string()];
        let program = Program {
            executable: backend.agent.as_fd(),
            arguments: arguments.into_iter().filter_map(|text| CString::new(text).ok()).collect(),
            null: backend.null.as_fd(),
            inherited,
        };
        let flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        let cgroup = self.entrance.clone_into.as_ref().map(AsFd::as_fd);
        let spawn = || sys::spawn(&program, flags.unsigned_abs().into(), cgroup);
        let child = clones::outwait(Errno::TXTBSY, spawn)
            .map_err(|errno| layer("namespaces", io::Error::from(errno)))?;
        let pid = child.pid;
        hold.child = Some(child);
        backend.passed(CrashPoint::CreateSpawn);
        drop(theirs);
        converse(control, &plan)?;
        backend.passed(CrashPoint::CreateBoot);
        Ok(pid)
    }

    fn plan(&self, backend: &Backend, request: &CreateRequest, lifeline: Option<BorrowedFd<'_>>) -> BootPlan {
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

    fn descriptors(&self) -> Vec<i32> {
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

/// Sends the plan and waits for the one answer.
fn converse(mut control: UnixStream, plan: &BootPlan) -> Result<(), IsolationError> {
    let packet = minicbor::to_vec(plan).map_err(|error| layer("boot plan", io::Error::other(error)))?;
    let mut exchange = || -> io::Result<Vec<u8>> {
        control.set_read_timeout(Some(BOOT_PATIENCE))?;
        control.set_write_timeout(Some(BOOT_PATIENCE))?;
        control.write_all(&u32::try_from(packet.len()).unwrap_or(u32::MAX).to_le_bytes())?;
        control.write_all(&packet)?;
        let mut length = [0; 4];
        control.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_PAYLOAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut report = vec![0; length];
        control.read_exact(&mut report)?;
        Ok(report)
    };
    let report = exchange().map_err(|error| layer("the agent's start", error))?;
    match minicbor::decode(&report).map_err(|error| layer("boot report", io::Error::other(error)))? {
        BootReport::Ready => Ok(()),
        BootReport::Failed(failure) => Err(refused(failure)),
    }
}

/// The kernel's error for a filter that cannot be compiled (`ENOTSUPP`).
const NO_ROOM_FOR_FILTERS: i32 = 524;

fn refused(failure: BootFailure) -> IsolationError {
    if failure.errno == Some(NO_ROOM_FOR_FILTERS) {
        let message = "load the sandbox's filter: the kernel's memory for compiled filters is used up, by whatever programs of \
                       this machine; raise it with `sysctl net.core.bpf_jit_limit=1073741824`";
        return IsolationError::caused(IsolationErrorKind::Exhausted, message, failure);
    }
    layer(&failure.step.clone(), failure)
}

fn rlimits(request: &CreateRequest, quota: QuotaKind) -> Vec<Rlimit> {
    let limits = &request.spec.limits;
    // With a hard limit the file system refuses the write, so the program need not be killed.
    let largest_file = if quota == QuotaKind::Watched { limits.disk.0 } else { libc::RLIM_INFINITY };
    let table = [
        // One means no core dump at all, not even to a program that the host's core pattern names.
        (libc::RLIMIT_CORE, 1),
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_FSIZE, largest_file),
        (libc::RLIMIT_MEMLOCK, 64 << 10),
        (libc::RLIMIT_MSGQUEUE, 819_200),
        (libc::RLIMIT_SIGPENDING, 4096),
        (libc::RLIMIT_RTPRIO, 0),
        (libc::RLIMIT_NICE, 0),
    ];
    table.into_iter().map(|(resource, value)| Rlimit { resource, value }).collect()
}

fn layer(name: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> IsolationError {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_room_for_filters_is_said_to_be_full() {
        let failure = |errno| BootFailure { step: "seccomp".to_owned(), detail: "load".to_owned(), errno };
        let full = refused(failure(Some(524)));
        assert_eq!(full.kind, IsolationErrorKind::Exhausted);
        assert!(full.to_string().contains("sysctl net.core.bpf_jit_limit="), "{full}");
        assert_eq!(refused(failure(Some(libc::EINVAL))).kind, IsolationErrorKind::Layer);
    }
}
