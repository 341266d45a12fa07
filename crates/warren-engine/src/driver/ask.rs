//! Writing to a driver, which is started if there is none.

use std::sync::Arc;

use warren_core::{Owner, Request, SandboxId, SandboxRecord, Status};

use super::{Driver, First};
use crate::cell::{Capture, CaptureOrder, Cell, Mail, Need, Task};
use crate::{Engine, EngineError};

impl Engine {
    /// Asks the sandbox's driver, starting one if need be.
    pub(crate) async fn ask(
        &self,
        owner: &Owner,
        id: &SandboxId,
        task: Task,
    ) -> Result<SandboxRecord, EngineError> {
        loop {
            let cell = self.wake(owner, id).await?;
            if let Some(request) = task.request() {
                cell.check_unoccupied(request)?;
            }
            if let Some(answer) = cell.ask(task.clone()).await {
                return answer.map(Arc::unwrap_or_clone);
            }
            self.await_successor().await?;
        }
    }

    /// Has the sandbox's driver capture its state.
    pub(crate) async fn capture(
        &self,
        owner: &Owner,
        id: &SandboxId,
        order: CaptureOrder,
    ) -> Result<Capture, EngineError> {
        loop {
            let cell = self.wake(owner, id).await?;
            if order.need == Need::Always {
                cell.check_unoccupied(Request::Snapshot)?;
            }
            let order = Box::new(order.clone());
            if let Some(answer) = cell.send(|reply| Mail::Capture(order, reply)).await {
                return answer;
            }
            self.await_successor().await?;
        }
    }

    /// The driver has left, and the next one is about to take its place.
    pub(crate) async fn await_successor(&self) -> Result<(), EngineError> {
        if self.is_closed() {
            return Err(EngineError::ShuttingDown);
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    /// The owner's sandbox with its driver, which is started if there is none.
    pub(crate) async fn wake(&self, owner: &Owner, id: &SandboxId) -> Result<Arc<Cell>, EngineError> {
        let registry = &self.shared.registry;
        if let Some(cell) = registry.find(owner, id) {
            return Ok(cell);
        }
        let _waking = registry.waking().await;
        if let Some(cell) = registry.find(owner, id) {
            return Ok(cell);
        }
        let record = self.recorded(owner, id).await?;
        let backend = self.backend_of(&record)?;
        let first = if record.is_live() {
            // Its driver was lost, or the engine is only answering questions and has not started
            // one.
            self.may_change()?;
            let (port, which) = (Arc::clone(&backend.port), id.clone());
            let (engine, of) = (self.inner(), record.clone());
            let found = backend.ask(move || port.watch(&which).map(|watch| (watch, engine.adopt_link(&of))));
            let (watch, link) = found.await.map_err(EngineError::Backend)?;
            First::Adopt { watch, frozen: record.status == Status::Paused, link }
        } else {
            First::Letter
        };
        if self.is_closed() {
            return Err(EngineError::ShuttingDown);
        }
        Driver::start(self, record, backend, None, first).ok_or_else(|| EngineError::sandbox_not_found(id))
    }
}
