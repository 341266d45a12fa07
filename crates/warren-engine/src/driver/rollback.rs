//! Going back to an earlier state, in place.
//!
//! ```text
//! halt ─► save ─► the record names the other layers ─► start
//! ```
//!
//! What lies still is saved by renames alone, so it is saved after the processes ended. Only where it takes a capture to know whether
//! there is anything to undo or to redo is the sandbox captured first, while it runs.
//!
//! Whatever ends the process in between, the sandbox has the files that its record names: those it had, until the record names the
//! others. When it cannot be started with them it is stopped, and they are kept.

use std::time::Instant;

use warren_core::catalog::Durability;
use warren_core::{
    Activity, DeathCause, Event, RootState, SnapshotId, SnapshotReason, SnapshotRecord, Status, decide,
};

use super::Driver;
use super::capture::{Capture, CaptureOrder, Need, Posture, head_or_start, plain_row};
use super::start::StartError;
use crate::blocking::blocking;
use crate::cell::Exclusive;
use crate::certificate::{Ending, Evidence};
use crate::error::sentence;
use crate::snapshots::{Pin, RolledBack};
use crate::{EngineError, EngineStep};

/// Where a sandbox is to go.
#[derive(Debug, Clone)]
pub(crate) enum Goal {
    To(SnapshotId),
    /// This many states back.
    Undo(u32),
    /// This many of those that were undone.
    Redo(u32),
}

/// A rollback, with the sandbox to itself.
#[derive(Debug)]
pub(crate) struct RollbackOrder {
    pub(crate) goal: Goal,
    /// Also if somebody is inside.
    pub(crate) force: bool,
    pub(crate) exclusive: Exclusive,
}

/// Where it goes.
struct Target {
    snapshot: SnapshotRecord,
    redo: Vec<SnapshotId>,
    _pin: Pin,
}

impl Driver {
    pub(super) async fn roll_back(&mut self, order: RollbackOrder) -> Result<RolledBack, EngineError> {
        let began = Instant::now();
        self.straighten().await?;
        let RollbackOrder { goal, force, exclusive } = order;
        let inside = self.cell.life().at_work();
        let activity = Activity {
            tools_in_flight: if force { 0 } else { inside },
            files_kept: self.record.files_kept(),
            ..Activity::default()
        };
        self.denied(decide(self.record.status, activity, warren_core::Request::Rollback))?;
        // What is wrong with the goal is better known before anything is captured or ends.
        self.check_goal(&goal).await?;
        let redo = self.record.history.redo.clone();
        let early = if self.record.is_live() && inside == 0 && !self.is_known(&goal).await? {
            self.save(Posture::Running, false).await?
        } else {
            None
        };
        let target = match &early {
            Some(_) => Some(self.target(&goal, self.record.history.redo.clone()).await?),
            None => None,
        };
        let rolled = if self.record.is_live() {
            self.roll_back_live(goal, early.zip(target), redo).await?
        } else {
            self.roll_back_halted(goal, redo).await?
        };
        drop(exclusive);
        let (to, safety) = rolled;
        self.emit(Event::SandboxRolledBack { to: to.id.clone(), safety: safety.id.clone() });
        tracing::info!(sandbox.id = %self.record.id, snapshot.id = %to.id, "a sandbox went back to an earlier state");
        Ok(RolledBack { sandbox: self.record.clone(), to, safety, took: began.elapsed() })
    }

    async fn roll_back_live(
        &mut self,
        goal: Goal,
        ready: Option<(SnapshotRecord, Target)>,
        redo: Vec<SnapshotId>,
    ) -> Result<(SnapshotRecord, SnapshotRecord), EngineError> {
        let watch = self.watch.take();
        if let Err(error) = self.isolate(|backend, id| backend.halt(id)).await {
            // Whatever of it still runs goes on; what does not is noticed as any end is.
            self.watch = watch;
            self.engine.fault();
            return Err(EngineError::Backend(error));
        }
        self.unlink().await;
        self.cell.life().end("it went back to an earlier state");
        self.passed(EngineStep::RollbackHalted);
        let switched = match ready {
            Some((safety, target)) => self.switch(target, safety).await,
            None => self.save_and_switch(goal, redo).await,
        };
        let started = self.go_on().await;
        let switched = switched?;
        started?;
        self.cell.set_captured(self.cell.changes());
        Ok(switched)
    }

