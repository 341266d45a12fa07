//! The states before and after an operation.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use warren_core::{Automatic, Event, SnapshotId};

use crate::cell::Cell;
use crate::cell::Door;
use crate::cell::{Capture, CaptureOrder, head_or_start};
use crate::error::sentence;
use crate::{Engine, EngineError};

/// If more operations than this overlap, they count as one change: capturing the state between any
/// two of them would make all the others wait.
const FEW: u32 = 3;
/// A sandbox in which nothing was begun for so long is given the time that a large copy takes.
const QUIET: Duration = Duration::from_secs(1);
/// How long the state after an operation waits for there to be fewer.
const CROWD_PATIENCE: Duration = Duration::from_secs(1);

impl Engine {
    /// The state that an operation begins with, captured if need be; free where nothing was done
    /// since it was. `None` if nobody knows it: many are at work, it was not kept, or nothing is
    /// captured between turns.
    pub(crate) async fn state_before(&self, door: &Door) -> Option<SnapshotId> {
        let at_work = door.life.at_work();
        // What others are just doing has no end yet; what has ended is not to be taken for the next
        // one's doing.
        let left_open = at_work > 1 && (at_work > FEW || !self.shared.journal.expects_capture(&door.id));
        if door.cell.is_changed() && left_open {
            return None;
        }
        self.state_around(&door.cell, CaptureOrder::automatic()).await
    }

    /// Captures what an operation left, so that the next one finds it captured.
    pub(super) async fn state_after(&self, cell: Arc<Cell>) {
        let life = cell.life();
        // Calls that last longer only keep programs running, which is no reason to capture nothing.
        timeout(CROWD_PATIENCE, life.until_at_most(FEW)).await.ok();
        // The next operation had it captured already, and may be under way.
        if !self.shared.journal.expects_capture(&cell.id) {
            return;
        }
        if self.state_around(&cell, CaptureOrder::automatic()).await.is_none() {
            self.catch_up(&cell).await;
        }
    }

    /// Copies what was too much to be copied between two commands, as soon as there is a pause:
    /// else all that comes after it would be too much as well.
    async fn catch_up(&self, cell: &Cell) {
        let changes = cell.changes();
        tokio::time::sleep(QUIET).await;
        if cell.is_changed() && cell.changes() == changes && cell.life().at_work() <= FEW {
            self.state_around(cell, CaptureOrder::catch_up()).await;
        }
    }

    async fn state_around(&self, cell: &Cell, order: CaptureOrder) -> Option<SnapshotId> {
        if cell.backend.layered().is_err() {
            return None;
        }
        let record = cell.record();
        if !cell.is_changed() {
            return Some(head_or_start(&record));
        }
        if record.history.automatic != Automatic::Commands || !record.is_live() {
            return None;
        }
        let why = match self.capture(&cell.owner, &cell.id, order).await {
            Ok(Capture::Taken(taken)) => return Some(taken.snapshot.id),
            Ok(Capture::Same(head)) => return Some(head),
            Err(EngineError::Denied { .. } | EngineError::ShuttingDown) => return None,
            Ok(Capture::NotKept(why)) => why,
            Err(error) => {
                let error = sentence(&error);
                tracing::warn!(sandbox.id = %cell.id, error, "the state around an operation is not captured");
                error
            }
        };
        self.mark_not_kept(cell, why).await;
        None
    }

    /// Says of what has ended that the state it left was not kept.
    async fn mark_not_kept(&self, cell: &Cell, reason: String) {
        let (engine, id, why) = (self.inner(), cell.id.clone(), reason.clone());
        let at = self.shared.parts.clock.unix_ms();
        let marked =
            self.catalog(move |catalog| engine.shared.journal.not_kept(catalog, &id, &why, at)).await;
        match marked {
            Ok(entries) if entries.is_empty() => {}
            Ok(entries) => {
                tracing::info!(sandbox.id = %cell.id, ?entries, reason, "what was done in a sandbox is not kept as a state");
                self.emit(&cell.owner, Some(&cell.id), None, Event::HistoryNotKept { entries, reason });
            }
            Err(error) => {
                self.fault();
                tracing::error!(sandbox.id = %cell.id, error = sentence(&error), "cannot write to the journal");
            }
        }
    }
}
