//! The conformance suite of backends. A backend has to pass all of it: a feature that its
//! capabilities deny must be refused, and no check is left out.

mod adopted;
mod frozen;
mod inside;
mod kept;
mod layers;
mod life;
mod limits;
mod memory;
mod refused;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use warren_core::{
    CreateRequest, Found, Isolation, IsolationError, IsolationErrorKind, OwnerBond, RootState, SandboxId,
    SandboxSpec, TemplateName,
};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A backend on a machine of its own, with the helpers that the suite needs besides the port.
pub trait Rig {
    fn backend(&self) -> &dyn Isolation;

    /// Ends the process that used the backend, and opens it in a new one.
    fn reopen(&mut self);

    /// A request with a new id, for a root that has the programs `true`, `echo` and `sleep` and the
    /// user root.
    fn request(&self, spec: SandboxSpec, owner: OwnerBond) -> CreateRequest;

    /// A place where there is no layer yet.
    fn place(&self) -> PathBuf;

    /// The steps of an operation at which its process can be killed.
    fn steps(&self, deed: Deed) -> Vec<String>;

    /// Runs the operation in another process, kills that at the step, and opens the backend again.
    /// A seal and processes go into [`Rig::place`].
    fn crash(&mut self, step: &str, deed: Deed, request: &CreateRequest);

    /// Ends the first process of a sandbox, as a fault would.
    fn kill_first_process(&self, id: &SandboxId);

    /// Leftovers on the machine of sandboxes that are not listed.
    fn leftovers(&self) -> Vec<String>;

    /// True if the root has a shell and coreutils, which the checks of limits need.
    fn has_shell(&self) -> bool;

    /// True if the machine tells the backend of every process that is killed for its memory.
    fn counts_kills(&self) -> bool {
        true
    }
}

/// A change that takes several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Create,
    /// Starts a halted sandbox again.
    Start,
    Halt,
    Seal,
    /// Puts the processes on disk.
    Suspend,
    Destroy,
}

/// One check, named after what holds.
type Check = (&'static str, fn(&mut dyn Rig));

/// Pairs each function with its name.
macro_rules! checks {
    ($($check:ident),+ $(,)?) => {
        pub(super) const CHECKS: &[super::Check] = &[$((stringify!($check), $check)),+];
    };
}
use checks;

const CHECKS: &[&[Check]] = &[
    life::CHECKS,
    kept::CHECKS,
    frozen::CHECKS,
    adopted::CHECKS,
    limits::CHECKS,
    layers::CHECKS,
    memory::CHECKS,
    refused::CHECKS,
];

/// Runs every check on a backend, each on a new machine.
///
/// # Panics
///
/// If a check fails; all failed ones are named.
pub fn conformance<R: Rig>(make: impl Fn() -> R) {
    let mut failed = Vec::new();
    for (name, check) in CHECKS.iter().copied().flatten() {
        let held = catch_unwind(AssertUnwindSafe(|| {
            let mut rig = make();
            check(&mut rig);
            assert_nothing_is_left(&rig);
        }));
        if held.is_err() {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "of this backend does not hold: {failed:#?}");
}

fn assert_nothing_is_left(rig: &dyn Rig) {
    for found in rig.backend().list().expect("list") {
        rig.backend().destroy(&found.id).expect("destroy what a check leaves");
    }
    assert!(rig.backend().settle(PATIENCE), "clean-up does not end");
    assert_eq!(rig.leftovers(), Vec::<String>::new(), "something is left");
}

fn spec() -> SandboxSpec {
    SandboxSpec { user: Some("root".to_owned()), ..SandboxSpec::new(TemplateName::host()) }
}

/// A request for a sandbox with the longest life that the backend supports.
fn request(rig: &dyn Rig) -> CreateRequest {
    let outlives = rig.backend().capabilities().outlives_server;
    rig.request(spec(), if outlives { OwnerBond::Outlives } else { OwnerBond::DiesWithOwner })
}

#[track_caller]
fn made(rig: &dyn Rig) -> CreateRequest {
    let request = request(rig);
    create(rig, &request);
    request
}

#[track_caller]
fn create(rig: &dyn Rig, request: &CreateRequest) {
    let created = rig.backend().create(request.clone()).unwrap_or_else(|error| panic!("{}", told(&error)));
    assert_eq!(created.id, request.id);
}

/// A request to start the same sandbox again from its files.
fn again(request: &CreateRequest) -> CreateRequest {
    CreateRequest { state: RootState::Kept, ..request.clone() }
}

fn listed(rig: &dyn Rig, id: &SandboxId) -> Option<Found> {
    rig.backend().list().expect("list").into_iter().find(|found| found.id == *id)
}

#[track_caller]
fn assert_refused<T>(answer: Result<T, IsolationError>, kind: IsolationErrorKind, what: &str) {
    match answer {
        Ok(_) => panic!("{what}: it is done"),
        Err(error) => assert_eq!(error.kind, kind, "{what}: {}", told(&error)),
    }
}

fn told(error: &IsolationError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
