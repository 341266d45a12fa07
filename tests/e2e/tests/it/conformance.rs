//! The backends of this machine are held to what every backend has to do, and killed at every step
//! of it.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warren_core::{CreateRequest, Isolation, OwnerBond, SandboxId, SandboxSpec};
use warren_e2e::{TestEnv, open_named};
use warren_isolate::{CrashPoint, LinuxBackend};
use warren_store::TemplateStore;
use warren_testkit::conformance::{Deed, Rig, conformance};

struct MachineRig {
    name: &'static str,
    /// Closed while another process works.
    backend: Option<LinuxBackend>,
    templates: TemplateStore,
    layers: AtomicU64,
    env: TestEnv,
}

impl MachineRig {
    fn new(name: &'static str) -> Self {
        let env = TestEnv::new();
        let backend = Some(open(name, &env));
        let templates = TemplateStore::open(&env.data_dir()).expect("the template store opens");
        Self { name, backend, templates, layers: AtomicU64::new(0), env }
    }
}

/// After a check that failed nothing may go on running.
impl Drop for MachineRig {
    fn drop(&mut self) {
        let backend = self.backend.take().unwrap_or_else(|| open(self.name, &self.env));
        for found in backend.list().unwrap_or_default() {
            drop(backend.destroy(&found.id));
        }
        backend.settle(Duration::from_secs(60));
    }
}

fn open(name: &str, env: &TestEnv) -> LinuxBackend {
    open_named(name, &env.data_dir(), None).expect("the backend opens")
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

/// Says whether a step is one of a deed.
fn is_step(deed: Deed, point: CrashPoint) -> bool {
    let begins = |word: &str| point.name().starts_with(word);
    match deed {
        Deed::Create => begins("create.") || begins("oci."),
        Deed::Start => {
            begins("resume.") || begins("oci.") || begins("create.") && point != CrashPoint::CreateDirectory
        }
        Deed::Halt => begins("halt."),
        Deed::Seal => begins("seal."),
        Deed::Suspend => begins("memory."),
        Deed::Destroy => begins("destroy.") || begins("reap."),
    }
}

impl Rig for MachineRig {
    fn backend(&self) -> &dyn Isolation {
        self.backend.as_ref().expect("it is open")
    }

    fn reopen(&mut self) {
        self.backend = None;
        self.backend = Some(open(self.name, &self.env));
    }

    fn request(&self, spec: SandboxSpec, owner: OwnerBond) -> CreateRequest {
        let template = self.templates.get(&spec.template).expect("the template is there");
        let mut id = [0; 16];
        getrandom::fill(&mut id).expect("there is randomness");
        template.request(SandboxId::from_random(id), spec, owner)
    }

    fn place(&self) -> PathBuf {
        let layers = self.env.data_dir().join("layers");
        std::fs::create_dir_all(&layers).expect("there is room for layers");
        layers.join(self.layers.fetch_add(1, Ordering::Relaxed).to_string())
    }

    fn steps(&self, deed: Deed) -> Vec<String> {
        // Only a runtime's start has them.
        let is_passed = |point: &CrashPoint| {
            let name = point.name();
            !name.starts_with("docker.") && (self.name != "native" || !name.starts_with("oci."))
        };
        let points = CrashPoint::ALL.into_iter().filter(|point| is_step(deed, *point)).filter(is_passed);
        points.map(|point| point.name().to_owned()).collect()
    }

    fn crash(&mut self, step: &str, deed: Deed, request: &CreateRequest) {
        self.backend = None;
        let mut life = Command::new(env!("CARGO_BIN_EXE_life"));
        life.env("WARREN_TEST_BACKEND", self.name);
        life.arg(self.env.data_dir()).args([step, word(deed), request.id.as_str()]).arg(self.place());
        let output = life.output().expect("it can be started");
        assert_eq!(output.status.signal(), Some(9), "{step} {deed:?}: {output:?}");
        self.backend = Some(open(self.name, &self.env));
    }

    fn kill_first_process(&self, id: &SandboxId) {
        let found = self.backend().list().expect("list").into_iter().find(|found| found.id == *id);
        let pid = found.and_then(|found| Pid::from_raw(i32::try_from(found.pid?).ok()?));
        kill_process(pid.expect("it is alive"), Signal::KILL).expect("it can be killed");
    }

    fn leftovers(&self) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut left = self.env.census();
        // A loop device clears itself in its own time.
        while !left.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
            left = self.env.census();
        }
        left
    }

    fn has_shell(&self) -> bool {
        true
    }
}

#[test]
fn native_is_a_backend() {
    conformance(|| MachineRig::new("native"));
}

#[test]
fn crun_is_a_backend() {
    conformance(|| MachineRig::new("crun"));
}

#[test]
fn runc_is_a_backend() {
    conformance(|| MachineRig::new("runc"));
}

#[test]
fn runsc_is_a_backend() {
    conformance(|| MachineRig::new("runsc"));
}

/// A new step is a new point in the list, so a step that no deed of the suite passes cannot be. The
/// late layer on `/usr` is native's own, and `inside` crashes at its steps; `docker` and `lxd`
/// have their own.
#[test]
fn every_step_is_one_of_the_suite_s() {
    let deeds = [Deed::Create, Deed::Start, Deed::Halt, Deed::Seal, Deed::Suspend, Deed::Destroy];
    let others = ["defer.", "docker.", "lxd."];
    let is_ours = |point: &CrashPoint| !others.iter().any(|other| point.name().starts_with(other));
    for point in CrashPoint::ALL.into_iter().filter(is_ours) {
        assert!(deeds.into_iter().any(|deed| is_step(deed, point)), "{}", point.name());
    }
}
