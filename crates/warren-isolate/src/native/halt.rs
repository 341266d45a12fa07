//! Ending a sandbox's processes and keeping its files.

use std::time::{Duration, Instant};

use warren_core::{IsolationError, IsolationErrorKind, OwnerBond, SandboxId};

use super::cgroup::CgroupError;
use super::data::Lock;
use super::record::{Record, Stage};
use super::step::CrashPoint;
use super::{Hold, Shared, destroy, not_found, reaper};

/// How long killed processes may take to be gone. Each needs the processor for a moment to end.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn halt(shared: &Shared, id: &SandboxId) -> Result<(), IsolationError> {
    let (mut hold, lock) = destroy::seize(shared, id)?;
    // Without a record it was never handed out: it is an orphan, and nobody's files are in it.
    let record = Record::load(&shared.data.sandbox(id)).ok_or_else(|| not_found(id))?;
    let halted = end(shared, &record, &mut hold);
    keep(shared, id, record.owner, hold, lock);
    halted
}

/// Ends every process, gives back the group and the id range, and writes down that only files are left. The directory's
/// lock is held. May be repeated, and finishes what was half done.
pub(super) fn end(shared: &Shared, record: &Record, hold: &mut Hold) -> Result<(), IsolationError> {
    hold.watched = None;
    empty_group(shared, &record.id, hold).map_err(|error| {
        IsolationError::caused(IsolationErrorKind::Host, format!("end the processes of {}", record.id), error)
    })?;
    shared.passed(CrashPoint::HaltProcesses);
    shared.data.ranges().release(Some(record.id_base), &record.id);
    shared.passed(CrashPoint::HaltRange);
    if record.stage != Stage::Halted {
        // On a full disk this fails, and nothing rests on it: that no process is left says the same.
        drop(record.enter(Stage::Halted, &shared.data.sandbox(&record.id)));
    }
    shared.passed(CrashPoint::HaltRecord);
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

/// A process leaves its group after it has let go of its mounts: with the group, the last mount of the files is gone.
fn empty_group(shared: &Shared, id: &SandboxId, hold: &mut Hold) -> Result<(), LingerError> {
    let name = id.as_str();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let killed = shared.cgroups.kill(name);
        hold.child.take_if(|child| reaper::has_ended(child));
        let left = shared.cgroups.processes(name).map_or(true, |left| !left.is_empty());
        if hold.child.is_none() && !left && shared.cgroups.remove(name) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(killed.map_or_else(LingerError::Kill, |()| LingerError::Linger));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Lets go of a sandbox that goes on to exist. One that dies with this process stays locked: that says whose it is.
pub(super) fn keep(shared: &Shared, id: &SandboxId, owner: OwnerBond, mut hold: Hold, lock: Lock) {
    match owner {
        OwnerBond::DiesWithOwner => hold.lock = Some(lock),
        OwnerBond::Outlives => drop(lock),
    }
    shared.hold(id, hold);
}
