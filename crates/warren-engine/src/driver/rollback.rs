//! Going back to an earlier state, in place.
//!
//! ```text
//! halt ─► save ─► the record names the other layers ─► start
//! ```
//!
//! A halted sandbox is saved by renames alone, so it is saved after its processes ended. It is
//! captured while it runs only where that is needed to know whether there is anything to undo or
//! redo.
//!
//! A rollback writes a point of its own into the history, behind what it replaced. An undo and a
//! redo write none: they go back and forth over the operations that led from point to point:
//! [`super::operations`].
//!
//! If the process ends in between, the sandbox has the files that its record names: those it had,
//! until the record names the others. When it cannot be started with them it is stopped, and they
//! are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use warren_core::catalog::Durability;
use warren_core::{
    Activity, Busy, CreateRequest, DeathCause, Event, JournalEntry, Request, RootState, SandboxRecord,
    SnapshotId, SnapshotReason, SnapshotRecord, Stack,
};

use super::Driver;
use super::capture::{Posture, plain_row};
use super::start::{Occasion, StartError};
use super::status::advance;
use crate::cell::{
    Capture, CaptureOrder, Copying, EndedProcess, Goal, Need, RollbackOrder, RolledBack, WayBack,
    head_or_start,
};
use crate::certificate::{Ending, Evidence};
use crate::error::{Field, sentence};
use crate::ports::{blocking, promptly};
use crate::shown::as_typed;
use crate::state::Pin;
use crate::state::lost;
use crate::{EngineError, EngineStep};

/// How long an agent may take to say what runs.
const LISTING_PATIENCE: Duration = Duration::from_secs(1);

/// The rest of a rollback, once the sandbox is halted.
struct Plan {
    goal: Goal,
    /// The goal, where it is a snapshot that was asked for.
    known: Option<Usable>,
    redo: Vec<SnapshotId>,
    force: bool,
    /// Entries that had ended since the last capture.
    done: Vec<JournalEntry>,
}

/// Where it goes.
struct Target {
    snapshot: SnapshotRecord,
    redo: Vec<SnapshotId>,
    /// It is an operation of its own, which an undo takes back; otherwise it is an undo or a redo
    /// of others.
    operation: bool,
    /// The processes of the snapshot are to go on, if it has any.
    memory: bool,
    _pin: Pin,
}

/// The state that the sandbox has now, and the one that it replaced.
struct Switched {
    to: SnapshotRecord,
    safety: SnapshotRecord,
    /// The history has a point for this rollback, so that one undo leads back.
    noted: bool,
    /// The processes of that state go on.
    memory: bool,
}

/// A snapshot that can be gone back to, and what keeps its layers.
type Usable = (SnapshotRecord, Pin);

impl Driver {
    pub(super) async fn roll_back(&mut self, order: RollbackOrder) -> Result<RolledBack, EngineError> {
        let began = Instant::now();
        self.straighten().await?;
        let RollbackOrder { goal, force, exclusive } = order;
        let inside = self.cell.life().at_work();
        let activity = self.activity();
        let tools_in_flight = if force { 0 } else { activity.tools_in_flight };
        self.check_with(Activity { tools_in_flight, ..activity }, Request::Rollback)?;
        // What is wrong with the goal is better known before anything is captured or ends.
        let known = self.check_goal(&goal).await?;
        let redo = self.record.history.redo.clone();
        // What ends by the rollback is no operation that it takes back.
        let mut done = self.uncaptured().await?;
        let early = if self.record.is_live() && inside == 0 && !self.is_known(&goal, force, &done).await? {
            self.save(Posture::Running, Copying::Bounded, done.clone()).await?
        } else {
            None
        };
        let target = match &early {
            Some(_) => Some(self.target(&goal, None, self.record.history.redo.clone(), force).await?),
            None => None,
        };
        if early.is_some() {
            done.clear();
        }
        self.check_uncaptured(&goal, force, &done).await?;
        let mut ended = Vec::new();
        let Switched { to, safety, noted, memory } = if self.record.is_live() {
            let running = timeout(LISTING_PATIENCE, self.running()).await.unwrap_or_default();
            ended = running
                .into_iter()
                .map(|process| EndedProcess { id: process.process.0, command: as_typed(&process.argv) })
                .collect();
            self.roll_back_live(early.zip(target), Plan { goal: goal.clone(), known, redo, force, done })
                .await?
        } else {
            self.roll_back_halted(Plan { goal: goal.clone(), known, redo, force, done }).await?
        };
        drop(exclusive);
        self.emit(Event::SandboxRolledBack { to: to.id.clone(), safety: safety.id.clone() });
        tracing::info!(sandbox.id = %self.record.id, snapshot.id = %to.id, "a sandbox went back to an earlier state");
        self.engine.squash_if_deep(&self.record);
        let back = if noted { Some(WayBack::Undo(1)) } else { self.way_back(&goal, &safety).await? };
        Ok(RolledBack {
            sandbox: self.record.clone(),
            to,
            safety,
            ended,
            memory,
            back,
            entry: None,
            took: began.elapsed(),
        })
    }

