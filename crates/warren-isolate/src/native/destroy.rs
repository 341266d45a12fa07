//! Ending a sandbox. The caller waits only for what decides it: every process is doomed and the id is free. The rest is
//! the reaper's.

use std::fs;
use std::io;

use rustix::fs::FlockOperation;
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::data::{Lock, try_lock};
use super::reaper::{Reaper, Remains};
use super::step::CrashPoint;
use super::{Hold, Shared, not_found};

pub(super) fn destroy(shared: &Shared, reaper: &Reaper, id: &SandboxId) -> Result<(), IsolationError> {
    let (hold, lock) = seize(shared, id)?;
    discard(shared, reaper, id, hold, lock);
    Ok(())
}

/// Takes over all that this process holds of a sandbox, and the lock on its directory. What is held stays so if the lock
/// cannot be had.
pub(super) fn seize(shared: &Shared, id: &SandboxId) -> Result<(Hold, Lock), IsolationError> {
    let mut hold = shared.release(id);
    match hold.lock.take().map_or_else(|| lock_unless_owned(shared, id), Ok) {
        Ok(lock) => Ok((hold, lock)),
        Err(error) => {
            // It lives on, and its first process is still to be reaped by whoever destroys it.
            shared.hold(id, hold);
            Err(error)
        }
    }
}

/// A search for orphans holds the lock of every sandbox it looks at for a moment, and the gate all along: behind the
/// gate, a lock that is held has an owner.
fn lock_unless_owned(shared: &Shared, id: &SandboxId) -> Result<Lock, IsolationError> {
    let lock = || {
        let gate = shared.data.gate(FlockOperation::LockShared)?;
        let lock = try_lock(&shared.data.sandbox(id));
        drop(gate);
        lock
    };
    match lock() {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(IsolationError::new(
            IsolationErrorKind::Host,
            format!("{id} belongs to another process, which destroys it itself"),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found(id)),
        Err(error) => Err(IsolationError::caused(IsolationErrorKind::Host, format!("lock {id}"), error)),
    }
}

/// Removes whatever exists of a sandbox whose directory's lock is held. Never fails: what cannot be done now is tried again
/// by the reaper, and by the next process that opens the data directory.
pub(super) fn discard(shared: &Shared, reaper: &Reaper, id: &SandboxId, hold: Hold, lock: Lock) {
    drop(shared.cgroups.kill(id.as_str()));
    shared.passed(CrashPoint::DestroyKill);
    drop(fs::rename(shared.data.sandbox(id), shared.data.trash(id)));
    shared.passed(CrashPoint::DestroyTrash);
    reaper.take(Remains::new(id.clone(), lock, hold.child));
}
