//! Freezing and thawing.

use warren_core::catalog::Durability;
use warren_core::{Deadline, Event, Need, Paused, PausedBy, Request, Status, Step, Verdict};

use super::Driver;
use super::unfinished::Unfinished;
use crate::cell::Closing;
use crate::error::sentence;
use crate::{EngineError, EngineStep, Patch};

impl Driver {
    /// Pauses it by request. A sandbox that rests for want of work now waits for a resume.
    pub(super) async fn pause(&mut self) -> Result<(), EngineError> {
        self.straighten().await?;
        match self.decide(Request::Pause) {
            Verdict::Proceed(Step::Enter(Status::Paused)) => {
                self.cell.close(Closing::Pause(PausedBy::Request));
                self.freeze(PausedBy::Request).await
            }
            Verdict::AlreadySo => {
                let rests = self.record.paused.as_ref().is_some_and(|paused| paused.by == PausedBy::Idleness);
                if rests { self.enter_paused(PausedBy::Request, None, None).await } else { Ok(()) }
            }
            _ => self.check(Request::Pause),
        }
    }

    /// Thaws it, or begins another life.
    pub(super) async fn resume(&mut self) -> Result<(), EngineError> {
        self.straighten().await?;
        match self.decide(Request::Resume) {
            Verdict::Proceed(Step::Enter(Status::Ready)) => self.thaw().await,
            Verdict::Proceed(Step::Enter(Status::Creating)) => self.start_again().await,
            _ => self.check(Request::Resume),
        }
    }

    /// As [`Driver::resume`], but only where the sandbox waits for nothing else.
    pub(super) async fn thaw_for_work(&mut self) -> Result<(), EngineError> {
        self.straighten().await?;
        match &self.record.paused {
            Some(paused) if paused.by == PausedBy::Idleness => self.thaw().await,
            Some(_) | None => Ok(()),
        }
    }

    /// Freezes it. The gate is closed already.
    pub(super) async fn freeze(&mut self, by: PausedBy) -> Result<(), EngineError> {
        if let Err(error) = self.cell.backend.require(Need::Freeze) {
            self.cell.reopen();
            return Err(error);
        }
        if let Err(error) = self.isolate(|backend, id| backend.freeze(id)).await {
            self.cell.reopen();
            return Err(EngineError::Backend(error));
        }
        self.passed(EngineStep::PauseFrozen);
        let paused = self.enter_paused(by, Some(EngineStep::PauseWritten), Some(Event::SandboxPaused { by }));
        if let Err(error) = paused.await {
            self.undo(Undo::Thaw).await;
            return Err(error);
        }
        Ok(())
    }

    async fn enter_paused(
        &mut self,
        by: PausedBy,
        written: Option<EngineStep>,
        event: Option<Event>,
    ) -> Result<(), EngineError> {
        let clock = self.engine.shared.parts.clock.clone();
        let suspended_ms = self.record.timeouts.suspended_s.saturating_mul(1000);
        let paused = Paused {
            by,
            since_unix_ms: clock.unix_ms(),
            deadline: Deadline::after(clock.as_ref(), suspended_ms),
        };
        self.enter(Request::Pause, written, event, |record| record.paused = Some(paused)).await
    }

    async fn thaw(&mut self) -> Result<(), EngineError> {
        let began_ms = self.now_ms();
        self.isolate(|backend, id| backend.thaw(id)).await.map_err(EngineError::Backend)?;
        self.passed(EngineStep::ThawThawed);
        let clock = self.engine.shared.parts.clock.clone();
        // Its time stood still while it was paused by request, and begins again.
        let restart_time = self.record.paused.as_ref().is_some_and(|paused| paused.by == PausedBy::Request);
        let event = Event::SandboxResumed { took_ms: self.now_ms().saturating_sub(began_ms) };
        let resumed = self.enter(Request::Resume, Some(EngineStep::ThawWritten), Some(event), |record| {
            if restart_time {
                let lifetime_ms = record.spec.limits.lifetime_s.saturating_mul(1000);
                record.deadline = Deadline::after(clock.as_ref(), lifetime_ms);
            }
        });
        if let Err(error) = resumed.await {
            self.undo(Undo::Freeze).await;
            return Err(error);
        }
        self.busy_ms = self.now_ms();
        Ok(())
    }

    /// The record could not be written: the sandbox goes back to what it says, now or later.
    pub(super) async fn undo(&mut self, undo: Undo) {
        self.unfinished = Unfinished::Astray(undo);
        if let Err(error) = self.straighten().await {
            self.engine.fault();
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "a sandbox is not in the state that its record tells");
        }
    }

    /// Brings the sandbox back to the state that its record tells.
    pub(super) async fn straighten(&mut self) -> Result<(), EngineError> {
        let Unfinished::Astray(undo) = self.unfinished else { return Ok(()) };
        let done = self
            .isolate(move |backend, id| match undo {
                Undo::Freeze => backend.freeze(id),
                Undo::Thaw => backend.thaw(id),
            })
            .await;
        if let Err(error) = done {
            // The next call has it tried again.
            if undo == Undo::Thaw {
                self.cell.close(Closing::Pause(PausedBy::Idleness));
            }
            return Err(EngineError::Backend(error));
        }
        self.unfinished = Unfinished::Nothing;
        self.cell.reopen();
        Ok(())
    }

    /// Changes what its owner may change.
    pub(super) async fn patch(&mut self, patch: Patch) -> Result<(), EngineError> {
        if !self.record.is_live() && !self.record.files_kept() {
            return self.check(Request::Resume);
        }
        let clock = self.engine.shared.parts.clock.clone();
        let more_ttl_s = patch
            .least_ttl_s
            .filter(|ttl_s| self.record.deadline.remaining_ms(clock.as_ref()) < ttl_s.saturating_mul(1000));
        // Clients that keep a sandbox alive repeat this often, mostly without a change.
        if patch == (Patch { least_ttl_s: patch.least_ttl_s, ..Patch::default() }) && more_ttl_s.is_none() {
            return Ok(());
        }
        self.write(Durability::Disk, |record| {
            if let Some(name) = patch.name {
                record.name = name;
            }
            if let Some(labels) = patch.labels {
                record.spec.labels = labels;
            }
            if let Some(metadata) = patch.metadata {
                record.metadata = metadata;
            }
            if let Some(on_expiry) = patch.on_expiry {
                record.on_expiry = on_expiry;
            }
            if let Some(annotations) = patch.annotations {
                record.annotations = annotations;
            }
            if let Some(ttl_s) = patch.ttl_s.or(more_ttl_s) {
                record.spec.limits.lifetime_s = ttl_s;
                record.deadline = Deadline::after(clock.as_ref(), ttl_s.saturating_mul(1000));
            }
        })
        .await
    }
}

/// How to get back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undo {
    Freeze,
    Thaw,
}
