//! Ending a sandbox's processes and keeping its files.

use std::time::{Duration, Instant};

use warren_core::{IsolationError, IsolationErrorKind, OwnerBond, SandboxId};

use super::cgroup::CgroupError;
use super::data::Lock;
use super::record::{Record, Stage};
use super::step::CrashPoint;
use super::{Backend, Hold, destroy, not_found, reaper};

/// How long killed processes may take to be gone. Each needs the processor for a moment to end.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn halt(backend: &Backend, id: &SandboxId) -> Result<(), IsolationError> {
    let (mut hold, lock) = destroy::seize(backend, id)?;
    // Without a record it was never handed out, and is an orphan.
    let record = Record::load(&backend.data.sandbox(id)).ok_or_else(|| not_found(id))?;
    let halted = end(backend, &record, &mut hold);
    keep(backend, id, record.owner, hold, lock);
    halted
}

/// Ends every process, frees the group and the id range, and records that only files are left. The
/// directory's lock is held. May be repeated after a failure.
pub(super) fn end(backend: &Backend, record: &Record, hold: &mut Hold) -> Result<(), IsolationError> {
    hold.watched = None;
    backend.forget_life(&record.id);
    empty_group(backend, &record.id, hold).map_err(|error| {
        IsolationError::caused(IsolationErrorKind::Host, format!("end the processes of {}", record.id), error)
    })?;
    backend.passed(CrashPoint::HaltProcesses);
    backend.data.ranges().release(Some(record.id_base), &record.id);
    backend.passed(CrashPoint::HaltRange);
    if record.stage != Stage::Halted {
        // On a full disk this fails, which is harmless: without processes it counts as halted.
        drop(record.enter_for_long(Stage::Halted, &backend.data.sandbox(&record.id)));
    }
    backend.passed(CrashPoint::HaltRecord);
    Ok(())
}

/// Processes could not be ended.
#[derive(Debug, thiserror::Error)]
enum LingerError {
    #[error("kill the processes")]
    Kill(#[source] CgroupError),
    #[error("processes that were killed have not ended")]
    Linger,
}

/// Kills until the group is gone. A process leaves its group after it has released its mounts, so
/// the last mount of the files is gone too.
fn empty_group(backend: &Backend, id: &SandboxId, hold: &mut Hold) -> Result<(), LingerError> {
    let name = id.as_str();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let killed = backend.cgroups.kill(name);
        hold.child.take_if(|child| reaper::has_ended(child));
        let left = backend.cgroups.processes(name).map_or(true, |left| !left.is_empty());
        if hold.child.is_none() && !left && backend.cgroups.remove(name) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(killed.map_or_else(LingerError::Kill, |()| LingerError::Linger));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Releases a sandbox after a call. One that dies with this process stays locked, which marks its
/// owner.
pub(super) fn keep(backend: &Backend, id: &SandboxId, owner: OwnerBond, mut hold: Hold, lock: Lock) {
    match owner {
        OwnerBond::DiesWithOwner => hold.lock = Some(lock),
        OwnerBond::Outlives => drop(lock),
    }
    backend.hold(id, hold);
}
