//! Making a sandbox, and starting again one that was stopped.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::oneshot;
use warren_core::catalog::{CatalogError, Durability, Idempotency, InsertError, NewRecords};
use warren_core::{
    CreateRequest, Deadline, DeathCause, Event, Isolation, IsolationError, IsolationErrorKind, OwnerBond,
    RootState, SandboxId, SandboxRecord, SessionRecord, Status,
};

use super::{Driver, Unwritten};
use crate::blocking::blocking;
use crate::certificate::{Ending, Evidence};
use crate::create::MakeError;
use crate::error::sentence;
use crate::snapshots::Pin;
use crate::{Engine, EngineError, EngineStep};

/// What is needed to make a sandbox, besides its record.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) session: SessionRecord,
    pub(crate) idempotency: Option<Idempotency>,
    /// Answer as soon as it is written down.
    pub(crate) background: bool,
    /// Keeps the layers that it begins with until they are written down.
    pub(crate) pin: Option<Pin>,
    pub(crate) reply: oneshot::Sender<Result<SandboxRecord, MakeError>>,
}

/// Why a sandbox could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("the backend failed")]
    Backend(#[source] IsolationError),
    #[error("the catalog failed")]
    Catalog(#[source] CatalogError),
}

impl StartError {
    /// What failed, without the causes: those speak of the host.
    fn for_its_owner(&self) -> String {
        match self {
            Self::Backend(error) => format!("it could not be started: {}", error.action),
            Self::Catalog(_) => "it could not be written down that it runs".to_owned(),
        }
    }
}

/// Whether a start that failed is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undone {
    Yes,
    Later,
}

impl From<Result<(), IsolationError>> for Undone {
    fn from(undone: Result<(), IsolationError>) -> Self {
        if undone.is_ok() { Self::Yes } else { Self::Later }
    }
}

impl Driver {
    pub(super) async fn make(&mut self, making: Making) {
        let Making { session, idempotency, background, pin, reply } = making;
        let request = match self.write_down(session, idempotency).await {
            Ok(request) => request,
            Err(error) => {
                self.unborn = true;
                self.seat = None;
                drop(reply.send(Err(error)));
                return;
            }
        };
        drop(pin);
        let (template, backend) = (self.record.spec.template.to_string(), self.record.backend.clone());
        self.emit(Event::SandboxCreated { template, backend });
        if background {
            drop(reply.send(Ok(self.record.clone())));
            // Nobody waits for the answer: the record, an event and the session tell it.
            drop(self.make_recorded(request).await);
        } else {
            let made = self.make_recorded(request).await;
            drop(reply.send(made.map(|()| self.record.clone()).map_err(MakeError::Engine)));
        }
    }

    /// Checks what only the host knows, then writes the sandbox down with its session.
    async fn write_down(
        &mut self,
        session: SessionRecord,
        idempotency: Option<Idempotency>,
    ) -> Result<CreateRequest, MakeError> {
        let (engine, mut sandbox) = (self.engine.inner(), self.record.clone());
        let (record, request) = blocking(move || {
            engine.check_disk()?;
            engine.resolve_mounts(&mut sandbox.spec)?;
            let request = engine.request_for(&sandbox, RootState::Fresh)?;
            let new = NewRecords { sandbox: sandbox.clone(), session, idempotency };
            engine.shared.parts.catalog.insert(new).map_err(|error| match error {
                InsertError::Repeated(earlier) => MakeError::Repeated(earlier),
                InsertError::Catalog(error) => MakeError::Engine(error.into()),
            })?;
            (engine.shared.parts.passed)(EngineStep::CreateRecorded);
            Ok::<_, MakeError>((sandbox, request))
        })
        .await?;
        self.show(record);
        Ok(request)
    }

    async fn make_recorded(&mut self, request: CreateRequest) -> Result<(), EngineError> {
        match self.start_with(request, EngineStep::CreateMade, EngineStep::CreateReady).await {
            Ok(()) => {
                self.engine.shared.figures.created(self.record.made_in_ms);
                self.emit(Event::SandboxReady { took_ms: self.record.made_in_ms });
                self.engine.sandbox_ready(&self.record).await;
                Ok(())
            }
            Err(error) => {
                self.engine.shared.figures.create_failed();
                tracing::warn!(sandbox.id = %self.record.id, error = sentence(&error), "a sandbox could not be made");
                self.give_up(error.for_its_owner()).await;
                Err(self.start_failed(error))
            }
        }
    }

    /// Nothing of it is left but a record that says why.
    pub(super) async fn give_up(&mut self, detail: String) {
        let ending = Ending { cause: DeathCause::BackendError, detail, files_kept: false };
        let mut last = self.record.clone();
        last.status = Status::Failed;
        last.death = Some(ending.certificate(Evidence::default(), self.engine.shared.parts.clock.unix_ms()));
        if let Err(error) = self.conclude(last, EngineStep::DeleteWritten).await {
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down that a sandbox failed");
        }
    }

