//! This machine's sandboxes, without a server: templates and backends over one data directory.

mod network;
pub(crate) mod sudo;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::{
    CreateRequest, Created, Found, Isolation, IsolationError, IsolationErrorKind, IsolationKind, Need,
    OwnerBond, SandboxId, SandboxSpec, TemplateName, Usage, error_chain,
};
use warren_registry::Registries;
use warren_server::assembly::{Assembly, Purpose, sandbox_directories};
use warren_server::config::Config;
use warren_server::{BACKENDS, Backend};
use warren_store::TemplateStore;

pub(crate) use self::network::{LocalNetwork, Verbosity};
use crate::error::CliError;
use crate::global::Global;
use crate::settings::SettingFlags;

/// The wait for an agent whose queue of callers is full, and the pause between two tries.
const DIAL_PATIENCE: Duration = Duration::from_secs(2);
const DIAL_PAUSE: Duration = Duration::from_millis(2);

/// The hint for users without root's rights.
pub(crate) const NAME_A_SERVER: &str =
    "or name a server that runs: --url and --key, WARREN_URL and WARREN_API_KEY, or `warren context add`";

/// The backends and templates of this machine.
pub(crate) struct Local {
    assembly: Assembly,
    pub(crate) templates: TemplateStore,
    /// In the order of the settings.
    backends: Vec<Arc<dyn Isolation>>,
}

/// Choices for a new sandbox that its spec does not hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Creation {
    pub(crate) owner: OwnerBond,
    pub(crate) disk_limit_required: bool,
}

/// The wall of a new sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wall<'a> {
    pub(crate) backend: Option<&'a str>,
    pub(crate) tier: Option<IsolationKind>,
    pub(crate) template: &'a TemplateName,
    /// It stays when the command ends, so only a backend that is on can serve: no command would
    /// find it behind another.
    pub(crate) stays: bool,
}

impl Local {
    pub(crate) fn open(global: &Global) -> Result<Self, CliError> {
        require_root()?;
        Self::with(global, SettingFlags::default().load(global)?.config)
    }

    /// Opens the command line's data directory with these settings.
    pub(crate) fn with(global: &Global, mut config: Config) -> Result<Self, CliError> {
        config.server.data_dir = global.data_dir()?;
        let crash_at = global.crash_at.as_deref().map(str::parse).transpose().map_err(CliError::new)?;
        let assembly = Assembly::new(config, Purpose::Command)?.crash_at(crash_at);
        Ok(Self { backends: assembly.backends()?, templates: assembly.templates()?, assembly })
    }

    /// The registries of images, as the settings reach them.
    pub(crate) fn registries(&self) -> Result<Registries, CliError> {
        let images = &self.assembly.config().images;
        images
            .registries()
            .map_err(|error| CliError::new(format!("read the file of `images.extra_ca`: {error}")))
    }

    /// As [`Local::open`], behind the wall that was asked for, or else the one that the settings
    /// ask for. Without any of them every backend that is on may serve.
    pub(crate) fn behind(global: &Global, mut wall: Wall<'_>) -> Result<Self, CliError> {
        require_root()?;
        let mut config = SettingFlags::default().load(global)?.config;
        config.server.data_dir = global.data_dir()?;
        let crash_at = global.crash_at.as_deref().map(str::parse).transpose().map_err(CliError::new)?;
        let assembly = Assembly::new(config, Purpose::Command)?.crash_at(crash_at);
        let policy = &assembly.config().policy;
        let asked = wall.backend.is_some() || wall.tier.is_some();
        if !asked {
            wall.tier = policy.template_tiers.get(wall.template).copied();
        }
        let least = policy.least_tier();
        let backends = if !asked && wall.tier.is_none() && least.is_none() {
            assembly.backends()?
        } else {
            choose(&assembly, &wall, asked, least)?
        };
        Ok(Self { backends, templates: assembly.templates()?, assembly })
    }

    /// As [`Local::open`], for work that a server could do as well.
    pub(crate) fn instead_of_server(global: &Global) -> Result<Self, CliError> {
        require_root().map_err(|error| error.hint(NAME_A_SERVER))?;
        Self::open(global)
    }

    /// Opens this machine's data directory if it holds the sandbox.
    pub(crate) fn holding(global: &Global, id: &SandboxId) -> Result<Option<Self>, CliError> {
        let data_dir = global.data_dir()?;
        let here = global.named()?.is_none()
            && sandbox_directories(&data_dir).any(|path| path.join(id.as_str()).is_dir());
        if here { Self::open(global).map(Some) } else { Ok(None) }
    }

    pub(crate) fn data_dir(&self) -> &Path {
        &self.assembly.config().server.data_dir
    }

    /// Makes a sandbox with this network, by the first backend that can.
    pub(crate) fn create(
        &self,
        spec: SandboxSpec,
        creation: Creation,
        network: &LocalNetwork,
    ) -> Result<Created, CliError> {
        spec.validate().map_err(CliError::new)?;
        let spec = SandboxSpec { network: network.policy().clone(), ..spec };
        let mut request = self.request(spec, creation.owner)?;
        request.disk_limit_required = creation.disk_limit_required;
        network.attach(&mut request)?;
        let id = request.id.clone();
        let made = self.first(|backend| backend.create(request.clone()), IsolationErrorKind::Unsupported);
        made.map_err(|error| {
            network.detach(&id);
            error.into()
        })
    }

