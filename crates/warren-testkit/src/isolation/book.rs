use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use warren_core::{
    CreateRequest, Created, Found, IsolationError, IsolationErrorKind, OwnerBond, RootState, SandboxId,
    SandboxSpec, Usage,
};

use super::Standing;
use super::faults::{Call, Faults};
use crate::guest::{Guest, Tree};

/// What a fake machine holds, and what was done to it that should not have been.
#[derive(Debug, Default)]
pub(super) struct Book {
    sandboxes: BTreeMap<SandboxId, Sandbox>,
    /// Lifecycle calls that have not returned.
    pub(super) busy: BTreeMap<SandboxId, Call>,
    /// What the present owner has destroyed, and so must not touch again.
    gone: BTreeSet<SandboxId>,
    pub(super) violations: Vec<String>,
    pub(super) faults: Faults,
    last_pid: u32,
}

#[derive(Debug)]
struct Sandbox {
    life: Life,
    pid: u32,
    spec: SandboxSpec,
    owner: OwnerBond,
    tree: Arc<Tree>,
    usage: Usage,
}

#[derive(Debug)]
enum Life {
    Running { guest: Arc<Guest>, frozen: bool, watchers: Vec<UnixStream> },
    Dead,
    Halted,
}

impl Life {
    /// Ends what runs. Dropping the watchers' ends tells those who watch.
    fn end(&mut self, after: Self) {
        if let Self::Running { guest, .. } = std::mem::replace(self, after) {
            guest.kill();
        }
    }

    fn standing(&self) -> Standing {
        match self {
            Self::Running { frozen: false, .. } => Standing::Running,
            Self::Running { frozen: true, .. } => Standing::Frozen,
            Self::Dead => Standing::Dead,
            Self::Halted => Standing::Halted,
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.life.end(Life::Halted);
    }
}

impl Book {
    /// Notes that a call begins. Says whether it is the only one for the id.
    pub(super) fn enter(&mut self, call: Call, id: &SandboxId) -> bool {
        if let Some(other) = self.busy.get(id) {
            self.violations.push(format!("{} of {id} while {} runs", call.word(), other.word()));
            return false;
        }
        self.busy.insert(id.clone(), call);
        true
    }

    pub(super) fn leave(&mut self, id: &SandboxId) {
        self.busy.remove(id);
    }

    pub(super) fn create(&mut self, request: CreateRequest) -> Result<Created, IsolationError> {
        let id = request.id.clone();
        if let Err(error) = request.spec.validate() {
            self.violations.push(format!("create of {id} with a spec that is not valid: {error}"));
        }
        let kept = self.kept(&request)?;
        self.last_pid += 1;
        let pid = self.last_pid;
        let tree = kept.unwrap_or_else(|| Arc::new(Tree::new()));
        let guest = Guest::new(Arc::clone(&tree), request.env);
        let life = Life::Running { guest, frozen: false, watchers: Vec::new() };
        let usage = Usage { memory_bytes: 1 << 20, memory_peak_bytes: 2 << 20, pids: 1, ..Usage::default() };
        let sandbox = Sandbox { life, pid, spec: request.spec, owner: request.owner, tree, usage };
        self.gone.remove(&id);
        self.sandboxes.insert(id.clone(), sandbox);
        Ok(Created { id, pid })
    }

    /// The files to start with, where there are to be some.
    fn kept(&mut self, request: &CreateRequest) -> Result<Option<Arc<Tree>>, IsolationError> {
        let id = &request.id;
        let found = self.sandboxes.get(id).map(|found| (found.life.standing(), Arc::clone(&found.tree)));
        match (request.state, found) {
            (RootState::Fresh, None) => Ok(None),
            (RootState::Kept, Some((Standing::Dead | Standing::Halted, tree))) => Ok(Some(tree)),
            (_, Some((standing, _))) => {
                self.violations.push(format!("{:?} create of {id}, which is {standing:?}", request.state));
                Err(IsolationError::new(IsolationErrorKind::AlreadyExists, format!("{id} exists")))
            }
            (RootState::Kept, None) => {
                if self.gone.contains(id) {
                    self.violations.push(format!("create of {id} from files that were destroyed"));
                }
                Err(not_found(id))
            }
        }
    }

    pub(super) fn set_frozen(&mut self, id: &SandboxId, frozen: bool) -> Result<(), IsolationError> {
        let word = if frozen { "freeze" } else { "thaw" };
        let sandbox = self.touch(id, word)?;
        if let Life::Running { guest, frozen: now, .. } = &mut sandbox.life {
            *now = frozen;
            guest.set_frozen(frozen);
            return Ok(());
        }
        if sandbox.life.standing() == Standing::Halted {
            self.violations.push(format!("{word} of {id}, which was halted"));
        }
        Err(ended(id))
    }

