//! Capturing the state of a sandbox: what it wrote becomes a layer, and the catalog is told.
//!
//! ```text
//! seal ──┬─► done: the layer is committed, sandbox and snapshot stand on it
//!        ├─► unchanged: no layer
//!        └─► busy, or not to be moved: freeze, copy, thaw; only the snapshot stands on the copy
//! ```
//!
//! The record of the snapshot and that of the sandbox are written in one go. When that fails the sandbox stands on more than its
//! record tells, and the record is brought up to date before anything else is done.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::catalog::{CatalogErrorKind, Durability, SnapshotFilter};
use warren_core::{
    Copied, Event, IsolationError, LayerDriver, LayerId, MOST_LAYERS, NewLayer, PageRequest, Request,
    RootTree, SandboxId, SandboxRecord, Sealed, SessionId, SnapshotId, SnapshotMethod, SnapshotReason,
    SnapshotRecord, Stack, Status,
};

use super::pause::Undo;
use super::{Driver, Unwritten};
use crate::blocking::blocking;
use crate::cell::Cell;
use crate::error::sentence;
use crate::snapshots::{Pin, Taken};
use crate::{Engine, EngineError, EngineStep};

/// What is to be captured, and at what price.
#[derive(Debug, Clone)]
pub(crate) struct CaptureOrder {
    pub(crate) reason: SnapshotReason,
    pub(crate) name: Option<String>,
    pub(crate) session: Option<SessionId>,
    /// It ends a turn.
    pub(crate) turn: bool,
    /// Answer when it survives a power cut.
    pub(crate) durable: bool,
    pub(crate) need: Need,
    /// What cannot be sealed is copied.
    pub(crate) copy: bool,
}

/// When a snapshot is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Always,
    /// If the files differ from those of the head.
    IfChanged,
    /// As that, and only if something was done since that may have changed them.
    IfMarked,
}

/// What became of it.
#[derive(Debug, Clone)]
pub(crate) enum Capture {
    Taken(Box<Taken>),
    /// The state is that of the head, or the one that the sandbox began with.
    Same(SnapshotId),
    /// Somebody works in it, and it was not to be copied.
    Busy,
}

/// How the sandbox stands while it is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Posture {
    Running,
    Frozen,
    Halted,
}

/// A capture on its way, on a thread.
struct Work {
    engine: Engine,
    cell: Arc<Cell>,
    record: SandboxRecord,
    order: CaptureOrder,
    posture: Posture,
    layer: LayerId,
    at_unix_ms: u64,
}

/// What was done to the machine.
enum Seized {
    Layer { method: SnapshotMethod, frozen: Duration },
    Unchanged,
    Busy,
}

enum Outcome {
    Taken { record: SandboxRecord, snapshot: SnapshotRecord, frozen: Duration },
    Same(SnapshotId),
    Busy,
}

/// Why it failed, and what that leaves.
struct Failure {
    error: EngineError,
    /// It stands on a layer of which its record does not know.
    behind: Option<(SandboxRecord, NewLayer)>,
    /// It was frozen and could not be thawed.
    frozen: bool,
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self { error, behind: None, frozen: false }
    }
}

impl CaptureOrder {
    pub(crate) fn asked(reason: SnapshotReason) -> Self {
        Self {
            reason,
            name: None,
            session: None,
            turn: false,
            durable: false,
            need: Need::Always,
            copy: true,
        }
    }

    /// Nobody asked for it: it must cost next to nothing.
    pub(crate) fn automatic() -> Self {
        Self { need: Need::IfMarked, copy: false, ..Self::asked(SnapshotReason::Command) }
    }
}

impl Driver {
    pub(super) async fn capture(&mut self, order: CaptureOrder) -> Result<Capture, EngineError> {
        self.straighten().await?;
        let posture = match self.record.status {
            Status::Paused => Posture::Frozen,
            Status::Stopped | Status::Failed => Posture::Halted,
            Status::Creating | Status::Syncing | Status::Ready | Status::Stopping => Posture::Running,
        };
        self.denied(self.decide(Request::Snapshot))?;
        self.capture_as(order, posture).await
    }