    async fn roll_back_halted(
        &mut self,
        goal: Goal,
        redo: Vec<SnapshotId>,
    ) -> Result<(SnapshotRecord, SnapshotRecord), EngineError> {
        let switched = self.save_and_switch(goal, redo).await?;
        self.cell.set_captured(self.cell.changes());
        Ok(switched)
    }

    async fn save_and_switch(
        &mut self,
        goal: Goal,
        redo: Vec<SnapshotId>,
    ) -> Result<(SnapshotRecord, SnapshotRecord), EngineError> {
        let Some(safety) = self.save(Posture::Halted, true).await? else {
            let why = "what it holds can be neither sealed nor copied".to_owned();
            return Err(EngineError::SnapshotsUnavailable(why));
        };
        self.passed(EngineStep::RollbackSaved);
        let redo = match goal {
            // Only now is it known that something was written meanwhile; what was asked for before that is still done.
            Goal::Redo(_) => redo,
            Goal::To(_) | Goal::Undo(_) => self.record.history.redo.clone(),
        };
        let target = self.target(&goal, redo).await?;
        self.switch(target, safety).await
    }

    /// Captures what is about to be replaced; `None` if somebody works in it.
    async fn save(&mut self, posture: Posture, copy: bool) -> Result<Option<SnapshotRecord>, EngineError> {
        let order =
            CaptureOrder { need: Need::IfChanged, copy, ..CaptureOrder::asked(SnapshotReason::Safety) };
        let saved = match self.capture_as(order, posture).await? {
            Capture::Taken(taken) => taken.snapshot,
            Capture::Same(id) => match self.row(&id).await? {
                Some(head) => head,
                None => self.write_beginning().await?,
            },
            Capture::Busy => return Ok(None),
        };
        Ok(Some(saved))
    }

    /// It stands where it began, and that is to be a point to come back to.
    async fn write_beginning(&mut self) -> Result<SnapshotRecord, EngineError> {
        let start = plain_row(&self.record, self.record.history.began.clone());
        let mut record = self.record.clone();
        record.generation += 1;
        record.history.head = Some(start.id.clone());
        let rows = [start.clone()];
        let written = self.engine.catalog(move |catalog| {
            catalog.record_snapshots(&record, &rows, Durability::Process).map(|()| record)
        });
        let written = written.await?;
        self.show(written);
        self.engine.shared.keep.sync_soon(&start.owner, &start.id);
        Ok(start)
    }

    /// Names the other layers.
    async fn switch(
        &mut self,
        target: Target,
        safety: SnapshotRecord,
    ) -> Result<(SnapshotRecord, SnapshotRecord), EngineError> {
        let Target { snapshot, redo, _pin } = target;
        let (stack, head) = (snapshot.stack.clone(), snapshot.id.clone());
        // Not synced: that would wait for all that anybody has written lately. A power cut ends the sandbox, and what it then
        // stands on is read from the backend's own record.
        self.write(Durability::Process, |record| {
            record.history.stack = stack;
            record.history.head = Some(head);
            record.history.redo = redo;
            // A seal left nothing in its writable layers; of a copy the original is still there.
            record.history.moved = true;
        })
        .await?;
        self.passed(EngineStep::RollbackSwitched);
        Ok((snapshot, safety))
    }

    /// Starts a halted sandbox on what its record names. If that fails it is stopped, and its files are kept.
    async fn go_on(&mut self) -> Result<(), EngineError> {
        let started = match self.catch_up().await {
            Ok(()) => self.start_as_recorded().await,
            Err(error) => Err(error),
        };
        if let Err(error) = &started {
            self.engine.fault();
            tracing::error!(sandbox.id = %self.record.id, error = sentence(error), "a sandbox could not be started after a rollback");
            let mut last = match self.unwritten.take() {
                Some(unwritten) => unwritten.record,
                None => self.record.clone(),
            };
            let detail = "it could not be started after a rollback".to_owned();
            let ending = Ending { cause: DeathCause::BackendError, detail, files_kept: true };
            last.status = Status::Stopped;
            last.paused = None;
            last.death =
                Some(ending.certificate(Evidence::default(), self.engine.shared.parts.clock.unix_ms()));
            if let Err(error) = self.conclude(last, EngineStep::StopWritten).await {
                tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down that a sandbox stopped");
            }
        }
        started
    }

