//! Moving a sandbox behind another wall, with the same files, id and history.
//!
//! ```text
//! halt ─► save ─► the record names the other backend ─► start there ─► remove what the first holds
//! ```
//!
//! Both backends stand on our layers. What the sandbox wrote becomes a layer, so that the other
//! backend starts it on the same stack with nothing of its own on top.
//!
//! If the process ends in between, the record names a backend and a stack that has everything: the
//! sandbox is stopped with its files kept, and the next start is a fresh one there. When it cannot
//! be started behind the other wall, it goes back behind the first.
//!
//! A driver belongs to one backend for as long as its cell does: the cell is exchanged for one of
//! the other backend, and letters to the old one find their way to the new.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use warren_core::catalog::Durability;
use warren_core::{
    Activity, Busy, DeathCause, Event, IsolationErrorKind, Need as Wanted, Request, RootKind, RootState,
    SandboxRecord, SnapshotReason, Stack, WallChoice,
};

use super::Driver;
use super::capture::Posture;
use super::start::{Occasion, check_mounts_unmoved};
use super::status::advance;
use super::unfinished::Unfinished;
use crate::cell::{Capture, CaptureOrder, Cell, EndedProcess, Exclusive, MoveOrder, Moved, Need};
use crate::certificate::{Ending, Evidence};
use crate::error::sentence;
use crate::ports::{Backend, blocking};
use crate::shown::as_typed;
use crate::{EngineError, EngineStep};

