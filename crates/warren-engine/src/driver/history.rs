//! Changes of a sandbox's history that leave its files as they are.

use warren_core::catalog::Durability;
use warren_core::{LayerId, SnapshotId, Stack};

use super::Driver;
use crate::EngineError;
use crate::state::{restacked, stands_on};

impl Driver {
    /// Removes a snapshot from its history. Its files stay as they are.
    pub(super) async fn forget(
        &mut self,
        snapshot: &SnapshotId,
        parent: Option<SnapshotId>,
    ) -> Result<(), EngineError> {
        let history = &self.record.history;
        let heads = history.head.as_ref() == Some(snapshot);
        if !heads && !history.redo.contains(snapshot) {
            return Ok(());
        }
        self.write(Durability::Process, |record| {
            record.history.redo.retain(|redo| redo != snapshot);
            if heads {
                record.history.head = parent;
            }
        })
        .await?;
        if heads {
            self.cell.mark_changed();
        }
        Ok(())
    }

    /// Stands on one layer instead of several. On disk that takes effect with the next start or
    /// seal.
    pub(super) async fn restack(&mut self, run: &[LayerId], into: &LayerId) -> Result<(), EngineError> {
        if !stands_on(&self.record.history.stack, run) {
            return Ok(());
        }
        self.write(Durability::Disk, |record| {
            let history = &mut record.history;
            history.stack = restacked(&history.stack, run, into);
            if stands_on(&history.began, run) {
                history.began = restacked(&history.began, run, into);
            } else if run.ends_with(&history.began.0) {
                // What it began with and what it wrote cannot be told apart any more.
                history.began = Stack::default();
            }
        })
        .await
    }
}
