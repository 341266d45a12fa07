//! The one place where the status of a sandbox changes.
//!
//! ```text
//! decide ─► the next record ─► catalog ─► gate ─► watchers ─► event
//! ```
//!
//! [`Driver::enter`] does all of that. Two changes write the record elsewhere, and do the rest
//! here: a start, which writes it on the thread that can still undo the start, and an end, which is
//! written until that succeeds ([`super::unfinished`]).

use warren_core::catalog::{Catalog, Durability};
use warren_core::{Activity, Event, Request, SandboxRecord, Status, Step, Verdict, decide};

use super::Driver;
use crate::{EngineError, EngineStep};

impl Driver {
    pub(super) fn decide(&self, request: Request) -> Verdict {
        decide(self.record.status, self.activity(), request)
    }

    pub(super) fn activity(&self) -> Activity {
        let (tools_in_flight, files_kept) = (self.cell.life().at_work(), self.record.files_kept());
        Activity { tools_in_flight, busy: None, files_kept }
    }

    /// An error if the request is denied.
    pub(super) fn check(&self, request: Request) -> Result<(), EngineError> {
        self.check_with(self.activity(), request)
    }

    /// As [`Driver::check`], in other circumstances.
    pub(super) fn check_with(&self, activity: Activity, request: Request) -> Result<(), EngineError> {
        next_status(&self.record, activity, request).map(drop)
    }

    /// The record after a request, which is not written yet.
    pub(super) fn next(&self, request: Request) -> Result<SandboxRecord, EngineError> {
        advance(self.record.clone(), self.activity(), request)
    }

    /// Changes the status as the request asks, and `change` the rest of the record.
    pub(super) async fn enter(
        &mut self,
        request: Request,
        written: Option<EngineStep>,
        event: Option<Event>,
        change: impl FnOnce(&mut SandboxRecord),
    ) -> Result<(), EngineError> {
        let mut next = self.next(request)?;
        change(&mut next);
        self.store(next, Durability::Process).await?;
        if let Some(step) = written {
            self.passed(step);
        }
        if let Some(event) = event {
            self.emit(event);
        }
        Ok(())
    }

    /// Writes a change of the record that leaves the status as it is.
    pub(super) async fn write(
        &mut self,
        durability: Durability,
        change: impl FnOnce(&mut SandboxRecord),
    ) -> Result<(), EngineError> {
        let mut next = self.record.clone();
        change(&mut next);
        next.generation += 1;
        self.store(next, durability).await
    }

    async fn store(&mut self, next: SandboxRecord, durability: Durability) -> Result<(), EngineError> {
        let engine = self.engine.inner();
        let write = move |catalog: &dyn Catalog| match catalog.update_sandbox(&next, durability) {
            Ok(()) => Ok(next),
            Err(error) => Err(engine.refused(&next, error)),
        };
        let written = self.engine.catalog(write).await?;
        self.show(written);
        Ok(())
    }

    /// Takes over a record that is written, and shows it to everybody.
    pub(super) fn show(&mut self, record: SandboxRecord) {
        self.record = record;
        self.cell.publish(&self.record);
        self.engine.shared.registry.note_files(&self.record);
    }
}

/// The next generation of a record, with the status that a request leads to.
pub(super) fn advance(
    mut record: SandboxRecord,
    activity: Activity,
    request: Request,
) -> Result<SandboxRecord, EngineError> {
    record.status = next_status(&record, activity, request)?;
    if record.status != Status::Paused {
        record.paused = None;
    }
    record.generation += 1;
    Ok(record)
}

fn next_status(record: &SandboxRecord, activity: Activity, request: Request) -> Result<Status, EngineError> {
    match decide(record.status, activity, request) {
        Verdict::Proceed(Step::Enter(status)) => Ok(status),
        Verdict::Proceed(Step::Serve) | Verdict::AlreadySo => Ok(record.status),
        Verdict::Denied(reason) => {
            Err(EngineError::Denied { id: record.id.clone(), status: record.status, reason })
        }
    }
}
