//! The way into one life of a sandbox.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::UnixStream;
use tokio::time::timeout;
use warren_core::{IsolationErrorKind, SandboxId};
use warren_wire::guest::{Exit, ProcessId};

use super::{Cell, Life};
use crate::EngineError;
use crate::backend::{PATIENCE, dial};
use crate::guest::Gate;

/// How long a driver gets to say how its sandbox ended. It may be in the middle of other work.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The way into one life of a sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) id: SandboxId,
    pub(crate) cell: Arc<Cell>,
    pub(crate) life: Arc<Life>,
}

impl Door {
    /// A new connection to the agent. An error says how the sandbox ended, if it did: another life
    /// of it is not entered.
    pub(crate) async fn dial(&self) -> Result<UnixStream, EngineError> {
        if let Some(detail) = self.life.ended() {
            return Err(self.ended(&detail));
        }
        match dial(&self.cell.backend, &self.id, PATIENCE).await {
            Ok(stream) => Ok(stream),
            Err(error) => match error.kind {
                IsolationErrorKind::NotFound | IsolationErrorKind::Ended => {
                    Err(self.end_or(EngineError::Backend(error)).await)
                }
                _ => Err(EngineError::Backend(error)),
            },
        }
    }

    /// A socket in the sandbox's own network, if the backend makes them.
    pub(crate) async fn socket(&self, v6: bool) -> Result<Option<OwnedFd>, EngineError> {
        let (port, id) = (Arc::clone(&self.cell.backend.port), self.id.clone());
        match self.cell.backend.ask(move || port.socket(&id, v6)).await {
            Ok(socket) => Ok(socket),
            Err(error) => match error.kind {
                IsolationErrorKind::NotFound | IsolationErrorKind::Ended => {
                    Err(self.end_or(EngineError::Backend(error)).await)
                }
                _ => Err(EngineError::Backend(error)),
            },
        }
    }

    /// A broken connection may be the first that is seen of the sandbox's end: what its driver says
    /// of it, else the error.
    async fn end_or(&self, error: EngineError) -> EngineError {
        timeout(END_PATIENCE, self.end()).await.unwrap_or(error)
    }

    /// Waits for the end of this life, and says how it ended.
    pub(crate) async fn end(&self) -> EngineError {
        self.ended(&self.life.until_end().await)
    }

    pub(crate) fn ended(&self, detail: &str) -> EngineError {
        EngineError::SandboxEnded { id: self.id.clone(), detail: detail.to_owned() }
    }
}

/// A way in that does not count as being there.
impl Gate for Door {
    fn sandbox(&self) -> &SandboxId {
        &self.id
    }

    fn dial(&self) -> BoxFuture<'_, Result<UnixStream, EngineError>> {
        Box::pin(Self::dial(self))
    }

    fn end(&self) -> BoxFuture<'_, EngineError> {
        Box::pin(Self::end(self))
    }

    fn saw_output(&self, _bytes: &[u8]) {}

    fn started(&self, _process: ProcessId, _command: String) {}

    fn ended(&self, _process: ProcessId, _exit: &Exit) {}
}