    async fn roll_back_live(
        &mut self,
        ready: Option<(SnapshotRecord, Target)>,
        plan: Plan,
    ) -> Result<Switched, EngineError> {
        let watch = self.watch.take();
        // All that the next life needs but its layers is found out while this one ends.
        let (halted, prepared) = tokio::join!(self.isolate(|backend, id| backend.halt(id)), self.prepare());
        if let Err(error) = halted {
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
            None => {
                self.template = prepared.as_ref().map(|request| request.root.trees().to_vec());
                let switched = self.save_and_switch(plan).await;
                self.template = None;
                switched
            }
        };
        let started = self.go_on(prepared, Occasion::Rollback).await;
        let switched = switched?;
        started?;
        self.cell.set_captured(self.cell.changes());
        Ok(switched)
    }

    async fn roll_back_halted(&mut self, plan: Plan) -> Result<Switched, EngineError> {
        let switched = self.save_and_switch(plan).await?;
        self.cell.set_captured(self.cell.changes());
        Ok(switched)
    }

    async fn save_and_switch(&mut self, plan: Plan) -> Result<Switched, EngineError> {
        let Plan { goal, known, redo, force, done } = plan;
        let Some(safety) = self.save(Posture::Halted, Copying::WhateverItCosts, done).await? else {
            let why = "what it holds can be neither sealed nor copied".to_owned();
            return Err(EngineError::SnapshotsUnavailable(why));
        };
        self.passed(EngineStep::RollbackSaved);
        let redo = match goal {
            // Only now is it known that something was written meanwhile; what was asked for before
            // that is still done.
            Goal::Redo(_) => redo,
            Goal::To(_) | Goal::Undo(_) => self.record.history.redo.clone(),
        };
        let target = self.target(&goal, known, redo, force).await?;
        self.switch(target, safety).await
    }

    /// Captures what is about to be replaced; `None` if that would cost more than it may.
    async fn save(
        &mut self,
        posture: Posture,
        copying: Copying,
        done: Vec<JournalEntry>,
    ) -> Result<Option<SnapshotRecord>, EngineError> {
        let order = CaptureOrder {
            need: Need::IfChanged,
            copying,
            operations: Some(done),
            ..CaptureOrder::asked(SnapshotReason::Safety)
        };
        let saved = match self.capture_as(order, posture).await? {
            Capture::Taken(taken) => taken.snapshot,
            Capture::Same(id) => match self.row(&id).await? {
                Some(head) => head,
                None => self.write_beginning().await?,
            },
            Capture::NotKept(_) => return Ok(None),
        };
        Ok(Some(saved))
    }

    /// Writes down the snapshot of its beginning, so that an undo can lead there.
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
    async fn switch(&mut self, target: Target, safety: SnapshotRecord) -> Result<Switched, EngineError> {
        let Target { snapshot, redo, operation, memory, _pin } = target;
        let mut record = self.record.clone();
        record.generation += 1;
        record.history.stack = snapshot.stack.clone();
        // A seal left nothing in its writable layers; of a copy the original is still there.
        record.history.moved = true;
        record.history.memory = snapshot.memory.clone().filter(|_| memory);
        let memory = self.engine.memory_of(&record, &self.cell.backend).is_some();
        let mut rows = Vec::new();
        // Going to where it is changes nothing of what can be undone.
        if !operation {
            record.history.head = Some(snapshot.id.clone());
            record.history.redo = redo;
        } else if snapshot.stack != safety.stack {
            // A point of its own: from here an undo leads to what was replaced, and not to what
            // came before the target.
            let row = self.row_of_rollback(&snapshot, &safety);
            record.history.head = Some(row.id.clone());
            record.history.redo = redo;
            rows.push(row);
        }
        let noted = !rows.is_empty();
        let unsynced: Vec<_> = rows.iter().filter(|row| !row.durable).map(|row| row.id.clone()).collect();
        // Not synced: that would wait for all that anybody has written lately. A power cut ends the
        // sandbox, and what it then stands on is read from the backend's own record.
        let written = self.engine.catalog(move |catalog| {
            catalog.record_snapshots(&record, &rows, Durability::Process).map(|()| record)
        });
        let written = written.await?;
        self.show(written);
        for id in unsynced {
            self.engine.shared.keep.sync_soon(&self.record.owner, &id);
        }
        self.passed(EngineStep::RollbackSwitched);
        Ok(Switched { to: snapshot, safety, noted, memory })
    }

