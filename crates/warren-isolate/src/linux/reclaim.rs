//! Finding the sandboxes that processes left behind, however they ended.

use std::fs;
use std::time::Duration;

use rustix::fs::FlockOperation;
use warren_core::{OwnerBond, SandboxId};

use super::data::{Lock, try_lock};
use super::reaper::Remains;
use super::record::{Record, Stage};
use super::{Backend, Hold, halt};

/// How often, and after which pause, an undecided directory is looked at again.
const MOST_SEARCHES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Takes over every orphan. A sandbox that outlives its maker is never an orphan, alive or not. If
/// its start from kept files was interrupted, it is halted again.
pub(super) fn orphans(backend: &Backend) -> Vec<Remains> {
    let mut remains = Vec::new();
    for _ in 0..MOST_SEARCHES {
        if !search(backend, &mut remains) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    remains
}

/// Looks at every directory once. Returns whether one may turn out to be an orphan a moment later:
/// a child that a killed process had just cloned keeps a copy of its locks until it executes. What
/// this process makes meanwhile is none: who ends would wait for another look.
fn search(backend: &Backend, remains: &mut Vec<Remains>) -> bool {
    // While the gate is held, every directory that somebody works on is locked.
    let Ok(gate) = backend.data.gate(FlockOperation::LockExclusive) else { return false };
    let mut undecided = false;
    for id in backend.data.sandboxes().unwrap_or_default() {
        let directory = backend.data.sandbox(&id);
        match try_lock(&directory) {
            Ok(Some(lock)) => remains.extend(judge(backend, id, lock)),
            Ok(None) if backend.data.is_making(&id) => {}
            Ok(None) => undecided |= !Record::load(&directory).is_some_and(|record| record.is_alive()),
            Err(_) => {}
        }
    }
    for id in backend.data.trashed().unwrap_or_default() {
        if remains.iter().all(|known| *known.id() != id)
            && let Ok(Some(lock)) = try_lock(&backend.data.trash(&id))
        {
            remains.push(Remains::new(id, lock, None));
        }
    }
    kill_strays(backend);
    drop(gate);
    undecided
}

/// Decides about a sandbox that nobody works on: an orphan is returned, to be removed.
fn judge(backend: &Backend, id: SandboxId, lock: Lock) -> Option<Remains> {
    let directory = backend.data.sandbox(&id);
    match Record::load(&directory) {
        Some(record) if record.owner == OwnerBond::Outlives => {
            if matches!(record.stage, Stage::Resuming | Stage::Suspending) {
                drop(halt::end(backend, &record, &mut Hold::default()));
            }
            None
        }
        // It was handed out, and a later version may be able to read its record.
        None if Record::exists(&directory) => None,
        _ => {
            let doomed = fs::rename(&directory, backend.data.trash(&id)).is_ok();
            doomed.then(|| Remains::new(id, lock, None))
        }
    }
}

/// Kills groups without a directory. A group is made after its directory and removed before it, so
/// these belong to nobody.
fn kill_strays(backend: &Backend) {
    for name in backend.cgroups.names() {
        let Ok(id) = name.parse::<SandboxId>() else { continue };
        if !backend.data.sandbox(&id).exists() && !backend.data.trash(&id).exists() {
            drop(backend.cgroups.kill(&name));
            backend.cgroups.remove(&name);
        }
    }
}