    /// As [`Driver::capture`], for one who knows better how it stands.
    pub(super) async fn capture_as(
        &mut self,
        order: CaptureOrder,
        posture: Posture,
    ) -> Result<Capture, EngineError> {
        if !self.cell.backend.capabilities().snapshots {
            let why = format!("the backend `{}` cannot capture what a sandbox wrote", self.record.backend);
            return Err(EngineError::SnapshotsUnavailable(why));
        }
        if order.need == Need::IfMarked && !self.cell.is_changed() {
            return Ok(Capture::Same(head_or_start(&self.record)));
        }
        let (began, changes) = (Instant::now(), self.cell.changes());
        let work = Work {
            engine: self.engine.inner(),
            cell: Arc::clone(&self.cell),
            record: self.record.clone(),
            order,
            posture,
            layer: self.engine.draw_layer(),
            at_unix_ms: self.engine.shared.parts.clock.unix_ms(),
        };
        let pin = self.engine.shared.keep.pin(std::slice::from_ref(&work.layer));
        match blocking(move || work.run()).await {
            Ok(Outcome::Taken { record, snapshot, frozen }) => {
                self.show(record);
                // A running copy tells nothing of what happens after it.
                let lasts = !matches!(snapshot.method, SnapshotMethod::Copied);
                if lasts || posture != Posture::Running {
                    self.cell.set_captured(changes);
                }
                self.tell_of(&snapshot);
                let took = began.elapsed();
                Ok(Capture::Taken(Box::new(Taken { snapshot, frozen, took })))
            }
            Ok(Outcome::Same(head)) => {
                self.cell.set_captured(changes);
                Ok(Capture::Same(head))
            }
            Ok(Outcome::Busy) => Ok(Capture::Busy),
            Err(failure) => Err(self.bear(failure, pin).await),
        }
    }

    /// What a failed capture leaves is put right, now or later.
    async fn bear(&mut self, failure: Failure, pin: Pin) -> EngineError {
        if failure.frozen {
            self.undo(Undo::Thaw).await;
        }
        if let Some((mut record, layer)) = failure.behind {
            self.engine.fault();
            record.generation = self.record.generation + 1;
            self.unwritten = Some(Unwritten { record, end: None, layer: Some((layer, Arc::new(pin))) });
            if let Err(error) = self.write_unwritten().await {
                tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down what a sandbox stands on");
            }
        }
        failure.error
    }

    fn tell_of(&self, snapshot: &SnapshotRecord) {
        let (reason, method) = (snapshot.reason, snapshot.method);
        self.emit(Event::SnapshotTaken { snapshot: snapshot.id.clone(), reason, method });
        self.engine.tend(&self.record, snapshot);
    }
}

impl Work {
    fn run(self) -> Result<Outcome, Failure> {
        self.check()?;
        let below = self.engine.root_of(&self.record)?;
        match self.seize(&below)? {
            Seized::Layer { method, frozen } => self.record_layer(method, frozen),
            Seized::Unchanged => Ok(self.record_unchanged()?),
            Seized::Busy => Ok(Outcome::Busy),
        }
    }

    /// What can be known beforehand.
    fn check(&self) -> Result<(), EngineError> {
        let depth = self.record.history.stack.depth();
        if depth >= MOST_LAYERS {
            return Err(EngineError::TooDeep { id: self.record.id.clone(), depth });
        }
        let Some(name) = &self.order.name else { return Ok(()) };
        let filter = SnapshotFilter {
            sandbox: Some(self.record.id.clone()),
            name: Some(name.clone()),
            ..SnapshotFilter::default()
        };
        let page = PageRequest { limit: 1, after: None };
        let found = self.engine.shared.parts.catalog.snapshots(&self.record.owner, &filter, &page)?;
        if found.items.is_empty() { Ok(()) } else { Err(self.name_taken()) }
    }

