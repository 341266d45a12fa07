//! Finding what processes that ended, however they ended, left behind.

use std::fs;
use std::time::Duration;

use rustix::fs::FlockOperation;
use warren_core::{OwnerBond, SandboxId};

use super::data::{Lock, try_lock};
use super::reaper::Remains;
use super::record::{Record, Stage};
use super::{Hold, Shared, halt};

/// How often, and after which pause, what cannot be decided is looked at again.
const MOST_SEARCHES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Takes over every orphan. A sandbox that outlives its maker is none, alive or not: whether its work is kept is not
/// decided here. One whose start from kept files was broken off is brought back to its files.
pub(super) fn orphans(shared: &Shared) -> Vec<Remains> {
    let mut remains = Vec::new();
    for _ in 0..MOST_SEARCHES {
        if !search(shared, &mut remains) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    remains
}

/// Looks at every directory once. Says whether there is one that may be an orphan a moment later: the clone of a process
/// that was killed keeps a copy of its locks until it executes.
fn search(shared: &Shared, remains: &mut Vec<Remains>) -> bool {
    // While the gate is closed, every directory that exists and is being worked on is locked.
    let Ok(gate) = shared.data.gate(FlockOperation::LockExclusive) else { return false };
    let mut undecided = false;
    for id in shared.data.sandboxes().unwrap_or_default() {
        let directory = shared.data.sandbox(&id);
        match try_lock(&directory) {
            Ok(Some(lock)) => remains.extend(judge(shared, id, lock)),
            Ok(None) => undecided |= !Record::load(&directory).is_some_and(|record| record.is_alive()),
            Err(_) => {}
        }
    }
    for id in shared.data.trashed().unwrap_or_default() {
        if remains.iter().all(|known| *known.id() != id)
            && let Ok(Some(lock)) = try_lock(&shared.data.trash(&id))
        {
            remains.push(Remains::new(id, lock, None));
        }
    }
    kill_strays(shared);
    drop(gate);
    undecided
}

/// What is to be done with a sandbox that nobody works on.
fn judge(shared: &Shared, id: SandboxId, lock: Lock) -> Option<Remains> {
    let directory = shared.data.sandbox(&id);
    match Record::load(&directory) {
        Some(record) if record.owner == OwnerBond::Outlives => {
            if record.stage == Stage::Resuming {
                drop(halt::end(shared, &record, &mut Hold::default()));
            }
            None
        }
        // It was handed out, and perhaps a later version can read what this one cannot.
        None if Record::exists(&directory) => None,
        _ => {
            let doomed = fs::rename(&directory, shared.data.trash(&id)).is_ok();
            doomed.then(|| Remains::new(id, lock, None))
        }
    }
}

/// A group is made after its directory and removed before it, so one without belongs to nobody.
fn kill_strays(shared: &Shared) {
    for name in shared.cgroups.names() {
        let Ok(id) = name.parse::<SandboxId>() else { continue };
        if !shared.data.sandbox(&id).exists() && !shared.data.trash(&id).exists() {
            drop(shared.cgroups.kill(&name));
            shared.cgroups.remove(&name);
        }
    }
}
