//! Writing to a driver.

use std::sync::Arc;

use tokio::sync::oneshot;
use warren_core::{Owner, Request, SandboxId, SandboxRecord};

use super::{Capture, CaptureOrder, Mail, Need, Reply, Task};
use crate::cell::Cell;
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
}

impl Task {
    /// What it asks for, if that may have to wait for a copy or a rollback.
    fn request(&self) -> Option<Request> {
        match self {
            Self::Pause => Some(Request::Pause),
            Self::Resume
            | Self::Thaw
            | Self::Stop(_)
            | Self::Expire
            | Self::Patch(_)
            | Self::Network { .. }
            | Self::Look(_)
            | Self::Forget { .. }
            | Self::Restack { .. } => None,
        }
    }
}

impl Cell {
    /// Asks the driver; `None` when it has left.
    pub(crate) async fn ask(&self, task: Task) -> Option<Result<Arc<SandboxRecord>, EngineError>> {
        self.send(|reply| Mail::Do(task, reply)).await
    }

    /// Sends a letter and waits for the answer; `None` when the driver has left.
    pub(crate) async fn send<T>(
        &self,
        letter: impl FnOnce(Reply<T>) -> Mail,
    ) -> Option<Result<T, EngineError>> {
        let (reply, answer) = oneshot::channel();
        self.mail.send(letter(reply)).await.ok()?;
        answer.await.ok()
    }

    /// An error while it is being copied or goes back to an earlier state, and the request has to wait for that.
    pub(crate) fn check_unoccupied(&self, request: Request) -> Result<(), EngineError> {
        match self.occupied(request) {
            Some(reason) => Err(EngineError::Denied { id: self.id.clone(), status: self.status(), reason }),
            None => Ok(()),
        }
    }
}