    fn name_taken(&self) -> EngineError {
        let name = self.order.name.clone().unwrap_or_default();
        EngineError::SnapshotNameTaken { sandbox: self.record.id.clone(), name }
    }

    fn seize(&self, below: &[RootTree]) -> Result<Seized, Failure> {
        let parts = &self.engine.shared.parts;
        if self.record.history.moved {
            return Ok(Seized::Unchanged);
        }
        if parts.layers.driver() == LayerDriver::Overlay {
            let place = parts.layers.place(&self.layer);
            let sealed = self.cell.backend.seal(&self.record.id, &place, below);
            match sealed.map_err(EngineError::Backend)? {
                Sealed::Done { frozen } => {
                    (parts.passed)(EngineStep::SnapshotSealed);
                    return Ok(Seized::Layer { method: SnapshotMethod::Sealed, frozen });
                }
                Sealed::Unchanged => return Ok(Seized::Unchanged),
                Sealed::Busy { .. } | Sealed::Unmovable if !self.order.copy => return Ok(Seized::Busy),
                Sealed::Busy { .. } | Sealed::Unmovable => {}
            }
        }
        self.copy()
    }

    /// Copies what the sandbox wrote while it stands still.
    fn copy(&self) -> Result<Seized, Failure> {
        if self.posture != Posture::Running {
            let method = self.copy_at_rest()?;
            return Ok(Seized::Layer { method, frozen: Duration::ZERO });
        }
        if !self.cell.backend.capabilities().freeze {
            let why = "somebody works in the sandbox, and it cannot be made to stand still".to_owned();
            return Err(EngineError::SnapshotsUnavailable(why).into());
        }
        let _still = Still::begin(&self.cell, self.order.need == Need::Always);
        let (backend, id) = (&self.cell.backend, &self.record.id);
        let began = Instant::now();
        backend.freeze(id).map_err(EngineError::Backend)?;
        self.passed(EngineStep::CopyFrozen);
        let copied = self.copy_at_rest();
        self.passed(EngineStep::CopyCopied);
        let thawed = backend.thaw(id);
        let frozen = began.elapsed();
        match (copied, thawed) {
            (Ok(method), Ok(())) => {
                self.passed(EngineStep::CopyThawed);
                Ok(Seized::Layer { method, frozen })
            }
            (Err(error), Ok(())) => Err(error.into()),
            (_, Err(error)) => Err(Failure { frozen: true, ..self.not_thawed(error) }),
        }
    }

    fn not_thawed(&self, error: IsolationError) -> Failure {
        self.discard();
        EngineError::Backend(error).into()
    }

    fn copy_at_rest(&self) -> Result<SnapshotMethod, EngineError> {
        let writable = self.cell.backend.writable(&self.record.id).map_err(EngineError::Backend)?;
        match self.engine.shared.parts.layers.copy(writable.as_fd(), &self.layer) {
            Ok(Copied::Shared) => Ok(SnapshotMethod::Cloned),
            Ok(Copied::Bytes) => Ok(SnapshotMethod::Copied),
            Err(error) => {
                self.discard();
                Err(error.into())
            }
        }
    }

    /// Nobody knows of the layer: it goes.
    fn discard(&self) {
        if let Err(error) = self.engine.shared.parts.layers.remove(&self.layer) {
            tracing::warn!(layer.id = %self.layer, error = sentence(&error), "a layer that nobody needs is left to the sweep");
        }
    }

