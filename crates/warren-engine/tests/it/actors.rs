//! What the many do who use one sandbox at the same time.

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

    /// Whether it is somebody who is inside the sandbox meanwhile.
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
            Action::ExecAndLeave => engine.start(&me, id, program("sleep 1000")).await.map(drop),
            Action::Attach => engine.attach(&me, attach(id)).await.map(drop),
            Action::Pause => engine.pause(&me, id).await.map(drop),
            Action::Resume => engine.resume(&me, id).await.map(drop),
            Action::StopKeeping => engine.stop(&me, id, StoppedFiles::Keep, "keeper").await.map(drop),
            Action::StopDeleting => engine.stop(&me, id, StoppedFiles::Delete, "deleter").await.map(drop),
            Action::Detach => engine.detach(&me, session).await.map(drop),
            Action::Suspend => engine.suspend(&me, session).await.map(drop),
            Action::ResumeSession => engine.resume_session(&me, session).await.map(drop),
            Action::Release => engine.release(&me, session, Release::KeepAlive).await.map(drop),
            Action::Terminate => engine.terminate(&me, session, "terminator").await.map(drop),
            Action::Patch => engine.update_sandbox(&me, id, Patch::default()).await.map(drop),
            Action::SetNetwork => {
                let list = NetworkPolicy::of(NetworkMode::Allow);
                unless_closed(engine.set_network(&me, id, list).await.map(drop))
            }
            Action::CutOff => engine.set_network(&me, id, NetworkPolicy::none()).await.map(drop),
            Action::Grant => {
                let rules = vec!["a.example".parse().unwrap()];
                unless_closed(engine.allow(&me, id, rules, Some(1000)).await.map(drop))
            }
            Action::Look => engine.usage(&me, id).await.map(drop),
            Action::FallIdle => {
                self.world.fall_idle(engine).await;
                Ok(())
            }
            Action::Die => {
                self.world.isolation.die(id, false);
                Ok(())
            }
            Action::Write => exec(engine, id, "write /root/work x").await.map(drop),
            Action::Snapshot => engine.take_snapshot(&me, id, TakeSnapshot::default()).await.map(drop),
            Action::SnapshotNamed => named(engine, id, "one").await.map(drop),
            Action::Turn => engine.complete_turn(&me, id, Some(session.clone()), None).await.map(drop),
            Action::RollBack | Action::ForceBack => match self.some_snapshot().await? {
                Some(to) => engine.rollback(&me, id, &to, action == Action::ForceBack).await.map(drop),
                None => Ok(()),
            },
            Action::Undo => engine.undo(&me, id, 1, false).await.map(drop),
            Action::Redo => engine.redo(&me, id, 1, false).await.map(drop),
            Action::Fork => {
                let made = engine.fork(&me, &Point::Sandbox(id.clone()), forks(2)).await?;
                for fork in made {
                    engine.stop(&me, &fork.sandbox.id, StoppedFiles::Delete, "forker").await?;
                }
                Ok(())
            }
            Action::Diff => {
                let point = Point::Sandbox(id.clone());
                engine.diff(&me, &point, &point, DiffOptions::default()).await.map(drop)
            }
            Action::DeleteSnapshot => match self.some_snapshot().await? {
                Some(which) => engine.delete_snapshot(&me, &which).await,
                None => Ok(()),
            },
            Action::EndSession => engine.end_session(&me, session).await.map(drop),
            Action::Sweep => {
                engine.sweep().await;
                Ok(())
            }
        }
    }

    async fn some_snapshot(&self) -> Result<Option<SnapshotId>, EngineError> {
        let filter = SnapshotFilter { sandbox: Some(self.id.clone()), ..SnapshotFilter::default() };
        let rows = self.engine.snapshots(&owner(), &filter, &PageRequest::default()).await?.items;
        Ok(rows.get(rows.len() / 2).map(|row| row.id.clone()))
    }
}
