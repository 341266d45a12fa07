use std::io;

use rustix::io::Errno;
use warren_core::{LayerError, LayerErrorKind};

/// What a system call's failure comes to. `action` names things as seen inside, never by their place on the host.
pub(crate) fn errno(action: &str) -> impl Fn(Errno) -> LayerError {
    move |errno| failed(action, errno.into())
}

pub(crate) fn io(action: &str) -> impl Fn(io::Error) -> LayerError {
    move |source| failed(action, source)
}

fn failed(action: &str, source: io::Error) -> LayerError {
    let kind = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LayerErrorKind::Full,
        _ => LayerErrorKind::Host,
    };
    LayerError::caused(kind, action, source)
}

pub(crate) fn invalid(action: impl Into<String>) -> LayerError {
    LayerError::new(LayerErrorKind::Invalid, action)
}
