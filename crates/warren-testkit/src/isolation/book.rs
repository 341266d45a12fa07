use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use warren_core::{
    CreateRequest, Created, Found, IsolationError, IsolationErrorKind, OwnerBond, Root, RootState, RootTree,
    SandboxId, SandboxSpec, Usage,
};

use super::Standing;
use super::faults::{Call, Faults};
use crate::FakeLayers;
use crate::delta::{Delta, Nodes};
use crate::guest::{Guest, Tree};

/// The state of a fake machine, and the rules broken on it.
#[derive(Debug, Default)]
pub(super) struct Book {
    name: &'static str,
    pub(super) sandboxes: BTreeMap<SandboxId, Sandbox>,
    /// Lifecycle calls that have not returned.
    pub(super) busy: BTreeMap<SandboxId, Call>,
    /// Sandboxes that the present owner has destroyed and must not touch again.
    gone: BTreeSet<SandboxId>,
    pub(super) violations: Vec<String>,
    pub(super) faults: Faults,
    last_pid: u32,
    pub(super) layers: Arc<FakeLayers>,
    /// Sandboxes' files cannot be moved.
    pub(super) unmovable: bool,
}

#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) life: Life,
    pid: u32,
    pub(super) spec: SandboxSpec,
    owner: OwnerBond,
    pub(super) root: Vec<RootTree>,
    pub(super) tree: Arc<Tree>,
    usage: Usage,
}

#[derive(Debug)]
pub(super) enum Life {
    Running { guest: Arc<Guest>, frozen: bool, watchers: Vec<UnixStream> },
    Dead,
    Halted,
}

impl Life {
    /// Ends the sandbox. Dropping the watchers' descriptors tells them.
    fn end(&mut self, after: Self) {
        if let Self::Running { guest, .. } = std::mem::replace(self, after) {
            guest.kill();
        }
    }

    pub(super) fn standing(&self) -> Standing {
        match self {
            Self::Running { frozen: false, .. } => Standing::Running,
            Self::Running { frozen: true, .. } => Standing::Frozen,
            Self::Dead => Standing::Dead,
            Self::Halted => Standing::Halted,
        }
    }
}

impl Sandbox {
    /// Ends the sandbox. A late thread of its agent writes to files that nobody reads.
    fn end(&mut self, after: Life) {
        self.life.end(after);
        self.tree = Arc::new(self.tree.at_rest());
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.life.end(Life::Halted);
    }
}

impl Book {
    pub(super) fn new(name: &'static str, layers: Arc<FakeLayers>) -> Self {
        Self { name, layers, ..Self::default() }
    }

    /// The key of a sandbox's root among those of all backends.
    pub(super) fn standing_key(&self, id: &SandboxId) -> (&'static str, SandboxId) {
        (self.name, id.clone())
    }

    /// Tells all who watch a sandbox of an end that has not come.
    pub(super) fn drop_watchers(&mut self) {
        for sandbox in self.sandboxes.values_mut() {
            if let Life::Running { watchers, .. } = &mut sandbox.life {
                watchers.clear();
            }
        }
    }

