//! Many threads of one process, as in a server: no call may be disturbed by what another one does.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use warren_core::{CreateRequest, Isolation, OwnerBond, RootState, SandboxId, SandboxSpec, TemplateName};
use warren_e2e::{Backend, TestEnv, causes};
use warren_isolate::{Native, NativeOptions};

const THREADS: usize = 16;
const ROUNDS: usize = 8;

#[test]
fn threads_make_use_and_end_sandboxes_at_once() {
    let env = TestEnv::new();
    let backend = env.backend();
    let (done, working) = (AtomicBool::new(false), AtomicUsize::new(THREADS));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (backend, done, working) = (&backend, &done, &working);
            scope.spawn(move || {
                let _last_one_out = LastOneOut { done, working };
                (0..ROUNDS).for_each(|round| live_and_die(backend, number + round));
            });
        }
        scope.spawn(|| while_busy(&done, fork_something));
        scope.spawn(|| while_busy(&done, || look_for_orphans(&env)));
        scope.spawn(|| while_busy(&done, || begin_elsewhere(&env)));
    });
    assert!(backend.port().settle(Duration::from_secs(60)));
    assert!(backend.port().list().unwrap().is_empty());
}

/// Ends the others' work, however this thread's ends.
struct LastOneOut<'a> {
    done: &'a AtomicBool,
    working: &'a AtomicUsize,
}

impl Drop for LastOneOut<'_> {
    fn drop(&mut self) {
        if self.working.fetch_sub(1, Ordering::SeqCst) == 1 || std::thread::panicking() {
            self.done.store(true, Ordering::SeqCst);
        }
    }
}

fn while_busy(done: &AtomicBool, action: impl Fn()) {
    while !done.load(Ordering::SeqCst) {
        action();
    }
}

fn live_and_die(backend: &Backend<'_>, number: usize) {
    let bond = if number.is_multiple_of(2) { OwnerBond::Outlives } else { OwnerBond::DiesWithOwner };
    let id = backend.create(SandboxSpec::new(TemplateName::host()), bond);
    if number.is_multiple_of(3) {
        assert_eq!(backend.exec(&id, ["echo", "here"]).line(), "here");
    }
    if bond == OwnerBond::Outlives && number.is_multiple_of(4) {
        halt_and_resume(backend, &id);
    }
    backend.port().destroy(&id).unwrap_or_else(|error| panic!("{}", causes(&error)));
}

fn halt_and_resume(backend: &Backend<'_>, id: &SandboxId) {
    backend.port().halt(id).unwrap_or_else(|error| panic!("{}", causes(&error)));
    let request = backend.request(SandboxSpec::new(TemplateName::host()), OwnerBond::Outlives);
    let request = CreateRequest { id: id.clone(), state: RootState::Kept, ..request };
    backend.port().create(request).unwrap_or_else(|error| panic!("{}", causes(&error)));
}

/// Every clone of this process has a copy of its descriptors for a moment, locks and half-written
/// files among them.
fn fork_something() {
    let status = Command::new("/bin/true").stdin(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()));
}

fn look_for_orphans(env: &TestEnv) {
    let other = Native::open(NativeOptions::at(env.data_dir())).expect("the data directory opens again");
    assert!(other.settle(Duration::from_secs(60)));
}

/// A data directory that nobody has used, and the first sandbox in it.
fn begin_elsewhere(env: &TestEnv) {
    let elsewhere = tempfile::tempdir_in(env.place()).expect("a directory can be made");
    let native =
        Native::open(NativeOptions::at(elsewhere.path().join("data"))).expect("a new data directory opens");
    let port: &dyn Isolation = &native;
    let backend = env.backend();
    let request = backend.request(SandboxSpec::new(TemplateName::host()), OwnerBond::DiesWithOwner);
    port.create(request.clone()).unwrap_or_else(|error| panic!("{}", causes(&error)));
    port.destroy(&request.id).expect("it is destroyed");
    assert!(port.settle(Duration::from_secs(60)));
}
