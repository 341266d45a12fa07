use std::sync::Arc;

use warren_core::{Owner, SandboxId, SnapshotId};

use crate::admit::check_range;
use crate::cell::{Exclusive, Goal, Mail, RollbackOrder, RolledBack, Task};
use crate::error::Field;
use crate::ports::finished;
use crate::{Engine, EngineError, Sandbox, SandboxHistory};

/// More states than anybody goes back at a time.
const MOST_STEPS: u64 = 10_000;

impl SandboxHistory {
    /// Gives a sandbox the files of an earlier state, after capturing those it has. Its processes
    /// end. `force`: also those that a caller waits for.
    pub async fn rollback(&self, to: &SnapshotId, force: bool) -> Result<RolledBack, EngineError> {
        self.go(Goal::To(to.clone()), force).await
    }

    /// Goes back this many states, or as many as there are.
    pub async fn undo(&self, steps: u32, force: bool) -> Result<RolledBack, EngineError> {
        check_range(Field::Steps, steps.into(), MOST_STEPS)?;
        self.go(Goal::Undo(steps), force).await
    }

    /// Takes back an undo, or a rollback.
    pub async fn redo(&self, steps: u32, force: bool) -> Result<RolledBack, EngineError> {
        check_range(Field::Steps, steps.into(), MOST_STEPS)?;
        self.go(Goal::Redo(steps), force).await
    }

    async fn go(&self, goal: Goal, force: bool) -> Result<RolledBack, EngineError> {
        let Sandbox { engine, caller, id } = self.sandbox.clone();
        finished(async move {
            loop {
                let exclusive = engine.occupy(&caller.owner, &id, force).await?;
                if let Some(mut answer) = engine.go_alone(exclusive, goal.clone(), force).await {
                    if let Ok(rolled) = &mut answer {
                        rolled.entry = engine.note_rollback(&caller, rolled).await;
                    }
                    return answer;
                }
                engine.await_successor().await?;
            }
        })
        .await
    }
}

impl Engine {
    /// Sends a sandbox to a state, for a caller that occupies it; `None` when its driver has left.
    pub(super) async fn go_alone(
        &self,
        exclusive: Exclusive,
        goal: Goal,
        force: bool,
    ) -> Option<Result<RolledBack, EngineError>> {
        let cell = Arc::clone(&exclusive.cell);
        let order = Box::new(RollbackOrder { goal, force, exclusive });
        let answer = cell.send(|reply| Mail::RollBack(order, reply)).await?;
        Some(answer.map(|rolled| *rolled))
    }

    /// Keeps everybody else out of a sandbox, if it may be rolled back now.
    pub(super) async fn occupy(
        &self,
        owner: &Owner,
        id: &SandboxId,
        force: bool,
    ) -> Result<Exclusive, EngineError> {
        self.may_change()?;
        let cell = self.wake(owner, id).await?;
        cell.backend.layered()?;
        self.check_wall(&cell.record(), &cell.backend)?;
        if cell.rests() {
            self.ask(owner, id, Task::Thaw).await?;
        }
        cell.occupy(force).map_err(|(status, reason)| EngineError::Denied { id: id.clone(), status, reason })
    }
}
