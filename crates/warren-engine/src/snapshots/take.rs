use warren_core::{
    Automatic, LayerDriver, Owner, SandboxId, SessionId, SnapshotId, SnapshotReason, Space, Stack,
};

use super::records::check_name;
use super::{TakeSnapshot, Taken, TurnDone};
use crate::blocking::blocking;
use crate::driver::{Capture, CaptureOrder, head_or_start};
use crate::error::sentence;
use crate::{Engine, EngineError};

/// The end of a turn does not wait for the counting of more files than this.
const MOST_COUNTED: u64 = 20_000;

impl Engine {
    /// Captures a sandbox's files.
    pub async fn take_snapshot(
        &self,
        owner: &Owner,
        id: &SandboxId,
        order: TakeSnapshot,
    ) -> Result<Taken, EngineError> {
        let TakeSnapshot { name, durable, session } = order;
        let asked = CaptureOrder::asked(SnapshotReason::Request);
        self.take(owner, id, CaptureOrder { name, durable, session, ..asked }).await
    }

    /// As [`Engine::take_snapshot`], because a tool call asked for it.
    pub(crate) async fn take_after_tool(
        &self,
        owner: &Owner,
        id: &SandboxId,
        session: Option<SessionId>,
    ) -> Result<Taken, EngineError> {
        let order = CaptureOrder { session, ..CaptureOrder::asked(SnapshotReason::Tool) };
        self.take(owner, id, order).await
    }

    /// A turn is over: captures the state it left.
    pub async fn complete_turn(
        &self,
        owner: &Owner,
        id: &SandboxId,
        session: Option<SessionId>,
        name: Option<String>,
    ) -> Result<TurnDone, EngineError> {
        let order = CaptureOrder { name, session, turn: true, ..CaptureOrder::asked(SnapshotReason::Turn) };
        let taken = self.take(owner, id, order).await?;
        let space_used = self.space_used(owner, id, &taken.snapshot.stack).await;
        Ok(TurnDone { turn: taken.snapshot.turn.unwrap_or_default(), taken, space_used })
    }

    pub(super) async fn take(
        &self,
        owner: &Owner,
        id: &SandboxId,
        order: CaptureOrder,
    ) -> Result<Taken, EngineError> {
        self.may_change()?;
        if let Some(name) = &order.name {
            check_name(name)?;
        }
        if let Some(session) = &order.session {
            let session = self.session_record(owner, session).await?;
            if session.sandbox != *id {
                let message = format!("session {} is not one of {id}", session.id);
                return Err(EngineError::invalid("session_id", message));
            }
        }
        match self.capture(owner, id, order).await? {
            Capture::Taken(taken) => Ok(*taken),
            Capture::Same(_) | Capture::Busy => {
                let why = "somebody works in the sandbox, and it cannot be copied".to_owned();
                Err(EngineError::SnapshotsUnavailable(why))
            }
        }
    }

    /// A command has ended: the state it left, if that is captured. Meant for the background.
    pub(crate) async fn capture_after_command(&self, owner: &Owner, id: &SandboxId) -> Option<SnapshotId> {
        self.capture_around_command(owner, id).await
    }

    /// A command is about to begin: the state it finds, if that is captured. Free where nothing was done since it was.
    pub(crate) async fn capture_before_command(&self, owner: &Owner, id: &SandboxId) -> Option<SnapshotId> {
        self.capture_around_command(owner, id).await
    }

    async fn capture_around_command(&self, owner: &Owner, id: &SandboxId) -> Option<SnapshotId> {
        let cell = self.shared.registry.find(owner, id)?;
        if !cell.backend.capabilities().snapshots {
            return None;
        }
        let record = cell.record();
        if !cell.is_changed() {
            return Some(head_or_start(&record));
        }
        if record.history.automatic != Automatic::Commands || !record.is_live() {
            return None;
        }
        // A copy that shares its data costs little; one that does not is never made unasked.
        let copy = self.shared.parts.layers.driver() != LayerDriver::Overlay;
        match self.capture(owner, id, CaptureOrder { copy, ..CaptureOrder::automatic() }).await {
            Ok(Capture::Taken(taken)) => Some(taken.snapshot.id),
            Ok(Capture::Same(head)) => Some(head),
            Ok(Capture::Busy) | Err(EngineError::Denied { .. } | EngineError::ShuttingDown) => None,
            Err(error) => {
                tracing::warn!(sandbox.id = %id, error = sentence(&error), "the state around a command is not captured");
                None
            }
        }
    }

    /// What the layers hold that a sandbox made itself; `None` if that takes long to count.
    async fn space_used(&self, owner: &Owner, id: &SandboxId, stack: &Stack) -> Option<Space> {
        let record = self.sandbox(owner, id).await.ok()?;
        let shared =
            if stack.0.ends_with(&record.history.began.0) { record.history.began.depth() } else { 0 };
        let own: Vec<_> = stack.0.iter().take(stack.depth().saturating_sub(shared)).cloned().collect();
        let layers = self.shared.parts.layers.clone();
        blocking(move || {
            own.iter().try_fold(Space::default(), |sum, layer| {
                let space = layers.space(layer, Some(MOST_COUNTED)).ok()??;
                Some(Space { bytes: sum.bytes + space.bytes, inodes: sum.inodes + space.inodes })
            })
        })
        .await
    }
}
