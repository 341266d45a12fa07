//! Capturing the state of a sandbox: what it wrote becomes a layer, and the catalog is told.
//!
//! ```text
//! as it was copied? ──► unchanged: no layer
//! seal ──┬─► done: the layer is committed, sandbox and snapshot stand on it
//!        ├─► unchanged: no layer
//!        └─► busy, or not to be moved: copy ahead, freeze, copy the rest, thaw;
//!            only the snapshot stands on the copy
//! ```
//!
//! Copies of one writable layer stand on one another: each has what changed since the last. A
//! sandbox whose head is a copy stands, with what is still in its writable layer, on fewer layers
//! than the head does.
//!
//! The record of the snapshot and that of the sandbox are written in one go. When that fails the
//! sandbox stands on more than its record tells, and the record is brought up to date before
//! anything else is done.

mod work;

use std::sync::Arc;
use std::time::Instant;

use warren_core::{
    Event, Request, RootTree, SandboxRecord, SnapshotMethod, SnapshotReason, SnapshotRecord, Stack, Status,
};

use self::work::{Failure, Outcome, Work};
use super::Driver;
use super::pause::Undo;
use super::unfinished::Unwritten;
use crate::cell::{Capture, CaptureOrder, Need, Taken, head_or_start, start_of};
use crate::error::sentence;
use crate::state::Pin;
use crate::{Engine, EngineError};

/// How the sandbox stands while it is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Posture {
    Running,
    Frozen,
    Halted,
}

impl Driver {
    pub(super) async fn capture(&mut self, order: CaptureOrder) -> Result<Capture, EngineError> {
        self.straighten().await?;
        let posture = match self.record.status {
            Status::Paused => Posture::Frozen,
            Status::Stopped | Status::Failed => Posture::Halted,
            Status::Creating | Status::Ready | Status::Stopping => Posture::Running,
        };
        self.check(Request::Snapshot)?;
        self.capture_as(order, posture).await
    }

    /// As [`Driver::capture`], with a posture that the caller knows.
    pub(super) async fn capture_as(
        &mut self,
        order: CaptureOrder,
        posture: Posture,
    ) -> Result<Capture, EngineError> {
        self.cell.backend.layered()?;
        if order.need == Need::IfMarked && !self.cell.is_changed() {
            return Ok(Capture::Same(head_or_start(&self.record)));
        }
        let (began, changes) = (Instant::now(), self.cell.changes());
        if order.need != Need::Always && posture == Posture::Running && self.is_as_its_head() {
            self.cell.set_captured(changes);
            return Ok(Capture::Same(head_or_start(&self.record)));
        }
        let work = Work {
            engine: self.engine.inner(),
            cell: Arc::clone(&self.cell),
            record: self.record.clone(),
            order,
            posture,
            layer: self.engine.draw_layer(),
            at_unix_ms: self.engine.shared.parts.clock.unix_ms(),
            broken: false,
            is_plain: self.is_plain(),
            template: self.template.clone(),
        };
        let pin = self.engine.shared.keep.pin(std::slice::from_ref(&work.layer));
        let turn = self.cell.backend.turns.to_capture(&self.record.owner).await;
        let captured = self.cell.backend.work(move || work.run()).await;
        drop(turn);
        match captured {
            Ok(Outcome::Taken(written, frozen)) => {
                let (record, snapshot) = *written;
                self.plain = (snapshot.stack == record.history.stack).then(|| snapshot.id.clone());
                self.show(record);
                self.cell.set_captured(changes);
                self.tell_of(&snapshot);
                let took = began.elapsed();
                Ok(Capture::Taken(Box::new(Taken { snapshot, frozen, took })))
            }
            Ok(Outcome::Same { head, plain }) => {
                self.plain = self.record.history.head.clone().filter(|_| plain);
                self.cell.set_captured(changes);
                Ok(Capture::Same(head))
            }
            Ok(Outcome::NotKept(why)) => Ok(Capture::NotKept(why)),
            Err(failure) => Err(self.clean_up(failure, pin).await),
        }
    }

    /// The head is known to have just the layers that the sandbox stands on.
    fn is_plain(&self) -> bool {
        self.plain.is_some() && self.plain == self.record.history.head
    }

    /// True if nothing was written since the head was captured, where that is known without asking
    /// anybody. What ended since is noted to have left just that state.
    fn is_as_its_head(&self) -> bool {
        let history = &self.record.history;
        let now = self.engine.shared.parts.clock.unix_ms();
        let stands_on_head = match &history.head {
            Some(_) => self.is_plain(),
            None => history.stack == history.began,
        };
        stands_on_head
            && !history.moved
            && self.cell.backend.layered().is_ok_and(|layered| layered.is_untouched(&self.record.id))
            && self.engine.shared.journal.left_as_it_was(&self.record.id, &head_or_start(&self.record), now)
    }

    /// Puts right what a failed capture left, now or later.
    async fn clean_up(&mut self, failure: Failure, pin: Pin) -> EngineError {
        if failure.frozen {
            self.undo(Undo::Thaw).await;
        }
        if let Some((record, layer)) = failure.behind.map(|behind| *behind) {
            self.engine.fault();
            let layer = Some((layer, Arc::new(pin)));
            if let Err(error) = self.must_write(Unwritten { record, end: None, layer }).await {
                tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down what a sandbox stands on");
            }
        }
        failure.error
    }

    fn tell_of(&self, snapshot: &SnapshotRecord) {
        let (reason, method) = (snapshot.reason, snapshot.method);
        self.emit(Event::SnapshotTaken { snapshot: snapshot.id.clone(), reason, method });
        self.engine.after_snapshot(&self.record, snapshot);
    }
}

impl Engine {
    /// The layers that a sandbox stands on, those of its base included. Blocks.
    pub(crate) fn root_of(&self, record: &SandboxRecord) -> Result<Vec<RootTree>, EngineError> {
        self.root_on(self.base_root(&record.id, &record.spec, &record.backend)?, record)
    }

    /// As [`Engine::root_of`], with the layers of its base.
    fn root_on(&self, mut base: Vec<RootTree>, record: &SandboxRecord) -> Result<Vec<RootTree>, EngineError> {
        self.shared.parts.layers.stand_on(&record.history.stack, &mut base)?;
        Ok(base)
    }
}

/// The snapshot of what a sandbox began with.
pub(crate) fn plain_row(record: &SandboxRecord, stack: Stack) -> SnapshotRecord {
    SnapshotRecord {
        id: start_of(&record.id),
        owner: record.owner.clone(),
        node: record.node.clone(),
        sandbox: record.id.clone(),
        session: None,
        parent: None,
        before: None,
        operations: None,
        lost: Vec::new(),
        name: None,
        reason: SnapshotReason::Start,
        turn: None,
        created_unix_ms: record.created_unix_ms,
        method: SnapshotMethod::Unchanged,
        stack,
        memory: None,
        space: None,
        durable: false,
        damaged: false,
        spec: record.spec.clone(),
        kind: record.kind,
        disk_limit_required: record.disk_limit_required,
        backend: record.backend.clone(),
    }
}