/// How long an agent may take to say what runs.
const LISTING_PATIENCE: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) async fn move_to(&mut self, order: MoveOrder) -> Result<Moved, EngineError> {
        let began = Instant::now();
        self.straighten().await?;
        let MoveOrder { to, wall, by, force, exclusive } = order;
        let activity = self.activity();
        let tools_in_flight = if force { 0 } else { activity.tools_in_flight };
        self.check_with(Activity { tools_in_flight, ..activity }, Request::Rollback)?;
        let from = Arc::clone(&self.cell.backend);
        let told = |record: &SandboxRecord, ended| Moved {
            sandbox: record.clone(),
            from: from.name().to_owned(),
            to: to.name().to_owned(),
            ended,
            took: began.elapsed(),
        };
        if Arc::ptr_eq(&from, &to) {
            if self.record.wall != wall {
                self.write(Durability::Process, |record| record.wall = wall).await?;
            }
            return Ok(told(&self.record, Vec::new()));
        }
        // Of what it left before, nothing may be in the way.
        self.clear_left().await?;
        self.check_target(&to, &wall).await?;
        let (runs, mut ended) = (self.record.is_live(), Vec::new());
        if runs {
            let running = timeout(LISTING_PATIENCE, self.running()).await.unwrap_or_default();
            let row = |process: warren_wire::guest::ProcessInfo| EndedProcess {
                id: process.process.0,
                command: as_typed(&process.argv),
            };
            ended = running.into_iter().map(row).collect();
            self.halt_to_move().await?;
        }
        let moved = self.change_wall(&from, &to, wall, runs).await;
        drop(exclusive);
        moved?;
        self.emit(Event::SandboxMoved { from: from.name().to_owned(), to: to.name().to_owned(), by });
        tracing::info!(sandbox.id = %self.record.id, from = from.name(), to = to.name(), "a sandbox is behind another wall");
        self.clear_left_behind().await;
        Ok(told(&self.record, ended))
    }

    /// Everything about the other backend that can be known before anything ends.
    async fn check_target(&self, to: &Arc<Backend>, wall: &WallChoice) -> Result<(), EngineError> {
        self.cell.backend.layered()?;
        to.layered()?;
        let mut needs = Wanted::of(&self.record.spec, RootKind::Layers, self.record.disk_limit_required);
        needs.extend(self.engine.wall_needs(Some(&self.record.owner), wall));
        if let Some(refusal) = to.port.capabilities().refuse(&needs) {
            let reasons = vec![(to.name().to_owned(), refusal.to_string())];
            return Err(EngineError::NothingFits { asked: wall.field(), reasons });
        }
        let (engine, record, backend) = (self.engine.inner(), self.record.clone(), Arc::clone(to));
        to.ask(move || {
            engine.check_disk_of(&backend)?;
            check_mounts_unmoved(&backend, &record.spec)?;
            engine.request_for(&record, RootState::Fresh, &backend).map(drop)
        })
        .await
    }

    async fn halt_to_move(&mut self) -> Result<(), EngineError> {
        let watch = self.watch.take();
        if let Err(error) = self.isolate(|backend, id| backend.halt(id)).await {
            // Whatever of it still runs goes on; what does not is noticed as any end is.
            self.watch = watch;
            self.engine.fault();
            return Err(EngineError::Backend(error));
        }
        self.unlink().await;
        self.cell.life().end("it was moved behind another wall");
        self.passed(EngineStep::MoveHalted);
        Ok(())
    }

    /// Saves a halted sandbox and names the other backend; starts it there if it ran.
    async fn change_wall(
        &mut self,
        from: &Arc<Backend>,
        to: &Arc<Backend>,
        wall: WallChoice,
        runs: bool,
    ) -> Result<(), EngineError> {
        let before = self.record.wall.clone();
        if let Err(error) = self.save_and_leave(to, wall).await {
            if runs {
                // It is where it was, and so are its files.
                self.go_on_here().await;
            }
            return Err(error);
        }
        let _alone = self.exchange_cell(to);
        if !runs {
            return Ok(());
        }
        let Err(error) = self.start_here().await else { return Ok(()) };
        tracing::warn!(sandbox.id = %self.record.id, backend = to.name(), error = sentence(&error), "a sandbox cannot be started behind another wall, and goes back");
        let _alone = self.go_back(from, to, before).await;
        Err(error)
    }

    /// Captures all that it holds, and writes down that it is the other backend's.
    async fn save_and_leave(&mut self, to: &Arc<Backend>, wall: WallChoice) -> Result<(), EngineError> {
        let stack = self.save_whole().await?;
        self.passed(EngineStep::MoveSaved);
        // From here on the layers are all there is of it.
        let (engine, layers) = (self.engine.inner(), stack.0.clone());
        blocking(move || engine.shared.parts.layers.sync(&layers)).await?;
        let left = self.cell.backend.name().to_owned();
        self.write(Durability::Disk, |record| {
            record.backend = to.name().to_owned();
            record.wall = wall;
            record.unplaced = true;
            record.left = Some(left);
            record.history.stack = stack;
            record.history.moved = true;
        })
        .await?;
        self.passed(EngineStep::MoveSwitched);
        Ok(())
    }

    /// The layers that have all that a halted sandbox holds.
    async fn save_whole(&mut self) -> Result<Stack, EngineError> {
        let order = CaptureOrder {
            need: Need::IfChanged,
            durable: true,
            ..CaptureOrder::asked(SnapshotReason::Safety)
        };
        let snapshot = match self.capture_as(order, Posture::Halted).await? {
            Capture::Taken(taken) => Some(taken.snapshot),
            Capture::Same(id) => self.row(&id).await?,
            Capture::NotKept(why) => return Err(EngineError::SnapshotsUnavailable(why)),
        };
        match snapshot {
            Some(snapshot) if snapshot.damaged => Err(EngineError::SnapshotDamaged { id: snapshot.id }),
            Some(snapshot) => Ok(snapshot.stack),
            // It is as it began, and that is not written down.
            None => Ok(self.record.history.stack.clone()),
        }
    }

    /// Becomes the driver of the same sandbox at another backend. Until the answer is dropped,
    /// everybody else is kept out.
    fn exchange_cell(&mut self, to: &Arc<Backend>) -> Exclusive {
        let (cell, mailbox) = Cell::new(self.record.clone(), Arc::clone(to), self.now_ms());
        let exclusive = cell.keep_out(Busy::Move);
        self.engine.shared.registry.replace(&self.cell, &cell);
        *self.registered.lock() = Arc::clone(&cell);
        (self.cell, self.mailbox, self.plain) = (cell, mailbox, None);
        exclusive
    }

    /// Starts it as its record says. Its files are in its layers.
    async fn start_here(&mut self) -> Result<(), EngineError> {
        let (engine, record) = (self.engine.inner(), self.record.clone());
        let backend = Arc::clone(&self.cell.backend);
        let state = record.root_state();
        let request = blocking(move || engine.request_for(&record, state, &backend)).await?;
        let started = self.start_with(request, Occasion::Move).await;
        started.map_err(|error| self.start_failed(error))
    }

    /// Starts it behind the wall that it came from. Its writable layers there have nothing that is
    /// not in its layers.
    async fn go_back(&mut self, from: &Arc<Backend>, to: &Arc<Backend>, wall: WallChoice) -> Exclusive {
        // Of the start that failed something may be left there.
        let stuck = matches!(self.unfinished, Unfinished::Leftover(..)).then(|| to.name().to_owned());
        let written = self.write(Durability::Disk, |record| {
            record.backend = from.name().to_owned();
            record.wall = wall;
            record.unplaced = false;
            record.left = stuck;
        });
        let written = written.await;
        let alone = if let Err(error) = written {
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down that a sandbox goes back");
            let alone = self.cell.keep_out(Busy::Move);
            self.stay_halted().await;
            alone
        } else {
            self.unfinished = Unfinished::Nothing;
            let alone = self.exchange_cell(from);
            self.go_on_here().await;
            alone
        };
        self.engine.fault();
        alone
    }

    /// Starts a sandbox that could not be moved, or leaves it stopped.
    async fn go_on_here(&mut self) {
        let started = match self.catch_up().await {
            Ok(()) => self.start_here().await,
            Err(error) => Err(error),
        };
        if let Err(error) = started {
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "a sandbox could not be started after a move that failed");
            self.stay_halted().await;
        }
    }

    async fn stay_halted(&mut self) {
        let detail = "it could not be started after a move".to_owned();
        let ending = Ending { cause: DeathCause::BackendError, detail, files_kept: true };
        let death = ending.certificate(Evidence::default(), self.engine.shared.parts.clock.unix_ms());
        // A record that waits to be written knows more layers than the last one that was.
        let record = self.unfinished.unwritten().map_or(&self.record, |unwritten| &unwritten.record);
        let activity = Activity { busy: Some(Busy::Move), ..self.activity() };
        let stopped = match advance(record.clone(), activity, Request::BecomeStopped) {
            Ok(last) => {
                self.conclude(SandboxRecord { death: Some(death), ..last }, EngineStep::StopWritten).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = stopped {
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down that a sandbox stopped");
        }
    }

    /// As [`Driver::clear_left`], now or later: nothing of it runs there. What is left of a sandbox
    /// that is removed is nobody's, and goes when that backend is looked at next.
    pub(super) async fn clear_left_behind(&mut self) {
        if let Err(error) = self.clear_left().await {
            tracing::warn!(sandbox.id = %self.record.id, error = sentence(&error), "remains of a sandbox that was moved are still there");
        }
    }

    /// Removes what the backend still holds that it was moved away from.
    async fn clear_left(&mut self) -> Result<(), EngineError> {
        let Some(left) = self.record.left.clone() else { return Ok(()) };
        let backend = self.engine.backend_named(&left)?;
        let (port, id) = (Arc::clone(&backend.port), self.record.id.clone());
        match backend.change(&self.record.owner, move || port.destroy(&id)).await {
            Err(error) if error.kind != IsolationErrorKind::NotFound => {
                self.engine.fault();
                return Err(EngineError::Backend(error));
            }
            Ok(()) | Err(_) => {}
        }
        self.passed(EngineStep::MoveCleared);
        self.write(Durability::Process, |record| record.left = None).await
    }
}
