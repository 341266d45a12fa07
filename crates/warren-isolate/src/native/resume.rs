//! Starting a sandbox again from the files of its last life. Whatever happens on the way, the files stay, and the record that
//! says whose they are.

use std::io;

use warren_core::{CreateRequest, Created, IsolationError, IsolationErrorKind};

use super::data::Lock;
use super::record::{Record, Stage};
use super::step::CrashPoint;
use super::{Hold, Shared, create, destroy, halt, seal, warden};

pub(super) fn resume(shared: &Shared, request: &CreateRequest) -> Result<Created, IsolationError> {
    let id = &request.id;
    let (mut hold, lock) = destroy::seize(shared, id)?;
    let directory = shared.data.sandbox(id);
    let Some(record) = Record::load(&directory) else {
        let action = format!("{id} has no files to start from");
        return Err(IsolationError::new(IsolationErrorKind::NotFound, action));
    };
    if record.is_alive() {
        halt::keep(shared, id, record.owner, hold, lock);
        return Err(IsolationError::new(IsolationErrorKind::AlreadyExists, format!("{id} is running")));
    }
    let record = match seal::settle_locked(shared, record.clone(), &directory) {
        Ok(record) => record,
        Err(error) => {
            halt::keep(shared, id, record.owner, hold, lock);
            return Err(IsolationError::caused(IsolationErrorKind::Host, format!("settle {id}"), error));
        }
    };
    match start(shared, request, &record, &lock, &mut hold) {
        Ok(pid) => {
            halt::keep(shared, id, request.owner, hold, lock);
            Ok(Created { id: id.clone(), pid })
        }
        Err(error) => {
            // What cannot be ended now is found by the next search for orphans: the record still says that it was begun.
            drop(halt::end(shared, &record.at(Stage::Resuming), &mut hold));
            halt::keep(shared, id, record.owner, hold, lock);
            Err(error)
        }
    }
}

fn start(
    shared: &Shared,
    request: &CreateRequest,
    record: &Record,
    lock: &Lock,
    hold: &mut Hold,
) -> Result<u32, IsolationError> {
    // It may have ended by itself, and then nothing has been given back yet.
    halt::end(shared, record, hold)?;
    let directory = shared.data.sandbox(&request.id);
    let begin = || -> io::Result<()> {
        record.enter(Stage::Resuming, &directory)?;
        warden::forgive(&directory)
    };
    begin().map_err(|error| {
        let action = format!("write down that {} is started again", request.id);
        IsolationError::caused(IsolationErrorKind::Host, action, error)
    })?;
    shared.passed(CrashPoint::ResumeRecord);
    create::build(shared, lock, request, Some(record), hold)
}
