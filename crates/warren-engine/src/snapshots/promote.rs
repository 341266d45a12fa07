use std::path::{Component, Path};

use warren_core::catalog::Durability;
use warren_core::{
    Conflicts, Event, Merge, MergeOrder, NewLayer, Owner, SandboxId, SnapshotMethod, SnapshotReason,
    SnapshotRecord,
};

use super::compare::{State, ancestry, same_base};
use super::{Point, PromoteOrder, Promoted};
use crate::bounds::{Place, heavy};
use crate::cell::{Exclusive, Goal, RolledBack};
use crate::driver::plain_row;
use crate::error::Field;
use crate::ports::finished;
use crate::state::Pin;
use crate::work_kind::WorkKind;
use crate::{Engine, EngineError, EngineStep, Sandbox, SandboxHistory};

/// A merge, and the snapshot of what came out of it.
struct Joined {
    merge: Merge,
    snapshot: Option<SnapshotRecord>,
}

impl SandboxHistory {
    /// Merges what a sandbox changed since it and another had a common state into that other one.
    pub async fn promote(&self, order: PromoteOrder) -> Result<Promoted, EngineError> {
        self.sandbox.engine.may_change()?;
        finished(self.clone().promote_now(order)).await
    }

    async fn promote_now(self, order: PromoteOrder) -> Result<Promoted, EngineError> {
        let record = self.sandbox.record().await?;
        let Some(into) = order.into.clone().or(record.history.forked_from) else {
            let message =
                format!("{} is no fork: say into which sandbox its changes are to go", self.sandbox.id);
            return Err(EngineError::invalid(Field::MergeTarget, message));
        };
        if into == self.sandbox.id {
            let message = "a sandbox has nothing to merge into itself";
            return Err(EngineError::invalid(Field::MergeTarget, message));
        }
        check_path(&order.below)?;
        let (engine, owner) = (&self.sandbox.engine, self.sandbox.owner());
        let place = engine.place_for(owner, WorkKind::Comparison).await?;
        let theirs = engine.state(owner, &Point::Sandbox(self.sandbox.id.clone())).await?;
        // From here to the rollback nobody changes what the merge stands on.
        let exclusive =
            if order.apply { Some(engine.occupy(owner, &into, order.force).await?) } else { None };
        let ours = engine.state(owner, &Point::Sandbox(into.clone())).await?;
        same_base(Field::MergeTarget, &ours, &theirs)?;
        let joined = engine.join_states(owner, &into, (ours, theirs), &order, place).await?;
        if order.apply && order.conflicts == Conflicts::Refuse && !joined.merge.conflicts.is_empty() {
            return Err(EngineError::MergeConflict { into, conflicts: joined.merge.conflicts });
        }
        let applied = match (exclusive, joined.snapshot) {
            (Some(exclusive), Some(snapshot)) => Some(self.apply(&into, exclusive, snapshot, &order).await?),
            _ => None,
        };
        Ok(Promoted { into, merge: joined.merge, applied })
    }

    /// The sandbox goes on with what came out of the merge.
    async fn apply(
        &self,
        into: &SandboxId,
        exclusive: Exclusive,
        snapshot: SnapshotRecord,
        order: &PromoteOrder,
    ) -> Result<RolledBack, EngineError> {
        let Sandbox { engine, caller, id: fork } = &self.sandbox;
        let (goal, force) = (Goal::To(snapshot.id.clone()), order.force);
        let mut rolled = match engine.go_alone(exclusive, goal, force).await {
            Some(rolled) => rolled?,
            None => engine.as_(caller).sandbox(into).history().rollback(&snapshot.id, force).await?,
        };
        rolled.entry = engine.note_promote(caller, &rolled, fork, &order.below).await;
        let event = Event::SandboxPromoted { from: fork.clone(), snapshot: snapshot.id };
        engine.emit(&caller.owner, Some(into), None, event);
        Ok(rolled)
    }
}

impl Engine {
    async fn join_states(
        &self,
        owner: &Owner,
        into: &SandboxId,
        (ours, theirs): (State, State),
        order: &PromoteOrder,
        place: Place,
    ) -> Result<Joined, EngineError> {
        let (engine, owner, into) = (self.inner(), owner.clone(), into.clone());
        let order = order.clone();
        heavy::at(place, move || {
            let (base, _base_pin) = engine.common_ancestor(&owner, &ours, &theirs)?;
            let root = engine.root_below(&ours)?;
            let parts = &engine.shared.parts;
            let layer = NewLayer {
                id: engine.draw_layer(),
                sandbox: Some(into.clone()),
                created_unix_ms: parts.clock.unix_ms(),
            };
            let _pin = engine.shared.keep.pin(std::slice::from_ref(&layer.id));
            let PromoteOrder { conflicts, below, leave_out, .. } = &order;
            let (base, conflicts) = (&base.stack, *conflicts);
            let merge_order =
                MergeOrder { base, ours: &ours.stack, theirs: &theirs.stack, below, conflicts, leave_out };
            let merge = parts.layers.merge(&root, &merge_order, order.apply.then_some(&layer))?;
            if !merge.made {
                return Ok(Joined { merge, snapshot: None });
            }
            (parts.passed)(EngineStep::PromoteMade);
            let record = parts.catalog.sandbox(&owner, &into)?;
            let record = record.ok_or_else(|| EngineError::sandbox_not_found(&into))?;
            let stack = ours.stack.with(layer.id.clone());
            let known = parts.catalog.snapshot(&owner, &ours.id)?;
            let snapshot = SnapshotRecord {
                id: engine.draw_snapshot(),
                parent: known.map(|ours| ours.id),
                operations: Some(1),
                reason: SnapshotReason::Promote,
                created_unix_ms: layer.created_unix_ms,
                method: SnapshotMethod::Copied,
                ..plain_row(&record, stack)
            };
            parts.catalog.insert_snapshots(std::slice::from_ref(&snapshot), Durability::Process)?;
            engine.shared.keep.sync_soon(&owner, &snapshot.id);
            Ok(Joined { merge, snapshot: Some(snapshot) })
        })
        .await
    }

    /// The youngest state that both come from. Blocks.
    fn common_ancestor(
        &self,
        owner: &Owner,
        ours: &State,
        theirs: &State,
    ) -> Result<(SnapshotRecord, Pin), EngineError> {
        let catalog = self.shared.parts.catalog.as_ref();
        let mine = ancestry(catalog, owner, &ours.id)?;
        let base = ancestry(catalog, owner, &theirs.id)?
            .into_iter()
            .find(|snapshot| mine.iter().any(|other| other.id == snapshot.id));
        match base {
            Some(base) => self.usable_snapshot(owner, &base.id),
            None => {
                let message = "the two sandboxes have no snapshot in common, or it was deleted";
                Err(EngineError::invalid(Field::MergeTarget, message))
            }
        }
    }
}

/// A path as the layers know it.
fn check_path(path: &Path) -> Result<(), EngineError> {
    if path.is_absolute() && !path.components().any(|part| part == Component::ParentDir) {
        return Ok(());
    }
    Err(EngineError::invalid(Field::Path, "the path begins with a slash and has no `..`"))
}
