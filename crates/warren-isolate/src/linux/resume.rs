//! Starting a sandbox again from its files. If anything fails, the files and the record stay.

use std::io;

use warren_core::{CreateRequest, Created, IsolationError, IsolationErrorKind};

use super::data::Lock;
use super::record::{Record, Stage};
use super::step::CrashPoint;
use super::{Backend, Hold, create, destroy, halt, seal, warden};

pub(super) fn resume(backend: &Backend, request: &CreateRequest) -> Result<Created, IsolationError> {
    let id = &request.id;
    let (mut hold, lock) = destroy::seize(backend, id)?;
    let _turn = backend.turns.take(id);
    let directory = backend.data.sandbox(id);
    let Some(record) = Record::load(&directory) else {
        let action = format!("{id} has no files to start from");
        return Err(IsolationError::new(IsolationErrorKind::NotFound, action));
    };
    if record.is_alive() {
        halt::keep(backend, id, record.owner, hold, lock);
        return Err(IsolationError::new(IsolationErrorKind::AlreadyExists, format!("{id} is running")));
    }
    let record = match seal::settle_locked(backend, record.clone(), &directory) {
        Ok(record) => record,
        Err(error) => {
            halt::keep(backend, id, record.owner, hold, lock);
            return Err(IsolationError::caused(IsolationErrorKind::Host, format!("settle {id}"), error));
        }
    };
    match start(backend, request, &record, &lock, &mut hold) {
        Ok(pid) => {
            halt::keep(backend, id, request.owner, hold, lock);
            Ok(Created { id: id.clone(), pid })
        }
        Err(error) => {
            // If it cannot be ended now, the next search for orphans does that: the record still
            // says that the start was begun.
            drop(halt::end(backend, &record.at(Stage::Resuming), &mut hold));
            halt::keep(backend, id, record.owner, hold, lock);
            Err(error)
        }
    }
}

fn start(
    backend: &Backend,
    request: &CreateRequest,
    record: &Record,
    lock: &Lock,
    hold: &mut Hold,
) -> Result<u32, IsolationError> {
    // It may have ended by itself, and then its group and ids are still taken.
    if record.stage != Stage::Halted {
        halt::end(backend, record, hold)?;
    }
    let directory = backend.data.sandbox(&request.id);
    let begin = || -> io::Result<()> {
        record.enter(Stage::Resuming, &directory)?;
        warden::forgive(&directory)
    };
    begin().map_err(|error| {
        let action = format!("write down that {} is started again", request.id);
        IsolationError::caused(IsolationErrorKind::Host, action, error)
    })?;
    backend.passed(CrashPoint::ResumeRecord);
    create::build(backend, lock, request, Some(record), hold)
}
