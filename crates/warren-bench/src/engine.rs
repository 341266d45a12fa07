use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use warren_core::{
    CreateRequest, Isolation, IsolationErrorKind, OwnerBond, RootImageName, RootTree, SandboxId, SandboxSpec,
    TemplateName,
};
use warren_server::BACKENDS;
use warren_server::assembly::{Assembly, AssemblyError, Purpose};
use warren_server::config::Config;
use warren_wire::guest::{Connection, FrameKind, Reader, Reply, Request, Start, parse_reply};

use crate::statistics::Lap;

/// The time that the background may take to remove what was destroyed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The wait for an agent whose queue of callers is full, and the pause between two tries.
const DIAL_PATIENCE: Duration = Duration::from_secs(2);
const DIAL_PAUSE: Duration = Duration::from_millis(2);

/// Warren's backend in this process, as the server has it: opened once, the template looked up
/// once.
pub(crate) struct Engine {
    backend: Arc<dyn Isolation>,
    /// The sandbox every case makes, but for the id.
    pattern: CreateRequest,
}

impl Engine {
    /// Opens the first backend that is on, for a server that keeps so many networks ready.
    pub(crate) fn open(data_dir: &Path, prepared_networks: u32) -> anyhow::Result<Self> {
        let assembly = assembly(data_dir, prepared_networks)?;
        let backend = assembly.backends().map_err(explain)?.into_iter().next().context("no backend is on")?;
        Self::with(&assembly, backend)
    }

    fn with(assembly: &Assembly, backend: Arc<dyn Isolation>) -> anyhow::Result<Self> {
        let template = assembly.templates()?.get(&TemplateName::host())?;
        let spec = SandboxSpec::new(TemplateName::host());
        let pattern = template.request(fresh_id()?, spec, OwnerBond::DiesWithOwner);
        Ok(Self { backend, pattern })
    }

    /// Opens the backend of this name, with nothing made ahead of time.
    pub(crate) fn behind(wall: &str, data_dir: &Path) -> anyhow::Result<Self> {
        let assembly = assembly(data_dir, 0)?;
        let found = BACKENDS.iter().find(|backend| backend.name == wall);
        let backend = assembly.open_backend(found.context("there is no such backend")?).map_err(explain)?;
        Self::with(&assembly, backend)
    }

    /// Opens the backend `docker`, for sandboxes on an image of its engine.
    pub(crate) fn on_image(image: &str, data_dir: &Path) -> anyhow::Result<Self> {
        let assembly = assembly(data_dir, 0)?;
        let found = BACKENDS.iter().find(|backend| backend.name == "docker");
        let backend = assembly.open_backend(found.context("there is no such backend")?).map_err(explain)?;
        let image = backend.image(&image.parse::<RootImageName>()?.into())?;
        let spec = SandboxSpec::new(TemplateName::host());
        let pattern = CreateRequest::on_image(fresh_id()?, &spec, OwnerBond::DiesWithOwner, image);
        Ok(Self { backend, pattern })
    }

    /// A socket in the network of a sandbox that a server on this data directory has.
    pub(crate) fn socket_of(data_dir: &Path, id: &SandboxId) -> anyhow::Result<OwnedFd> {
        let backends = assembly(data_dir, 0)?.backends()?;
        let backend = backends.first().context("no backend is on")?;
        backend.socket(id, false)?.context("the backend makes no sockets")
    }

    pub(crate) fn root(&self) -> &[RootTree] {
        self.pattern.root.trees()
    }

    pub(crate) fn create(&self) -> anyhow::Result<SandboxId> {
        let request = CreateRequest { id: fresh_id()?, ..self.pattern.clone() };
        Ok(self.backend.create(request)?.id)
    }

    pub(crate) fn destroy(&self, id: &SandboxId) -> anyhow::Result<()> {
        Ok(self.backend.destroy(id)?)
    }

    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        if self.backend.settle(PATIENCE) {
            return Ok(());
        }
        Err(anyhow::anyhow!("what was destroyed is not gone after a minute"))
    }

    /// Waits a little for an agent whose queue of callers is full.
    fn dial(&self, id: &SandboxId) -> anyhow::Result<UnixStream> {
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

    /// Runs a command in a sandbox and waits for its end.
    pub(crate) fn exec(&self, id: &SandboxId, argv: &[&str]) -> anyhow::Result<()> {
        let stream = self.dial(id)?;
        let start = Start {
            argv: argv.iter().map(|word| (*word).into()).collect(),
            follow: Some(Reader::Holds),
            ..Start::default()
        };
        let mut call = Connection::open(stream, &Request::Start(start))?;
        while let Some(frame) = call.next_frame()? {
            if frame.kind != FrameKind::Message {
                continue;
            }
            match parse_reply(&frame.payload)? {
                Reply::Exited(exit) if exit.code == 0 => return Ok(()),
                Reply::Exited(exit) => {
                    anyhow::bail!("{} ended with {}", argv.join(" "), exit.code);
                }
                _ => {}
            }
        }
        Err(anyhow::anyhow!("the sandbox ended before its command"))
    }

    /// Create, run, destroy; then wait for the background as well.
    pub(crate) fn cold_run(&self, argv: &[&str]) -> anyhow::Result<Lap> {
        let begun = Instant::now();
        self.create_and_run(argv)?;
        let time = begun.elapsed();
        self.settle()?;
        Ok(Lap { time, settled: Some(begun.elapsed()) })
    }

    /// The time until a new sandbox's agent has answered; its removal is not counted.
    pub(crate) fn answer(&self) -> anyhow::Result<Lap> {
        let begun = Instant::now();
        let id = self.create()?;
        let time = begun.elapsed();
        self.destroy(&id)?;
        self.settle()?;
        Ok(Lap::of(time))
    }

    pub(crate) fn create_and_run(&self, argv: &[&str]) -> anyhow::Result<()> {
        let id = self.create()?;
        let run = self.exec(&id, argv);
        self.destroy(&id)?;
        run
    }

    pub(crate) fn exec_in(&self, id: &SandboxId, argv: &[&str]) -> anyhow::Result<Lap> {
        let begun = Instant::now();
        self.exec(id, argv)?;
        Ok(Lap::of(begun.elapsed()))
    }
}

fn fresh_id() -> anyhow::Result<SandboxId> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    Ok(SandboxId::from_random(bits))
}

fn assembly(data_dir: &Path, prepared_networks: u32) -> anyhow::Result<Assembly> {
    anyhow::ensure!(rustix::process::geteuid().is_root(), "sandboxes of this machine need root's rights");
    let mut config = Config::default();
    config.server.data_dir = data_dir.to_owned();
    config.server.prepared_networks = prepared_networks;
    Assembly::new(config, Purpose::Server).map_err(explain)
}

fn explain(error: AssemblyError) -> anyhow::Error {
    let advice = error.advice();
    let error = anyhow::Error::new(error);
    if let Some(advice) = advice { error.context(advice) } else { error }
}
