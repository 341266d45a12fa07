use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::timeout;
use warren_core::{
    Activity, Event, IsolationError, IsolationErrorKind, Owner, Request, SandboxId, SandboxRecord, Verdict,
    decide,
};

use crate::cell::{Cell, Leave, Life};
use crate::driver::Task;
use crate::{Engine, EngineError};

/// How long a driver gets to say how its sandbox ended.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// Leave to work in a sandbox. While it exists the sandbox counts as busy: it is not frozen for idleness, and what must
/// not overlap with work is denied.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: SandboxId,
    engine: Engine,
    cell: Arc<Cell>,
    life: Arc<Life>,
    onlooker: AtomicBool,
}

impl Engine {
    /// Asks for leave at the sandbox's gate, thawing a sandbox that paused for want of work.
    pub(crate) async fn enter(
        &self,
        owner: &Owner,
        id: &SandboxId,
        request: Request,
    ) -> Result<Entry, EngineError> {
        if request == Request::ReadFiles {
            self.may_answer()?;
        } else {
            self.may_change()?;
        }
        loop {
            let Some(cell) = self.shared.registry.find(owner, id) else {
                let record = self.recorded(owner, id).await?;
                if record.is_live() {
                    self.wake(owner, id).await?;
                    continue;
                }
                return Err(denied_at_the_end(&record, request));
            };
            match cell.ask_leave(request, self.shared.parts.clock.boot_ms()) {
                Leave::Granted(life) => {
                    return Ok(Entry {
                        id: id.clone(),
                        engine: self.inner(),
                        cell,
                        life,
                        onlooker: AtomicBool::new(false),
                    });
                }
                Leave::ThawFirst => drop(self.ask(owner, id, Task::Thaw).await?),
                Leave::Wait(mut moved) => drop(moved.changed().await),
                Leave::Denied(status, reason) => {
                    return Err(EngineError::Denied { id: id.clone(), status, reason });
                }
            }
        }
    }

    fn may_answer(&self) -> Result<(), EngineError> {
        if self.is_closed() { Err(EngineError::ShuttingDown) } else { Ok(()) }
    }
}

fn denied_at_the_end(record: &SandboxRecord, request: Request) -> EngineError {
    match decide(record.status, Activity::default(), request) {
        Verdict::Denied(reason) => {
            EngineError::Denied { id: record.id.clone(), status: record.status, reason }
        }
        Verdict::AlreadySo | Verdict::Proceed(_) => EngineError::sandbox_not_found(&record.id),
    }
}

impl Entry {
    /// A new connection to the agent. An error says how the sandbox ended, if it did: another life of it is not entered.
    pub(crate) async fn dial(&self) -> Result<UnixStream, EngineError> {
        if let Some(detail) = self.life.ended() {
            return Err(self.ended(&detail));
        }
        match self.connect() {
            Ok(stream) => Ok(stream),
            Err(error) => match error.kind {
                IsolationErrorKind::NotFound | IsolationErrorKind::Ended => {
                    Err(self.end_or(EngineError::Backend(error)).await)
                }
                _ => Err(EngineError::Backend(error)),
            },
        }
    }

    /// Connecting takes some microseconds and never waits, so it needs no thread of its own.
    fn connect(&self) -> Result<UnixStream, IsolationError> {
        let stream = StdStream::from(self.cell.backend.dial(&self.id)?);
        stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)).map_err(|error| {
            IsolationError::caused(
                IsolationErrorKind::Host,
                format!("use a connection to the agent of {}", self.id),
                error,
            )
        })
    }

    /// A broken connection may be the first that is seen of the sandbox's end: what its driver says of it, else the error.
    async fn end_or(&self, error: EngineError) -> EngineError {
        match timeout(END_PATIENCE, self.life.until_end()).await {
            Ok(detail) => self.ended(&detail),
            Err(_) => error,
        }
    }

    fn ended(&self, detail: &str) -> EngineError {
        EngineError::SandboxEnded { id: self.id.clone(), detail: detail.to_owned() }
    }

    /// Something was done that may have changed the sandbox's files.
    pub(crate) fn mark_changed(&self) {
        self.cell.mark_changed();
    }

    /// From now on it only looks on: nobody has to wait for it before the sandbox is paused or goes back to an earlier state.
    pub(crate) fn step_aside(&self) {
        if !self.onlooker.swap(true, Ordering::AcqRel) {
            self.life.step_aside();
        }
    }

    /// Keeps the tail of what the sandbox wrote, for its death certificate.
    pub(crate) fn saw_output(&self, bytes: &[u8]) {
        self.cell.tail().push(bytes);
    }

    /// Tells followers of the owner's events.
    pub(crate) fn emit(&self, event: Event) {
        if matches!(event, Event::ExecStarted { .. }) {
            self.engine.shared.figures.exec();
        }
        self.engine.emit(&self.cell.owner, Some(&self.id), None, event);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if *self.onlooker.get_mut() {
            self.life.step_back();
        }
        self.life.go_out(self.engine.shared.parts.clock.boot_ms());
    }
}
