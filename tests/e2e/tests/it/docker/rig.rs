//! The engine as the conformance suite needs it.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warren_core::{CreateRequest, Isolation, OwnerBond, RootImage, RootImageName, SandboxId, SandboxSpec};
use warren_e2e::{DockerEngine, TestEnv, fill};
use warren_isolate::{Docker, DockerOptions};
use warren_testkit::conformance::{Deed, Rig};

/// The steps of each deed at which its process is killed.
pub(super) const STEPS: [(Deed, &[&str]); 6] = [
    (
        Deed::Create,
        &[
            "create.directory",
            "create.record",
            "docker.door_made",
            "docker.made",
            "docker.filled",
            "docker.door_open",
            "docker.started",
            "create.boot",
        ],
    ),
    (Deed::Start, &["resume.record", "docker.door_open", "docker.started", "create.boot"]),
    (Deed::Halt, &["halt.processes", "halt.record"]),
    (Deed::Seal, &[]),
    (Deed::Suspend, &[]),
    (Deed::Destroy, &["destroy.kill", "destroy.trash", "docker.removed", "reap.files"]),
];

/// As [`STEPS`], on an engine elsewhere.
pub(super) const STEPS_ELSEWHERE: [(Deed, &[&str]); 6] = [
    (
        Deed::Create,
        &[
            "create.directory",
            "create.record",
            "docker.helper_made",
            "docker.made",
            "docker.started",
            "create.boot",
        ],
    ),
    (Deed::Start, &["resume.record", "docker.started", "create.boot"]),
    (Deed::Halt, &["halt.processes", "halt.record"]),
    (Deed::Seal, &[]),
    (Deed::Suspend, &[]),
    (Deed::Destroy, &["destroy.kill", "destroy.trash", "docker.removed", "reap.files"]),
];

pub(super) struct DockerRig<'engine> {
    engine: &'engine DockerEngine,
    known: &'static [(Deed, &'static [&'static str])],
    /// Closed while another process works.
    backend: Option<Docker>,
    env: TestEnv,
}

impl<'engine> DockerRig<'engine> {
    pub(super) fn new(engine: &'engine DockerEngine) -> Self {
        let env = TestEnv::new();
        let backend = Some(open(engine, &env));
        let known = if engine.is_elsewhere() { &STEPS_ELSEWHERE } else { &STEPS };
        Self { engine, known, backend, env }
    }

    /// Does something in a process that dies at a step, while nobody has the backend open.
    pub(super) fn in_another_process(&mut self, step: &str, deed: &str, id: &SandboxId) -> Output {
        self.backend = None;
        let mut life = Command::new(env!("CARGO_BIN_EXE_life"));
        life.env("WARREN_TEST_BACKEND", "docker");
        self.engine.tell(&mut life);
        life.arg(self.env.data_dir()).args([step, deed, id.as_str()]);
        let output = life.output().expect("it can be started");
        self.backend = Some(open(self.engine, &self.env));
        output
    }
}

/// After a check that failed nothing may go on running.
impl Drop for DockerRig<'_> {
    fn drop(&mut self) {
        let backend = self.backend.take().unwrap_or_else(|| open(self.engine, &self.env));
        for found in backend.list().unwrap_or_default() {
            drop(backend.destroy(&found.id));
        }
        backend.settle(Duration::from_secs(60));
    }
}

fn open(engine: &DockerEngine, env: &TestEnv) -> Docker {
    let options = DockerOptions { engine: engine.address(), ..DockerOptions::at(env.data_dir(), fill) };
    Docker::open(options).expect("the backend opens")
}

pub(super) fn little() -> RootImage {
    DockerEngine::IMAGE.parse::<RootImageName>().expect("an image's name").into()
}

fn word(deed: Deed) -> &'static str {
    match deed {
        Deed::Create => "create",
        Deed::Start => "resume",
        Deed::Halt => "halt",
        Deed::Seal => "seal",
        Deed::Suspend => "suspend",
        Deed::Destroy => "destroy",
    }
}

impl Rig for DockerRig<'_> {
    fn backend(&self) -> &dyn Isolation {
        self.backend.as_ref().expect("it is open")
    }

    fn reopen(&mut self) {
        self.backend = None;
        self.backend = Some(open(self.engine, &self.env));
    }

    fn request(&self, spec: SandboxSpec, owner: OwnerBond) -> CreateRequest {
        let mut id = [0; 16];
        getrandom::fill(&mut id).expect("there is randomness");
        let found = self.backend().image(&little()).expect("the engine has the image");
        CreateRequest::on_image(SandboxId::from_random(id), &spec, owner, found)
    }

    fn place(&self) -> PathBuf {
        self.env.data_dir().join("layers")
    }

    fn steps(&self, deed: Deed) -> Vec<String> {
        let steps = self.known.iter().find(|(known, _)| *known == deed).expect("every deed is there").1;
        steps.iter().map(|step| (*step).to_owned()).collect()
    }

    fn crash(&mut self, step: &str, deed: Deed, request: &CreateRequest) {
        let output = self.in_another_process(step, word(deed), &request.id);
        assert_eq!(output.status.signal(), Some(9), "{step} {deed:?}: {output:?}");
    }

    fn kill_first_process(&self, id: &SandboxId) {
        let found = self.engine.container(id.as_str())["State"]["Pid"].as_i64();
        let pid = found.and_then(|found| Pid::from_raw(i32::try_from(found).ok()?));
        kill_process(pid.expect("it is alive"), Signal::KILL).expect("it can be killed");
    }

    fn leftovers(&self) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let mut left = self.env.census();
            left.extend(self.engine.containers(&self.env.data_dir()));
            left.extend(self.engine.volumes(&self.env.data_dir()));
            for part in ["sandboxes", "trash"] {
                let place = self.env.data_dir().join("docker").join(part);
                let names = std::fs::read_dir(place).into_iter().flatten().flatten();
                left.extend(names.map(|entry| format!("{part}: {}", entry.file_name().to_string_lossy())));
            }
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn has_shell(&self) -> bool {
        true
    }

    /// An engine tells nothing of them where groups are of the first kind.
    fn counts_kills(&self) -> bool {
        !self.engine.is_elsewhere()
    }
}
