use warren_core::{Busy, Need, Owner, SandboxId, SessionId, SnapshotReason, Space, Stack};

use super::records::check_name;
use super::{TakeSnapshot, TurnDone};
use crate::cell::{Capture, CaptureOrder, Mail, Processes, SuspendOrder, Taken};
use crate::error::Field;
use crate::ports::{blocking, finished};
use crate::{Engine, EngineError, Sandbox, SandboxHistory};

/// The end of a turn does not wait for the counting of more files than this.
const MOST_COUNTED: u64 = 20_000;

impl SandboxHistory {
    /// Captures a sandbox's files.
    pub async fn take(&self, order: TakeSnapshot) -> Result<Taken, EngineError> {
        let TakeSnapshot { name, durable, session, memory, force } = order;
        let asked = CaptureOrder::asked(SnapshotReason::Request);
        let Sandbox { engine, caller, id } = &self.sandbox;
        let processes = if memory { Processes::Wanted { force } } else { Processes::Left };
        let order = CaptureOrder { name, durable, session, processes, ..asked };
        engine.take(&caller.owner, id, order).await
    }

    /// A turn is over: captures the state it left.
    pub async fn complete_turn(
        &self,
        session: Option<SessionId>,
        name: Option<String>,
    ) -> Result<TurnDone, EngineError> {
        let asked = CaptureOrder::asked(SnapshotReason::Turn);
        let order = CaptureOrder { name, session: session.clone(), turn: true, ..asked };
        let Sandbox { engine, caller, id } = &self.sandbox;
        let taken = engine.take(&caller.owner, id, order).await?;
        engine.note_turn(caller, id, session, &taken.snapshot).await;
        let space_used = engine.space_used(&caller.owner, id, &taken.snapshot.stack).await;
        Ok(TurnDone { turn: taken.snapshot.turn.unwrap_or_default(), taken, space_used })
    }
}

impl Engine {
    pub(crate) async fn take(
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
                return Err(EngineError::invalid(Field::Session, message));
            }
        }
        let captured = match order.processes {
            Processes::Wanted { force } => self.suspend(owner, id, order, force).await,
            Processes::Left | Processes::Are(_) => self.capture(owner, id, order).await,
        };
        match captured? {
            Capture::Taken(taken) => Ok(*taken),
            Capture::NotKept(why) => Err(EngineError::SnapshotsUnavailable(why)),
            Capture::Same(_) => {
                let why = "a snapshot was asked for and none was taken".to_owned();
                Err(EngineError::SnapshotsUnavailable(why))
            }
        }
    }

    /// Captures a sandbox with its processes, which stand still meanwhile. Calls wait.
    async fn suspend(
        &self,
        owner: &Owner,
        id: &SandboxId,
        order: CaptureOrder,
        force: bool,
    ) -> Result<Capture, EngineError> {
        let (engine, owner, id) = (self.clone(), owner.clone(), id.clone());
        finished(async move {
            loop {
                let cell = engine.wake(&owner, &id).await?;
                cell.backend.layered()?;
                cell.backend.require(Need::MemorySnapshots)?;
                engine.check_wall(&cell.record(), &cell.backend)?;
                let occupied = cell.occupy_for(Busy::Snapshot, force);
                let exclusive = occupied.map_err(|(status, reason)| EngineError::Denied {
                    id: id.clone(),
                    status,
                    reason,
                })?;
                let order = SuspendOrder { capture: order.clone(), force, exclusive };
                if let Some(answer) = cell.send(|reply| Mail::Suspend(Box::new(order), reply)).await {
                    return answer;
                }
                engine.await_successor().await?;
            }
        })
        .await
    }

    /// The space of the layers that a sandbox made itself; `None` if that takes long to count.
    async fn space_used(&self, owner: &Owner, id: &SandboxId, stack: &Stack) -> Option<Space> {
        let record = self.record_of(owner, id).await.ok()?;
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
