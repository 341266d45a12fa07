use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use warren_face::Desk;

use crate::samples::Samples;

/// The name that the face acts by where nobody shows a key.
pub(crate) const BY: &str = "e2b";

/// The state of the face. A clone is the same.
#[derive(Clone)]
pub struct E2b {
    desk: Desk,
    memory: Arc<Memory>,
}

/// Values that the face keeps while the server runs.
#[derive(Default)]
struct Memory {
    samples: Samples,
}

impl E2b {
    pub fn new(desk: Desk) -> Self {
        Self { desk, memory: Arc::default() }
    }

    /// Resources that sandboxes used lately.
    pub(crate) fn samples(&self) -> &Samples {
        &self.memory.samples
    }
}

impl Deref for E2b {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl FromRef<E2b> for Desk {
    fn from_ref(state: &E2b) -> Self {
        state.desk.clone()
    }
}

impl fmt::Debug for E2b {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("E2b").finish_non_exhaustive()
    }
}
