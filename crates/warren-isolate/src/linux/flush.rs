//! Writing a sandbox's files to the disk. Nothing inside can do that, as its overlays are volatile.

use std::io;

use rustix::fs::{Mode, OFlags};
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::record::Record;
use super::{Backend, not_found, quota};

pub(super) fn flush(backend: &Backend, id: &SandboxId) -> Result<(), IsolationError> {
    let directory = backend.data.sandbox(id);
    let record = Record::load(&directory).ok_or_else(|| not_found(id))?;
    let write = || -> io::Result<()> {
        // An image is a file system of its own.
        let writable = quota::view(&directory, record.quota).map_err(io::Error::other)?;
        rustix::fs::syncfs(&writable)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let data = rustix::fs::open(backend.data.root(), flags, Mode::empty())?;
        if rustix::fs::fstat(&data)?.st_dev != rustix::fs::fstat(&writable)?.st_dev {
            rustix::fs::syncfs(&data)?;
        }
        Ok(())
    };
    write().map_err(|error| {
        IsolationError::caused(IsolationErrorKind::Host, format!("put what {id} wrote on disk"), error)
    })
}
