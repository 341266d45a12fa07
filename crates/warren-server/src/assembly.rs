//! Assembly: makes backends, catalog, templates, layers and network from the settings, on a data
//! directory. The server, commands that need none, the benchmark and the example get them from here
//! and from nowhere else.

mod error;
mod network;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use warren_core::catalog::{Catalog, SecretCatalog};
use warren_core::{BuildFiles, Clock, Isolation, LayerDriver, LayerStore, Networks, Random, error_chain};
use warren_engine::{AbsentBackend, EngineStep, Parts};
use warren_isolate::{CrashPoint, DataDir, live_apart};
use warren_store::{BuildFileStore, LayerDirectory, SHOWN, SqliteCatalog, TemplateStore, pool};

pub use error::AssemblyError;
pub use network::examine as examine_network;
pub use warren_isolate::sandbox_directories;

use crate::backends::{Backend, BackendOptions, LxdPlace};
use crate::config::Config;
use crate::world::{MachineClock, MachineRandom};

/// The program that uses the assembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A server: what takes time is kept ready, and the next server takes over links and sandboxes.
    Server,
    /// One command: nothing is made ahead of time, and links end with it.
    Command,
}

/// The data directory of some settings, ready for what they ask for.
#[derive(Debug)]
pub struct Assembly {
    config: Config,
    purpose: Purpose,
    crash_at: Option<CrashPoint>,
}

/// All that an engine needs of the machine.
pub struct Machine {
    pub catalog: Arc<SqliteCatalog>,
    pub templates: TemplateStore,
    pub layers: Arc<LayerDirectory>,
    pub build_files: Arc<BuildFileStore>,
    /// In the order in which they are tried. Never empty.
    pub backends: Vec<Arc<dyn Isolation>>,
    /// Backends that are on and could not be opened.
    pub absent: Vec<AbsentBackend>,
    pub networks: Arc<dyn Networks>,
    pub clock: Arc<MachineClock>,
}

/// Backends that are open, and those that could not be opened.
type OpenBackends = (Vec<Arc<dyn Isolation>>, Vec<AbsentBackend>);

/// Says whether this may be a data directory. Changes nothing.
pub fn examine_data_dir(data_dir: &Path) -> Result<DataDir, AssemblyError> {
    Ok(DataDir::examine(data_dir, &SHOWN)?)
}

/// LXD, as the settings name it.
pub fn lxd_place(config: &Config) -> LxdPlace {
    let pool = Some(config.lxd.pool.clone()).filter(|pool| !pool.is_empty());
    LxdPlace { socket: config.lxd.socket.0.clone(), pool }
}

/// Mounts the pool of a data directory, if it has one. Says whether it was not mounted yet.
pub fn mount_pool(data_dir: &Path) -> Result<bool, AssemblyError> {
    examine_data_dir(data_dir)?;
    mount_pool_of(data_dir)
}

/// As [`mount_pool`], of a directory that was looked at.
fn mount_pool_of(data_dir: &Path) -> Result<bool, AssemblyError> {
    let file = pool::file(data_dir);
    let Ok(found) = file.symlink_metadata() else { return Ok(false) };
    // It is mounted with root's rights.
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(AssemblyError::ForeignPool { path: file });
    }
    Ok(pool::mount(data_dir)?)
}

/// Mounts the pool of a data directory, if it has one, and makes the directory Warren's.
pub fn claim_data_dir(data_dir: &Path) -> Result<(), AssemblyError> {
    let found = examine_data_dir(data_dir)?;
    // What is mounted on it is another directory.
    let found = if mount_pool_of(data_dir)? { examine_data_dir(data_dir)? } else { found };
    found.claim()?;
    Ok(())
}

impl Assembly {
    /// Makes the data directory ready, and gives this process, which has one thread yet, a mount
    /// table of its own.
    pub fn new(config: Config, purpose: Purpose) -> Result<Self, AssemblyError> {
        claim_data_dir(&config.server.data_dir)?;
        live_apart()?;
        Ok(Self { config, purpose, crash_at: None })
    }

