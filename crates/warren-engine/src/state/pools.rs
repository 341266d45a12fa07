use std::collections::{BTreeMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::sync::{Notify, mpsc};
use warren_core::{CreateRequest, Limits, SandboxId, SandboxSpec, TemplateName};

use crate::ports::Backend;

/// While half of a pool is left, it is filled up only when nobody has claimed one for this long.
const QUIET: Duration = Duration::from_millis(100);

/// A machine that runs and is nobody's yet. The backend has it, no record knows it.
#[derive(Debug)]
pub(crate) struct Spare {
    /// The request that it was made by, without its network.
    pub(crate) request: CreateRequest,
    pub(crate) backend: Arc<Backend>,
    /// Tells its end.
    pub(crate) watch: OwnedFd,
    made: Instant,
}

impl Spare {
    pub(crate) fn new(request: CreateRequest, backend: Arc<Backend>, watch: OwnedFd) -> Self {
        Self { request, backend, watch, made: Instant::now() }
    }

    pub(crate) fn id(&self) -> &SandboxId {
        &self.request.id
    }

    pub(crate) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// True if it still runs, and differs from what is asked for only in what a backend does not
    /// see: the id, labels and the time to live.
    pub(crate) fn serves(&self, asked: &CreateRequest) -> bool {
        let CreateRequest { spec, root, state, env, user, workdir, owner, disk_limit_required, .. } =
            &self.request;
        plain(spec) == plain(&asked.spec)
            && *root == asked.root
            && *state == asked.state
            && *env == asked.env
            && *user == asked.user
            && *workdir == asked.workdir
            && *owner == asked.owner
            && *disk_limit_required == asked.disk_limit_required
            && !self.has_ended()
    }

    fn has_ended(&self) -> bool {
        let mut ended = [PollFd::new(&self.watch, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(rustix::event::poll(&mut ended, Some(&at_once)), Ok(0))
    }
}

/// The parts of a spec that a backend makes something of.
fn plain(spec: &SandboxSpec) -> SandboxSpec {
    let limits = Limits { lifetime_s: 0, ..spec.limits.clone() };
    SandboxSpec { limits, labels: BTreeMap::new(), ..spec.clone() }
}

/// A spare that was taken from its pool. Unless it is kept, the pools' keeper removes it.
#[derive(Debug)]
pub(crate) struct Claim {
    spare: Option<Spare>,
    unused: mpsc::UnboundedSender<Spare>,
}

impl Claim {
    pub(crate) fn spare(&self) -> Option<&Spare> {
        self.spare.as_ref()
    }

    /// From here on it is the caller who removes it.
    pub(crate) fn keep(mut self) -> Option<Spare> {
        self.spare.take()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(spare) = self.spare.take() {
            // An engine that has ended leaves it to the next one.
            self.unused.send(spare).ok();
        }
    }
}

/// Machines that are made ahead of time, by template. If it is lost, the next start removes them.
#[derive(Debug)]
pub(crate) struct Pools {
    state: Mutex<PoolState>,
    /// Something was claimed, or is to be removed.
    pub(crate) changed: Notify,
    unused: mpsc::UnboundedSender<Spare>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, Default)]
struct PoolState {
    shelves: BTreeMap<TemplateName, VecDeque<Spare>>,
    last_claim: Option<Instant>,
    /// Spares that are in no shelf for the moment, being made or claimed.
    between: HashSet<SandboxId>,
    closed: bool,
}

impl Pools {
    /// The pools, and the spares that somebody took and did not use.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Spare>) {
        let (unused, to_remove) = mpsc::unbounded_channel();
        let pools = Self {
            state: Mutex::default(),
            changed: Notify::new(),
            unused,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        (pools, to_remove)
    }

    /// Takes the oldest spare that was made with such a spec.
    pub(crate) fn take(&self, spec: &SandboxSpec, disk_limit_required: bool) -> Option<Claim> {
        let mut state = self.state.lock();
        let shelf = state.shelves.get_mut(&spec.template)?;
        let made = &shelf.front()?.request;
        if plain(&made.spec) != plain(spec) || made.disk_limit_required != disk_limit_required {
            return None;
        }
        let spare = shelf.pop_front()?;
        state.last_claim = Some(Instant::now());
        state.between.insert(spare.id().clone());
        drop(state);
        self.changed.notify_one();
        Some(Claim { spare: Some(spare), unused: self.unused.clone() })
    }

    /// Counts an answer to somebody who asked for what a pool could have had.
    pub(crate) fn count(&self, hit: bool) {
        let figure = if hit { &self.hits } else { &self.misses };
        figure.fetch_add(1, Ordering::Relaxed);
    }

    /// A spare with this id is about to be made.
    pub(crate) fn announce(&self, id: &SandboxId) {
        self.state.lock().between.insert(id.clone());
    }

    /// A spare is no longer one: it is somebody's, or gone.
    pub(crate) fn forget(&self, id: &SandboxId) {
        self.state.lock().between.remove(id);
    }

    /// Puts a spare into its pool, or gives it back if the pools are closed.
    pub(crate) fn put(&self, spare: Spare) -> Option<Spare> {
        let mut state = self.state.lock();
        if state.closed {
            return Some(spare);
        }
        state.between.remove(spare.id());
        state.shelves.entry(spare.request.spec.template.clone()).or_default().push_back(spare);
        None
    }

    /// Takes out all that have ended, are older than this, or are more than wanted.
    pub(crate) fn weed(&self, wanted: &BTreeMap<TemplateName, usize>, oldest: Duration) -> Vec<Spare> {
        let mut state = self.state.lock();
        let mut weeds = Vec::new();
        for (template, shelf) in &mut state.shelves {
            let most = wanted.get(template).copied().unwrap_or(0);
            for spare in std::mem::take(shelf) {
                let good = shelf.len() < most && spare.age() < oldest && !spare.has_ended();
                if good { shelf.push_back(spare) } else { weeds.push(spare) }
            }
        }
        weeds
    }

    /// A template of which there are too few, if this is the time to make one.
    pub(crate) fn lacking(&self, wanted: &BTreeMap<TemplateName, usize>) -> Option<TemplateName> {
        let state = self.state.lock();
        let quiet = state.last_claim.is_none_or(|last| last.elapsed() >= QUIET);
        let ready = |template: &TemplateName| state.shelves.get(template).map_or(0, VecDeque::len);
        let lacking = |(template, most): &(&TemplateName, &usize)| {
            ready(template) < **most && (quiet || ready(template) * 2 < **most)
        };
        wanted.iter().find(lacking).map(|(template, _)| template.clone()).filter(|_| !state.closed)
    }

    /// How long the keeper may wait before it looks again.
    pub(crate) fn pause(&self) -> Duration {
        let since = self.state.lock().last_claim.map(|last| last.elapsed());
        since.and_then(|since| QUIET.checked_sub(since)).unwrap_or(Duration::from_secs(1)).max(MOMENT)
    }

    /// Ends the pools, and hands out all that they have.
    pub(crate) fn close(&self) -> Vec<Spare> {
        let mut state = self.state.lock();
        state.closed = true;
        std::mem::take(&mut state.shelves).into_values().flatten().collect()
    }

    /// True for a spare, wherever it is.
    pub(crate) fn holds(&self, id: &SandboxId) -> bool {
        let state = self.state.lock();
        state.between.contains(id) || state.shelves.values().flatten().any(|spare| spare.id() == id)
    }

    pub(crate) fn size(&self) -> usize {
        self.state.lock().shelves.values().map(VecDeque::len).sum()
    }

    /// The share of those that were served from a pool.
    pub(crate) fn hit_rate(&self) -> f64 {
        let (hits, misses) = (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed));
        hits as f64 / (hits + misses).max(1) as f64
    }
}

const MOMENT: Duration = Duration::from_millis(1);