    /// Begins another life with the files of the last one.
    pub(super) async fn start_again(&mut self) -> Result<(), EngineError> {
        let seat = self.engine.shared.seats.take()?;
        let (engine, record) = (self.engine.inner(), self.record.clone());
        let request = blocking(move || {
            engine.check_disk()?;
            engine.check_mounts_unmoved(&record.spec)?;
            engine.request_for(&record, RootState::Kept)
        })
        .await?;
        let before = self.record.clone();
        self.write(Durability::Process, |record| record.status = Status::Creating).await?;
        self.passed(EngineStep::ResumeRecorded);
        match self.start_with(request, EngineStep::ResumeMade, EngineStep::ResumeReady).await {
            Ok(()) => {
                self.seat = Some(seat);
                self.emit(Event::SandboxResumed { took_ms: self.record.made_in_ms });
                self.engine.sandbox_ready(&self.record).await;
                Ok(())
            }
            Err(error) => {
                self.back_to_rest(before).await;
                Err(self.start_failed(error))
            }
        }
    }

    /// A start that failed left the files as they were; so does the record.
    pub(super) async fn back_to_rest(&mut self, mut back: SandboxRecord) {
        back.generation = self.record.generation + 1;
        self.unwritten = Some(Unwritten { record: back, end: None, layer: None });
        if let Err(error) = self.write_unwritten().await {
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down that a start failed");
        }
    }

    /// Makes it run and writes that down, or leaves things as they were.
    pub(super) async fn start_with(
        &mut self,
        request: CreateRequest,
        made: EngineStep,
        ready: EngineStep,
    ) -> Result<(), StartError> {
        let (engine, backend) = (self.engine.inner(), Arc::clone(&self.cell.backend));
        let (record, state) = (self.record.clone(), request.state);
        let turn = self.engine.shared.starts.acquire().await;
        let started = blocking(move || {
            let (id, passed) = (request.id.clone(), &engine.shared.parts.passed);
            let began_ms = engine.shared.parts.clock.boot_ms();
            if record.history.moved {
                backend.clear(&id).map_err(|error| (StartError::Backend(error), Undone::Yes))?;
            }
            backend.create(request).map_err(|error| (StartError::Backend(error), Undone::Yes))?;
            passed(made);
            let started = watch_and_record(&engine, backend.as_ref(), record, began_ms)
                .map_err(|error| (error, undo(backend.as_ref(), &id, state).into()))?;
            passed(ready);
            Ok(started)
        })
        .await;
        drop(turn);
        match started {
            Ok((watch, record)) => {
                self.come_alive(watch, record);
                Ok(())
            }
            Err((error, undone)) => {
                self.leftover = (undone == Undone::Later).then_some(state);
                Err(error)
            }
        }
    }

    /// Tries again to undo a start that failed.
    pub(super) async fn clear_leftover(&mut self) -> Result<(), EngineError> {
        if let Some(state) = self.leftover {
            self.isolate(move |backend, id| undo(backend, id, state)).await.map_err(EngineError::Backend)?;
            self.leftover = None;
        }
        Ok(())
    }

    fn come_alive(&mut self, watch: OwnedFd, record: SandboxRecord) {
        let now_ms = self.now_ms();
        self.cell.begin_life(now_ms);
        self.cell.tail().clear();
        (self.life_began_ms, self.busy_ms, self.pulse) = (now_ms, now_ms, None);
        self.watch_over(watch);
        self.show(record);
    }

    pub(super) fn start_failed(&self, error: StartError) -> EngineError {
        match error {
            StartError::Backend(source) => EngineError::StartFailed { id: self.record.id.clone(), source },
            StartError::Catalog(error) => error.into(),
        }
    }

    pub(super) fn emit(&self, event: Event) {
        self.engine.emit(&self.record.owner, Some(&self.record.id), None, event);
    }
}

fn watch_and_record(
    engine: &Engine,
    backend: &dyn Isolation,
    mut record: SandboxRecord,
    began_ms: u64,
) -> Result<(OwnedFd, SandboxRecord), StartError> {
    let parts = &engine.shared.parts;
    let watch = backend.watch(&record.id).map_err(StartError::Backend)?;
    if record.death.take().is_some() {
        let lifetime_ms = record.spec.limits.lifetime_s.saturating_mul(1000);
        record.deadline = Deadline::after(parts.clock.as_ref(), lifetime_ms);
    }
    record.status = Status::Ready;
    record.paused = None;
    record.history.moved = false;
    record.made_in_ms = parts.clock.boot_ms().saturating_sub(began_ms);
    record.generation += 1;
    parts.catalog.update_sandbox(&record, Durability::Process).map_err(StartError::Catalog)?;
    Ok((watch, record))
}

fn undo(backend: &dyn Isolation, id: &SandboxId, state: RootState) -> Result<(), IsolationError> {
    let undone = match state {
        RootState::Fresh => backend.destroy(id),
        RootState::Kept => backend.halt(id),
    };
    match undone {
        Err(error) if error.kind != IsolationErrorKind::NotFound => {
            tracing::error!(sandbox.id = %id, error = sentence(&error), "cannot undo a start that failed");
            Err(error)
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Engine {
    /// What the backend needs. Sandboxes carry this engine's mark, so that its next start knows them from others.
    pub(super) fn request_for(
        &self,
        record: &SandboxRecord,
        state: RootState,
    ) -> Result<CreateRequest, EngineError> {
        let templates = &self.shared.parts.templates;
        let mut request = templates
            .request(&record.id, &record.spec, OwnerBond::Outlives)
            .map_err(EngineError::Template)?;
        self.shared.parts.layers.stand_on(&record.history.stack, &mut request.root)?;
        request.state = state;
        request.disk_limit_required = record.disk_limit_required;
        request.spec.labels.insert(crate::reconcile::MARK.to_owned(), self.shared.instance.clone());
        Ok(request)
    }
}
