//! Deep stacks slow down every look at a file, so their layers are joined in the background.

use std::sync::Arc;

use warren_core::catalog::Durability;
use warren_core::{LayerId, Owner, SQUASH_DEPTH, SandboxId, SandboxRecord};

use crate::bounds::heavy;
use crate::cell::Task;
use crate::error::sentence;
use crate::state::Pin;
use crate::state::{restacked, stands_on};
use crate::work_kind::WorkKind;
use crate::{Engine, EngineError, EngineStep};

/// Says that a sandbox's layers are no longer being squashed.
struct Squashing {
    engine: Engine,
    id: SandboxId,
}

impl Drop for Squashing {
    fn drop(&mut self) {
        self.engine.shared.keep.squashing.lock().remove(&self.id);
    }
}

impl Engine {
    /// Joins the layers of a sandbox that stands on many, unless they are being joined.
    pub(crate) fn squash_if_deep(&self, record: &SandboxRecord) {
        let deep = record.history.stack.depth() > SQUASH_DEPTH;
        if !deep || !self.shared.keep.squashing.lock().insert(record.id.clone()) {
            return;
        }
        let squashing = Squashing { engine: self.inner(), id: record.id.clone() };
        let run: Arc<[LayerId]> = record.history.stack.0.clone().into();
        // From now on: a place may be long in coming, and the sandbox goes on meanwhile.
        let pin = self.shared.keep.pin(&run);
        let owner = record.owner.clone();
        tokio::spawn(async move {
            if let Err(error) = squashing.engine.squash(&owner, run, pin).await {
                squashing.engine.fault();
                tracing::error!(sandbox.id = %squashing.id, error = sentence(&error), "the layers of a sandbox could not be joined");
            }
        });
    }

    async fn squash(&self, owner: &Owner, run: Arc<[LayerId]>, mut pin: Pin) -> Result<(), EngineError> {
        let place = self.place_for(owner, WorkKind::Upkeep).await?;
        let into = self.draw_layer();
        pin.add(into.clone());
        let (engine, layers, joined) = (self.inner(), Arc::clone(&run), into.clone());
        let holders = heavy::at(place, move || engine.squash_snapshots(&layers, &joined)).await?;
        for holder in holders {
            let task = Task::Restack { run: Arc::clone(&run), into: into.clone() };
            match self.ask(&holder.owner, &holder.id, task).await {
                Ok(_) | Err(EngineError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        drop(pin);
        Ok(())
    }

    /// Makes the one layer and lets snapshots stand on it. Says which sandboxes should, too.
    fn squash_snapshots(&self, run: &[LayerId], into: &LayerId) -> Result<Vec<SandboxRecord>, EngineError> {
        let parts = &self.shared.parts;
        parts.layers.squash(run, into)?;
        (parts.passed)(EngineStep::SquashMade);
        // Those that it replaces are on disk, or soon will be; once they are gone it has to be.
        parts.layers.sync(std::slice::from_ref(into))?;
        let top = run.first().map_or(Ok(Vec::new()), |top| parts.catalog.snapshots_on(self.node(), top))?;
        for row in top.iter().filter(|row| stands_on(&row.stack, run)) {
            self.change_snapshot(&row.owner, &row.id, Durability::Disk, |row| {
                let same = stands_on(&row.stack, run);
                if same {
                    row.stack = restacked(&row.stack, run, into);
                }
                same
            })?;
        }
        (parts.passed)(EngineStep::SquashRewritten);
        let mut holders = parts.catalog.unfinished_sandboxes(self.node())?;
        holders.retain(|record| stands_on(&record.history.stack, run));
        Ok(holders)
    }
}
