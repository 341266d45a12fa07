//! Snapshots are on disk soon after they were taken, many at a time.

use std::time::Duration;

use warren_core::catalog::Durability;
use warren_core::{LayerError, LayerErrorKind, LayerId, Owner, SnapshotId, SnapshotMethod, SnapshotRecord};

use crate::engine::closed;
use crate::error::sentence;
use crate::ports::blocking;
use crate::{Engine, EngineError};

/// How long a snapshot may wait for others to be put on disk with it.
const PAUSE: Duration = Duration::from_millis(100);
/// After this long a disk that did not take them is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Counting goes no further than this.
const MOST_COUNTED: u64 = 1_000_000;

impl Engine {
    /// Puts snapshots on disk until the engine ends.
    pub(crate) async fn keep_syncing(self) {
        let mut closing = self.shared.closing.subscribe();
        loop {
            tokio::select! {
                () = closed(&mut closing) => return,
                () = self.shared.keep.to_sync.notified() => tokio::time::sleep(PAUSE).await,
            }
            if !self.sync_snapshots().await {
                tokio::select! {
                    () = closed(&mut closing) => return,
                    () = tokio::time::sleep(RETRY_PAUSE) => self.shared.keep.to_sync.notify_one(),
                }
            }
        }
    }

    /// Puts on disk what was taken so far. Says whether that is done.
    pub(crate) async fn sync_snapshots(&self) -> bool {
        let waiting = self.shared.keep.unsynced();
        if waiting.is_empty() {
            return true;
        }
        let engine = self.inner();
        blocking(move || match engine.sync_now(&waiting) {
            Ok(()) => true,
            Err(error) => {
                engine.fault();
                tracing::error!(error = sentence(&error), "snapshots are not on disk yet");
                waiting.iter().for_each(|(owner, id)| engine.shared.keep.sync_soon(owner, id));
                false
            }
        })
        .await
    }

    fn sync_now(&self, waiting: &[(Owner, SnapshotId)]) -> Result<(), EngineError> {
        let parts = &self.shared.parts;
        let mut pin = self.shared.keep.pin(&[]);
        let mut rows = Vec::new();
        let learning = self.shared.keep.collecting.read();
        for (owner, id) in waiting {
            let row = parts.catalog.snapshot(owner, id)?.filter(|row| !row.durable && !row.damaged);
            row.iter().flat_map(|row| row.layers()).for_each(|layer| pin.add(layer.clone()));
            rows.extend(row);
        }
        drop(learning);
        match parts.layers.sync(&layers_of(&rows)) {
            Err(error) if is_lost(&error) => self.sort_out_lost(&mut rows)?,
            synced => synced?,
        }
        let last = rows.len().saturating_sub(1);
        for (index, row) in rows.iter().enumerate() {
            let space = self.count(row);
            // What is written first is on disk when what is written last is.
            let durability = if index == last { Durability::Disk } else { Durability::Process };
            self.change_snapshot(&row.owner, &row.id, durability, |row| {
                row.durable = true;
                row.space = row.space.or(space);
                true
            })?;
        }
        Ok(())
    }

    /// One of these has a layer that is gone or damaged, and the others must not wait for it.
    fn sort_out_lost(&self, rows: &mut Vec<SnapshotRecord>) -> Result<(), EngineError> {
        let mut safe = Vec::new();
        for row in rows.drain(..) {
            match self.shared.parts.layers.sync(&layers_of(std::slice::from_ref(&row))) {
                Ok(()) => safe.push(row),
                Err(error) if is_lost(&error) => {
                    self.fault();
                    tracing::error!(snapshot.id = %row.id, error = sentence(&error), "a snapshot is damaged");
                    self.change_snapshot(&row.owner, &row.id, Durability::Disk, |row| {
                        row.damaged = true;
                        true
                    })?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        *rows = safe;
        Ok(())
    }

    /// The space of a snapshot's own layer, if it has one and that is not too much to count.
    fn count(&self, row: &SnapshotRecord) -> Option<warren_core::Space> {
        if row.method == SnapshotMethod::Unchanged {
            return None;
        }
        let layer = row.stack.0.first()?;
        self.shared.parts.layers.space(layer, Some(MOST_COUNTED)).ok().flatten()
    }
}

/// Every layer of these snapshots, once.
pub(super) fn layers_of(rows: &[SnapshotRecord]) -> Vec<LayerId> {
    let mut layers: Vec<LayerId> = rows.iter().flat_map(|row| row.layers().cloned()).collect();
    layers.sort();
    layers.dedup();
    layers
}

/// True if trying again is of no use.
fn is_lost(error: &LayerError) -> bool {
    matches!(error.kind, LayerErrorKind::NotFound | LayerErrorKind::Damaged)
}
