use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use warren_core::{CreateRequest, Isolation, OwnerBond, RootTree, SandboxId, SandboxSpec, TemplateName};
use warren_isolate::{Native, NativeOptions};
use warren_store::TemplateStore;
use warren_wire::guest::{Connection, FrameKind, Reader, Reply, Request, Start, parse_reply};

use super::rounds::Lap;
use crate::cli::Global;
use crate::error::CliError;
use crate::local::{Local, data_dir, fresh_id};

/// How long the background may take to remove what was destroyed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Warren's backend in this process, as the server has it: opened once, the template looked up once.
#[derive(Debug)]
pub(super) struct Engine {
    local: Local,
    /// The sandbox every case makes, but for the id.
    pattern: CreateRequest,
}

impl Engine {
    /// With nothing ready beforehand.
    pub(super) fn open(global: &Global) -> Result<Self, CliError> {
        Self::over(Local::open(global)?)
    }

    /// With so many networks kept ready, as a server has it.
    pub(super) fn open_prepared(global: &Global, networks: usize) -> Result<Self, CliError> {
        let data_dir = data_dir(global)?;
        let templates = TemplateStore::open(&data_dir).map_err(CliError::new)?;
        let options = NativeOptions { prepared_networks: networks, ..NativeOptions::at(data_dir) };
        Self::over(Local { templates, backend: Native::open(options).map_err(CliError::new)? })
    }

    fn over(local: Local) -> Result<Self, CliError> {
        let template = local.templates.get(&TemplateName::host()).map_err(CliError::new)?;
        let pattern =
            template.request(fresh_id()?, SandboxSpec::new(TemplateName::host()), OwnerBond::DiesWithOwner);
        Ok(Self { local, pattern })
    }

    pub(super) fn root(&self) -> &[RootTree] {
        &self.pattern.root
    }

    pub(super) fn create(&self) -> Result<SandboxId, CliError> {
        let request = CreateRequest { id: fresh_id()?, ..self.pattern.clone() };
        Ok(self.local.backend.create(request)?.id)
    }

    pub(super) fn destroy(&self, id: &SandboxId) -> Result<(), CliError> {
        Ok(self.local.backend.destroy(id)?)
    }

    pub(super) fn settle(&self) -> Result<(), CliError> {
        if self.local.backend.settle(PATIENCE) {
            return Ok(());
        }
        Err(CliError::new("what was destroyed is not gone after a minute"))
    }

    /// Runs a command in a sandbox and waits for its end.
    pub(super) fn exec(&self, id: &SandboxId, argv: &[&str]) -> Result<(), CliError> {
        let stream: UnixStream = self.local.dial(id)?;
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
                    return Err(CliError::new(format!("{} ended with {}", argv.join(" "), exit.code)));
                }
                _ => {}
            }
        }
        Err(CliError::new("the sandbox ended before its command"))
    }

    /// Create, run, destroy; then wait for the background as well.
    pub(super) fn cold_run(&self, argv: &[&str]) -> Result<Lap, CliError> {
        let begun = Instant::now();
        self.create_and_run(argv)?;
        let time = begun.elapsed();
        self.settle()?;
        Ok(Lap { time, settled: Some(begun.elapsed()) })
    }

    pub(super) fn create_and_run(&self, argv: &[&str]) -> Result<(), CliError> {
        let id = self.create()?;
        let run = self.exec(&id, argv);
        self.destroy(&id)?;
        run
    }

    pub(super) fn exec_in(&self, id: &SandboxId, argv: &[&str]) -> Result<Lap, CliError> {
        let begun = Instant::now();
        self.exec(id, argv)?;
        Ok(Lap { time: begun.elapsed(), settled: None })
    }
}