    async fn start_as_recorded(&mut self) -> Result<(), EngineError> {
        let (engine, record) = (self.engine.inner(), self.record.clone());
        let request = blocking(move || engine.request_for(&record, RootState::Kept)).await?;
        let started = self.start_with(request, EngineStep::RollbackMade, EngineStep::RollbackReady).await;
        started.map_err(|error: StartError| self.start_failed(error))
    }

    /// What can be said of a goal while it is not known whether the state has changed.
    async fn check_goal(&self, goal: &Goal) -> Result<(), EngineError> {
        match goal {
            Goal::To(id) => self.usable(id).await.map(drop),
            Goal::Undo(_) => Ok(()),
            Goal::Redo(_) if self.record.history.redo.is_empty() => Err(self.nothing_to("redo")),
            Goal::Redo(_) => Ok(()),
        }
    }

    /// Whether there is such a state, however the present one differs from the last that was captured.
    async fn is_known(&self, goal: &Goal) -> Result<bool, EngineError> {
        match goal {
            Goal::To(_) => Ok(true),
            // Nothing can be done again once something else was written.
            Goal::Redo(_) => Ok(false),
            Goal::Undo(_) => Ok(self.state_before(&head_or_start(&self.record)).await?.is_some()),
        }
    }

    /// Where the goal is, now that the present state is captured.
    async fn target(&self, goal: &Goal, mut redo: Vec<SnapshotId>) -> Result<Target, EngineError> {
        let now = head_or_start(&self.record);
        let (id, redo) = match goal {
            Goal::To(id) if *id == now => (id.clone(), redo),
            // What it leaves is what a redo comes back to.
            Goal::To(id) => (id.clone(), vec![now]),
            Goal::Undo(steps) => {
                let mut here = now;
                let mut back = 0;
                while back < *steps {
                    let Some(earlier) = self.state_before(&here).await? else { break };
                    redo.push(std::mem::replace(&mut here, earlier));
                    back += 1;
                }
                if back == 0 {
                    return Err(self.nothing_to("undo"));
                }
                (here, redo)
            }
            Goal::Redo(steps) => {
                let steps = usize::try_from(*steps).unwrap_or(usize::MAX);
                let mut again = redo.split_off(redo.len().saturating_sub(steps));
                if again.is_empty() {
                    return Err(self.nothing_to("redo"));
                }
                (again.swap_remove(0), redo)
            }
        };
        let (snapshot, pin) = self.usable(&id).await?;
        Ok(Target { snapshot, redo, _pin: pin })
    }

    fn nothing_to(&self, what: &'static str) -> EngineError {
        EngineError::NothingToUndo { id: self.record.id.clone(), what }
    }

    /// The next snapshot further back that has other files: one that was taken without a change is no step of its own.
    async fn state_before(&self, id: &SnapshotId) -> Result<Option<SnapshotId>, EngineError> {
        let Some(here) = self.row(id).await? else { return Ok(None) };
        let mut earlier = here.parent;
        while let Some(id) = earlier {
            match self.row(&id).await? {
                Some(row) if row.stack == here.stack => earlier = row.parent,
                _ => return Ok(Some(id)),
            }
        }
        Ok(None)
    }

    async fn row(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, EngineError> {
        let (owner, id) = (self.record.owner.clone(), id.clone());
        Ok(self.engine.catalog(move |catalog| catalog.snapshot(&owner, &id)).await?)
    }

    /// A snapshot that this sandbox can go back to.
    async fn usable(&self, id: &SnapshotId) -> Result<(SnapshotRecord, Pin), EngineError> {
        let (engine, owner, id) = (self.engine.inner(), self.record.owner.clone(), id.clone());
        let (snapshot, pin) = blocking(move || engine.usable_snapshot(&owner, &id)).await?;
        if snapshot.spec.template != self.record.spec.template {
            let message = format!(
                "it stands on the template `{}`, and the sandbox on `{}`",
                snapshot.spec.template, self.record.spec.template
            );
            return Err(EngineError::invalid("snapshot_id", message));
        }
        Ok((snapshot, pin))
    }
}
