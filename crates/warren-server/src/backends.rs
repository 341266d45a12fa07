//! Backends by name. A new one is a row of [`BACKENDS`].

use std::error::Error;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::{Check, Isolation};
use warren_isolate::{
    CrashPoint, Docker, DockerOptions, EngineAddress, Lxd, LxdOptions, Native, NativeOptions, Oci,
    OciOptions, Runtime,
};

/// A backend that can be switched on.
pub struct Backend {
    /// Its name in the settings and in the records of its sandboxes.
    pub name: &'static str,
    open: fn(BackendOptions) -> Result<Arc<dyn Isolation>, BackendFailure>,
    examine: fn(&ExaminedMachine<'_>) -> Vec<Check>,
}

/// The daemon of LXD or Incus, and the pool in it. What is absent is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LxdPlace {
    pub socket: Option<PathBuf>,
    pub pool: Option<String>,
}

/// Every backend that this program has.
pub const BACKENDS: &[Backend] = &[
    Backend { name: "native", open: native, examine: |machine| Native::examine(machine.data_dir) },
    Backend {
        name: "crun",
        open: |options| oci(Runtime::Crun, options),
        examine: |machine| Oci::examine(Runtime::Crun, machine.data_dir),
    },
    Backend {
        name: "runc",
        open: |options| oci(Runtime::Runc, options),
        examine: |machine| Oci::examine(Runtime::Runc, machine.data_dir),
    },
    Backend {
        name: "runsc",
        open: |options| oci(Runtime::Runsc, options),
        examine: |machine| Oci::examine(Runtime::Runsc, machine.data_dir),
    },
    Backend {
        name: "lxd",
        open: lxd,
        examine: |machine| Lxd::examine(machine.lxd.socket.as_deref(), machine.lxd.pool.as_deref()),
    },
    Backend { name: "docker", open: docker, examine: |machine| Docker::examine(machine.docker) },
];

/// The places on a machine that backends are examined with.
#[derive(Debug, Clone, Copy)]
pub struct ExaminedMachine<'a> {
    /// It may not exist yet.
    pub data_dir: &'a Path,
    pub docker: &'a EngineAddress,
    pub lxd: &'a LxdPlace,
}

/// Why a backend could not be opened.
pub(crate) type BackendFailure = Box<dyn Error + Send + Sync>;

/// Options for opening a backend. Each takes those that concern it.
#[derive(Debug, Clone)]
pub(crate) struct BackendOptions {
    pub(crate) data_dir: PathBuf,
    /// Network namespaces kept ready.
    pub(crate) prepared_networks: usize,
    /// Each sandbox's directory is a btrfs subvolume.
    pub(crate) subvolumes: bool,
    /// Directories of the machine below which mounts may be.
    pub(crate) allowed_mounts: Vec<PathBuf>,
    pub(crate) lxd: LxdPlace,
    /// The step after which the process kills itself, in tests of crashes.
    pub(crate) crash_at: Option<CrashPoint>,
    pub(crate) docker: EngineAddress,
}

fn native(options: BackendOptions) -> Result<Arc<dyn Isolation>, BackendFailure> {
    let BackendOptions { data_dir, prepared_networks, subvolumes, allowed_mounts, crash_at, .. } = options;
    let options = NativeOptions { data_dir, prepared_networks, subvolumes, allowed_mounts, crash_at };
    Ok(Arc::new(Native::open(options)?))
}

fn oci(runtime: Runtime, options: BackendOptions) -> Result<Arc<dyn Isolation>, BackendFailure> {
    let BackendOptions { data_dir, prepared_networks, subvolumes, allowed_mounts, crash_at, .. } = options;
    let options = OciOptions { runtime, data_dir, prepared_networks, subvolumes, allowed_mounts, crash_at };
    Ok(Arc::new(Oci::open(options)?))
}

fn docker(options: BackendOptions) -> Result<Arc<dyn Isolation>, BackendFailure> {
    let BackendOptions { data_dir, docker: engine, prepared_networks, crash_at, .. } = options;
    Ok(Arc::new(Docker::open(DockerOptions { data_dir, engine, fill, prepared_networks, crash_at })?))
}

/// Copies layers into a directory, for a backend that cannot mount them.
fn fill(layers: &[PathBuf], into: BorrowedFd<'_>) -> std::io::Result<()> {
    warren_store::fill(layers, into).map_err(std::io::Error::other)
}

fn lxd(options: BackendOptions) -> Result<Arc<dyn Isolation>, BackendFailure> {
    let BackendOptions { data_dir, prepared_networks, crash_at, lxd, .. } = options;
    let LxdPlace { socket, pool } = lxd;
    Ok(Arc::new(Lxd::open(LxdOptions { data_dir, socket, pool, prepared_networks, crash_at })?))
}

impl Backend {
    /// The backend of a name.
    pub(crate) fn named(name: &str) -> Result<&'static Self, UnknownBackend> {
        BACKENDS
            .iter()
            .find(|backend| backend.name == name)
            .ok_or_else(|| UnknownBackend { name: name.to_owned() })
    }

    pub(crate) fn open(&self, options: BackendOptions) -> Result<Arc<dyn Isolation>, BackendFailure> {
        (self.open)(options)
    }

    /// Says what the backend needs of the machine, each with what was found.
    pub fn examine(&self, machine: &ExaminedMachine<'_>) -> Vec<Check> {
        (self.examine)(machine)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Backend").field(&self.name).finish()
    }
}

impl PartialEq for Backend {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// No backend has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no backend `{name}`: this program has {}", known())]
pub struct UnknownBackend {
    name: String,
}

fn known() -> String {
    BACKENDS.iter().map(|backend| format!("`{}`", backend.name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_backend_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
        assert_eq!(names.len(), BACKENDS.len());
    }

    #[test]
    fn a_backend_that_does_not_exist_is_refused_with_those_that_do() {
        let error = Backend::named("nativ").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no backend `nativ`: this program has `native`, `crun`, `runc`, `runsc`, `lxd`, `docker`"
        );
    }
}
