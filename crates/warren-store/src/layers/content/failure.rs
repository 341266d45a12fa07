use std::io::{self, Read};

use rustix::io::Errno;
use warren_core::{LayerError, LayerErrorKind, abandoned};

/// The error for a failed system call. `action` names things as seen inside, never by their place
/// on the host.
pub(crate) fn errno(action: &str) -> impl Fn(Errno) -> LayerError {
    move |errno| failed(action, errno.into())
}

pub(crate) fn io(action: &str) -> impl Fn(io::Error) -> LayerError {
    move |source| failed(action, source)
}

fn failed(action: &str, source: io::Error) -> LayerError {
    let kind = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LayerErrorKind::Full,
        io::ErrorKind::TimedOut if abandoned() => LayerErrorKind::Abandoned,
        _ => LayerErrorKind::Host,
    };
    LayerError::caused(kind, action, source)
}

/// Fails if the work that this thread does has been given up. Asked by whatever may take long.
pub(crate) fn unless_abandoned() -> Result<(), LayerError> {
    if abandoned() {
        let action = "it took longer than it may, or nobody waits for it any more";
        return Err(LayerError::new(LayerErrorKind::Abandoned, action));
    }
    Ok(())
}

/// A source of a tenant's bytes, which may be without end: it fails when the work has been given
/// up.
pub(crate) struct Attentive<R>(pub(crate) R);

impl<R: Read> Read for Attentive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if abandoned() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody waits for it any more"));
        }
        self.0.read(buffer)
    }
}

pub(crate) fn invalid(action: impl Into<String>) -> LayerError {
    LayerError::new(LayerErrorKind::Invalid, action)
}
