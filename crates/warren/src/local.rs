//! This machine's sandboxes, without a server: templates and backends over one data directory.

mod outlet;
pub(crate) mod sudo;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::{
    Created, Found, Isolation, IsolationError, IsolationErrorKind, OwnerBond, SandboxId, SandboxSpec, Usage,
};
use warren_server::assembly::{Assembly, Purpose};
use warren_server::config::Config;
use warren_store::TemplateStore;

pub(crate) use self::outlet::{Aloud, Outlet};
use crate::cli::Global;
use crate::commands::serve::SettingFlags;
use crate::error::CliError;

/// How long a full queue of an agent's callers is waited for, and how often it is looked at.
const DIAL_PATIENCE: Duration = Duration::from_secs(2);
const DIAL_PAUSE: Duration = Duration::from_millis(2);

/// What whoever is not root can do without them.
pub(crate) const NAME_A_SERVER: &str =
    "or name a server that runs: --url and --key, or WARREN_URL and WARREN_API_KEY";

/// What of the machine a command uses.
pub(crate) struct Local {
    assembly: Assembly,
    pub(crate) templates: TemplateStore,
    /// In the order in which they are tried.
    backends: Vec<Arc<dyn Isolation>>,
}

/// How a sandbox is made, beyond its spec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Creation {
    pub(crate) owner: OwnerBond,
    pub(crate) disk_limit_required: bool,
}

impl Local {
    pub(crate) fn open(global: &Global) -> Result<Self, CliError> {
        require_root()?;
        Self::with(global, SettingFlags::default().load(global)?.config)
    }

    /// As these settings say, but in the data directory of the command line.
    pub(crate) fn with(global: &Global, mut config: Config) -> Result<Self, CliError> {
        config.server.data_dir = data_dir(global)?;
        let crash_at = global.crash_at.as_deref().map(str::parse).transpose().map_err(CliError::new)?;
        let assembly = Assembly::new(config, Purpose::Command)?.crash_at(crash_at);
        Ok(Self { backends: assembly.backends()?, templates: assembly.templates()?, assembly })
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

    /// Makes a sandbox from a spec, with this way out, by the first backend that can.
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
        let made = self.first(|backend| backend.create(request.clone()), IsolationErrorKind::Unsupported);
        made.map_err(|error| {
            outlet.detach(&id);
            error.into()
        })
    }

    /// Ends a sandbox that [`Local::create`] made, and its way out.
    pub(crate) fn end(&self, id: &SandboxId, outlet: &Outlet) -> Result<(), CliError> {
        let destroyed = self.destroy(id);
        outlet.detach(id);
        destroyed
    }

    pub(crate) fn destroy(&self, id: &SandboxId) -> Result<(), CliError> {
        Ok(self.of(|backend| backend.destroy(id))?)
    }

    pub(crate) fn halt(&self, id: &SandboxId) -> Result<(), CliError> {
        Ok(self.of(|backend| backend.halt(id))?)
    }

    pub(crate) fn usage(&self, id: &SandboxId) -> Usage {
        self.of(|backend| backend.usage(id)).unwrap_or_default()
    }

    /// All sandboxes of all backends.
    pub(crate) fn list(&self) -> Result<Vec<Found>, CliError> {
        let mut found = Vec::new();
        for backend in &self.backends {
            found.extend(backend.list()?);
        }
        Ok(found)
    }

    /// Waits a little until nothing is left of what was destroyed.
    pub(crate) fn settle(&self, patience: Duration) {
        for backend in &self.backends {
            backend.settle(patience);
        }
    }

    /// Waits a little for an agent whose queue of callers is full: here is a thread that serves
    /// nobody else.
    pub(crate) fn dial(&self, id: &SandboxId) -> Result<UnixStream, CliError> {
        let deadline = Instant::now() + DIAL_PATIENCE;
        loop {
            match self.of(|backend| backend.dial(id)) {
                Err(error) if error.kind == IsolationErrorKind::Busy && Instant::now() < deadline => {
                    std::thread::sleep(DIAL_PAUSE);
                }
                answer => return Ok(UnixStream::from(answer?)),
            }
        }
    }

    /// Asks the backend that has the sandbox.
    fn of<T>(&self, ask: impl Fn(&dyn Isolation) -> Result<T, IsolationError>) -> Result<T, IsolationError> {
        self.first(ask, IsolationErrorKind::NotFound)
    }

    /// Asks one backend after the other, as long as they answer with this kind of error.
    fn first<T>(
        &self,
        ask: impl Fn(&dyn Isolation) -> Result<T, IsolationError>,
        next: IsolationErrorKind,
    ) -> Result<T, IsolationError> {
        let mut answer = Err(IsolationError::new(next, "no backend is on"));
        for backend in &self.backends {
            answer = ask(&**backend);
            if !answer.as_ref().is_err_and(|error| error.kind == next) {
                break;
            }
        }
        answer
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
