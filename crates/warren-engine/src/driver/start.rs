//! Making a sandbox, and starting again one that was stopped.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::oneshot;
use warren_core::catalog::{CatalogError, Durability, Idempotency, InsertError, NewRecords};
use warren_core::{
    CreateRequest, Deadline, DeathCause, Event, Isolation, IsolationError, IsolationErrorKind, NetworkError,
    OwnerBond, RootState, SandboxId, SandboxRecord, SessionRecord, Status,
};

use super::{Driver, Link, Unwritten};
use crate::blocking::{behind, blocking};
use crate::certificate::{Ending, Evidence};
use crate::create::MakeError;
use crate::error::sentence;
use crate::labour::Trade;
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
    #[error("the network failed")]
    Network(#[source] NetworkError),
    #[error("the backend failed")]
    Backend(#[source] IsolationError),
    #[error("the catalog failed")]
    Catalog(#[source] CatalogError),
}

impl StartError {
    /// What failed, without the causes: those speak of the host.
    fn for_its_owner(&self) -> String {
        match self {
            Self::Network(error) => format!("it could not be given its network: {}", error.action),
            Self::Backend(error) => format!("it could not be started: {}", error.action),
            Self::Catalog(_) => "it could not be written down that it runs".to_owned(),
        }
    }
}

/// A start that failed, and what is still to be undone.
struct NotStarted {
    error: StartError,
    /// Something of the sandbox is left.
    leftover: bool,
    link: Link,
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
        let seat = self.engine.shared.seats.take(&self.record.owner)?;
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
        let (start, state) = (Start::of(self), request.state);
        let turn = self.turn(Trade::Changing).await;
        let started = behind(move || start.run(request, made, ready)).await;
        drop(turn);
        match started {
            Ok((watch, record)) => {
                self.link = if record.spec.network.is_none() { Link::None } else { Link::Held };
                self.come_alive(watch, record);
                Ok(())
            }
            Err(NotStarted { error, leftover, link }) => {
                self.leftover = leftover.then_some(state);
                self.link = link;
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
            StartError::Network(source) => EngineError::Network { id: self.record.id.clone(), source },
            StartError::Backend(source) => EngineError::StartFailed { id: self.record.id.clone(), source },
            StartError::Catalog(error) => error.into(),
        }
    }

    pub(super) fn emit(&self, event: Event) {
        self.engine.emit(&self.record.owner, Some(&self.record.id), None, event);
    }
}

/// What a start needs of its driver, on a thread.
struct Start {
    engine: Engine,
    backend: Arc<dyn Isolation>,
    record: SandboxRecord,
}

impl Start {
    fn of(driver: &Driver) -> Self {
        let mut record = driver.record.clone();
        let now_unix_ms = driver.engine.shared.parts.clock.unix_ms();
        record.spec.network = record.spec.network.current(now_unix_ms);
        Self { engine: driver.engine.inner(), backend: Arc::clone(&driver.cell.backend), record }
    }

    fn run(
        mut self,
        mut request: CreateRequest,
        made: EngineStep,
        ready: EngineStep,
    ) -> Result<(OwnedFd, SandboxRecord), NotStarted> {
        let (id, state) = (request.id.clone(), request.state);
        let began_ms = self.engine.shared.parts.clock.boot_ms();
        if self.record.history.moved {
            let cleared = self.backend.clear(&id);
            cleared.map_err(|error| self.unlinked(StartError::Backend(error), false))?;
        }
        let attached = self.engine.make_link(&self.record, &mut request);
        self.record.addresses = attached.map_err(|error| self.unlinked(StartError::Network(error), false))?;
        if !self.record.spec.network.is_none() {
            self.passed(EngineStep::NetworkAttached);
        }
        // The namespace goes with the request: from here on only the sandbox itself keeps it.
        let created = self.backend.create(request);
        created.map_err(|error| self.unlinked(StartError::Backend(error), false))?;
        self.passed(made);
        let recorded = watch_and_record(&self.engine, self.backend.as_ref(), self.record.clone(), began_ms);
        let started = recorded.map_err(|error| {
            let left = undo(self.backend.as_ref(), &id, state).is_err();
            self.unlinked(error, left)
        })?;
        self.passed(ready);
        Ok(started)
    }

    /// It failed: the link goes, whatever else is left.
    fn unlinked(&self, error: StartError, leftover: bool) -> NotStarted {
        if self.record.spec.network.is_none() {
            return NotStarted { error, leftover, link: Link::None };
        }
        let link = match self.engine.remove_link(&self.record.id) {
            Ok(()) => Link::None,
            Err(error) => {
                tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "the link of a sandbox is still there");
                Link::Doomed
            }
        };
        NotStarted { error, leftover, link }
    }

    fn passed(&self, step: EngineStep) {
        (self.engine.shared.parts.passed)(step);
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
        request.spec.labels.insert(crate::reconcile::MARK.to_owned(), self.node().to_string());
        Ok(request)
    }
}
