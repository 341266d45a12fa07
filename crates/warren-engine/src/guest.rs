//! The host's side of the guest protocol, for callers that must not block.
//!
//! The agent runs inside the sandbox and may have been taken over: every frame is bounded, what
//! does not fit the call is an error, and an answer that is due is waited for only so long. Only
//! what a process does may take for ever.

mod call;
mod receive;
mod send;

#[cfg(test)]
pub(crate) mod fake;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::UnixStream;
use tokio::time::timeout;
use warren_core::SandboxId;
use warren_wire::guest::{CallError, Exit, ProcessId, Reply, Request};

use crate::EngineError;

pub(crate) use call::{Call, Piece};
pub(crate) use receive::Receiver;
pub(crate) use send::Sender;

/// How long an answer may take that needs no work.
pub(crate) const ANSWER: Duration = Duration::from_secs(30);

/// How long a sandbox that still takes connections may have ended before that is known.
const LAST_BREATH: Duration = Duration::from_millis(200);

/// How long an answer may take that needs a walk through all files.
pub(crate) const WORK: Duration = Duration::from_secs(300);

/// The way to a sandbox's agent.
pub(crate) trait Dial: Send + Sync {
    fn sandbox(&self) -> &SandboxId;

    /// A new connection. An error says how the sandbox ended, if it did.
    fn dial(&self) -> BoxFuture<'_, Result<UnixStream, EngineError>>;

    /// Waits for the end of the sandbox's life, and says how it ended.
    fn end(&self) -> BoxFuture<'_, EngineError>;
}

/// Hears of the processes that are started through a [`Guest`]. By default it ignores them.
pub(crate) trait Observer: Send + Sync {
    fn saw_output(&self, _bytes: &[u8]) {}

    fn started(&self, _process: ProcessId, _command: String) {}

    fn ended(&self, _process: ProcessId, _exit: &Exit) {}

    /// Waits until the files that a process wrote are as safe as they must be before its end is
    /// told.
    fn flush(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A caller that is not told of processes.
struct Unobserved;

impl Observer for Unobserved {}

/// A sandbox's agent. A clone is the same agent.
#[derive(Clone)]
pub(crate) struct Guest {
    door: Arc<dyn Dial>,
    pub(crate) observer: Arc<dyn Observer>,
}

impl Guest {
    pub(crate) fn new(door: impl Dial + 'static, observer: Arc<dyn Observer>) -> Self {
        Self { door: Arc::new(door), observer }
    }

    /// The agent, for a caller that does not count as being in the sandbox.
    pub(crate) fn unobserved(door: impl Dial + 'static) -> Self {
        Self::new(door, Arc::new(Unobserved))
    }

    /// Opens a call and takes its first answer.
    pub(crate) async fn begin(
        &self,
        request: &Request,
        patience: Duration,
    ) -> Result<(Reply, Call), EngineError> {
        within(patience, async {
            let mut call = self.open(request).await?;
            let reply = call.receiver.reply().await;
            match reply {
                Ok(reply) => Ok((reply, call)),
                Err(error) => Err(self.explain(error).await),
            }
        })
        .await
    }

    /// Opens a call that has one answer, and takes it.
    pub(crate) async fn ask(&self, request: &Request, patience: Duration) -> Result<Reply, EngineError> {
        self.begin(request, patience).await.map(|(reply, _)| reply)
    }

    /// Opens a call that is answered by [`Reply::Done`].
    pub(crate) async fn tell(&self, request: &Request, patience: Duration) -> Result<(), EngineError> {
        match self.ask(request, patience).await? {
            Reply::Done => Ok(()),
            _ => Err(self.unexpected("something other than that it is done")),
        }
    }

    /// Opens a call whose first answer is not due at once.
    pub(crate) async fn open(&self, request: &Request) -> Result<Call, EngineError> {
        within(ANSWER, async {
            let mut call = Call::new(self.clone(), self.door.dial().await?);
            match call.sender.message(request).await {
                Ok(()) => Ok(call),
                Err(error) => Err(self.explain(error).await),
            }
        })
        .await
    }

    /// The error that a call's failure means. A broken connection may be the first sign of a
    /// sandbox's end.
    pub(crate) async fn explain(&self, error: CallError) -> EngineError {
        match error {
            CallError::Failed(failure) => EngineError::Refused(failure),
            CallError::Closed | CallError::Stream(_) => match timeout(ANSWER, self.door.dial()).await {
                Ok(Err(ended)) if ended.is_end() => ended,
                // An agent that is dying closes its connections before it stops listening.
                Ok(Ok(_)) => {
                    timeout(LAST_BREATH, self.door.end()).await.unwrap_or_else(|_| self.failed(error))
                }
                _ => self.failed(error),
            },
            _ => self.failed(error),
        }
    }

    pub(crate) fn unexpected(&self, what: &'static str) -> EngineError {
        self.failed(CallError::Unexpected(what))
    }

    pub(crate) fn failed(&self, source: CallError) -> EngineError {
        EngineError::Agent { id: self.door.sandbox().clone(), source }
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guest").field(self.door.sandbox()).finish()
    }
}

/// Waits for the agent no longer than this.
pub(crate) async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    match timeout(patience, work).await {
        Ok(outcome) => outcome,
        Err(_) => {
            Err(EngineError::TimedOut { what: "the agent's answer".to_owned(), seconds: patience.as_secs() })
        }
    }
}

#[cfg(test)]
mod tests;