    fn record_layer(&self, method: SnapshotMethod, frozen: Duration) -> Result<Outcome, Failure> {
        let stack = self.record.history.stack.with(self.layer.clone());
        let layer = NewLayer {
            id: self.layer.clone(),
            sandbox: Some(self.record.id.clone()),
            created_unix_ms: self.at_unix_ms,
        };
        let written = self.commit(&layer).and_then(|()| self.write(method, &stack));
        match written {
            Ok((record, snapshot)) => Ok(Outcome::Taken { record, snapshot, frozen }),
            Err(error) if method == SnapshotMethod::Sealed => {
                let mut record = self.record.clone();
                record.history.stack = stack;
                record.history.redo.clear();
                Err(Failure { error, behind: Some((record, layer)), frozen: false })
            }
            Err(error) => {
                self.discard();
                Err(error.into())
            }
        }
    }

    fn commit(&self, layer: &NewLayer) -> Result<(), EngineError> {
        self.engine.shared.parts.layers.commit(layer)?;
        self.passed(EngineStep::SnapshotCommitted);
        Ok(())
    }

    fn record_unchanged(&self) -> Result<Outcome, EngineError> {
        let history = &self.record.history;
        if self.order.need != Need::Always {
            let known = match &history.head {
                Some(head) => self.engine.shared.parts.catalog.snapshot(&self.record.owner, head)?,
                None => None,
            };
            let same = match &known {
                Some(head) => head.stack == history.stack && !head.damaged,
                None => history.head.is_none() && history.stack == history.began,
            };
            if same {
                let id = head_or_start(&self.record);
                self.close_entries(&id);
                return Ok(Outcome::Same(id));
            }
        }
        let stack = history.stack.clone();
        let (record, snapshot) = self.write(SnapshotMethod::Unchanged, &stack)?;
        Ok(Outcome::Taken { record, snapshot, frozen: Duration::ZERO })
    }

    /// Tells the catalog. Only what was sealed is what the sandbox itself stands on.
    fn write(
        &self,
        method: SnapshotMethod,
        stack: &Stack,
    ) -> Result<(SandboxRecord, SnapshotRecord), EngineError> {
        let parts = &self.engine.shared.parts;
        let mut durability = Durability::Process;
        if self.order.durable {
            parts.layers.sync(&stack.0)?;
            durability = Durability::Disk;
        }
        let mut record = self.record.clone();
        record.generation += 1;
        let mut rows = Vec::new();
        let parent = match &record.history.head {
            Some(head) => head.clone(),
            None => {
                let start = self.start()?;
                let id = start_of(&record.id);
                rows.extend(start);
                id
            }
        };
        if self.order.turn {
            record.history.turn = record.history.turn.saturating_add(1);
        }
        let snapshot = SnapshotRecord {
            id: self.engine.draw_snapshot(),
            parent: Some(parent),
            name: self.order.name.clone(),
            session: self.order.session.clone(),
            reason: self.order.reason,
            turn: self.order.turn.then_some(record.history.turn),
            created_unix_ms: self.at_unix_ms,
            method,
            durable: self.order.durable,
            ..plain_row(&record, stack.clone())
        };
        record.history.head = Some(snapshot.id.clone());
        if method != SnapshotMethod::Unchanged {
            record.history.redo.clear();
        }
        if method == SnapshotMethod::Sealed {
            record.history.stack.clone_from(stack);
        }
        rows.push(snapshot.clone());
        parts.catalog.record_snapshots(&record, &rows, durability).map_err(|error| match error.kind {
            CatalogErrorKind::AlreadyExists if self.order.name.is_some() => self.name_taken(),
            _ => error.into(),
        })?;
        self.passed(EngineStep::SnapshotWritten);
        for row in rows.iter().filter(|row| !row.durable) {
            self.engine.shared.keep.sync_soon(&row.owner, &row.id);
        }
        self.close_entries(&snapshot.id);
        Ok((record, snapshot))
    }

    /// What the sandbox began with, if that is not written down yet.
    fn start(&self) -> Result<Option<SnapshotRecord>, EngineError> {
        let (record, id) = (&self.record, start_of(&self.record.id));
        if self.engine.shared.parts.catalog.snapshot(&record.owner, &id)?.is_some() {
            return Ok(None);
        }
        let mut start = plain_row(record, record.history.began.clone());
        start.id = id;
        start.created_unix_ms = record.created_unix_ms;
        Ok(Some(start))
    }

