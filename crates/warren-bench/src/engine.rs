use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use warren_core::{
    CreateRequest, Isolation, IsolationErrorKind, OwnerBond, RootTree, SandboxId, SandboxSpec, TemplateName,
};
use warren_isolate::{DataDir, Native, NativeOptions, live_apart};
use warren_store::{SHOWN, TemplateStore, pool};
use warren_wire::guest::{Connection, FrameKind, Reader, Reply, Request, Start, parse_reply};

use crate::rounds::Lap;

/// How long the background may take to remove what was destroyed.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a full queue of an agent's callers is waited for, and how often it is looked at.
const DIAL_PATIENCE: Duration = Duration::from_secs(2);
const DIAL_PAUSE: Duration = Duration::from_millis(2);

/// Makes a data directory ready, as the product does.
pub(crate) fn settle_in(data_dir: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(rustix::process::geteuid().is_root(), "sandboxes of this machine need root's rights");
    DataDir::examine(data_dir, &SHOWN)?;
    if pool::file(data_dir).is_file() {
        pool::mount(data_dir)?;
    }
    DataDir::examine(data_dir, &SHOWN)?.claim()?;
    Ok(live_apart()?)
}

/// Warren's backend in this process, as the server has it: opened once, the template looked up once.
#[derive(Debug)]
pub(crate) struct Engine {
    backend: Native,
    /// The sandbox every case makes, but for the id.
    pattern: CreateRequest,
}

impl Engine {
    /// With so many networks kept ready.
    pub(crate) fn open(data_dir: &Path, prepared_networks: usize) -> anyhow::Result<Self> {
        let data_dir = data_dir.to_owned();
        let template = TemplateStore::open(&data_dir)?.get(&TemplateName::host())?;
        let options = NativeOptions { data_dir, prepared_networks, subvolumes: false, crash_at: None };
        let backend = Native::open(options).context("`warren doctor` checks what sandboxes need")?;
        let spec = SandboxSpec::new(TemplateName::host());
        let pattern = template.request(fresh_id()?, spec, OwnerBond::DiesWithOwner);
        Ok(Self { backend, pattern })
    }

    pub(crate) fn root(&self) -> &[RootTree] {
        &self.pattern.root
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

    pub(crate) fn create_and_run(&self, argv: &[&str]) -> anyhow::Result<()> {
        let id = self.create()?;
        let run = self.exec(&id, argv);
        self.destroy(&id)?;
        run
    }

    pub(crate) fn exec_in(&self, id: &SandboxId, argv: &[&str]) -> anyhow::Result<Lap> {
        let begun = Instant::now();
        self.exec(id, argv)?;
        Ok(Lap { time: begun.elapsed(), settled: None })
    }
}

fn fresh_id() -> anyhow::Result<SandboxId> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    Ok(SandboxId::from_random(bits))
}
