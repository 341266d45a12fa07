use std::collections::BTreeMap;

use tokio::sync::oneshot;
use warren_core::catalog::{CatalogError, CatalogErrorKind, Idempotency};
use warren_core::{
    Automatic, BuildId, Deadline, History, OnExpiry, Owner, PauseKeeps, SandboxId, SandboxKind,
    SandboxRecord, SandboxSpec, SessionRecord, SnapshotId, StartCommands, Status, Timeouts, Traffic,
};

use crate::admit::check_words;
use crate::backend::Backend;
use crate::blocking::blocking;
use crate::driver::{Driver, First, MakeError, Making};
use crate::error::Field;
use crate::state::Pin;
use crate::{Engine, EngineError};

/// What a fresh sandbox is to be.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    /// Validated by the engine. The time to live is `limits.lifetime_s`.
    pub spec: SandboxSpec,
    pub disk_limit_required: bool,
    pub kind: SandboxKind,
    pub metadata: BTreeMap<String, String>,
    pub on_expiry: OnExpiry,
    /// How traffic from outside meets it.
    pub traffic: Traffic,
    /// What a pause keeps that is asked for when its time is over.
    pub pause_keeps: PauseKeeps,
    /// The commands that run in it from its beginning.
    pub start: Option<StartCommands>,
    /// The build of an image that is done in it.
    pub build: Option<BuildId>,
    /// What a face of the service wants to find again in the record.
    pub annotations: BTreeMap<String, String>,
    /// The state it begins with; absent: the template as it is.
    pub from: Option<SnapshotId>,
    /// Which snapshots are taken without being asked for; absent: as the settings say.
    pub automatic: Option<Automatic>,
}

/// A sandbox that is to be made, with the first session that holds it.
#[derive(Debug, Clone)]
pub(crate) struct MakeSandbox {
    pub(crate) owner: Owner,
    /// Drawn by the caller, who has it in the session already.
    pub(crate) id: SandboxId,
    pub(crate) new: NewSandbox,
    pub(crate) timeouts: Timeouts,
    pub(crate) session: SessionRecord,
    /// A named backend serves, or it is an error; without a name the first that can.
    pub(crate) backend: Option<String>,
    pub(crate) idempotency: Option<Idempotency>,
    /// Answer as soon as it is written down; [`Engine::sandbox_ready`] or [`Engine::sandbox_ended`] tells the rest.
    pub(crate) background: bool,
}

impl NewSandbox {
    /// One of this spec with every default.
    pub fn new(spec: SandboxSpec) -> Self {
        Self {
            spec,
            disk_limit_required: false,
            kind: SandboxKind::default(),
            metadata: BTreeMap::new(),
            on_expiry: OnExpiry::default(),
            traffic: Traffic::default(),
            pause_keeps: PauseKeeps::default(),
            start: None,
            build: None,
            annotations: BTreeMap::new(),
            from: None,
            automatic: None,
        }
    }
}

impl Engine {
    /// Makes a sandbox. Everything that can be known beforehand is checked before anything is written; the rest ends in a
    /// record that says why it failed. What has begun goes on when the caller goes away.
    pub(crate) async fn make(&self, make: MakeSandbox) -> Result<SandboxRecord, MakeError> {
        self.may_change()?;
        check_words(Field::Metadata, &make.new.metadata)?;
        let traffic = make.new.traffic.validate();
        traffic.map_err(|error| EngineError::invalid(Field::Traffic, error.to_string()))?;
        let NewSandbox { spec, disk_limit_required, .. } = &make.new;
        let backend = self.admit(&make.owner, spec, *disk_limit_required, make.backend.as_deref()).await?;
        let (history, pin) = self.first_history(&make).await?;
        let seat = self.shared.seats.take(&make.owner)?;
        let record = self.first_record(&make, backend.as_ref(), history);
        let (reply, answer) = oneshot::channel();
        let MakeSandbox { session, idempotency, background, .. } = make;
        let making = Making { session, idempotency, background, pin, reply };
        let id = record.id.clone();
        if Driver::start(self, record, backend, Some(seat), First::Make(Box::new(making))).is_none() {
            let error = CatalogError::new(CatalogErrorKind::AlreadyExists, format!("make {id} anew"));
            return Err(MakeError::Engine(error.into()));
        }
        answer.await.unwrap_or(Err(MakeError::Engine(EngineError::ShuttingDown)))
    }

    /// Where it begins, and what keeps that there until it is written down.
    async fn first_history(&self, make: &MakeSandbox) -> Result<(History, Option<Pin>), EngineError> {
        let automatic = make.new.automatic.unwrap_or(self.shared.settings.automatic_snapshots);
        let history = History { automatic, ..History::default() };
        let Some(from) = make.new.from.clone() else { return Ok((history, None)) };
        let (engine, owner) = (self.inner(), make.owner.clone());
        let (snapshot, pin) = blocking(move || engine.usable_snapshot(&owner, &from)).await?;
        if snapshot.spec.template != make.new.spec.template {
            let message = format!(
                "{} stands on the template `{}`: leave the template out, or name that one",
                snapshot.id, snapshot.spec.template
            );
            return Err(EngineError::invalid(Field::Template, message));
        }
        let history = History {
            began: snapshot.stack.clone(),
            stack: snapshot.stack,
            head: Some(snapshot.id),
            forked_from: Some(snapshot.sandbox),
            ..history
        };
        Ok((history, Some(pin)))
    }

    fn first_record(&self, make: &MakeSandbox, backend: &Backend, history: History) -> SandboxRecord {
        let clock = self.shared.parts.clock.as_ref();
        let lifetime_ms = make.new.spec.limits.lifetime_s.saturating_mul(1000);
        SandboxRecord {
            id: make.id.clone(),
            owner: make.owner.clone(),
            node: self.node().clone(),
            generation: 1,
            status: Status::Creating,
            paused: None,
            spec: make.new.spec.clone(),
            disk_limit_required: make.new.disk_limit_required,
            kind: make.new.kind,
            backend: backend.name().to_owned(),
            metadata: make.new.metadata.clone(),
            created_unix_ms: clock.unix_ms(),
            made_in_ms: 0,
            deadline: Deadline::after(clock, lifetime_ms),
            on_expiry: make.new.on_expiry,
            timeouts: make.timeouts,
            death: None,
            history,
            addresses: Vec::new(),
            traffic: make.new.traffic.clone(),
            pause_keeps: make.new.pause_keeps,
            start: make.new.start.clone(),
            build: make.new.build.clone(),
            annotations: make.new.annotations.clone(),
        }
    }
}