    /// The request for a sandbox of the spec's template, or of the image that a backend has.
    fn request(&self, spec: SandboxSpec, owner: OwnerBond) -> Result<CreateRequest, CliError> {
        let id = fresh_id()?;
        let Some(image) = &spec.image else {
            let template = self.templates.get(&spec.template).map_err(|error| {
                CliError::new(error)
                    .hint("`warren template ls` lists templates; `warren template pull`, `import` and `build` make them")
            })?;
            return Ok(template.request(id, spec, owner));
        };
        let found = self.first(|backend| backend.image(image), IsolationErrorKind::Unsupported)?;
        Ok(CreateRequest::on_image(id, &spec, owner, found))
    }

    /// Ends a sandbox that [`Local::create`] made, and its network.
    pub(crate) fn end(&self, id: &SandboxId, network: &LocalNetwork) -> Result<(), CliError> {
        let destroyed = self.destroy(id);
        network.detach(id);
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
        Ok(self.by_backend()?.into_iter().map(|(_, found)| found).collect())
    }

    /// All sandboxes, each with the name of its backend.
    pub(crate) fn by_backend(&self) -> Result<Vec<(&'static str, Found)>, CliError> {
        let mut all = Vec::new();
        for backend in &self.backends {
            all.extend(backend.list()?.into_iter().map(|found| (backend.name(), found)));
        }
        Ok(all)
    }

    /// Waits until the backends have removed all that was destroyed, for this long at most.
    pub(crate) fn settle(&self, patience: Duration) {
        for backend in &self.backends {
            backend.settle(patience);
        }
    }

    /// Connects to a sandbox's agent, and waits a little if its queue of callers is full.
    pub(crate) fn dial(&self, id: &SandboxId) -> Result<UnixStream, CliError> {
        let deadline = Instant::now() + DIAL_PATIENCE;
        loop {
            match self.of(|backend| {
                backend.adopt(id);
                backend.dial(id)
            }) {
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

    /// Asks one backend after the other while they answer with this kind of error.
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

pub(crate) fn require_root() -> Result<(), CliError> {
    if is_root() {
        return Ok(());
    }
    let refused =
        CliError::new("sandboxes of this machine need root's rights, which this user does not have");
    Err(refused.hint(format!("as root: {}", sudo::this_command())))
}

/// The backends that can serve, in the order of the settings. If none can that is on, the first
/// that is off, where somebody `asked` for its wall and nothing stays behind it. The error says of
/// each why not.
fn choose(
    assembly: &Assembly,
    wall: &Wall<'_>,
    asked: bool,
    least: Option<IsolationKind>,
) -> Result<Vec<Arc<dyn Isolation>>, CliError> {
    let is_on = |backend: &Backend| assembly.config().backends.enabled.iter().any(|on| on == backend);
    let on: Vec<&Backend> = assembly.config().backends.enabled.iter().collect();
    let off = BACKENDS.iter().filter(|backend| !is_on(backend));
    let needs: Vec<Need> = wall.tier.map(Need::Tier).into_iter().chain(least.map(Need::AtLeast)).collect();
    let (mut fit, mut reasons) = (Vec::new(), Vec::new());
    let is_named = |backend: &&Backend| wall.backend.is_none_or(|name| name == backend.name);
    for backend in on.iter().copied().chain(off).filter(is_named) {
        if !is_on(backend) && !fit.is_empty() {
            break;
        }
        if !is_on(backend) && (wall.stays || !asked) {
            let why = if wall.stays { ", and no command finds what stays behind it" } else { "" };
            reasons.push(format!("{} is not in backends.enabled{why}", backend.name));
            continue;
        }
        match assembly.open_backend(backend) {
            Ok(open) => match open.capabilities().refuse(&needs) {
                None => fit.push(open),
                Some(refusal) => reasons.push(format!("{}: {}", backend.name, refusal.why)),
            },
            Err(error) => reasons.push(error_chain(&error)),
        }
    }
    if !fit.is_empty() {
        return Ok(fit);
    }
    Err(nobody(wall, least, reasons))
}

fn nobody(wall: &Wall<'_>, least: Option<IsolationKind>, mut reasons: Vec<String>) -> CliError {
    if reasons.is_empty() {
        let known: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
        reasons.push(format!("this program has {}", known.join(", ")));
    }
    let asked = match (wall.backend, wall.tier, least) {
        (Some(name), ..) => format!("there is no backend `{name}` that can serve this"),
        (None, Some(tier), _) => format!("there is no backend of the tier `{tier}`"),
        (None, None, Some(least)) => {
            format!("there is no backend of the tier `{least}` or a stronger one, by `policy.minimum_tier`")
        }
        (None, None, None) => "there is no backend".to_owned(),
    };
    let error = CliError::new(format!("{asked}: {}", reasons.join("; ")));
    error.hint("`warren doctor` says what each backend needs of this machine")
}

/// An id that nobody can guess.
fn fresh_id() -> Result<SandboxId, CliError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(CliError::new)?;
    Ok(SandboxId::from_random(bits))
}
