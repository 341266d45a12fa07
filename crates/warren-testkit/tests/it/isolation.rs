//! The conformance suite on the fake backend, with all capabilities and without.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warren_core::{
    Capabilities, CreateRequest, DiskQuota, Isolation, LayerId, LayerStore as _, NetworkSupport, OwnerBond,
    SandboxId, SandboxSpec, SnapshotSupport, Templates as _,
};
use warren_testkit::conformance::{Deed, Rig, conformance};
use warren_testkit::{FakeIsolation, FakeTemplates};

/// A process ends before a call has any effect, or after all of it.
const STEPS: [&str; 2] = ["before", "after"];

struct FakeRig {
    backend: Arc<FakeIsolation>,
    drawn: AtomicU64,
}

impl FakeRig {
    fn new(can: Capabilities) -> Self {
        Self { backend: FakeIsolation::able("fake", can), drawn: AtomicU64::new(0) }
    }

    fn draw(&self) -> [u8; 16] {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        u128::from(number + 1).to_be_bytes()
    }
}

impl Rig for FakeRig {
    fn backend(&self) -> &dyn Isolation {
        self.backend.as_ref()
    }

    fn reopen(&mut self) {
        self.backend.owner_ended();
    }

    fn request(&self, spec: SandboxSpec, owner: OwnerBond) -> CreateRequest {
        FakeTemplates::new().request(&SandboxId::from_random(self.draw()), &spec, owner).expect("a request")
    }

    fn place(&self) -> PathBuf {
        self.backend.layers().place(&LayerId::from_random(self.draw()))
    }

    fn steps(&self, deed: Deed) -> Vec<String> {
        // Nobody knows how far a suspension came: every step of one ends the processes.
        let steps = if deed == Deed::Suspend { &STEPS[1..] } else { &STEPS };
        steps.iter().map(|step| (*step).to_owned()).collect()
    }

    fn crash(&mut self, step: &str, deed: Deed, request: &CreateRequest) {
        let (backend, id) = (self.backend(), &request.id);
        if step == "after" {
            match deed {
                Deed::Create | Deed::Start => drop(backend.create(request.clone()).expect("create")),
                Deed::Halt => backend.halt(id).expect("halt"),
                Deed::Destroy => backend.destroy(id).expect("destroy"),
                Deed::Seal => {
                    let layered = backend.layered().expect("layers");
                    layered.seal(id, &self.place(), request.root.trees()).expect("seal");
                }
                Deed::Suspend => {
                    let memory = backend.memory().expect("memory");
                    memory.suspend(id, &self.place()).expect("suspend");
                }
            }
        }
        self.reopen();
    }

    fn kill_first_process(&self, id: &SandboxId) {
        self.backend.die(id, false);
    }

    fn leftovers(&self) -> Vec<String> {
        let listed: Vec<SandboxId> =
            self.backend.list().expect("list").into_iter().map(|found| found.id).collect();
        let standing = self.backend.standings().into_keys();
        standing.filter(|id| !listed.contains(id)).map(|id| id.to_string()).collect()
    }

    fn has_shell(&self) -> bool {
        false
    }
}

#[test]
fn a_fake_that_can_do_everything_is_a_backend() {
    conformance(|| FakeRig::new(FakeIsolation::everything()));
}

#[test]
fn a_fake_that_can_do_next_to_nothing_is_a_backend() {
    conformance(|| {
        FakeRig::new(Capabilities {
            snapshots: SnapshotSupport::None,
            memory_snapshots: false,
            network: NetworkSupport::None,
            host_mounts: false,
            disk_quota: DiskQuota::None,
            freeze: false,
            outlives_server: false,
            ..FakeIsolation::everything()
        })
    });
}

#[test]
fn a_fake_that_only_copies_is_a_backend() {
    conformance(|| {
        let own = NetworkSupport::Own { modes: vec!["none".to_owned()] };
        FakeRig::new(Capabilities {
            snapshots: SnapshotSupport::Copied,
            network: own,
            disk_quota: DiskQuota::Watched,
            ..FakeIsolation::everything()
        })
    });
}