    /// Has backends kill the process after this step.
    pub fn crash_at(self, crash_at: Option<CrashPoint>) -> Self {
        Self { crash_at, ..self }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens every backend that is on, in the order in which they are tried. Those that cannot be
    /// opened are left out; it is an error if none can.
    pub fn backends(&self) -> Result<Vec<Arc<dyn Isolation>>, AssemblyError> {
        self.open_backends().map(|(open, _)| open)
    }

    /// As [`Assembly::backends`], with those that are left out.
    fn open_backends(&self) -> Result<OpenBackends, AssemblyError> {
        let (mut open, mut absent, mut first) = (Vec::new(), Vec::new(), None);
        for backend in self.config.backends.enabled.iter() {
            match self.open_backend(backend) {
                Ok(backend) => open.push(backend),
                Err(error) => {
                    let why = format!("{}: `warren doctor` says what to do", error_chain(&error));
                    absent.push(AbsentBackend { name: backend.name.to_owned(), why });
                    first = first.or(Some(error));
                }
            }
        }
        match first {
            Some(error) if open.is_empty() => Err(error),
            _ => Ok((open, absent)),
        }
    }

    /// Opens a backend, whether it is on or not.
    pub fn open_backend(&self, backend: &Backend) -> Result<Arc<dyn Isolation>, AssemblyError> {
        let config = &self.config;
        let (prepared, driver) = match self.purpose {
            Purpose::Server => (config.server.prepared_networks, config.snapshots.driver),
            // Commands take no snapshots.
            Purpose::Command => (0, LayerDriver::Overlay),
        };
        let options = BackendOptions {
            data_dir: config.server.data_dir.clone(),
            prepared_networks: usize::try_from(prepared).unwrap_or(0),
            subvolumes: driver == LayerDriver::Btrfs,
            allowed_mounts: config.mounts.allow.clone(),
            lxd: lxd_place(config),
            crash_at: self.crash_at,
            docker: config.backends.docker(),
        };
        backend.open(options).map_err(|source| AssemblyError::Backend { name: backend.name, source })
    }

    pub fn templates(&self) -> Result<TemplateStore, AssemblyError> {
        TemplateStore::open(&self.config.server.data_dir).map_err(AssemblyError::Templates)
    }

    /// Opens the links of a command's sandboxes to the world.
    pub fn networks(&self) -> Arc<dyn Networks> {
        network::open(&self.config, self.purpose, None)
    }

    /// Opens everything.
    pub fn machine(&self) -> Result<Machine, AssemblyError> {
        let data_dir = &self.config.server.data_dir;
        // The catalog first: it refuses a second server on the directory.
        let catalog = Arc::new(SqliteCatalog::open(data_dir).map_err(AssemblyError::Catalog)?);
        let registries = self.config.images.registries().map_err(AssemblyError::Registries)?;
        let templates = self.templates()?.looking_in_background().with_registries(Arc::new(registries));
        let driver = self.config.snapshots.driver;
        let layers = LayerDirectory::with_driver(data_dir, templates.clone(), driver);
        let secrets = Arc::clone(&catalog) as Arc<dyn SecretCatalog>;
        let (backends, absent) = self.open_backends()?;
        for AbsentBackend { name, why } in &absent {
            tracing::error!(backend = name, why, "a backend cannot be opened: its sandboxes are kept");
        }
        Ok(Machine {
            layers: Arc::new(layers.map_err(AssemblyError::Layers)?),
            build_files: Arc::new(BuildFileStore::open(data_dir)),
            backends,
            absent,
            networks: network::open(&self.config, self.purpose, Some(secrets)),
            clock: Arc::new(MachineClock::new().map_err(AssemblyError::Clock)?),
            catalog,
            templates,
        })
    }
}

impl Machine {
    /// The same for an engine, which calls `passed` after each step of a change that has several.
    pub fn parts(&self, passed: Arc<dyn Fn(EngineStep) + Send + Sync>) -> Parts {
        Parts {
            backends: self.backends.clone(),
            absent: self.absent.clone(),
            catalog: Arc::clone(&self.catalog) as Arc<dyn Catalog>,
            templates: Arc::new(self.templates.clone()),
            layers: Arc::clone(&self.layers) as Arc<dyn LayerStore>,
            build_files: Arc::clone(&self.build_files) as Arc<dyn BuildFiles>,
            networks: Arc::clone(&self.networks),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            random: Arc::new(MachineRandom) as Arc<dyn Random>,
            passed,
        }
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let backends: Vec<&str> = self.backends.iter().map(|backend| backend.name()).collect();
        f.debug_struct("Machine").field("backends", &backends).finish_non_exhaustive()
    }
}
