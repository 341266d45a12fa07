//! Stopping processes where they stand, ending them, and removing a sandbox.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::client::{CallError, refused};
use super::keeper::Keeper;
use super::record::{Record, Stage};
use super::{Engine, container, not_found, shared};
use crate::linux::{CrashPoint, layer, try_lock};

/// How long killed processes may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);

pub(super) fn set_frozen(engine: &Engine, id: &SandboxId, frozen: bool) -> Result<(), IsolationError> {
    let record = engine.known(id)?;
    if !engine.runs(id, &record)? {
        let action = format!("pause or resume {id}, which has ended");
        return Err(IsolationError::new(IsolationErrorKind::Ended, action));
    }
    let action = if frozen { "pause" } else { "resume" };
    match engine.client.pause(&container(id), frozen) {
        Ok(()) => Ok(()),
        // It stands so already, or has ended.
        Err(CallError::Conflict(_) | CallError::Failed(_)) if is_frozen(engine, id)? == frozen => Ok(()),
        Err(error) => Err(error.during(format!("{action} {id}"))),
    }
}

fn is_frozen(engine: &Engine, id: &SandboxId) -> Result<bool, IsolationError> {
    let seen = engine.client.inspect(&container(id));
    let seen = seen.map_err(|error| error.during(format!("look at {id}")))?;
    Ok(seen.state.and_then(|state| state.paused).unwrap_or(false))
}

pub(super) fn halt(engine: &Engine, id: &SandboxId) -> Result<(), IsolationError> {
    let record = engine.known(id)?;
    halt_as(engine, id, &record)
}

/// Ends the processes of a sandbox, whose files stay.
pub(super) fn halt_as(engine: &Engine, id: &SandboxId, record: &Record) -> Result<(), IsolationError> {
    kill(engine, id)?;
    engine.steps.passed(CrashPoint::HaltProcesses);
    let directory = engine.data.sandbox(id);
    shared::remove(&directory).map_err(|error| layer("shared directory", error))?;
    record.at(Stage::Halted).store(&directory).map_err(|error| {
        let action = format!("write down that {id} is halted");
        IsolationError::caused(IsolationErrorKind::Host, action, error)
    })?;
    engine.steps.passed(CrashPoint::HaltRecord);
    if let Some(hold) = engine.holds.lock().get_mut(id) {
        hold._lifeline = None;
    }
    Ok(())
}

/// Kills every process and waits until all are gone and the engine knows it.
fn kill(engine: &Engine, id: &SandboxId) -> Result<(), IsolationError> {
    let name = container(id);
    match engine.client.kill(&name) {
        // Not running is a conflict.
        Ok(()) | Err(CallError::Conflict(_) | CallError::NotFound(_)) => {}
        Err(error) => return Err(refused(id, "end", error)),
    }
    let deadline = Instant::now() + KILL_PATIENCE;
    loop {
        let state = match engine.client.inspect(&name) {
            Ok(seen) => seen.state.unwrap_or_default(),
            Err(CallError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error.during(format!("end {id}"))),
        };
        if !state.running.unwrap_or(false) {
            return Ok(());
        }
        if state.paused.unwrap_or(false) {
            // What is frozen does not die. That it is thawed or gone already is no fault.
            drop(engine.client.pause(&name, false));
            drop(engine.client.kill(&name));
        }
        if Instant::now() > deadline {
            let action = format!("end {id}: its processes do not go away");
            return Err(IsolationError::new(IsolationErrorKind::Host, action));
        }
        std::thread::sleep(PAUSE);
    }
}

pub(super) fn destroy(engine: &Arc<Engine>, keeper: &Keeper, id: &SandboxId) -> Result<(), IsolationError> {
    let directory = engine.data.sandbox(id);
    if !directory.is_dir() {
        return Err(not_found(id));
    }
    engine.require()?;
    match engine.client.kill(&container(id)) {
        Ok(()) | Err(CallError::Conflict(_) | CallError::NotFound(_)) => {}
        Err(error) => return Err(refused(id, "end", error)),
    }
    engine.steps.passed(CrashPoint::DestroyKill);
    engine.holds.lock().remove(id);
    let failed = |error| {
        IsolationError::caused(IsolationErrorKind::Host, format!("remove the directory of {id}"), error)
    };
    let lock = try_lock(&directory).map_err(failed)?;
    let lock = lock.ok_or_else(|| failed(std::io::ErrorKind::ResourceBusy.into()))?;
    fs::rename(&directory, engine.data.trash(id)).map_err(failed)?;
    engine.steps.passed(CrashPoint::DestroyTrash);
    keeper.remove(id, lock);
    Ok(())
}
