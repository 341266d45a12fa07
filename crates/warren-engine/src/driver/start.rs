//! Making a sandbox, and starting again one that was stopped.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::oneshot;
use warren_core::catalog::{CatalogError, Durability, Idempotency, InsertError, NewRecords};
use warren_core::{
    CreateRequest, Deadline, DeathCause, Event, Isolation, IsolationError, IsolationErrorKind, NetworkError,
    OwnerBond, Request, RootState, SandboxId, SandboxRecord, SandboxSpec, SessionRecord,
};

use super::unfinished::{Unfinished, Unwritten};
use super::{Driver, Link};
use crate::base::pin_image;
use crate::certificate::{Ending, Evidence};
use crate::error::{Field, sentence};
use crate::ports::Backend;
use crate::state::{Claim, Pin, Spare};
use crate::{Engine, EngineError, EngineStep};

/// The label of sandboxes that says which node's they are.
pub(crate) const MARK: &str = "warren.engine";

/// The label of machines that are made ahead of time and are nobody's yet.
pub(crate) const SPARE: &str = "warren.spare";

/// Why a sandbox was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    /// The idempotency key was used before; nothing was written.
    #[error("the idempotency key was used before")]
    Repeated(Idempotency),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Everything that making a sandbox needs, besides its record.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) session: SessionRecord,
    pub(crate) idempotency: Option<Idempotency>,
    /// Answer as soon as it is written down.
    pub(crate) background: bool,
    /// Keeps the layers that it begins with until they are written down.
    pub(crate) pin: Option<Pin>,
    /// A machine that runs already, under the id of the sandbox.
    pub(crate) claim: Option<Claim>,
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
    #[error("it may not be started now")]
    Denied(#[source] Box<EngineError>),
}

/// The occasion of a start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Occasion {
    Create,
    Resume,
    Rollback,
    /// Its processes were put on disk.
    Suspension,
    Move,
}

impl Occasion {
    /// The steps that are passed when its processes run, and when that is written down.
    fn steps(self) -> (EngineStep, EngineStep) {
        match self {
            Self::Create => (EngineStep::CreateMade, EngineStep::CreateReady),
            Self::Resume => (EngineStep::ResumeMade, EngineStep::ResumeReady),
            Self::Rollback => (EngineStep::RollbackMade, EngineStep::RollbackReady),
            Self::Suspension => (EngineStep::MemoryMade, EngineStep::MemoryReady),
            Self::Move => (EngineStep::MoveMade, EngineStep::MoveReady),
        }
    }

    /// The others have events of their own, when all of it is done.
    fn event(self, took_ms: u64) -> Option<Event> {
        match self {
            Self::Create => Some(Event::SandboxReady { took_ms }),
            Self::Resume => Some(Event::SandboxResumed { took_ms }),
            Self::Rollback | Self::Suspension | Self::Move => None,
        }
    }
}

