//! The part of a capture that changes the machine and the catalog, on a thread.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::catalog::{CatalogErrorKind, Durability, SnapshotFilter};
use warren_core::{
    Copied, CopiedData, CopyBound, CopyOrder, Draft, JournalEntry, LayerDriver, LayerError, LayerErrorKind,
    LayerId, MOST_LAYERS, NewLayer, PageRequest, RootTree, SandboxRecord, Sealed, Settled, SnapshotId,
    SnapshotMethod, SnapshotReason, SnapshotRecord, Stack,
};

use super::{Posture, plain_row};
use crate::cell::Cell;
use crate::cell::{CaptureOrder, Copying, Need, Processes, head_or_start, start_of};
use crate::error::sentence;
use crate::state::all_snapshots;
use crate::state::lost;
use crate::{Engine, EngineError, EngineStep};

/// So many copies stand on one another before everything is copied again: all of them may have to
/// be mounted one day.
const MOST_COPIES: usize = 64;
/// So many times more may be copied when nobody waits for it.
const CATCH_UP: u64 = 10;
/// Enough to see that nothing changed.
const NOTHING: CopyBound = CopyBound { entries: 0, bytes: 0, still: Duration::from_secs(60) };

/// A capture on its way, on a thread.
pub(super) struct Work {
    pub(super) engine: Engine,
    pub(super) cell: Arc<Cell>,
    pub(super) record: SandboxRecord,
    pub(super) order: CaptureOrder,
    pub(super) posture: Posture,
    pub(super) layer: LayerId,
    pub(super) at_unix_ms: u64,
    /// A layer that it stands on is lost: its own files are saved, but nothing can be started from
    /// them.
    pub(super) broken: bool,
    /// The head has just the layers that the sandbox stands on.
    pub(super) is_plain: bool,
    /// The layers of its template, if they are known.
    pub(super) template: Option<Vec<RootTree>>,
}

/// The result on the machine, before the catalog knows.
enum CapturedFiles {
    Layer {
        method: SnapshotMethod,
        stack: Stack,
        frozen: Duration,
    },
    /// The state is that of these layers.
    Unchanged(Stack),
    NotKept(String),
}

pub(super) enum Outcome {
    /// The next record of the sandbox, the snapshot, and how long the sandbox stood still.
    Taken(Box<(SandboxRecord, SnapshotRecord)>, Duration),
    /// `plain`: the head has just the layers that the sandbox stands on.
    Same {
        head: SnapshotId,
        plain: bool,
    },
    NotKept(String),
}

/// Why it failed, and what that leaves.
pub(super) struct Failure {
    pub(super) error: EngineError,
    /// It stands on a layer of which its record does not know.
    pub(super) behind: Option<Box<(SandboxRecord, NewLayer)>>,
    /// It was frozen and could not be thawed.
    pub(super) frozen: bool,
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self { error, behind: None, frozen: false }
    }
}

impl Work {
    pub(super) fn run(mut self) -> Result<Outcome, Failure> {
        self.check()?;
        let below = match self.template.take() {
            Some(template) => self.engine.root_on(template, &self.record),
            None => self.engine.root_of(&self.record),
        };
        let captured = match below {
            Ok(below) => self.capture_files(&below)?,
            // A power cut may have left it so, and there must be a way back to what is whole.
            Err(EngineError::Layers(error)) if self.is_last_resort(&error) => {
                self.broken = true;
                self.copy(&[], &Stack::default())?
            }
            Err(error) => return Err(error.into()),
        };
        match captured {
            CapturedFiles::Layer { method, stack, frozen } => self.record_layer(method, &stack, frozen),
            CapturedFiles::Unchanged(stack) => Ok(self.record_unchanged(&stack)?),
            CapturedFiles::NotKept(why) => Ok(Outcome::NotKept(why)),
        }
    }

    /// Checks before anything is done.
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

    fn is_last_resort(&self, error: &LayerError) -> bool {
        let lost = matches!(error.kind, LayerErrorKind::NotFound | LayerErrorKind::Damaged);
        lost && self.order.reason == SnapshotReason::Safety && self.posture == Posture::Halted
    }

    fn name_taken(&self) -> EngineError {
        let name = self.order.name.clone().unwrap_or_default();
        EngineError::SnapshotNameTaken { sandbox: self.record.id.clone(), name }
    }

