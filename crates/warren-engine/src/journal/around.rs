//! The states before and after a command.

use std::sync::Arc;

use warren_core::{Automatic, LayerDriver, SnapshotId};

use crate::cell::Cell;
use crate::driver::{Capture, CaptureOrder, head_or_start};
use crate::entry::Door;
use crate::error::sentence;
use crate::{Engine, EngineError};

impl Engine {
    /// The state that a command begins with, captured if need be; free where nothing was done since it was. `None` if nobody
    /// knows it: others are at work, or nothing is captured between turns.
    pub(crate) async fn state_before(&self, door: &Door) -> Option<SnapshotId> {
        let alone = door.life.at_work() <= 1;
        if door.cell.is_changed() && !alone {
            return None;
        }
        self.state_around(&door.cell).await
    }

    /// Somebody is about to write to files, of which the journal says nothing: what a command left is captured first, so that
    /// it is not taken for the command's.
    pub(crate) async fn set_apart(&self, door: &Door) {
        if self.shared.journal.expects_capture(&door.id) {
            self.state_before(door).await;
        }
    }

    /// Captures what a command left, so that the next one finds it captured.
    pub(super) async fn state_after(&self, cell: Arc<Cell>) {
        self.state_around(&cell).await;
        self.shared.journal.expects_capture(&cell.id);
    }

    async fn state_around(&self, cell: &Cell) -> Option<SnapshotId> {
        if !cell.backend.capabilities().snapshots {
            return None;
        }
        let record = cell.record();
        if !cell.is_changed() {
            return Some(head_or_start(&record));
        }
        if record.history.automatic != Automatic::Commands || !record.is_live() {
            return None;
        }
        // A copy that shares its data costs little; one that does not is never made unasked.
        let copy = self.shared.parts.layers.driver() != LayerDriver::Overlay;
        let order = CaptureOrder { copy, ..CaptureOrder::automatic() };
        match self.capture(&cell.owner, &cell.id, order).await {
            Ok(Capture::Taken(taken)) => Some(taken.snapshot.id),
            Ok(Capture::Same(head)) => Some(head),
            Ok(Capture::Busy) | Err(EngineError::Denied { .. } | EngineError::ShuttingDown) => None,
            Err(error) => {
                tracing::warn!(sandbox.id = %cell.id, error = sentence(&error), "the state around a command is not captured");
                None
            }
        }
    }
}