impl StartError {
    /// The failed step, without the causes: those speak of the host.
    fn for_its_owner(&self) -> String {
        match self {
            Self::Network(error) => format!("it could not be given its network: {}", error.action),
            Self::Backend(error) => format!("it could not be started: {}", error.action),
            Self::Catalog(_) | Self::Denied(_) => "it could not be written down that it runs".to_owned(),
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
    pub(super) async fn make(&mut self, making: Making) -> ControlFlow<()> {
        let Making { session, idempotency, background, pin, claim, reply } = making;
        let request = match self.write_down(session, idempotency).await {
            Ok(request) => request,
            Err(error) => {
                self.seat = None;
                drop(reply.send(Err(error)));
                return ControlFlow::Break(());
            }
        };
        drop(pin);
        let template = self.record.spec.base().name().to_owned();
        let backend = self.record.backend.clone();
        self.emit(Event::SandboxCreated { template, backend });
        if background {
            drop(reply.send(Ok(self.record.clone())));
            // Nobody waits for the answer: the record, an event and the session tell it.
            drop(self.make_recorded(request, claim).await);
        } else {
            let made = self.make_recorded(request, claim).await;
            drop(reply.send(made.map(|()| self.record.clone()).map_err(MakeError::Engine)));
        }
        ControlFlow::Continue(())
    }

    /// Checks what only the host knows, then writes the sandbox down with its session.
    async fn write_down(
        &mut self,
        session: SessionRecord,
        idempotency: Option<Idempotency>,
    ) -> Result<CreateRequest, MakeError> {
        let (engine, mut sandbox) = (self.engine.inner(), self.record.clone());
        let backend = Arc::clone(&self.cell.backend);
        let write = move || {
            engine.check_disk_of(&backend)?;
            resolve_mounts(&backend, &mut sandbox.spec)?;
            pin_image(&backend, &mut sandbox.spec)?;
            let request = engine.request_for(&sandbox, RootState::Fresh, &backend)?;
            let new = NewRecords { sandbox: sandbox.clone(), session, idempotency };
            engine.shared.parts.catalog.insert(new).map_err(|error| match error {
                InsertError::Repeated(earlier) => MakeError::Repeated(earlier),
                InsertError::Catalog(error) => MakeError::Engine(engine.refused(&sandbox, error)),
            })?;
            (engine.shared.parts.passed)(EngineStep::CreateRecorded);
            Ok::<_, MakeError>((sandbox, request))
        };
        let (record, request) = self.cell.backend.ask(write).await?;
        self.show(record);
        Ok(request)
    }

    async fn make_recorded(
        &mut self,
        request: CreateRequest,
        claim: Option<Claim>,
    ) -> Result<(), EngineError> {
        match self.start_or_take_over(request, claim, Occasion::Create).await {
            Ok(()) => {
                self.engine.shared.figures.created(self.record.made_in_ms);
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

    /// Leaves nothing of it but a record that says why.
    pub(super) async fn give_up(&mut self, detail: String) {
        let ending = Ending { cause: DeathCause::BackendError, detail, files_kept: false };
        let death = ending.certificate(Evidence::default(), self.engine.shared.parts.clock.unix_ms());
        let failed = match self.next(Request::Fail) {
            Ok(last) => {
                let last = SandboxRecord { death: Some(death), ..last };
                self.conclude(last, EngineStep::DeleteWritten).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = failed {
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down that a sandbox failed");
        }
    }

    /// Begins another life with the files of the last one.
    pub(super) async fn start_again(&mut self) -> Result<(), EngineError> {
        let seat = self.engine.shared.seats.take(&self.record.owner)?;
        let (engine, record) = (self.engine.inner(), self.record.clone());
        let backend = Arc::clone(&self.cell.backend);
        let check = move || {
            engine.check_disk_of(&backend)?;
            check_mounts_unmoved(&backend, &record.spec)?;
            engine.check_wall(&record, &backend)?;
            engine.request_for(&record, record.root_state(), &backend)
        };
        let request = self.cell.backend.ask(check).await?;
        self.enter(Request::Resume, Some(EngineStep::ResumeRecorded), None, |_| {}).await?;
        match self.start_with(request, Occasion::Resume).await {
            Ok(()) => {
                self.seat = Some(seat);
                self.engine.sandbox_ready(&self.record).await;
                Ok(())
            }
            Err(error) => {
                self.back_to_rest().await;
                Err(self.start_failed(error))
            }
        }
    }

    /// Writes down that it is stopped, as before: a failed start left its files as they were.
    pub(super) async fn back_to_rest(&mut self) {
        let stopped = match self.next(Request::BecomeStopped) {
            Ok(mut record) => {
                // Another start with these processes would fail like this one.
                record.history.memory = None;
                self.must_write(Unwritten { record, end: None, layer: None }).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = stopped {
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down that a start failed");
        }
    }

    /// Makes it run and writes that down, or leaves things as they were.
    pub(super) async fn start_with(
        &mut self,
        request: CreateRequest,
        occasion: Occasion,
    ) -> Result<(), StartError> {
        self.start_or_take_over(request, None, occasion).await
    }

    /// As [`Driver::start_with`]; with a claim, it runs already.
    async fn start_or_take_over(
        &mut self,
        request: CreateRequest,
        claim: Option<Claim>,
        occasion: Occasion,
    ) -> Result<(), StartError> {
        let start = Start::of(self).map_err(|error| StartError::Denied(Box::new(error)))?;
        let state = request.state;
        let run = move || start.run(request, claim, occasion);
        match self.cell.backend.change(&self.record.owner, run).await {
            Ok((watch, record)) => {
                self.link = if record.spec.network.is_none() { Link::None } else { Link::Held };
                self.come_alive(watch, record);
                if let Some(event) = occasion.event(self.record.made_in_ms) {
                    self.emit(event);
                }
                Ok(())
            }
            Err(NotStarted { error, leftover, link }) => {
                if leftover {
                    self.unfinished = Unfinished::Leftover(state, None);
                }
                self.link = link;
                Err(error)
            }
        }
    }

    /// Tries again to undo a start that failed.
    pub(super) async fn clear_leftover(&mut self) -> Result<(), EngineError> {
        if let Unfinished::Leftover(state, _) = self.unfinished {
            self.isolate(move |backend, id| undo(backend, id, state)).await.map_err(EngineError::Backend)?;
            self.unfinished.undone();
        }
        Ok(())
    }

    fn come_alive(&mut self, watch: OwnedFd, record: SandboxRecord) {
        let now_ms = self.now_ms();
        self.cell.begin_life(now_ms);
        self.cell.tail.lock().clear();
        (self.life_began_ms, self.busy_ms, self.pulse) = (now_ms, now_ms, None);
        self.watch_over(watch);
        self.show(record);
    }

    pub(super) fn start_failed(&self, error: StartError) -> EngineError {
        match error {
            StartError::Network(source) => EngineError::Network { id: self.record.id.clone(), source },
            StartError::Backend(source) if source.kind == IsolationErrorKind::Away => {
                self.cell.backend.set_away(Some(source.to_string()));
                EngineError::BackendUnavailable { name: self.record.backend.clone(), why: source.to_string() }
            }
            StartError::Backend(source) => EngineError::StartFailed { id: self.record.id.clone(), source },
            StartError::Catalog(error) => error.into(),
            StartError::Denied(error) => *error,
        }
    }

    pub(super) fn emit(&self, event: Event) {
        self.engine.emit(&self.record.owner, Some(&self.record.id), None, event);
    }
}

/// The part of a start that runs on a thread.
struct Start {
    engine: Engine,
    backend: Arc<Backend>,
    /// The record of the sandbox that is ready.
    record: SandboxRecord,
}

impl Start {
    fn of(driver: &Driver) -> Result<Self, EngineError> {
        let mut record = driver.next(Request::BecomeReady)?;
        driver.engine.check_wall(&record, &driver.cell.backend)?;
        let now_unix_ms = driver.engine.shared.parts.clock.unix_ms();
        record.spec.network = record.spec.network.current(now_unix_ms);
        record.history.memory = None;
        Ok(Self { engine: driver.engine.inner(), backend: Arc::clone(&driver.cell.backend), record })
    }

    fn run(
        mut self,
        request: CreateRequest,
        claim: Option<Claim>,
        occasion: Occasion,
    ) -> Result<(OwnedFd, SandboxRecord), NotStarted> {
        let (made, ready) = occasion.steps();
        let (id, state) = (request.id.clone(), request.state);
        let began_ms = self.engine.shared.parts.clock.boot_ms();
        if self.record.history.moved && !self.record.unplaced {
            let cleared = self.backend.port.layered().map_or(Ok(()), |layered| layered.clear(&id));
            cleared.map_err(|error| self.unlinked(StartError::Backend(error), false))?;
        }
        let watch = match claim.and_then(Claim::keep) {
            Some(spare) => self.take_over(&request, spare).map(Some),
            None => self.start(request).map(|()| None),
        };
        let watch = watch.map_err(|(error, left)| self.unlinked(error, left))?;
        self.passed(made);
        let (record, backend) = (self.record.clone(), self.backend.port.as_ref());
        let recorded = watch_and_record(&self.engine, backend, record, watch, began_ms);
        let started = recorded.map_err(|error| {
            let left = undo(backend, &id, state).is_err();
            self.unlinked(error, left)
        })?;
        self.passed(ready);
        Ok(started)
    }

    /// Starts it. The error says whether something of it is left.
    fn start(&mut self, mut request: CreateRequest) -> Result<(), (StartError, bool)> {
        if !self.record.spec.network.is_none() {
            let SandboxRecord { owner, spec, .. } = &self.record;
            let attached = self.engine.shared.parts.networks.attach(&request.id, owner, &spec.network);
            let attachment = attached.map_err(|error| (StartError::Network(error), false))?;
            request.network = attachment.namespace.map(Arc::new);
            request.env.extend(attachment.env);
            self.record.addresses = attachment.addresses;
            self.passed(EngineStep::NetworkAttached);
        }
        // The namespace goes with the request: from here on only the sandbox itself keeps it.
        let created = self.backend.port.create(request);
        created.map(drop).map_err(|error| (StartError::Backend(error), false))
    }

    /// Makes a machine that runs already the sandbox's. The error says whether something of it is
    /// left.
    fn take_over(&mut self, request: &CreateRequest, spare: Spare) -> Result<OwnedFd, (StartError, bool)> {
        let taken = self.backend.port.hand_over(&request.id, &request.spec).map_err(StartError::Backend);
        let linked = taken.and_then(|()| {
            let SandboxRecord { owner, spec, .. } = &self.record;
            if !spec.network.is_none() {
                let adopted = self.engine.shared.parts.networks.adopt(&request.id, owner, &spec.network);
                self.record.addresses = adopted.map_err(StartError::Network)?.addresses;
                self.passed(EngineStep::NetworkAttached);
            }
            Ok(spare.watch)
        });
        linked.map_err(|error| {
            let left = undo(self.backend.port.as_ref(), &request.id, request.state).is_err();
            (error, left)
        })
    }

    /// Removes the link of a start that failed.
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
    watch: Option<OwnedFd>,
    began_ms: u64,
) -> Result<(OwnedFd, SandboxRecord), StartError> {
    let parts = &engine.shared.parts;
    let watch = watch.map_or_else(|| backend.watch(&record.id), Ok).map_err(StartError::Backend)?;
    if record.death.take().is_some() {
        let lifetime_ms = record.spec.limits.lifetime_s.saturating_mul(1000);
        record.deadline = Deadline::after(parts.clock.as_ref(), lifetime_ms);
    }
    record.history.moved = false;
    record.unplaced = false;
    record.made_in_ms = parts.clock.boot_ms().saturating_sub(began_ms);
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

/// Replaces each mount's source by its real path. Blocks.
fn resolve_mounts(backend: &Backend, spec: &mut SandboxSpec) -> Result<(), EngineError> {
    for mount in &mut spec.mounts {
        mount.source = mount_source(backend, &mount.source)?;
    }
    Ok(())
}

/// The mounts of a sandbox that is started again must be what they were, and still allowed. Blocks.
pub(super) fn check_mounts_unmoved(backend: &Backend, spec: &SandboxSpec) -> Result<(), EngineError> {
    for mount in &spec.mounts {
        if mount_source(backend, &mount.source)? != mount.source {
            let source = mount.source.display();
            return Err(EngineError::invalid(
                Field::Mounts,
                format!("`{source}` is no longer the directory it was"),
            ));
        }
    }
    Ok(())
}

fn mount_source(backend: &Backend, source: &Path) -> Result<PathBuf, EngineError> {
    // One answer for what is not there and what is not allowed: a tenant does not explore the host
    // with it.
    let real = backend.port.mount_source(source).map_err(|_| {
        let message = format!("`{}` is not a directory that may be mounted", source.display());
        EngineError::invalid(Field::Mounts, message)
    })?;
    Ok(real.path)
}

impl Engine {
    /// The request to the backend. Sandboxes carry this engine's mark, so that its next start knows
    /// them from others.
    pub(super) fn request_for(
        &self,
        record: &SandboxRecord,
        state: RootState,
        backend: &Backend,
    ) -> Result<CreateRequest, EngineError> {
        let mut request = self.marked_request(&record.id, &record.spec, backend)?;
        self.shared.parts.layers.stand_on(&record.history.stack, request.root.trees_mut())?;
        request.state = state;
        request.disk_limit_required = record.disk_limit_required;
        request.memory = self.memory_of(record, backend);
        Ok(request)
    }

    /// The processes with which a sandbox's next start goes on, where it can: not behind another
    /// wall, and not in a network that was opened since.
    pub(super) fn memory_of(&self, record: &SandboxRecord, backend: &Backend) -> Option<PathBuf> {
        let can = backend.port.memory().is_some() && record.spec.network.is_none();
        let layer = record.history.memory.as_ref().filter(|_| can)?;
        Some(self.shared.parts.layers.place(layer))
    }

    /// The request for a machine of this engine's that stands on its template or image.
    pub(crate) fn marked_request(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
        backend: &Backend,
    ) -> Result<CreateRequest, EngineError> {
        let outlives = backend.port.capabilities().outlives_server;
        let owner = if outlives { OwnerBond::Outlives } else { OwnerBond::DiesWithOwner };
        let mut request = self.base_request(id, spec, owner, backend)?;
        request.spec.labels.insert(MARK.to_owned(), self.node().to_string());
        Ok(request)
    }
}