    fn capture_files(&self, below: &[RootTree]) -> Result<CapturedFiles, Failure> {
        let parts = &self.engine.shared.parts;
        let own = &self.record.history.stack;
        if self.record.history.moved {
            return Ok(CapturedFiles::Unchanged(own.clone()));
        }
        let last = self.last_copy()?;
        if last.depth() > self.base()?.depth() && self.is_as_copied(below, &last)? {
            return Ok(CapturedFiles::Unchanged(last));
        }
        if parts.layers.driver() == LayerDriver::Overlay || self.cell.backend.layered()?.holds_layers() {
            let place = parts.layers.place(&self.layer);
            let sealed = self.cell.backend.layered()?.seal(&self.record.id, &place, below);
            match sealed.map_err(EngineError::Backend)? {
                Sealed::Done { frozen } => {
                    (parts.passed)(EngineStep::SnapshotSealed);
                    let stack = own.with(self.layer.clone());
                    return Ok(CapturedFiles::Layer { method: SnapshotMethod::Sealed, stack, frozen });
                }
                Sealed::Unchanged => return Ok(CapturedFiles::Unchanged(own.clone())),
                Sealed::Busy { .. } | Sealed::Unmovable => {}
            }
        }
        if self.order.copying == Copying::CatchUp && self.copied_bytes()? > self.record.spec.limits.disk.0 {
            return Ok(CapturedFiles::NotKept("copies of its files hold as much as its disk may".to_owned()));
        }
        self.copy(below, &last)
    }

    /// The disk space that copies of its files take, beside what it may write itself.
    fn copied_bytes(&self) -> Result<u64, EngineError> {
        let catalog = self.engine.shared.parts.catalog.as_ref();
        let rows = all_snapshots(catalog, &self.record.owner, &self.record.id)?;
        let copies = rows.iter().filter(|row| row.method == SnapshotMethod::Copied);
        // One that is not counted yet is taken for an ordinary one.
        let uncounted = self.engine.shared.settings.copy_bound.bytes;
        let sizes = copies.map(|row| row.space.map_or(uncounted, |space| space.bytes));
        Ok(sizes.fold(0, u64::saturating_add))
    }

    /// The layers below what a copy of its writable layers has.
    fn base(&self) -> Result<Stack, EngineError> {
        let whole = self.cell.backend.layered()?.holds_layers();
        Ok(if whole { Stack::default() } else { self.record.history.stack.clone() })
    }

    /// The layers of the last copy of what it writes now, or those that a copy stands on. A head
    /// that was captured otherwise, or whose layers were joined, is none.
    fn last_copy(&self) -> Result<Stack, EngineError> {
        let base = self.base()?;
        let head = self.record.history.head.as_ref().filter(|_| !self.is_plain);
        let Some(head) = head else { return Ok(base) };
        let head = self.engine.shared.parts.catalog.snapshot(&self.record.owner, head)?;
        let copied = |head: &SnapshotRecord| !head.damaged && head.stack.0.ends_with(&base.0);
        Ok(head.filter(copied).map_or(base, |head| head.stack))
    }

    fn is_as_copied(&self, below: &[RootTree], last: &Stack) -> Result<bool, EngineError> {
        let writable =
            self.cell.backend.layered()?.writable(&self.record.id).map_err(EngineError::Backend)?;
        let since = last.0.first();
        let order = CopyOrder { into: &self.layer, since, below, bound: Some(NOTHING) };
        let draft = self.engine.shared.parts.layers.begin_copy(writable.as_fd(), &order)?;
        Ok(matches!(draft, Draft::Unchanged))
    }

