//! Moving sandboxes behind other walls, for callers.

use std::sync::Arc;

use warren_core::{
    Busy, Caller, IsolationKind, Need, NetworkPolicy, RootKind, SandboxId, SandboxRecord, SandboxSpec,
    WallChoice,
};

use crate::cell::{Exclusive, Mail, MoveOrder, Moved, Task};
use crate::error::Field;
use crate::ports::{Backend, finished};
use crate::{Engine, EngineError, Sandbox};

/// The wall that a sandbox is to get.
enum Aim<'a> {
    /// A caller asked for it.
    Asked(WallChoice),
    /// A rule asks for no weaker one, for a sandbox that is to have this network.
    Raised { least: IsolationKind, network: &'a NetworkPolicy },
}

impl Aim<'_> {
    /// The choice of a caller; a free one from a rule.
    fn choice(&self) -> WallChoice {
        match self {
            Self::Asked(wall) => wall.clone(),
            Self::Raised { .. } => WallChoice::default(),
        }
    }
}

impl Sandbox {
    /// Gives a sandbox another wall: its processes end, and it is started with the same files, id,
    /// history and network policy by another backend. One that is stopped stays so. `force`: also
    /// if a caller waits for a command in it.
    pub async fn move_to(&self, wall: WallChoice, force: bool) -> Result<Moved, EngineError> {
        let Self { engine, caller, id } = self.clone();
        if wall.is_free() {
            let message = "name the backend or the tier to move to";
            return Err(EngineError::reason(Field::Backend, message));
        }
        finished(async move { engine.move_by(&caller, &id, Aim::Asked(wall), force).await }).await
    }
}

impl Engine {
    async fn move_by(
        &self,
        caller: &Caller,
        id: &SandboxId,
        aim: Aim<'_>,
        force: bool,
    ) -> Result<Moved, EngineError> {
        self.may_change()?;
        loop {
            let record = self.record_of(&caller.owner, id).await?;
            let to = self.target_of(&record, &aim)?;
            let exclusive = self.occupy_to_move(caller, id, force).await?;
            let cell = Arc::clone(&exclusive.cell);
            let (wall, by) = (aim.choice(), caller.name.clone());
            let order = Box::new(MoveOrder { to, wall, by, force, exclusive });
            if let Some(answer) = cell.send(|reply| Mail::Move(order, reply)).await {
                let moved = *answer?;
                if moved.from != moved.to {
                    self.note_move(caller, &moved).await;
                }
                return Ok(moved);
            }
            self.await_successor().await?;
        }
    }

    /// Moves a sandbox behind the wall that the rules ask for, once it has this policy. A sandbox
    /// that cannot be moved does not get the policy.
    pub(crate) async fn raise_wall(
        &self,
        caller: &Caller,
        id: &SandboxId,
        network: &NetworkPolicy,
    ) -> Result<(), EngineError> {
        let Some(tier) = self.shared.settings.walls.raised(network, false) else { return Ok(()) };
        let record = self.record_of(&caller.owner, id).await?;
        let present = self.backend_of(&record)?;
        if present.port.capabilities().isolation >= tier {
            return Ok(());
        }
        tracing::info!(sandbox.id = %id, %tier, "a rule moves a sandbox behind a stronger wall");
        let mover = Caller::new(caller.owner.clone(), "the setting tiers.raise_when");
        self.move_by(&mover, id, Aim::Raised { least: tier, network }, false).await.map(drop)
    }

    /// The backend that a sandbox is to go to: the one it has, if that will do.
    fn target_of(&self, record: &SandboxRecord, aim: &Aim<'_>) -> Result<Arc<Backend>, EngineError> {
        let (wall, present) = (aim.choice(), self.backend_of(record)?);
        let (least, network) = match aim {
            Aim::Asked(_) => (None, &record.spec.network),
            Aim::Raised { least, network } => (Some(Need::AtLeast(*least)), *network),
        };
        let walls = [self.wall_needs(Some(&record.owner), &wall), Vec::from_iter(least)].concat();
        let named = wall.backend.as_deref().is_none_or(|name| name == present.name());
        if named && present.port.capabilities().refuse(&walls).is_none() {
            return Ok(present);
        }
        if let Some(image) = &record.spec.image {
            let why = format!(
                "it stands on the image `{image}` of the backend `{}`, which no other has (capability `roots`)",
                present.name()
            );
            let to = wall.backend.clone().unwrap_or_else(|| "any other".to_owned());
            return Err(EngineError::NothingFits { asked: wall.field(), reasons: vec![(to, why)] });
        }
        let spec = SandboxSpec { network: network.clone(), ..record.spec.clone() };
        let mut needs = Need::of(&spec, RootKind::Layers, record.disk_limit_required);
        needs.push(Need::Snapshots);
        needs.extend(least);
        self.choose(Some(&record.owner), &needs, &wall, network, wall.field())
    }

    async fn occupy_to_move(
        &self,
        caller: &Caller,
        id: &SandboxId,
        force: bool,
    ) -> Result<Exclusive, EngineError> {
        let cell = self.wake(&caller.owner, id).await?;
        if cell.rests() {
            self.ask(&caller.owner, id, Task::Thaw).await?;
        }
        let occupied = cell.occupy_for(Busy::Move, force);
        occupied.map_err(|(status, reason)| EngineError::Denied { id: id.clone(), status, reason })
    }
}