    /// Notes that a call begins. Returns whether it is the only one for the id.
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
        if request.spec.network.is_none() == request.network.is_some() {
            self.violations.push(format!("create of {id} in a network that is not what its spec says"));
        }
        if let Some(memory) = &request.memory
            && !self.layers.shelf().is_taken(memory)
        {
            self.violations.push(format!("create of {id} with processes that are not there"));
        }
        let upper = self.kept(&request)?;
        let below = self.below(&request, &upper)?;
        self.last_pid += 1;
        let pid = self.last_pid;
        let tree = Arc::new(Tree::on(below, upper));
        tree.set_lively(true);
        if request.disk_limit_required {
            tree.limit(request.spec.limits.disk.0);
        }
        let guest = Guest::new(Arc::clone(&tree), request.env);
        let life = Life::Running { guest, frozen: false, watchers: Vec::new() };
        let usage = Usage { memory_bytes: 1 << 20, memory_peak_bytes: 2 << 20, pids: 1, ..Usage::default() };
        let CreateRequest { spec, owner, root, .. } = request;
        let root = root.into_trees();
        self.gone.remove(&id);
        self.layers.shelf().standing.insert(self.standing_key(&id), root.clone());
        self.sandboxes.insert(id.clone(), Sandbox { life, pid, spec, owner, root, tree, usage });
        Ok(Created { id, pid })
    }

    /// The earlier writes, if they are kept.
    fn kept(&mut self, request: &CreateRequest) -> Result<Delta, IsolationError> {
        let id = &request.id;
        let found = self.sandboxes.get(id).map(|found| (found.life.standing(), Arc::clone(&found.tree)));
        match (request.state, found) {
            (RootState::Fresh, None) => Ok(Delta::default()),
            (RootState::Kept, Some((Standing::Dead | Standing::Halted, tree))) => Ok(tree.upper()),
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

    /// The files of the layers below.
    fn below(&mut self, request: &CreateRequest, upper: &Delta) -> Result<Nodes, IsolationError> {
        let id = &request.id;
        let shelf = self.layers.shelf();
        let files = shelf.files(request.root.trees()).map_err(|missing| {
            self.violations.push(format!("create of {id} on a root that is not there: {missing}"));
            IsolationError::new(IsolationErrorKind::Layer, format!("mount the root of {id}: {missing}"))
        })?;
        let stood_on = self.sandboxes.get(id).map(|found| &found.root);
        if let Some(root) = stood_on.filter(|_| *upper != Delta::default())
            && shelf.files(root).as_ref() != Ok(&files)
        {
            let text = format!("create of {id} on other layers, with what it wrote on the ones before");
            self.violations.push(text);
        }
        Ok(files)
    }

    pub(super) fn set_frozen(&mut self, id: &SandboxId, frozen: bool) -> Result<(), IsolationError> {
        let word = if frozen { "freeze" } else { "thaw" };
        let sandbox = self.touch(id, word)?;
        if let Life::Running { guest, frozen: now, .. } = &mut sandbox.life {
            *now = frozen;
            guest.set_frozen(frozen);
            sandbox.tree.set_lively(!frozen);
            return Ok(());
        }
        if sandbox.life.standing() == Standing::Halted {
            self.violations.push(format!("{word} of {id}, which was halted"));
        }
        Err(ended(id))
    }

    pub(super) fn hand_over(&mut self, id: &SandboxId, spec: &SandboxSpec) -> Result<(), IsolationError> {
        self.touch(id, "hand over")?.spec = spec.clone();
        Ok(())
    }

    pub(super) fn halt(&mut self, id: &SandboxId) -> Result<(), IsolationError> {
        self.touch(id, "halt")?.end(Life::Halted);
        Ok(())
    }

    pub(super) fn destroy(&mut self, id: &SandboxId) -> Result<(), IsolationError> {
        self.touch(id, "destroy")?;
        self.lose(id);
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
                root: Root::Layers(sandbox.root.clone()),
                created_unix_ms: 1_700_000_000_000 + u64::from(sandbox.pid),
            }
        };
        self.sandboxes.iter().map(found).collect()
    }

    pub(super) fn die(&mut self, id: &SandboxId, oom: bool) {
        if let Some(sandbox) = self.sandboxes.get_mut(id) {
            sandbox.usage.oom_kills += u64::from(oom);
            if matches!(sandbox.life, Life::Running { .. }) {
                sandbox.end(Life::Dead);
            }
        }
    }

    pub(super) fn lose(&mut self, id: &SandboxId) {
        self.sandboxes.remove(id);
        self.layers.shelf().standing.remove(&self.standing_key(id));
    }

    pub(super) fn reboot(&mut self) {
        self.owner_ended();
        for sandbox in self.sandboxes.values_mut() {
            if matches!(sandbox.life, Life::Running { .. }) {
                sandbox.end(Life::Dead);
                sandbox.usage = Usage::default();
            }
        }
    }

    pub(super) fn owner_ended(&mut self) {
        self.sandboxes.retain(|_, sandbox| sandbox.owner == OwnerBond::Outlives);
        let gone = |(name, id): &(&str, SandboxId)| *name == self.name && !self.sandboxes.contains_key(id);
        self.layers.shelf().standing.retain(|key, _| !gone(key));
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
    pub(super) fn touch(&mut self, id: &SandboxId, word: &str) -> Result<&mut Sandbox, IsolationError> {
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
