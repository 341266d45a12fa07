//! Removing what nobody has, in the background: what processes left behind, however they ended, and
//! creates that failed when the daemon was away. While it is away everything is tried again, and
//! nothing is given up.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::fs::FlockOperation;
use warren_core::{OwnerBond, SandboxId};

use super::client::LxdError;
use super::list::{ours, record_of};
use super::record::{Life, Stage};
use super::{Backend, destroy};
use crate::linux::{Lock, try_lock};

/// The pause before what failed is tried again.
const PAUSE: Duration = Duration::from_millis(300);

/// The thread that removes. A drop ends it.
#[derive(Debug)]
pub(super) struct Remover {
    work: Arc<Work>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Work {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The search for orphans is not done yet.
    search: bool,
    doomed: Vec<Doomed>,
    /// Something is being done right now.
    busy: bool,
    over: bool,
}

/// A sandbox that nobody has, with the lock on its directory.
#[derive(Debug)]
struct Doomed {
    id: SandboxId,
    lock: Lock,
}

impl Remover {
    /// Begins with a search for orphans.
    pub(super) fn start(backend: Arc<Backend>) -> std::io::Result<Self> {
        let work = Arc::new(Work::default());
        work.state.lock().search = true;
        let shared = Arc::clone(&work);
        let thread = std::thread::Builder::new()
            .name("warren-lxd".to_owned())
            .spawn(move || labour(&backend, &shared))?;
        Ok(Self { work, thread: Some(thread) })
    }

    /// Removes what a create left, later if it cannot be done now.
    pub(super) fn discard(&self, backend: &Backend, id: SandboxId, lock: Lock) {
        if let Err(error) = destroy::remove(backend, &id, &lock) {
            tracing::warn!(sandbox = %id, %error, "what is left of a create is removed later");
            self.work.state.lock().doomed.push(Doomed { id, lock });
            self.work.changed.notify_all();
        }
    }

    /// Waits until there is nothing to do.
    pub(super) fn settle(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.work.state.lock();
        while state.search || state.busy || !state.doomed.is_empty() {
            if self.work.changed.wait_until(&mut state, deadline).timed_out() {
                return false;
            }
        }
        true
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.work.state.lock().over = true;
        self.work.changed.notify_all();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn labour(backend: &Backend, work: &Work) {
    loop {
        let (search, doomed) = {
            let mut state = work.state.lock();
            while !state.over && !state.search && state.doomed.is_empty() {
                work.changed.wait(&mut state);
            }
            if state.over {
                return;
            }
            state.busy = true;
            (state.search, std::mem::take(&mut state.doomed))
        };
        let searched = if search { look(backend) } else { Ok(Vec::new()) };
        let done = search && searched.is_ok();
        let mut left: Vec<Doomed> = doomed.into_iter().chain(searched.unwrap_or_default()).collect();
        left.retain(|Doomed { id, lock }| destroy::remove(backend, id, lock).is_err());
        let mut state = work.state.lock();
        state.search &= !done;
        state.doomed.append(&mut left);
        state.busy = false;
        work.changed.notify_all();
        if state.search || !state.doomed.is_empty() {
            work.changed.wait_for(&mut state, PAUSE);
        }
    }
}

/// Takes over every orphan: what a killed process had not finished, and what was to die with it. A
/// sandbox that outlives its maker is none; if its start was broken off, it is halted again.
fn look(backend: &Backend) -> Result<Vec<Doomed>, LxdError> {
    // While the gate is held, every directory that somebody works on is locked.
    let Ok(gate) = backend.data.gate(FlockOperation::LockExclusive) else { return Ok(Vec::new()) };
    let all = backend.client.instances()?;
    let mut doomed = Vec::new();
    let mut known = Vec::new();
    for (id, instance) in ours(backend, &all) {
        known.push(id.clone());
        let Some(lock) = lock_or_make(backend, &id) else { continue };
        // A later version may be able to read what this one cannot.
        let Some(record) = record_of(instance) else { continue };
        if record.stage == Stage::Making || record.owner == OwnerBond::DiesWithOwner {
            doomed.push(Doomed { id, lock });
        } else if !instance.is_stopped() && backend.life(&id).is_none() {
            backend.client.stop(&id)?;
        }
    }
    for id in backend.data.sandboxes().unwrap_or_default() {
        let directory = backend.data.sandbox(&id);
        let lives = Life::load(&directory).is_some_and(|life| !life.is_over());
        if !known.contains(&id)
            && !lives
            && let Ok(Some(lock)) = try_lock(&directory)
        {
            doomed.push(Doomed { id, lock });
        }
    }
    drop(gate);
    Ok(doomed)
}

/// The lock of a sandbox that nobody works on. Its directory is made if it is gone, so that nobody
/// else takes the id meanwhile.
fn lock_or_make(backend: &Backend, id: &SandboxId) -> Option<Lock> {
    let directory = backend.data.sandbox(id);
    if !directory.exists() {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().mode(0o700).create(&directory).ok()?;
    }
    try_lock(&directory).ok().flatten()
}
