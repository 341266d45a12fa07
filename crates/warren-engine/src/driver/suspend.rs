//! Capturing a sandbox's processes with its files.
//!
//! ```text
//! suspend: they are on disk, it is halted ─► capture the files ─► start: they go on
//! ```
//!
//! Once they are on disk and nowhere else, the sandbox is started with them again whatever else
//! fails. The record that tells of the snapshot names them too: if this process ends after that,
//! they go on when the sandbox is resumed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use warren_core::{Activity, IsolationError, IsolationErrorKind, Request, RootState, SandboxRecord, Status};

use super::Driver;
use super::capture::Posture;
use super::start::Occasion;
use crate::cell::{Capture, CaptureOrder, Processes, SuspendOrder, Taken};
use crate::ports::blocking;
use crate::state::all_snapshots;
use crate::{Engine, EngineError, EngineStep};

/// Each may take as much of the disk as a sandbox has memory, which its disk limit does not count.
const MOST_WITH_PROCESSES: usize = 8;

impl Driver {
    pub(super) async fn suspend(&mut self, order: SuspendOrder) -> Result<Capture, EngineError> {
        let SuspendOrder { capture, force, exclusive } = order;
        self.straighten().await?;
        self.check_suspension(force)?;
        let (engine, record) = (self.engine.inner(), self.record.clone());
        let backend = Arc::clone(&self.cell.backend);
        // What could keep it from being started again is better known before it ends.
        let check = move || {
            engine.check_disk_of(&backend)?;
            check_number(&engine, &record)?;
            engine.request_for(&record, RootState::Kept, &backend).map(drop)
        };
        blocking(check).await?;
        let layer = self.engine.draw_layer();
        let _pin = self.engine.shared.keep.pin(std::slice::from_ref(&layer));
        let began = Instant::now();
        self.put_on_disk(self.engine.shared.parts.layers.place(&layer)).await?;
        self.cell.life().end("its processes are put on disk, and go on in a moment");
        self.passed(EngineStep::MemorySuspended);
        let order = CaptureOrder { processes: Processes::Are(layer.clone()), ..capture };
        let captured = self.capture_as(order, Posture::Halted).await;
        self.passed(EngineStep::MemoryRecorded);
        if captured.is_err() {
            // Nobody else is told of what no record names.
            self.record.history.memory = Some(layer);
        }
        let started = self.go_on(None, Occasion::Suspension).await;
        drop(exclusive);
        let captured = captured?;
        started?;
        Ok(match captured {
            Capture::Taken(taken) => {
                let stood = began.elapsed();
                Capture::Taken(Box::new(Taken { frozen: stood, took: stood, ..*taken }))
            }
            other => other,
        })
    }

    fn check_suspension(&self, force: bool) -> Result<(), EngineError> {
        let activity = self.activity();
        let tools_in_flight = if force { 0 } else { activity.tools_in_flight };
        self.check_with(Activity { tools_in_flight, ..activity }, Request::Rollback)?;
        if self.record.status != Status::Ready {
            let why = "it does not run, so there are no processes to be kept".to_owned();
            return Err(EngineError::SnapshotsUnavailable(why));
        }
        if !self.record.spec.network.is_none() {
            let why = "its processes can be kept only while it has no network: connections cannot be";
            return Err(EngineError::SnapshotsUnavailable(why.to_owned()));
        }
        Ok(())
    }

    async fn put_on_disk(&mut self, place: PathBuf) -> Result<(), EngineError> {
        let watch = self.watch.take();
        let suspended = self.isolate(move |backend, id| match backend.memory() {
            Some(memory) => memory.suspend(id, &place),
            None => Err(IsolationError::new(IsolationErrorKind::Unsupported, "put processes on disk")),
        });
        suspended.await.map_err(|error| {
            // It goes on, or its end is noticed as any other.
            self.watch = watch;
            self.engine.fault();
            EngineError::Backend(error)
        })
    }
}

fn check_number(engine: &Engine, record: &SandboxRecord) -> Result<(), EngineError> {
    let snapshots = all_snapshots(engine.shared.parts.catalog.as_ref(), &record.owner, &record.id)?;
    if snapshots.iter().filter(|row| row.memory.is_some()).count() < MOST_WITH_PROCESSES {
        return Ok(());
    }
    let why = format!("it has {MOST_WITH_PROCESSES} snapshots with processes already: delete one of them");
    Err(EngineError::SnapshotsUnavailable(why))
}