    fn copy_order<'a>(&'a self, below: &'a [RootTree], base: &Stack, last: &'a Stack) -> CopyOrder<'a> {
        let base = base.depth();
        let deep = last.depth() >= MOST_COPIES + base;
        let settings = &self.engine.shared.settings;
        let bound = match self.order.copying {
            Copying::Bounded => Some(settings.copy_bound),
            Copying::CatchUp => Some(CopyBound {
                entries: settings.copy_bound.entries.saturating_mul(CATCH_UP),
                bytes: settings.copy_bound.bytes.saturating_mul(CATCH_UP).min(self.room()),
                ..settings.copy_bound
            }),
            Copying::WhateverItCosts => None,
        };
        CopyOrder {
            into: &self.layer,
            since: last.0.first().filter(|_| last.depth() > base && !deep),
            below,
            // A copy of everything, now and then, is made ahead for the most part.
            bound: bound.map(|bound| {
                if deep { CopyBound { entries: u64::MAX, bytes: u64::MAX, ..bound } } else { bound }
            }),
        }
    }

    /// The disk space that an automatic copy may take before new work would be refused.
    fn room(&self) -> u64 {
        let critical = self.engine.shared.settings.disk.critical_bytes;
        let space = self.cell.backend.port.space().ok().flatten();
        space.map_or(0, |space| space.free_bytes.saturating_sub(critical))
    }

    /// Copies what the sandbox wrote, for the last part while it stands still.
    fn copy(&self, below: &[RootTree], last: &Stack) -> Result<CapturedFiles, Failure> {
        let writable =
            self.cell.backend.layered()?.writable(&self.record.id).map_err(EngineError::Backend)?;
        let base = self.base()?;
        let order = self.copy_order(below, &base, last);
        let draft = self.engine.shared.parts.layers.begin_copy(writable.as_fd(), &order);
        let mut draft = match draft.map_err(EngineError::Layers)? {
            Draft::Unchanged => return Ok(CapturedFiles::Unchanged(last.clone())),
            Draft::TooMuch(too_much) => return Ok(CapturedFiles::NotKept(too_much.to_string())),
            Draft::Begun(draft) => draft,
        };
        let (settled, frozen) = self.while_still(|| draft.settle())?;
        match settled {
            Settled::Unchanged => Ok(CapturedFiles::Unchanged(last.clone())),
            Settled::TooMuch(too_much) => Ok(CapturedFiles::NotKept(too_much.to_string())),
            Settled::Done => {
                let Copied { data, on_last } = draft.place().map_err(EngineError::Layers)?;
                let base = if on_last { last } else { &base };
                let method = match data {
                    CopiedData::Shared => SnapshotMethod::Cloned,
                    CopiedData::Bytes => SnapshotMethod::Copied,
                };
                Ok(CapturedFiles::Layer { method, stack: base.with(self.layer.clone()), frozen })
            }
        }
    }

    /// Does something while the sandbox is frozen. It is thawed afterwards, even if that fails.
    fn while_still<T>(&self, work: impl FnOnce() -> Result<T, LayerError>) -> Result<(T, Duration), Failure> {
        if self.posture != Posture::Running {
            return Ok((work().map_err(EngineError::Layers)?, Duration::ZERO));
        }
        if !self.cell.backend.port.capabilities().freeze {
            let why = "somebody works in the sandbox, and it cannot be made to stand still".to_owned();
            return Err(EngineError::SnapshotsUnavailable(why).into());
        }
        let _still = Still::begin(&self.cell, self.order.need == Need::Always);
        let (backend, id) = (&self.cell.backend.port, &self.record.id);
        let began = Instant::now();
        let frozen = backend.freeze(id);
        self.passed(EngineStep::CopyFrozen);
        let done = frozen.map_err(EngineError::Backend).and_then(|()| Ok(work()?));
        self.passed(EngineStep::CopyCopied);
        if let Err(error) = backend.thaw(id) {
            return Err(Failure { frozen: true, ..EngineError::Backend(error).into() });
        }
        self.passed(EngineStep::CopyThawed);
        Ok((done?, began.elapsed()))
    }

    /// Nobody knows of the layer: it goes.
    fn discard(&self) {
        if let Err(error) = self.engine.shared.parts.layers.remove(&self.layer) {
            tracing::warn!(layer.id = %self.layer, error = sentence(&error), "a layer that nobody needs is left to the sweep");
        }
    }

    fn record_layer(
        &self,
        method: SnapshotMethod,
        stack: &Stack,
        frozen: Duration,
    ) -> Result<Outcome, Failure> {
        let layer = NewLayer {
            id: self.layer.clone(),
            sandbox: Some(self.record.id.clone()),
            created_unix_ms: self.at_unix_ms,
        };
        let written = self.commit(&layer).and_then(|()| {
            let ended = self.ended_entries()?;
            let operations = self.order.operations.as_ref().unwrap_or(&ended);
            self.write(method, stack, operations, !ended.is_empty())
        });
        match written {
            Ok(written) => Ok(Outcome::Taken(Box::new(written), frozen)),
            Err(error) if method == SnapshotMethod::Sealed => {
                let mut record = self.record.clone();
                record.history.stack.clone_from(stack);
                record.history.redo.clear();
                Err(Failure { error, behind: Some(Box::new((record, layer))), frozen: false })
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

    /// The state is that of `stack`.
    fn record_unchanged(&self, stack: &Stack) -> Result<Outcome, EngineError> {
        let history = &self.record.history;
        let ended = self.ended_entries()?;
        let known = match &history.head {
            Some(head) if self.order.need != Need::Always || !ended.is_empty() => {
                self.engine.shared.parts.catalog.snapshot(&self.record.owner, head)?
            }
            _ => None,
        };
        let is_same = match &known {
            Some(head) => head.stack == *stack && !head.damaged,
            None => history.head.is_none() && *stack == history.began,
        };
        let operations = self.order.operations.clone().unwrap_or_else(|| ended.clone());
        let operations = match &known {
            // What began after it was captured has changed nothing.
            Some(head) if is_same => Self::within(head, operations),
            _ => operations,
        };
        if self.order.need != Need::Always && is_same && operations.is_empty() {
            let head = head_or_start(&self.record);
            self.close_entries(&head);
            let plain = known.is_some() && *stack == history.stack;
            return Ok(Outcome::Same { head, plain });
        }
        let written = self.write(SnapshotMethod::Unchanged, stack, &operations, !ended.is_empty())?;
        Ok(Outcome::Taken(Box::new(written), Duration::ZERO))
    }

    /// Operations that had begun when the head was captured, and have ended since: what they
    /// changed is part of it.
    fn within(head: &SnapshotRecord, mut operations: Vec<JournalEntry>) -> Vec<JournalEntry> {
        operations.retain(|entry| match &entry.before {
            Some(before) => *before != head.id,
            None => entry.began_unix_ms <= head.created_unix_ms,
        });
        operations
    }

    /// Tells the catalog. Only what was sealed is what the sandbox itself stands on. `open` says
    /// whether entries are to be closed.
    fn write(
        &self,
        method: SnapshotMethod,
        stack: &Stack,
        operations: &[JournalEntry],
        open: bool,
    ) -> Result<(SandboxRecord, SnapshotRecord), EngineError> {
        let parts = &self.engine.shared.parts;
        let mut durability = Durability::Process;
        let memory = match &self.order.processes {
            Processes::Are(memory) => Some(memory.clone()),
            Processes::Left | Processes::Wanted { .. } => None,
        };
        if let Some(memory) = &memory {
            let (id, sandbox) = (memory.clone(), Some(self.record.id.clone()));
            parts.layers.commit(&NewLayer { id, sandbox, created_unix_ms: self.at_unix_ms })?;
        }
        if self.order.durable {
            let layers: Vec<_> = memory.iter().chain(&stack.0).cloned().collect();
            parts.layers.sync(&layers)?;
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
            operations: Some(u32::try_from(operations.len()).unwrap_or(u32::MAX)),
            lost: lost(operations),
            name: self.order.name.clone(),
            session: self.order.session.clone(),
            reason: self.order.reason,
            turn: self.order.turn.then_some(record.history.turn),
            created_unix_ms: self.at_unix_ms,
            method,
            durable: self.order.durable,
            damaged: self.broken,
            memory,
            ..plain_row(&record, stack.clone())
        };
        record.history.head = Some(snapshot.id.clone());
        // It is halted now, and goes on with them.
        record.history.memory.clone_from(&snapshot.memory);
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
        if open {
            self.close_entries(&snapshot.id);
        }
        Ok((record, snapshot))
    }

    /// The snapshot of what the sandbox began with, if that is not written down yet.
    fn start(&self) -> Result<Option<SnapshotRecord>, EngineError> {
        let (record, id) = (&self.record, start_of(&self.record.id));
        if self.engine.shared.parts.catalog.snapshot(&record.owner, &id)?.is_some() {
            return Ok(None);
        }
        Ok(Some(plain_row(record, record.history.began.clone())))
    }

    /// Entries of the journal that ended since the last capture.
    fn ended_entries(&self) -> Result<Vec<JournalEntry>, EngineError> {
        let engine = &self.engine.shared;
        Ok(engine.journal.ended(engine.parts.catalog.as_ref(), &self.record.id, self.at_unix_ms)?)
    }

    /// Notes the state in the journal for all entries that ended before. A failure is only logged.
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

/// Makes new calls wait while a sandbox is copied, if a caller asked for the snapshot.
struct Still<'a> {
    cell: Option<&'a Cell>,
}

impl<'a> Still<'a> {
    fn begin(cell: &'a Cell, asked: bool) -> Self {
        let cell = asked.then_some(cell);
        if let Some(cell) = cell {
            cell.begin_copy();
        }
        Self { cell }
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell {
            cell.end_copy();
        }
    }
}
