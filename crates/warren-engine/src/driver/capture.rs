//! Capturing the state of a sandbox: what it wrote becomes a layer, and the catalog is told.
//!
//! ```text
//! as it was copied? ──► unchanged: no layer
//! seal ──┬─► done: the layer is committed, sandbox and snapshot stand on it
//!        ├─► unchanged: no layer
//!        └─► busy, or not to be moved: copy ahead, freeze, copy the rest, thaw; only the snapshot stands on the copy
//! ```
//!
//! Copies of one writable layer stand on one another: each has what changed since the last. A sandbox whose head is a copy stands, with
//! what is still in its writable layer, on fewer layers than the head does.
//!
//! The record of the snapshot and that of the sandbox are written in one go. When that fails the sandbox stands on more than its
//! record tells, and the record is brought up to date before anything else is done.

mod work;

use std::sync::Arc;
use std::time::Instant;

use warren_core::{
    Event, JournalEntry, Request, RootTree, SandboxId, SandboxRecord, SessionId, SnapshotId, SnapshotMethod,
    SnapshotReason, SnapshotRecord, Stack, Status,
};

use self::work::{Failure, Outcome, Work};
use super::Driver;
use super::pause::Undo;
use super::unfinished::Unwritten;
use crate::error::sentence;
use crate::snapshots::{Pin, Taken};
use crate::{Engine, EngineError};

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
    pub(crate) copying: Copying,
    /// The operations that led to the state, if that is known better than by looking which have ended.
    pub(crate) operations: Option<Vec<JournalEntry>>,
}

/// What may be done about a sandbox that cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copying {
    /// As long as it costs little.
    Bounded,
    /// As that, but more may be copied while the sandbox goes on: nobody waits for it.
    CatchUp,
    WhateverItCosts,
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
    /// It could not be captured at the price that was to be paid, and this is why.
    NotKept(String),
}

/// How the sandbox stands while it is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Posture {
    Running,
    Frozen,
    Halted,
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
            copying: Copying::WhateverItCosts,
            operations: None,
        }
    }

    /// Nobody asked for it: it must cost little.
    pub(crate) fn automatic() -> Self {
        Self { need: Need::IfMarked, copying: Copying::Bounded, ..Self::asked(SnapshotReason::Command) }
    }

    /// As that, after one that cost too much: the next ones have to copy only what changes from now on.
    pub(crate) fn catch_up() -> Self {
        Self { copying: Copying::CatchUp, ..Self::automatic() }
    }
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

    /// As [`Driver::capture`], for one who knows better how it stands.
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
        let work = Work {
            engine: self.engine.inner(),
            cell: Arc::clone(&self.cell),
            record: self.record.clone(),
            order,
            posture,
            layer: self.engine.draw_layer(),
            at_unix_ms: self.engine.shared.parts.clock.unix_ms(),
            broken: false,
            is_plain: self.plain.is_some() && self.plain == self.record.history.head,
        };
        let pin = self.engine.shared.keep.pin(std::slice::from_ref(&work.layer));
        let turn = self.cell.backend.labour.to_capture(&self.record.owner).await;
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
            Ok(Outcome::Same(head)) => {
                self.cell.set_captured(changes);
                Ok(Capture::Same(head))
            }
            Ok(Outcome::NotKept(why)) => Ok(Capture::NotKept(why)),
            Err(failure) => Err(self.bear(failure, pin).await),
        }
    }

    /// What a failed capture leaves is put right, now or later.
    async fn bear(&mut self, failure: Failure, pin: Pin) -> EngineError {
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
        self.engine.tend(&self.record, snapshot);
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
        Ok(request.map_err(EngineError::Template)?.root.into_trees())
    }
}

/// A snapshot of this sandbox in its plainest form: what it began with.
pub(super) fn plain_row(record: &SandboxRecord, stack: Stack) -> SnapshotRecord {
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
