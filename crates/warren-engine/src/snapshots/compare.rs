use std::sync::Arc;

use parking_lot::Mutex;
use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{
    Change, Diff, DiffOptions, Differences, Owner, RootTree, SandboxId, SandboxRecord, SnapshotId,
    SnapshotReason, SnapshotRecord, Stack,
};

use super::{Point, Snapshots};
use crate::bounds::heavy;
use crate::cell::{Capture, CaptureOrder, Need, start_of};
use crate::error::Field;
use crate::ports::blocking;
use crate::state::Pin;
use crate::work_kind::WorkKind;
use crate::{Engine, EngineError};

/// A state that somebody works with: its layers stay as long as this does.
pub(super) struct State {
    /// The snapshot, or what the sandbox began with.
    pub(super) id: SnapshotId,
    pub(super) sandbox: SandboxId,
    pub(super) stack: Stack,
    pub(super) spec: warren_core::SandboxSpec,
    /// The backend that has its image, if it stands on one.
    pub(super) backend: String,
    _pin: Pin,
}

impl From<(SnapshotRecord, Pin)> for State {
    fn from((snapshot, pin): (SnapshotRecord, Pin)) -> Self {
        let SnapshotRecord { id, sandbox, stack, spec, backend, .. } = snapshot;
        Self { id, sandbox, stack, spec, backend, _pin: pin }
    }
}

impl Snapshots {
    /// The differences between two states.
    pub async fn diff(&self, from: &Point, to: &Point, options: DiffOptions) -> Result<Diff, EngineError> {
        let changes = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&changes);
        let keep = move |change| {
            told.lock().push(change);
            true
        };
        let end = self.diff_each(from, to, options, keep).await?;
        let changes = std::mem::take(&mut *changes.lock());
        Ok(Diff { changes, truncated: end == Differences::More })
    }

    /// Tells what differs between two states as it is found, on the thread that looks for it.
    /// `told` may wait, and says whether to go on.
    pub async fn diff_each(
        &self,
        from: &Point,
        to: &Point,
        options: DiffOptions,
        mut told: impl FnMut(Change) -> bool + Send + 'static,
    ) -> Result<Differences, EngineError> {
        let place = self.access.engine.place_for(self.access.owner(), WorkKind::Comparison).await?;
        let from = self.access.engine.state(self.access.owner(), from).await?;
        let to = self.access.engine.state(self.access.owner(), to).await?;
        same_base(Field::ComparedTo, &from, &to)?;
        let engine = self.access.engine.inner();
        heavy::at(place, move || {
            let root = engine.root_below(&from)?;
            let layers = &engine.shared.parts.layers;
            Ok(layers.diff_each(&root, &from.stack, &to.stack, &options, &mut told)?)
        })
        .await
    }
}

impl Engine {
    /// A state as somebody names it. That of a sandbox is captured if it is not.
    pub(super) async fn state(&self, owner: &Owner, point: &Point) -> Result<State, EngineError> {
        let id = match point {
            Point::Snapshot(id) => id.clone(),
            Point::Sandbox(sandbox) => {
                let order =
                    CaptureOrder { need: Need::IfChanged, ..CaptureOrder::asked(SnapshotReason::Command) };
                match self.captured(owner, sandbox, order).await? {
                    Some(id) => id,
                    None => return self.beginning(owner, sandbox).await,
                }
            }
        };
        let (engine, owner) = (self.inner(), owner.clone());
        blocking(move || engine.usable_snapshot(&owner, &id)).await.map(State::from)
    }

    /// The snapshot of a sandbox's state; `None` if it is as it began and that is not written down.
    async fn captured(
        &self,
        owner: &Owner,
        id: &SandboxId,
        order: CaptureOrder,
    ) -> Result<Option<SnapshotId>, EngineError> {
        match self.capture(owner, id, order).await? {
            Capture::Taken(taken) => Ok(Some(taken.snapshot.id)),
            Capture::Same(same) => Ok(Some(same).filter(|same| *same != start_of(id))),
            Capture::NotKept(why) => Err(EngineError::SnapshotsUnavailable(why)),
        }
    }

    /// The state that a sandbox began with.
    async fn beginning(&self, owner: &Owner, id: &SandboxId) -> Result<State, EngineError> {
        let record = self.record_of(owner, id).await?;
        let SandboxRecord { id: sandbox, spec, backend, history, .. } = record;
        let stack = history.began;
        let pin = self.shared.keep.pin(&stack.0);
        Ok(State { id: start_of(id), sandbox, stack, spec, backend, _pin: pin })
    }

    /// The layers of the template or image below those of a state. Blocks.
    pub(super) fn root_below(&self, state: &State) -> Result<Vec<RootTree>, EngineError> {
        self.base_root(&state.sandbox, &state.spec, &state.backend)
    }
}

/// Layers on different bases have nothing to do with one another.
pub(super) fn same_base(field: Field, one: &State, other: &State) -> Result<(), EngineError> {
    let (one, other) = (one.spec.base(), other.spec.base());
    if one == other {
        return Ok(());
    }
    let message = format!("the two stand on different files, {one} and {other}");
    Err(EngineError::invalid(field, message))
}

/// A snapshot with all that came before it, itself first. What is gone ends it.
pub(super) fn ancestry(
    catalog: &dyn Catalog,
    owner: &Owner,
    id: &SnapshotId,
) -> Result<Vec<SnapshotRecord>, CatalogError> {
    let mut line: Vec<SnapshotRecord> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut next = Some(id.clone());
    while let Some(id) = next.filter(|id| seen.insert(id.clone())) {
        let Some(snapshot) = catalog.snapshot(owner, &id)? else { break };
        next = snapshot.parent.clone();
        line.push(snapshot);
    }
    Ok(line)
}
