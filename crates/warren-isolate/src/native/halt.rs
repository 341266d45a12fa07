//! Ending a sandbox's processes and keeping its files.

use std::time::{Duration, Instant};

use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::data::Lock;
use super::record::Record;
use super::{Hold, Shared, destroy, reaper};

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn halt(shared: &Shared, id: &SandboxId) -> Result<(), IsolationError> {
    let mut hold = shared.release(id);
    let lock = match hold.lock.take().map_or_else(|| destroy::lock_unless_owned(shared, id), Ok) {
        Ok(lock) => lock,
        Err(error) => {
            shared.hold(id, hold);
            return Err(error);
        }
    };
    let ended = end(shared, id, &mut hold);
    keep_files(shared, id, hold, lock);
    ended
}

/// Ends every process and gives back group and id range. The directory's lock is held.
fn end(shared: &Shared, id: &SandboxId, hold: &mut Hold) -> Result<(), IsolationError> {
    let name = id.as_str();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let killed = shared.cgroups.kill(name);
        hold.child.take_if(|child| reaper::has_ended(child));
        let left = shared.cgroups.processes(name).is_ok_and(|left| !left.is_empty());
        if hold.child.is_none() && !left && shared.cgroups.remove(name) {
            break;
        }
        if Instant::now() > deadline {
            let action = format!("end the processes of {id}");
            return Err(match killed {
                Err(error) => IsolationError::caused(IsolationErrorKind::Host, action, error),
                Ok(()) => IsolationError::new(IsolationErrorKind::Host, action),
            });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    hold.watched = None;
    let record = Record::load(&shared.data.sandbox(id));
    shared.data.ranges().release(record.map(|record| record.id_base), name);
    Ok(())
}

/// The files of a sandbox that dies with this process stay its own: its lock says so.
fn keep_files(shared: &Shared, id: &SandboxId, mut hold: Hold, lock: Lock) {
    let outlives = Record::load(&shared.data.sandbox(id))
        .is_some_and(|record| record.owner == warren_core::OwnerBond::Outlives);
    if !outlives {
        hold.lock = Some(lock);
    }
    if hold.child.is_some() || hold.lock.is_some() {
        shared.hold(id, hold);
    }
}
