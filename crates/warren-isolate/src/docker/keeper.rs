//! The thread that removes what nobody waits for: destroyed sandboxes, and what processes that were
//! killed have left. While the engine is away, it waits for it.

use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::fs::FlockOperation;
use warren_core::{IsolationError, OwnerBond, SandboxId};

use super::create::is_there;
use super::record::{Record, Stage};
use super::{Engine, Site, container, door, end, far, shared};
use crate::linux::{CrashPoint, Lock, remove_tree, try_lock};

/// The pause before something is tried again that failed, and how often it is tried at once.
const PAUSE: Duration = Duration::from_secs(1);
/// A child that a killed process had just made may keep copies of its locks for a moment.
const MOST_SEARCHES: u32 = 5;
const SEARCH_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Keeper {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Desk {
    engine: Arc<Engine>,
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    /// The remains of earlier processes have not been looked for yet.
    search: bool,
    remains: VecDeque<Remains>,
    /// Something of it is being done.
    busy: bool,
    ended: bool,
}

/// A sandbox in the trash.
#[derive(Debug)]
struct Remains {
    id: SandboxId,
    _lock: Lock,
}

impl Keeper {
    pub(super) fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        let work = Mutex::new(Work { search: true, ..Work::default() });
        let desk = Arc::new(Desk { engine, work, changed: Condvar::new() });
        let worker = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("warren-keeper".to_owned());
        let thread = thread.spawn(move || worker.work())?;
        Ok(Self { desk, thread: Some(thread) })
    }

    /// Removes a sandbox that is in the trash.
    pub(super) fn remove(&self, id: &SandboxId, lock: Lock) {
        self.desk.work.lock().remains.push_back(Remains { id: id.clone(), _lock: lock });
        self.desk.changed.notify_all();
    }

    /// Removes a sandbox that could not be made, at once if the engine lets us.
    pub(super) fn discard(&self, id: &SandboxId, lock: Lock) {
        let data = &self.desk.engine.data;
        if fs::rename(data.sandbox(id), data.trash(id)).is_err() {
            return;
        }
        if self.desk.engine.remove(id).is_err() {
            self.remove(id, lock);
        } else {
            drop(self.desk.engine.tidy());
        }
    }

    pub(super) fn settle(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut work = self.desk.work.lock();
        while work.search || work.busy || !work.remains.is_empty() {
            if self.desk.changed.wait_until(&mut work, deadline).timed_out() {
                return !work.search && !work.busy && work.remains.is_empty();
            }
        }
        true
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.desk.work.lock().ended = true;
        self.desk.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // What it could not do, the next process finds.
            drop(thread.join());
        }
    }
}

impl Desk {
    fn work(&self) {
        let mut work = self.work.lock();
        // What was destroyed is removed to the end: nobody may look at this directory again.
        while !work.ended || !work.remains.is_empty() {
            if work.search && !work.ended {
                work.busy = true;
                drop(work);
                let found = self.search();
                work = self.work.lock();
                work.busy = false;
                match found {
                    Ok(found) => {
                        work.search = false;
                        work.remains.extend(found);
                    }
                    Err(_) => {
                        self.changed.wait_for(&mut work, PAUSE);
                    }
                }
            } else if let Some(remains) = work.remains.pop_front() {
                work.busy = true;
                drop(work);
                let removed = self.engine.remove(&remains.id);
                if removed.is_ok() {
                    drop(remains._lock);
                    // What it could not do, the next removal or process does.
                    drop(self.engine.tidy());
                    work = self.work.lock();
                    work.busy = false;
                    continue;
                }
                work = self.work.lock();
                work.busy = false;
                if work.ended {
                    return;
                }
                work.remains.push_back(remains);
                self.changed.wait_for(&mut work, PAUSE);
            } else {
                self.changed.notify_all();
                self.changed.wait(&mut work);
            }
        }
    }

    /// Finds everything that nobody works on: sandboxes that were never handed out or whose makers
    /// have ended, trash, and containers without a record. An interrupted start is ended.
    fn search(&self) -> Result<Vec<Remains>, IsolationError> {
        let engine = &self.engine;
        engine.require()?;
        engine.learn();
        let mut remains: Vec<Remains> = Vec::new();
        for round in 0..MOST_SEARCHES {
            let Ok(_gate) = engine.data.gate(FlockOperation::LockExclusive) else { break };
            let mut undecided = false;
            for id in engine.data.sandboxes().unwrap_or_default() {
                match try_lock(&engine.data.sandbox(&id)) {
                    Ok(Some(lock)) => remains.extend(judge(engine, id, lock)?),
                    Ok(None) if engine.data.is_making(&id) => {}
                    Ok(None) => undecided |= !engine.holds.lock().contains_key(&id),
                    Err(_) => {}
                }
            }
            for id in engine.data.trashed().unwrap_or_default() {
                if remains.iter().all(|known| known.id != id)
                    && let Ok(Some(lock)) = try_lock(&engine.data.trash(&id))
                {
                    remains.push(Remains { id, _lock: lock });
                }
            }
            for id in engine.client.list(engine.data.instance())?.into_keys() {
                let Ok(id) = id.parse::<SandboxId>() else { continue };
                if !is_there(&engine.data.sandbox(&id)) && !is_there(&engine.data.trash(&id)) {
                    let removed = engine.client.remove(&container(&id));
                    removed.map_err(|error| error.during(format!("remove what is left of {id}")))?;
                }
            }
            if !undecided || round + 1 == MOST_SEARCHES {
                break;
            }
            std::thread::sleep(SEARCH_PAUSE);
        }
        if remains.is_empty() {
            engine.tidy()?;
        }
        Ok(remains)
    }
}

/// Decides about a sandbox that nobody works on: an orphan is put in the trash.
fn judge(engine: &Engine, id: SandboxId, lock: Lock) -> Result<Option<Remains>, IsolationError> {
    let directory = engine.data.sandbox(&id);
    match Record::load(&directory) {
        Some(record) if record.is_whole() && record.owner == OwnerBond::Outlives => {
            if record.stage == Stage::Resuming {
                end::halt_as(engine, &id, &record)?;
            }
            Ok(None)
        }
        // It was handed out, and a later version may be able to read its record.
        None if Record::exists(&directory) => Ok(None),
        _ => {
            let doomed = fs::rename(&directory, engine.data.trash(&id)).is_ok();
            Ok(doomed.then(|| Remains { id, _lock: lock }))
        }
    }
}

impl Engine {
    /// Removes what all sandboxes share once there is none.
    fn tidy(&self) -> Result<(), IsolationError> {
        match self.site {
            Site::Here(_) => door::remove_if_idle(self),
            Site::Far(_) => far::remove_if_idle(self),
        }
    }

    /// Removes the container and the directory of a sandbox in the trash.
    fn remove(&self, id: &SandboxId) -> Result<(), IsolationError> {
        let removed = self.client.remove(&container(id));
        removed.map_err(|error| error.during(format!("remove the container of {id}")))?;
        self.steps.passed(CrashPoint::DockerRemoved);
        if let Site::Far(bells) = &self.site {
            bells.forget(id);
        }
        self.window.hide(id.as_str());
        let trash = self.data.trash(id);
        let failed = |error| {
            let action = format!("remove the directory of {id}");
            IsolationError::caused(warren_core::IsolationErrorKind::Host, action, error)
        };
        shared::remove(&trash).map_err(failed)?;
        if !remove_tree(&trash, || {}) {
            return Err(failed(std::io::ErrorKind::DirectoryNotEmpty.into()));
        }
        self.steps.passed(CrashPoint::ReapFiles);
        Ok(())
    }
}
