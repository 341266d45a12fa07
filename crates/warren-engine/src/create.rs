use warren_core::catalog::Idempotency;
use warren_core::{Owner, SandboxId, SandboxRecord, SessionRecord, Timeouts};

use crate::{Engine, EngineError, NewSandbox};

/// A sandbox that is to be made, with the first session that holds it.
#[derive(Debug, Clone)]
pub(crate) struct MakeSandbox {
    pub(crate) owner: Owner,
    /// Drawn by the caller, who has it in the session already.
    pub(crate) id: SandboxId,
    pub(crate) new: NewSandbox,
    pub(crate) timeouts: Timeouts,
    pub(crate) session: SessionRecord,
    /// A named backend serves, or it is an error; without a name the first that can.
    pub(crate) backend: Option<String>,
    pub(crate) idempotency: Option<Idempotency>,
    /// Answer as soon as it is written down; [`Engine::sandbox_ready`] or [`Engine::sandbox_ended`] tells the rest.
    pub(crate) background: bool,
}

/// Why a sandbox was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    /// The idempotency key was used before; nothing was written.
    #[error("the idempotency key was used before")]
    Repeated(Idempotency),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// Makes a sandbox. Everything that can be known beforehand is checked before anything is written; the rest ends in a
    /// record that says why it failed.
    pub(crate) async fn make(&self, make: MakeSandbox) -> Result<SandboxRecord, MakeError> {
        unimplemented!()
    }
}
