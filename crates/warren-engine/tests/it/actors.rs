//! Many callers that use one sandbox at the same time.

use warren_core::catalog::SnapshotFilter;
use warren_core::{
    DiffOptions, Field, NetworkMode, NetworkPolicy, PageRequest, PolicyField, SandboxId, SessionId,
    SnapshotId,
};
use warren_engine::{Engine, EngineError, Patch, Point, Release, StoppedFiles, TakeSnapshot};
use warren_testkit::FakeRandom;

use crate::support::*;
use crate::travel::{forks, named};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Exec,
    ExecAndLeave,
    Attach,
    Pause,
    Resume,
    StopKeeping,
    StopDeleting,
    Detach,
    Suspend,
    ResumeSession,
    Release,
    Terminate,
    Patch,
    SetNetwork,
    CutOff,
    Grant,
    Look,
    FallIdle,
    Die,
    Write,
    Snapshot,
    SnapshotNamed,
    Turn,
    RollBack,
    ForceBack,
    Undo,
    Redo,
    Fork,
    Diff,
    DeleteSnapshot,
    EndSession,
    Sweep,
}

const ACTIONS: [Action; 32] = [
    Action::Exec,
    Action::ExecAndLeave,
    Action::Attach,
    Action::Pause,
    Action::Resume,
    Action::StopKeeping,
    Action::StopDeleting,
    Action::Detach,
    Action::Suspend,
    Action::ResumeSession,
    Action::Release,
    Action::Terminate,
    Action::Patch,
    Action::SetNetwork,
    Action::CutOff,
    Action::Grant,
    Action::Look,
    Action::FallIdle,
    Action::Die,
    Action::Write,
    Action::Snapshot,
    Action::SnapshotNamed,
    Action::Turn,
    Action::RollBack,
    Action::ForceBack,
    Action::Undo,
    Action::Redo,
    Action::Fork,
    Action::Diff,
    Action::DeleteSnapshot,
    Action::EndSession,
    Action::Sweep,
];

impl Action {
    pub(crate) fn any(random: &FakeRandom) -> Self {
        ACTIONS[usize::try_from(random.below(ACTIONS.len() as u64)).unwrap()]
    }

    /// True if it is inside the sandbox meanwhile.
    pub(crate) fn works(self) -> bool {
        matches!(self, Self::Exec | Self::ExecAndLeave | Self::Write)
    }
}

/// One that somebody else has cut off is told so.
fn unless_closed(result: Result<(), EngineError>) -> Result<(), EngineError> {
    match result {
        Err(EngineError::Invalid {
            field: Field::Network(PolicyField::Mode) | Field::NetworkRules, ..
        }) => Ok(()),
        other => other,
    }
}

/// One of many who use the same sandbox.
pub(crate) struct Actor {
    pub(crate) world: World,
    pub(crate) engine: Engine,
    pub(crate) id: SandboxId,
    pub(crate) session: SessionId,
}

impl Actor {
    pub(crate) async fn act(&self, action: Action) -> Result<(), EngineError> {
        let (engine, id, session, me) = (&self.engine, &self.id, &self.session, owner());
        match action {
            Action::Exec => exec(engine, id, "echo x").await.map(drop),
            Action::ExecAndLeave => engine.of(&me).sandbox(id).start(program("sleep 1000")).await.map(drop),
            Action::Attach => engine.of(&me).sessions().attach(attach(id)).await.map(drop),
            Action::Pause => engine.of(&me).sandbox(id).pause().await.map(drop),
            Action::Resume => engine.of(&me).sandbox(id).resume().await.map(drop),
            Action::StopKeeping => engine.of(&me).sandbox(id).stop(StoppedFiles::Keep).await.map(drop),
            Action::StopDeleting => engine.of(&me).sandbox(id).stop(StoppedFiles::Delete).await.map(drop),
            Action::Detach => engine.of(&me).session(session).detach().await.map(drop),
            Action::Suspend => engine.of(&me).session(session).suspend().await.map(drop),
            Action::ResumeSession => engine.of(&me).session(session).resume().await.map(drop),
            Action::Release => engine.of(&me).session(session).release(Release::KeepAlive).await.map(drop),
            Action::Terminate => engine.of(&me).session(session).terminate().await.map(drop),
            Action::Patch => engine.of(&me).sandbox(id).update(Patch::default()).await.map(drop),
            Action::SetNetwork => {
                let list = NetworkPolicy::of(NetworkMode::Allow);
                unless_closed(engine.of(&me).sandbox(id).network().set(list).await.map(drop))
            }
            Action::CutOff => engine.of(&me).sandbox(id).network().set(NetworkPolicy::none()).await.map(drop),
            Action::Grant => {
                let rules = vec!["a.example".parse().unwrap()];
                unless_closed(engine.of(&me).sandbox(id).network().allow(rules, Some(1000)).await.map(drop))
            }
            Action::Look => engine.of(&me).sandbox(id).usage().await.map(drop),
            Action::FallIdle => {
                self.world.fall_idle(engine).await;
                Ok(())
            }
            Action::Die => {
                self.world.isolation.die(id, false);
                Ok(())
            }
            Action::Write => exec(engine, id, "write /root/work x").await.map(drop),
            Action::Snapshot => {
                engine.of(&me).sandbox(id).history().take(TakeSnapshot::default()).await.map(drop)
            }
            Action::SnapshotNamed => named(engine, id, "one").await.map(drop),
            Action::Turn => engine
                .of(&me)
                .sandbox(id)
                .history()
                .complete_turn(Some(session.clone()), None)
                .await
                .map(drop),
            Action::RollBack | Action::ForceBack => match self.some_snapshot().await? {
                Some(to) => engine
                    .of(&me)
                    .sandbox(id)
                    .history()
                    .rollback(&to, action == Action::ForceBack)
                    .await
                    .map(drop),
                None => Ok(()),
            },
            Action::Undo => engine.of(&me).sandbox(id).history().undo(1, false).await.map(drop),
            Action::Redo => engine.of(&me).sandbox(id).history().redo(1, false).await.map(drop),
            Action::Fork => {
                let made = engine.of(&me).snapshots().fork(&Point::Sandbox(id.clone()), forks(2)).await?;
                for fork in made {
                    engine.of(&me).sandbox(&fork.sandbox.id).stop(StoppedFiles::Delete).await?;
                }
                Ok(())
            }
            Action::Diff => {
                let point = Point::Sandbox(id.clone());
                engine.of(&me).snapshots().diff(&point, &point, DiffOptions::default()).await.map(drop)
            }
            Action::DeleteSnapshot => match self.some_snapshot().await? {
                Some(which) => engine.of(&me).snapshots().delete(&which).await,
                None => Ok(()),
            },
            Action::EndSession => engine.of(&me).session(session).end().await.map(drop),
            Action::Sweep => {
                engine.sweep().await;
                Ok(())
            }
        }
    }

    async fn some_snapshot(&self) -> Result<Option<SnapshotId>, EngineError> {
        let filter = SnapshotFilter { sandbox: Some(self.id.clone()), ..SnapshotFilter::default() };
        let rows = self.engine.of(&owner()).snapshots().list(&filter, &PageRequest::default()).await?.items;
        Ok(rows.get(rows.len() / 2).map(|row| row.id.clone()))
    }
}
