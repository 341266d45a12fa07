//! Sandboxes that an OCI runtime isolates: `crun`, `runc`, or gVisor's `runsc`. Layers, ids,
//! groups, quotas, records and a sandbox's whole life are `linux`'s; only the first process is made
//! by the runtime.
//!
//! ```text
//! <data>/oci/<runtime>/                 sandboxes/, trash/ and gate, as `linux` has them
//! <data>/oci/<runtime>/sandboxes/<id>/  besides: runtime/ with bundle/config.json, state/ (the
//!                                       runtime's own) and pid; agent/ is what runsc's sandbox
//!                                       shares with us
//! ```
//!
//! A start: the agent's binary is cloned as the *stage* into a mount table of its own, mounts the
//! root at the place and becomes the runtime (`warren-guest/src/boot/stage.rs`). So the host's
//! mount table never changes, and a killed process leaves no mount behind. The runtime makes the
//! namespaces, drops rights, loads the seccomp document and executes the agent, which serves on the
//! listener that was passed down and loads the exact filter on top.
//!
//! The runtime is never asked again: freezing, counting, killing and removing go by our own groups,
//! and its state is a directory of the sandbox that goes with it.

mod config;
mod memory;
mod probe;
mod runtime;
mod start;

use std::path::{Path, PathBuf};

use warren_core::{
    Capabilities, Check, CreateRequest, DiskQuota, IsolationError, IsolationKind, NetworkSupport, RootKind,
    SandboxId, SnapshotSupport,
};

pub use self::runtime::{Runtime, RuntimeError};

pub(crate) use self::config::{MASKED, READ_ONLY, kept_capabilities};

use self::runtime::Installed;
use crate::linux::{Backend, CrashPoint, Hold, LinuxBackend, LinuxOptions, OpenError, Parts, Place, Starter};

/// How the backend is set up.
#[derive(Debug, Clone)]
pub struct OciOptions {
    pub runtime: Runtime,
    pub data_dir: PathBuf,
    /// As [`crate::NativeOptions::prepared_networks`].
    pub prepared_networks: usize,
    /// As [`crate::NativeOptions::subvolumes`].
    pub subvolumes: bool,
    /// As [`crate::NativeOptions::allowed_mounts`].
    pub allowed_mounts: Vec<PathBuf>,
    /// Where the process kills itself, in tests of what a crash leaves behind.
    pub crash_at: Option<CrashPoint>,
}

impl OciOptions {
    /// Nothing prepared, and nothing that may be mounted.
    pub fn at(runtime: Runtime, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            runtime,
            data_dir: data_dir.into(),
            prepared_networks: 0,
            subvolumes: false,
            allowed_mounts: Vec::new(),
            crash_at: None,
        }
    }
}

/// The backend could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OciOpenError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// The backend of one runtime, see the module's documentation.
#[derive(Debug)]
pub struct Oci {
    runtime: Runtime,
    installed: Installed,
}

impl Oci {
    /// Finds the runtime and opens a data directory, as [`crate::Native::open`] does.
    pub fn open(options: OciOptions) -> Result<LinuxBackend, OciOpenError> {
        let OciOptions { runtime, data_dir, prepared_networks, subvolumes, allowed_mounts, crash_at } =
            options;
        let installed = runtime.find()?;
        let options = LinuxOptions { data_dir, prepared_networks, subvolumes, allowed_mounts, crash_at };
        Ok(LinuxBackend::open(options, Box::new(Self { runtime, installed }))?)
    }

    /// Checks the machine for each feature the backend needs. The data directory need not exist.
    pub fn examine(runtime: Runtime, data_dir: &Path) -> Vec<Check> {
        probe::examine(runtime, data_dir)
    }
}

impl Runtime {
    pub(crate) fn place(self) -> Place {
        let below: &[&str] = match self {
            Self::Crun => &["oci", "crun"],
            Self::Runc => &["oci", "runc"],
            Self::Runsc => &["oci", "runsc"],
        };
        let shared = (self == Self::Runsc).then_some(start::SHARED);
        // It makes groups in every hierarchy that there is.
        Place { below, shared, elsewhere: self == Self::Runc }
    }
}

impl Starter for Oci {
    fn name(&self) -> &'static str {
        self.runtime.name()
    }

    fn place(&self) -> Place {
        self.runtime.place()
    }

    fn capabilities(&self, disk_quota: DiskQuota) -> Capabilities {
        let shared_kernel = self.runtime != Runtime::Runsc;
        Capabilities {
            snapshots: if shared_kernel { SnapshotSupport::Sealed } else { SnapshotSupport::Copied },
            memory_snapshots: !shared_kernel,
            roots: vec![RootKind::Layers],
            network: NetworkSupport::Namespace,
            host_mounts: true,
            disk_quota,
            freeze: true,
            socket: shared_kernel,
            outlives_server: true,
            isolation: if shared_kernel { IsolationKind::Namespaces } else { IsolationKind::UserKernel },
        }
    }

    fn examine(&self, data_dir: &Path) -> Vec<Check> {
        probe::examine(self.runtime, data_dir)
    }

    fn start(
        &self,
        backend: &Backend,
        request: &CreateRequest,
        parts: Parts,
        hold: &mut Hold,
    ) -> Result<u32, IsolationError> {
        start::start(self, backend, request, parts, hold)
    }

    fn suspend(
        &self,
        backend: &Backend,
        id: &SandboxId,
        process: (u32, u32),
        into: &Path,
    ) -> Result<(), IsolationError> {
        memory::suspend(self, backend, id, process, into)
    }
}
