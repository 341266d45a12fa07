//! Starting a sandbox again from its files. If anything fails, the files and the record stay.

use warren_core::{CreateRequest, Created, IsolationError, IsolationErrorKind};

use super::create::{Start, end_life, failed};
use super::record::{RECORD, Record};
use super::{Backend, Hold};
use crate::linux::{CrashPoint, Lock};

pub(super) fn resume(backend: &Backend, request: &CreateRequest) -> Result<Created, IsolationError> {
    let id = &request.id;
    let (found, record) = backend.find(id)?;
    let (mut hold, lock) = backend.seize(id)?;
    if backend.life(id).is_some() {
        backend.keep(id, record.owner, hold, lock);
        return Err(IsolationError::new(IsolationErrorKind::AlreadyExists, format!("{id} is running")));
    }
    let started = start(backend, request, &record, &lock, !found.is_stopped(), &mut hold);
    if started.is_err() {
        hold.lifeline = None;
        // If it cannot be ended now, the next search for orphans does that: it has no life.
        drop(backend.client.stop(id));
    }
    let owner = if started.is_ok() { request.owner } else { record.owner };
    backend.keep(id, owner, hold, lock);
    started.map(|pid| Created { id: id.clone(), pid })
}

fn start(
    backend: &Backend,
    request: &CreateRequest,
    record: &Record,
    lock: &Lock,
    runs: bool,
    hold: &mut Hold,
) -> Result<u32, IsolationError> {
    let id = &request.id;
    if runs {
        // Its first process has ended a moment ago, or a start of it was broken off.
        backend.client.stop(id).map_err(|error| failed(id, "the instance's end", error))?;
    }
    let forgotten = end_life(backend, id, lock);
    forgotten.map_err(|error| {
        IsolationError::caused(IsolationErrorKind::Host, format!("forget the last life of {id}"), error)
    })?;
    let pool = backend.pool()?;
    let record = record.of(&request.spec, request.owner);
    let (start, network) = Start::begin(backend, request, &record, pool)?;
    let mut config = start.shape(backend, &network).config();
    config[RECORD] = serde_json::Value::String(record.to_text());
    backend.client.configure(id, &config).map_err(|error| failed(id, "limits", error))?;
    backend.passed(CrashPoint::ResumeRecord);
    start.finish(backend, network, hold)
}
