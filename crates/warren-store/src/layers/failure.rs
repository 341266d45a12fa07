use std::io;

use warren_core::{LayerError, LayerErrorKind};

/// What the host answered while `action` was done. No room left is a kind of its own, whoever ran out of it.
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
