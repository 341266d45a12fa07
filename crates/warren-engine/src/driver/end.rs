//! Ending a sandbox: the cause is written down, then its processes end, then the record says so.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use warren_core::catalog::Durability;
use warren_core::{
    Event, IsolationErrorKind, Request, RootState, SandboxRecord, Status, Step, Usage, Verdict,
};
use warren_wire::guest::ProcessInfo;

use super::Driver;
use super::unfinished::{Unfinished, Unwritten};
use crate::cell::Closing;
use crate::certificate::{Ending, Evidence, cause_of_exit};
use crate::error::sentence;
use crate::ports::blocking;
use crate::{EngineError, EngineStep};

/// Counting a sandbox's files may take long; its end does not wait for that.
const PATIENCE: Duration = Duration::from_millis(500);
/// As much of its processes as a certificate shows.
const MOST_PROCESSES: usize = 64;
const MOST_COMMAND_CHARS: usize = 256;

impl Driver {
    pub(super) async fn stop(&mut self, ending: Ending) -> Result<(), EngineError> {
        let delete = !ending.files_kept;
        match self.decide(Request::Stop) {
            Verdict::Proceed(Step::Enter(Status::Stopping)) => {
                let evidence = self.evidence().await;
                self.end(ending, evidence).await?;
            }
            // An earlier attempt failed.
            _ if self.record.status == Status::Stopping => self.finish().await?,
            _ => self.check(Request::Stop)?,
        }
        if delete && self.record.files_kept() { self.remove_files().await } else { Ok(()) }
    }

    /// Its first process ended without a request.
    pub(super) async fn died(&mut self) {
        self.watch = None;
        if !self.record.is_live() || self.record.status == Status::Stopping {
            return;
        }
        if self.is_out_of_sight().await {
            return;
        }
        let usage = self.usage().await;
        let (cause, detail) = cause_of_exit(usage.as_ref());
        let evidence = Evidence { usage, last_output: self.cell.tail.lock().text(), ..Evidence::default() };
        let ending = Ending { cause, detail, files_kept: true };
        let ended = match self.catch_up().await {
            Ok(()) => self.end(ending, evidence).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            self.engine.fault();
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down the end of a sandbox that died");
        }
    }

    /// Writes the end down, then brings it about.
    pub(super) async fn end(&mut self, ending: Ending, evidence: Evidence) -> Result<(), EngineError> {
        self.cell.close(Closing::End);
        let (detail, kept) = (ending.detail.clone(), ending.files_kept);
        let mut death = ending.certificate(evidence, self.engine.shared.parts.clock.unix_ms());
        let head = self.record.history.head.as_ref().filter(|_| kept && !self.cell.is_changed());
        death.snapshot = head.map(ToString::to_string);
        let recorded = if kept { EngineStep::StopRecorded } else { EngineStep::DeleteRecorded };
        let intent = self.enter(Request::Stop, Some(recorded), None, |record| record.death = Some(death));
        if let Err(error) = intent.await {
            self.cell.reopen();
            return Err(error);
        }
        self.cell.life().end(&detail);
        if matches!(self.unfinished, Unfinished::Astray(_)) {
            self.unfinished = Unfinished::Nothing;
        }
        self.finish().await
    }

    /// Carries out the end that the record names.
    pub(super) async fn finish(&mut self) -> Result<(), EngineError> {
        self.watch = None;
        let keep = self.record.files_kept();
        // Of one that was moved, everything is in its layers, and what is here does not count.
        let halt = keep && !self.record.unplaced;
        let (backend, id) = (Arc::clone(&self.cell.backend.port), self.record.id.clone());
        let end = move || if halt { backend.halt(&id) } else { backend.destroy(&id) };
        let kept = match self.cell.backend.change(&self.record.owner, end).await {
            Ok(()) => keep,
            Err(error) if error.kind == IsolationErrorKind::NotFound => keep && !halt,
            Err(error) => {
                self.engine.fault();
                // Processes that still run must not reach anybody until they end.
                self.unlink().await;
                return Err(EngineError::Backend(error));
            }
        };
        self.unlink().await;
        let (ended, written) = if keep {
            (EngineStep::StopHalted, EngineStep::StopWritten)
        } else {
            (EngineStep::DeleteDestroyed, EngineStep::DeleteWritten)
        };
        self.passed(ended);
        if !kept {
            self.clear_left_behind().await;
        }
        let mut last = self.next(Request::BecomeStopped)?;
        if let Some(death) = &mut last.death {
            death.files_kept = kept;
        }
        if !kept {
            self.forget_history(&mut last).await;
            self.engine.give_up_reached(&self.record.id).await;
        }
        self.conclude(last, written).await
    }

