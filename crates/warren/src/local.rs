//! This machine's sandboxes, without a server: the template store and the native backend over one data directory.

mod outlet;
pub(crate) mod sudo;

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warren_core::{Created, Isolation, IsolationErrorKind, OwnerBond, SandboxId, SandboxSpec};
use warren_isolate::{DataDir, Native, NativeOptions, live_apart};
use warren_store::{SHOWN, TemplateStore, pool};

pub(crate) use self::outlet::{Aloud, Outlet};
use crate::cli::Global;
use crate::error::CliError;

/// How long a full queue of an agent's callers is waited for, and how often it is looked at.
const DIAL_PATIENCE: Duration = Duration::from_secs(2);
const DIAL_PAUSE: Duration = Duration::from_millis(2);

/// What whoever is not root can do without them.
pub(crate) const NAME_A_SERVER: &str =
    "or name a server that runs: --url and --key, or WARREN_URL and WARREN_API_KEY";

/// Both halves, opened.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) templates: TemplateStore,
    pub(crate) backend: Native,
}

/// How a sandbox is made, beyond its spec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Creation {
    pub(crate) owner: OwnerBond,
    pub(crate) disk_limit_required: bool,
}

impl Local {
    pub(crate) fn open(global: &Global) -> Result<Self, CliError> {
        let data_dir = data_dir(global)?;
        require_root()?;
        settle(&data_dir)?;
        live_apart().map_err(CliError::new)?;
        let doctor = "`warren doctor` checks what sandboxes need";
        let crash_at = global.crash_at.as_deref().map(str::parse).transpose().map_err(CliError::new)?;
        let options = NativeOptions { crash_at, ..NativeOptions::at(&data_dir) };
        let backend = Native::open(options).map_err(|error| CliError::new(error).hint(doctor))?;
        let templates = TemplateStore::open(&data_dir).map_err(CliError::new)?;
        Ok(Self { templates, backend })
    }

    /// For what a server could do as well, if one were named.
    pub(crate) fn instead_of_server(global: &Global) -> Result<Self, CliError> {
        require_root().map_err(|error| error.hint(NAME_A_SERVER))?;
        Self::open(global)
    }

    /// This machine's own, if it has the sandbox and this user may use it.
    pub(crate) fn holding(global: &Global, id: &SandboxId) -> Result<Option<Self>, CliError> {
        let here = global.url.is_none() && data_dir(global)?.join("sandboxes").join(id.as_str()).is_dir();
        if here { Self::open(global).map(Some) } else { Ok(None) }
    }

    /// Makes a sandbox from a spec, with this way out.
    pub(crate) fn create(
        &self,
        spec: SandboxSpec,
        creation: Creation,
        outlet: &Outlet,
    ) -> Result<Created, CliError> {
        spec.validate().map_err(CliError::new)?;
        let template = self.templates.get(&spec.template).map_err(|error| {
            CliError::new(error)
                .hint("`warren template ls` lists templates, `warren template import` makes them")
        })?;
        let spec = SandboxSpec { network: outlet.policy().clone(), ..spec };
        let mut request = template.request(fresh_id()?, spec, creation.owner);
        request.disk_limit_required = creation.disk_limit_required;
        outlet.attach(&mut request)?;
        let id = request.id.clone();
        self.backend.create(request).map_err(|error| {
            outlet.detach(&id);
            error.into()
        })
    }

    /// Ends a sandbox that [`Local::create`] made, and its way out.
    pub(crate) fn destroy(&self, id: &SandboxId, outlet: &Outlet) -> Result<(), CliError> {
        let destroyed = self.backend.destroy(id);
        outlet.detach(id);
        Ok(destroyed?)
    }

    /// Waits a little for an agent whose queue of callers is full: here is a thread that serves nobody else.
    pub(crate) fn dial(&self, id: &SandboxId) -> Result<UnixStream, CliError> {
        let deadline = Instant::now() + DIAL_PATIENCE;
        loop {
            match self.backend.dial(id) {
                Err(error) if error.kind == IsolationErrorKind::Busy && Instant::now() < deadline => {
                    std::thread::sleep(DIAL_PAUSE);
                }
                answer => return Ok(UnixStream::from(answer?)),
            }
        }
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// For what is done on this machine, whether or not a server runs.
pub(crate) fn require_root() -> Result<(), CliError> {
    if is_root() {
        return Ok(());
    }
    let refused =
        CliError::new("sandboxes of this machine need root's rights, which this user does not have");
    Err(refused.hint(format!("as root: {}", sudo::this_command())))
}

/// Whether this may be a data directory. Changes nothing.
pub(crate) fn look_at(data_dir: &Path) -> Result<DataDir, CliError> {
    Ok(DataDir::examine(data_dir, &SHOWN)?)
}

/// Looks at a data directory before anything is written to it, mounts its pool if it has one, and makes it Warren's.
pub(crate) fn settle(data_dir: &Path) -> Result<(), CliError> {
    mount_pool(data_dir)?;
    look_at(data_dir)?.claim()?;
    Ok(())
}

/// Mounts the pool of a data directory that may be one, if it has a pool. Says whether it was not mounted yet.
pub(crate) fn mount_pool(data_dir: &Path) -> Result<bool, CliError> {
    look_at(data_dir)?;
    let file = pool::file(data_dir);
    let Ok(found) = file.symlink_metadata() else { return Ok(false) };
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        let text = format!("`{}` is not a pool of this user's alone", file.display());
        return Err(CliError::new(text).hint("it would be mounted with root's rights: take it away first"));
    }
    pool::mount(data_dir).map_err(CliError::new)
}

/// An id that nobody can guess.
pub(crate) fn fresh_id() -> Result<SandboxId, CliError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(CliError::new)?;
    Ok(SandboxId::from_random(bits))
}

/// Where this machine's sandboxes are kept.
pub(crate) fn data_dir(global: &Global) -> Result<PathBuf, CliError> {
    if let Some(path) = &global.data_dir {
        // What is kept there is named by its whole path, in mounts for instance.
        return std::path::absolute(path).map_err(CliError::new);
    }
    Ok(PathBuf::from("/var/lib/warren"))
}
