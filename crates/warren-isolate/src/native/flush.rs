//! Putting what a sandbox wrote on disk. Its overlays are volatile, so that nothing inside can do it.

use std::io;

use rustix::fs::{Mode, OFlags};
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::record::Record;
use super::{Shared, not_found, quota};

pub(super) fn flush(shared: &Shared, id: &SandboxId) -> Result<(), IsolationError> {
    let directory = shared.data.sandbox(id);
    let record = Record::load(&directory).ok_or_else(|| not_found(id))?;
    let write = || -> io::Result<()> {
        // On an image, this is a file system of its own.
        let writable = quota::view(&directory, record.quota).map_err(io::Error::other)?;
        rustix::fs::syncfs(&writable)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let data = rustix::fs::open(shared.data.root(), flags, Mode::empty())?;
        if rustix::fs::fstat(&data)?.st_dev != rustix::fs::fstat(&writable)?.st_dev {
            rustix::fs::syncfs(&data)?;
        }
        Ok(())
    };
    write().map_err(|error| {
        IsolationError::caused(IsolationErrorKind::Host, format!("put what {id} wrote on disk"), error)
    })
}