    /// Removes the unnamed snapshots of a sandbox that is removed. A failure is only logged.
    async fn forget_history(&self, last: &mut SandboxRecord) {
        if last.history.head.is_none() {
            return;
        }
        let (engine, record) = (self.engine.inner(), last.clone());
        match blocking(move || engine.forget_unnamed(&record)).await {
            Ok(()) => {
                last.history.head = None;
                last.history.redo.clear();
            }
            Err(error) => {
                self.engine.fault();
                tracing::warn!(sandbox.id = %self.record.id, error = sentence(&error), "snapshots of a removed sandbox are left");
            }
        }
    }

    /// The last record of a life. A layer that waits to be written goes with it.
    pub(super) async fn conclude(
        &mut self,
        mut last: SandboxRecord,
        written: EngineStep,
    ) -> Result<(), EngineError> {
        last.addresses.clear();
        self.seat = None;
        let layer = self.unfinished.unwritten().and_then(|unwritten| unwritten.layer.clone());
        self.must_write(Unwritten { record: last, end: Some(written), layer }).await
    }

    pub(super) fn announce_end(&self) {
        let Some(death) = &self.record.death else { return };
        let (cause, detail, files_kept) = (death.cause.clone(), death.detail.clone(), death.files_kept);
        tracing::info!(sandbox.id = %self.record.id, cause = cause.word(), detail, files_kept, "a sandbox ended");
        self.engine.shared.figures.ended(&cause);
        self.emit(Event::SandboxDied { cause, detail, files_kept });
        if !files_kept {
            self.engine.shared.sightings.forget(&self.record.id);
            self.emit(Event::SandboxRemoved);
        }
    }

    /// Deletes what an ended sandbox left. The record gives the files up first: a crash in between
    /// leaves files without a record, which the next start removes.
    async fn remove_files(&mut self) -> Result<(), EngineError> {
        self.clear_left_behind().await;
        let mut last = self.record.clone();
        self.forget_history(&mut last).await;
        self.engine.give_up_reached(&self.record.id).await;
        let history = last.history;
        self.write(Durability::Process, |record| {
            set_files_kept(record, false);
            record.history = history;
        })
        .await?;
        self.passed(EngineStep::FilesGivenUp);
        let done = self.isolate(|backend, id| backend.destroy(id)).await;
        match done {
            Err(error) if error.kind != IsolationErrorKind::NotFound => {
                self.engine.fault();
                if self.write(Durability::Process, |record| set_files_kept(record, true)).await.is_err() {
                    self.unfinished = Unfinished::Leftover(RootState::Fresh, None);
                }
                return Err(EngineError::Backend(error));
            }
            Ok(()) | Err(_) => {}
        }
        self.passed(EngineStep::FilesRemoved);
        self.engine.shared.sightings.forget(&self.record.id);
        self.emit(Event::SandboxRemoved);
        self.engine.sandbox_ended(&self.record).await;
        Ok(())
    }

    /// The state of the sandbox before it ends. A frozen one cannot be asked what it runs.
    async fn evidence(&self) -> Evidence {
        let asked = async {
            let rows = timeout(PATIENCE, self.running()).await.unwrap_or_default();
            rows[rows.len().saturating_sub(MOST_PROCESSES)..].iter().map(row).collect()
        };
        let (processes, usage) = tokio::join!(asked, self.usage());
        Evidence { last_output: self.cell.tail.lock().text(), processes, usage }
    }

    async fn usage(&self) -> Option<Usage> {
        let engine = self.engine.inner();
        let asked = self.isolate(move |backend, id| engine.usage_of(backend, id));
        timeout(PATIENCE, asked).await.ok()?.ok()
    }
}

/// A process as a death certificate shows it.
fn row(process: &ProcessInfo) -> String {
    let mut row = process.pid.to_string();
    for word in &process.argv {
        row.push(' ');
        row.push_str(&word.to_text());
    }
    row.chars().take(MOST_COMMAND_CHARS).collect()
}

fn set_files_kept(record: &mut SandboxRecord, kept: bool) {
    if let Some(death) = &mut record.death {
        death.files_kept = kept;
    }
}
