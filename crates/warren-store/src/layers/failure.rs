use std::io;

use warren_core::{LayerError, LayerErrorKind};

/// The error for a failure of the host while `action` was done. No room left is a kind of its own.
pub(super) fn failed<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> LayerError {
    move |error| {
        let error = error.into();
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LayerErrorKind::Full,
            _ => LayerErrorKind::Host,
        };
        LayerError::caused(kind, action, error)
    }
}