    pub(super) fn halt(&mut self, id: &SandboxId) -> Result<(), IsolationError> {
        self.touch(id, "halt")?.life.end(Life::Halted);
        Ok(())
    }

    pub(super) fn destroy(&mut self, id: &SandboxId) -> Result<(), IsolationError> {
        self.touch(id, "destroy")?;
        self.sandboxes.remove(id);
        self.gone.insert(id.clone());
        Ok(())
    }

    pub(super) fn guest(&self, id: &SandboxId) -> Result<Arc<Guest>, IsolationError> {
        match &self.sandboxes.get(id).ok_or_else(|| not_found(id))?.life {
            Life::Running { guest, .. } => Ok(Arc::clone(guest)),
            Life::Dead | Life::Halted => Err(ended(id)),
        }
    }

    pub(super) fn watch(&mut self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        let sandbox = self.sandboxes.get_mut(id).ok_or_else(|| not_found(id))?;
        let (near, far) = UnixStream::pair().map_err(|error| {
            IsolationError::caused(IsolationErrorKind::Host, format!("watch {id}"), error)
        })?;
        if let Life::Running { watchers, .. } = &mut sandbox.life {
            watchers.push(far);
        }
        Ok(near.into())
    }

    pub(super) fn usage(&self, id: &SandboxId) -> Result<Usage, IsolationError> {
        let sandbox = self.sandboxes.get(id).ok_or_else(|| not_found(id))?;
        match sandbox.life {
            Life::Running { .. } | Life::Dead => Ok(sandbox.usage),
            Life::Halted => Err(ended(id)),
        }
    }

    pub(super) fn list(&self) -> Vec<Found> {
        let found = |(id, sandbox): (&SandboxId, &Sandbox)| {
            let standing = sandbox.life.standing();
            let alive = matches!(standing, Standing::Running | Standing::Frozen);
            Found {
                id: id.clone(),
                pid: alive.then_some(sandbox.pid),
                alive,
                frozen: standing == Standing::Frozen,
                owner: sandbox.owner,
                spec: sandbox.spec.clone(),
                root: Vec::new(),
                created_unix_ms: 1_700_000_000_000 + u64::from(sandbox.pid),
            }
        };
        self.sandboxes.iter().map(found).collect()
    }

    pub(super) fn die(&mut self, id: &SandboxId, oom: bool) {
        if let Some(sandbox) = self.sandboxes.get_mut(id) {
            sandbox.usage.oom_kills += u64::from(oom);
            if matches!(sandbox.life, Life::Running { .. }) {
                sandbox.life.end(Life::Dead);
            }
        }
    }

    pub(super) fn lose(&mut self, id: &SandboxId) {
        self.sandboxes.remove(id);
    }

    pub(super) fn reboot(&mut self) {
        self.owner_ended();
        for sandbox in self.sandboxes.values_mut() {
            if matches!(sandbox.life, Life::Running { .. }) {
                sandbox.life.end(Life::Dead);
                sandbox.usage = Usage::default();
            }
        }
    }

    pub(super) fn owner_ended(&mut self) {
        self.sandboxes.retain(|_, sandbox| sandbox.owner == OwnerBond::Outlives);
        self.gone.clear();
    }

    pub(super) fn usage_of(&mut self, id: &SandboxId) -> Option<&mut Usage> {
        self.sandboxes.get_mut(id).map(|sandbox| &mut sandbox.usage)
    }

    pub(super) fn standing(&self, id: &SandboxId) -> Option<Standing> {
        self.sandboxes.get(id).map(|sandbox| sandbox.life.standing())
    }

    pub(super) fn standings(&self) -> BTreeMap<SandboxId, Standing> {
        self.sandboxes.iter().map(|(id, sandbox)| (id.clone(), sandbox.life.standing())).collect()
    }

    pub(super) fn tree(&self, id: &SandboxId) -> Option<Arc<Tree>> {
        self.sandboxes.get(id).map(|sandbox| Arc::clone(&sandbox.tree))
    }

    pub(super) fn running(&self, id: &SandboxId) -> usize {
        self.guest(id).map(|guest| guest.running()).unwrap_or_default()
    }

    /// The sandbox that a lifecycle call is about.
    fn touch(&mut self, id: &SandboxId, word: &str) -> Result<&mut Sandbox, IsolationError> {
        if self.gone.contains(id) {
            self.violations.push(format!("{word} of {id}, which was destroyed"));
        }
        self.sandboxes.get_mut(id).ok_or_else(|| not_found(id))
    }
}

fn not_found(id: &SandboxId) -> IsolationError {
    IsolationError::new(IsolationErrorKind::NotFound, format!("there is no sandbox {id}"))
}

fn ended(id: &SandboxId) -> IsolationError {
    IsolationError::new(IsolationErrorKind::Ended, format!("{id} has ended"))
}
