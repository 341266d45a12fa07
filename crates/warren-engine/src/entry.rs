use tokio::net::UnixStream;
use warren_core::{Event, Owner, Request, SandboxId};
use warren_wire::guest::CallError;

use crate::{Engine, EngineError};

/// Leave to work in a sandbox. While it exists the sandbox counts as busy: it is not frozen for idleness, and what must
/// not overlap with work is denied.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: SandboxId,
}

impl Engine {
    /// Asks the sandbox's driver for leave, thawing a sandbox that paused for want of work.
    pub(crate) async fn enter(
        &self,
        owner: &Owner,
        id: &SandboxId,
        request: Request,
    ) -> Result<Entry, EngineError> {
        unimplemented!()
    }
}

impl Entry {
    /// A new connection to the agent. An error says how the sandbox ended, if it did.
    pub(crate) async fn dial(&self) -> Result<UnixStream, EngineError> {
        unimplemented!()
    }

    /// What a failed call means: the agent's refusal, the end of the sandbox if it is ending, else the failure itself.
    pub(crate) async fn explain(&self, error: CallError) -> EngineError {
        unimplemented!()
    }

    /// Returns once the sandbox is being ended, with the error that open streams finish with. Cancel safe.
    pub(crate) async fn ended(&self) -> EngineError {
        unimplemented!()
    }

    /// Keeps the tail of what the sandbox wrote, for its death certificate.
    pub(crate) fn saw_output(&self, bytes: &[u8]) {
        unimplemented!()
    }

    /// Tells followers of the owner's events.
    pub(crate) fn emit(&self, event: Event) {
        unimplemented!()
    }

    /// Counts an exec in the statistics.
    pub(crate) fn count_exec(&self) {
        unimplemented!()
    }
}
