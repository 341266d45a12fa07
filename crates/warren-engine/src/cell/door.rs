//! The way into one life of a sandbox.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};
use warren_core::{Isolation, IsolationError, IsolationErrorKind, SandboxId};

use super::{Cell, Life};
use crate::EngineError;
use crate::guest::Dial;

/// How long a full queue of callers is waited for.
const QUEUE_PATIENCE: Duration = Duration::from_secs(5);
/// The first wait; each is twice as long as the one before, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// How long a driver gets to say how its sandbox ended. It may be in the middle of other work.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The way into one life of a sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) id: SandboxId,
    pub(crate) cell: Arc<Cell>,
    pub(crate) life: Arc<Life>,
    /// How long the driver's word is waited for when a connection fails: a driver does not wait for
    /// itself.
    pub(crate) end_patience: Duration,
}

impl Door {
    /// The way into this life of a sandbox.
    pub(crate) fn of(cell: &Arc<Cell>, life: Arc<Life>) -> Self {
        Self { id: cell.id.clone(), cell: Arc::clone(cell), life, end_patience: END_PATIENCE }
    }

    /// A socket in the sandbox's own network, if the backend makes them.
    pub(crate) async fn socket(&self, v6: bool) -> Result<Option<OwnedFd>, EngineError> {
        match self.ask(move |port, id| port.socket(id, v6)).await {
            Ok(socket) => Ok(socket),
            Err(error) => Err(self.explain(error).await),
        }
    }

    pub(crate) fn ended(&self, detail: &str) -> EngineError {
        EngineError::SandboxEnded { id: self.id.clone(), detail: detail.to_owned() }
    }

    async fn dial_once(&self) -> Result<OwnedFd, IsolationError> {
        let port = &self.cell.backend.port;
        if port.dials_at_once() { port.dial(&self.id) } else { self.ask(|port, id| port.dial(id)).await }
    }

    /// Asks the backend on one of its threads.
    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Isolation, &SandboxId) -> R + Send + 'static,
    ) -> R {
        let (port, id) = (Arc::clone(&self.cell.backend.port), self.id.clone());
        self.cell.backend.ask(move || question(port.as_ref(), &id)).await
    }

    /// A failed connection may be the first sign of the sandbox's end: what its driver says of
    /// that, else the error.
    async fn explain(&self, error: IsolationError) -> EngineError {
        if error.kind == IsolationErrorKind::Away {
            let (backend, why) = (&self.cell.backend, error.to_string());
            backend.set_away(Some(why.clone()));
            return EngineError::BackendUnavailable { name: backend.name().to_owned(), why };
        }
        let ended = matches!(error.kind, IsolationErrorKind::NotFound | IsolationErrorKind::Ended);
        let error = EngineError::Backend(error);
        if ended { timeout(self.end_patience, self.end()).await.unwrap_or(error) } else { error }
    }
}

impl Dial for Door {
    fn sandbox(&self) -> &SandboxId {
        &self.id
    }

    /// Another life of the sandbox is not entered. A backend tries once and never waits; a full
    /// queue of callers is waited for here, without a thread.
    fn dial(&self) -> BoxFuture<'_, Result<UnixStream, EngineError>> {
        Box::pin(async {
            if let Some(detail) = self.life.ended() {
                return Err(self.ended(&detail));
            }
            let deadline = Instant::now() + QUEUE_PATIENCE;
            let mut wait = FIRST_WAIT;
            loop {
                match self.dial_once().await {
                    Ok(stream) => return nonblocking(stream.into(), &self.id),
                    Err(error) if error.kind == IsolationErrorKind::Busy && Instant::now() < deadline => {
                        sleep(wait).await;
                        wait = (wait * 2).min(LONGEST_WAIT);
                    }
                    Err(error) => return Err(self.explain(error).await),
                }
            }
        })
    }

    fn end(&self) -> BoxFuture<'_, EngineError> {
        Box::pin(async { self.ended(&self.life.until_end().await) })
    }
}

fn nonblocking(stream: StdStream, id: &SandboxId) -> Result<UnixStream, EngineError> {
    stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)).map_err(|error| {
        let action = format!("use a connection to the agent of {id}");
        EngineError::Backend(IsolationError::caused(IsolationErrorKind::Host, action, error))
    })
}
