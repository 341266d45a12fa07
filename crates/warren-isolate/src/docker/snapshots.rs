//! Copies of the files that a sandbox wrote, where the engine shows them. Layers that a sandbox
//! begins with are copied to the same place, so that a copy stands on the image alone.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use warren_core::{IsolationError, IsolationErrorKind, Layered, RootTree, SandboxId, Sealed};

use super::record::Record;
use super::{Docker, Engine, not_found, upper};
use crate::linux::CrashPoint;

/// Notes how the files of a sandbox look before anything in it has run.
pub(super) fn imprinted(record: Record) -> Record {
    match record.files.as_ref().filter(|_| record.bare) {
        // Without one, it is taken to have been written to.
        Some(files) => Record { imprint: upper::imprint(files).ok(), bare: false, ..record },
        None => record,
    }
}

impl Layered for Docker {
    fn seal(&self, id: &SandboxId, _: &Path, _: &[RootTree]) -> Result<Sealed, IsolationError> {
        let (record, files) = shown(&self.engine, id)?;
        let same = record.bare || record.imprint.is_some_and(|known| upper::is_as_it_was(&files, known));
        Ok(if same { Sealed::Unchanged } else { Sealed::Unmovable })
    }

    fn writable(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        let (_, files) = shown(&self.engine, id)?;
        self.engine.window.show(id.as_str(), &files).map_err(|error| failed("show", id, error))
    }

    fn holds_layers(&self) -> bool {
        true
    }

    fn clear(&self, id: &SandboxId) -> Result<(), IsolationError> {
        let (record, files) = shown(&self.engine, id)?;
        if record.is_alive() {
            let action = format!("clear the files of {id}, which runs");
            return Err(IsolationError::new(IsolationErrorKind::Invalid, action));
        }
        let bare = Record { bare: true, imprint: None, ..record };
        let stored = bare.store(&self.engine.data.sandbox(id));
        stored.map_err(|error| failed("write down that nothing is left of", id, error))?;
        self.engine.steps.passed(CrashPoint::DockerCleared);
        upper::empty(&files).map_err(|error| failed("clear", id, error))
    }
}

/// The record of a sandbox, and where its files are.
fn shown(engine: &Engine, id: &SandboxId) -> Result<(Record, PathBuf), IsolationError> {
    let record = Record::load(&engine.data.sandbox(id)).filter(Record::is_whole);
    let record = record.ok_or_else(|| not_found(id))?;
    let Some(files) = record.files.clone() else {
        let action = format!("find the files of {id}: the engine does not say where they are");
        return Err(IsolationError::new(IsolationErrorKind::Unsupported, action));
    };
    Ok((record, files))
}

fn failed(action: &str, id: &SandboxId, error: std::io::Error) -> IsolationError {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => IsolationErrorKind::Exhausted,
        _ => IsolationErrorKind::Host,
    };
    IsolationError::caused(kind, format!("{action} the files of {id}"), error)
}