    /// What ended before has left this state. The journal is not worth a failure.
    fn close_entries(&self, after: &SnapshotId) {
        let (engine, id) = (&self.engine.shared, &self.record.id);
        let closed = engine.journal.captured(engine.parts.catalog.as_ref(), id, after, self.at_unix_ms);
        if let Err(error) = closed {
            self.engine.fault();
            tracing::warn!(sandbox.id = %self.record.id, error = sentence(&error), "the journal does not know the state that commands left");
        }
    }

    fn passed(&self, step: EngineStep) {
        (self.engine.shared.parts.passed)(step);
    }
}

/// Lets those who come wait while a sandbox is copied. A snapshot that somebody asked for keeps others from asking, too.
struct Still<'a> {
    cell: Option<&'a Cell>,
}

impl<'a> Still<'a> {
    fn begin(cell: &'a Cell, asked: bool) -> Self {
        let cell = asked.then_some(cell);
        if let Some(cell) = cell {
            cell.set_copying(true);
        }
        Self { cell }
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell {
            cell.set_copying(false);
        }
    }
}

impl Engine {
    /// What a sandbox stands on. Blocks.
    pub(crate) fn root_of(&self, record: &SandboxRecord) -> Result<Vec<RootTree>, EngineError> {
        let mut root = self.template_root(&record.id, &record.spec)?;
        self.shared.parts.layers.stand_on(&record.history.stack, &mut root)?;
        Ok(root)
    }

    /// What a template's sandboxes stand on. Blocks.
    pub(crate) fn template_root(
        &self,
        id: &SandboxId,
        spec: &warren_core::SandboxSpec,
    ) -> Result<Vec<RootTree>, EngineError> {
        let request = self.shared.parts.templates.request(id, spec, warren_core::OwnerBond::Outlives);
        Ok(request.map_err(EngineError::Template)?.root)
    }
}

/// A snapshot of this sandbox in its plainest form: what it began with.
pub(super) fn plain_row(record: &SandboxRecord, stack: Stack) -> SnapshotRecord {
    SnapshotRecord {
        id: start_of(&record.id),
        owner: record.owner.clone(),
        sandbox: record.id.clone(),
        session: None,
        parent: None,
        name: None,
        reason: SnapshotReason::Start,
        turn: None,
        created_unix_ms: record.created_unix_ms,
        method: SnapshotMethod::Unchanged,
        stack,
        space: None,
        durable: false,
        damaged: false,
        spec: record.spec.clone(),
        kind: record.kind,
        disk_limit_required: record.disk_limit_required,
        backend: record.backend.clone(),
    }
}

/// The snapshot that a sandbox's state comes from. What it began with has an id before it is written down.
pub(crate) fn head_or_start(record: &SandboxRecord) -> SnapshotId {
    record.history.head.clone().unwrap_or_else(|| start_of(&record.id))
}

/// The id of the snapshot that a sandbox's history begins with.
pub(crate) fn start_of(id: &SandboxId) -> SnapshotId {
    // Two rounds of FNV-1a over the id's 128 random bits, which are spread over its characters.
    let round = |seed: u64| {
        id.as_str().bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let (high, low) = (round(0xcbf2_9ce4_8422_2325), round(0x8422_2325_cbf2_9ce4));
    SnapshotId::from_random(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sandbox_has_a_beginning_of_its_own() {
        let ids = (0..=255u8).map(|number| start_of(&SandboxId::from_random([number; 16])));
        assert_eq!(ids.collect::<std::collections::HashSet<_>>().len(), 256);
        let id = SandboxId::from_random([7; 16]);
        assert_eq!(start_of(&id), start_of(&id));
    }
}
