//! The native backend: namespaces, overlayfs, control groups and seccomp, with nothing between us
//! and the kernel. All but the start of a first process is `linux`'s.

mod boot;

use std::path::{Path, PathBuf};

use warren_core::{
    Capabilities, Check, CreateRequest, DiskQuota, IsolationError, IsolationKind, NetworkSupport, RootKind,
    SnapshotSupport,
};

use crate::linux::{
    self, Backend, CrashPoint, Hold, LinuxBackend, LinuxOptions, OpenError, Parts, Place, Starter,
};

/// How the backend is set up.
#[derive(Debug, Clone)]
pub struct NativeOptions {
    pub data_dir: PathBuf,
    /// Network namespaces kept ready, for a process that makes many sandboxes. Making one costs as
    /// much as a fifth of a create.
    pub prepared_networks: usize,
    /// Make each sandbox's directory a btrfs subvolume, of which the kernel takes snapshots.
    pub subvolumes: bool,
    /// Directories of the machine below which mounts may be, see
    /// [`warren_core::Isolation::mount_source`].
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
pub struct Native;

impl Native {
    pub(crate) const PLACE: Place = Place { below: &[], shared: None, elsewhere: false };

    /// Opens a data directory, making it if need be, and begins to reclaim what earlier processes
    /// left behind.
    pub fn open(options: NativeOptions) -> Result<LinuxBackend, OpenError> {
        let NativeOptions { data_dir, prepared_networks, subvolumes, allowed_mounts, crash_at } = options;
        let options = LinuxOptions { data_dir, prepared_networks, subvolumes, allowed_mounts, crash_at };
        LinuxBackend::open(options, Box::new(Self))
    }

    /// Checks the machine for each feature the backend needs. The data directory need not exist.
    pub fn examine(data_dir: &Path) -> Vec<Check> {
        linux::examine(data_dir)
    }
}

impl Starter for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn place(&self) -> Place {
        Self::PLACE
    }

    fn capabilities(&self, disk_quota: DiskQuota) -> Capabilities {
        Capabilities {
            snapshots: SnapshotSupport::Sealed,
            memory_snapshots: false,
            roots: vec![RootKind::Layers],
            network: NetworkSupport::Namespace,
            host_mounts: true,
            disk_quota,
            freeze: true,
            socket: true,
            outlives_server: true,
            isolation: IsolationKind::Namespaces,
        }
    }

    fn examine(&self, data_dir: &Path) -> Vec<Check> {
        linux::examine(data_dir)
    }

    fn defers(&self) -> bool {
        true
    }

    fn start(
        &self,
        backend: &Backend,
        request: &CreateRequest,
        parts: Parts,
        hold: &mut Hold,
    ) -> Result<u32, IsolationError> {
        boot::start(backend, request, &parts, hold)
    }
}