    fn row_of_rollback(&self, to: &SnapshotRecord, replaced: &SnapshotRecord) -> SnapshotRecord {
        SnapshotRecord {
            id: self.engine.draw_snapshot(),
            parent: Some(to.id.clone()),
            before: Some(replaced.id.clone()),
            operations: Some(1),
            reason: SnapshotReason::Rollback,
            created_unix_ms: self.engine.shared.parts.clock.unix_ms(),
            durable: to.durable,
            ..plain_row(&self.record, to.stack.clone())
        }
    }

    /// The request for another life of this sandbox, without its layers. `None` if that fails, or
    /// would: then it is tried again, and the failure told, when the request is needed.
    async fn prepare(&self) -> Option<CreateRequest> {
        let (engine, mut record) = (self.engine.inner(), self.record.clone());
        let backend = Arc::clone(&self.cell.backend);
        record.history.stack = Stack::default();
        blocking(move || engine.request_for(&record, RootState::Kept, &backend)).await.ok()
    }

    /// Starts a halted sandbox on what its record names. If that fails it is stopped, and its files
    /// are kept. `prepared` is the request for that, without layers.
    pub(super) async fn go_on(
        &mut self,
        prepared: Option<CreateRequest>,
        occasion: Occasion,
    ) -> Result<(), EngineError> {
        let started = match self.catch_up().await {
            Ok(()) => self.start_as_recorded(prepared, occasion).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &started {
            self.engine.fault();
            tracing::error!(sandbox.id = %self.record.id, error = sentence(error), "a sandbox that stood still could not be started again");
            if let Err(error) = self.stay_stopped(occasion).await {
                tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down that a sandbox stopped");
            }
        }
        started
    }

    async fn stay_stopped(&mut self, occasion: Occasion) -> Result<(), EngineError> {
        let detail = match occasion {
            Occasion::Suspension => "its processes could not go on after a snapshot",
            _ => "it could not be started after a rollback",
        };
        let detail = detail.to_owned();
        let ending = Ending { cause: DeathCause::BackendError, detail, files_kept: true };
        let death = ending.certificate(Evidence::default(), self.engine.shared.parts.clock.unix_ms());
        // A record that waits to be written knows more layers than the last one that was.
        let record = self.unfinished.unwritten().map_or(&self.record, |unwritten| &unwritten.record);
        let activity = Activity { busy: Some(Busy::Rollback), ..self.activity() };
        let mut last = advance(record.clone(), activity, Request::BecomeStopped)?;
        // Another start with them would fail like this one.
        last.history.memory = None;
        self.conclude(SandboxRecord { death: Some(death), ..last }, EngineStep::StopWritten).await
    }

    async fn start_as_recorded(
        &mut self,
        prepared: Option<CreateRequest>,
        occasion: Occasion,
    ) -> Result<(), EngineError> {
        let (engine, record) = (self.engine.inner(), self.record.clone());
        let backend = Arc::clone(&self.cell.backend);
        let request = promptly(move || match prepared {
            Some(mut request) => {
                engine.shared.parts.layers.stand_on(&record.history.stack, request.root.trees_mut())?;
                request.memory = engine.memory_of(&record, &backend);
                Ok(request)
            }
            None => engine.request_for(&record, RootState::Kept, &backend),
        });
        let request = request.await?;
        let started = self.start_with(request, occasion).await;
        started.map_err(|error: StartError| self.start_failed(error))
    }

    /// Refuses a goal that cannot be reached, whether or not the state has changed. Answers the
    /// snapshot that was asked for, if one was.
    async fn check_goal(&self, goal: &Goal) -> Result<Option<Usable>, EngineError> {
        match goal {
            Goal::To(id) => self.usable(id).await.map(Some),
            Goal::Redo(_) if self.record.history.redo.is_empty() => Err(self.nothing_to("redo")),
            Goal::Undo(_) | Goal::Redo(_) => Ok(None),
        }
    }

    /// True if it is known where this leads, however the present state differs from the last
    /// captured one.
    async fn is_known(&self, goal: &Goal, force: bool, done: &[JournalEntry]) -> Result<bool, EngineError> {
        match goal {
            Goal::To(_) => Ok(true),
            // Nothing can be done again once something else was written.
            Goal::Redo(_) => Ok(false),
            Goal::Undo(_) if self.step_back(&head_or_start(&self.record)).await?.is_none() => Ok(false),
            Goal::Undo(_) if force => Ok(true),
            // Whether too much would be taken back depends on whether there is more to take back
            // than was captured.
            Goal::Undo(steps) => {
                let head = head_or_start(&self.record);
                Ok(lost(done).is_empty() && self.back_over(head, *steps, false).await.is_ok())
            }
        }
    }

    /// An undo of what cannot be captured as it is: whether it would take back more than was asked
    /// for.
    async fn check_uncaptured(
        &self,
        goal: &Goal,
        force: bool,
        done: &[JournalEntry],
    ) -> Result<(), EngineError> {
        let Goal::Undo(steps) = goal else { return Ok(()) };
        let lost = lost(done);
        if force || lost.is_empty() || lost.len() < usize::try_from(*steps).unwrap_or(usize::MAX) {
            return Ok(());
        }
        Err(self.history_lost(&lost).await?)
    }

    /// Entries that ended since the last capture.
    async fn uncaptured(&self) -> Result<Vec<JournalEntry>, EngineError> {
        let (engine, id, now) =
            (self.engine.inner(), self.record.id.clone(), self.engine.shared.parts.clock.unix_ms());
        Ok(self.engine.catalog(move |catalog| engine.shared.journal.ended(catalog, &id, now)).await?)
    }

    /// Where the goal is, now that the present state is captured.
    async fn target(
        &self,
        goal: &Goal,
        known: Option<Usable>,
        mut redo: Vec<SnapshotId>,
        force: bool,
    ) -> Result<Target, EngineError> {
        let now = head_or_start(&self.record);
        let (id, redo, operation) = match goal {
            Goal::To(id) if *id == now => (id.clone(), redo, false),
            Goal::To(id) => (id.clone(), Vec::new(), true),
            Goal::Undo(steps) => {
                let (to, left) = self.back_over(now, *steps, force).await?;
                redo.extend(left);
                (to, redo, false)
            }
            Goal::Redo(steps) => {
                let steps = usize::try_from(*steps).unwrap_or(usize::MAX);
                let mut again = redo.split_off(redo.len().saturating_sub(steps));
                if again.is_empty() {
                    return Err(self.nothing_to("redo"));
                }
                (again.swap_remove(0), redo, false)
            }
        };
        let (snapshot, pin) = match known.filter(|(snapshot, _)| snapshot.id == id) {
            Some(known) => known,
            None => self.usable(&id).await?,
        };
        // An undo takes back what was done to files.
        let memory = matches!(goal, Goal::To(_));
        Ok(Target { snapshot, redo, operation, memory, _pin: pin })
    }

    pub(super) fn nothing_to(&self, what: &'static str) -> EngineError {
        EngineError::NothingToUndo { id: self.record.id.clone(), what }
    }

    pub(super) async fn row(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, EngineError> {
        let (owner, id) = (self.record.owner.clone(), id.clone());
        Ok(self.engine.catalog(move |catalog| catalog.snapshot(&owner, &id)).await?)
    }

    /// A snapshot that this sandbox can go back to.
    async fn usable(&self, id: &SnapshotId) -> Result<Usable, EngineError> {
        let (engine, owner, id) = (self.engine.inner(), self.record.owner.clone(), id.clone());
        let (snapshot, pin) = promptly(move || engine.usable_snapshot(&owner, &id)).await?;
        let (base, own) = (snapshot.spec.base(), self.record.spec.base());
        if base != own {
            let message = format!("it stands on {base}, and the sandbox on {own}");
            return Err(EngineError::invalid(Field::Snapshot, message));
        }
        Ok((snapshot, pin))
    }
}
