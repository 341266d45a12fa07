//! Finding what processes that ended, however they ended, left behind.

use std::fs;

use rustix::fs::FlockOperation;
use warren_core::{OwnerBond, SandboxId};

use super::data::try_lock;
use super::reaper::Remains;
use super::record::{Record, Stage};
use super::{Hold, Shared, halt};

/// Takes over every orphan. A sandbox that outlives its maker is none, alive or not: whether its work is kept is not
/// decided here. One whose start from kept files was broken off is brought back to its files.
pub(super) fn orphans(shared: &Shared) -> Vec<Remains> {
    // While the gate is closed, every directory that exists and is being worked on is locked.
    let Ok(gate) = shared.data.gate(FlockOperation::LockExclusive) else { return Vec::new() };
    let mut remains = Vec::new();
    for id in shared.data.sandboxes().unwrap_or_default() {
        let directory = shared.data.sandbox(&id);
        let Ok(Some(lock)) = try_lock(&directory) else { continue };
        match Record::load(&directory) {
            Some(record) if record.owner == OwnerBond::Outlives => {
                if record.stage == Stage::Resuming {
                    drop(halt::end(shared, &record, &mut Hold::default()));
                }
            }
            // It was handed out, and perhaps a later version can read what this one cannot.
            None if Record::exists(&directory) => {}
            _ => {
                if fs::rename(&directory, shared.data.trash(&id)).is_ok() {
                    remains.push(Remains::new(id, lock, None));
                }
            }
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
    remains
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
