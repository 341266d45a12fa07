//! What the many do who use one sandbox at the same time.

use warren_core::{SandboxId, SessionId};
use warren_engine::{Engine, EngineError, Patch, Release, StoppedFiles};
use warren_testkit::FakeRandom;

use crate::support::*;

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
    Look,
    FallIdle,
    Die,
}

const ACTIONS: [Action; 16] = [
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
    Action::Look,
    Action::FallIdle,
    Action::Die,
];

impl Action {
    pub(crate) fn any(random: &FakeRandom) -> Self {
        ACTIONS[usize::try_from(random.below(ACTIONS.len() as u64)).unwrap()]
    }

    /// Whether it is somebody who is inside the sandbox meanwhile.
    pub(crate) fn works(self) -> bool {
        matches!(self, Self::Exec | Self::ExecAndLeave)
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
            Action::Look => engine.usage(&me, id).await.map(drop),
            Action::FallIdle => {
                self.world.fall_idle(engine).await;
                Ok(())
            }
            Action::Die => {
                self.world.isolation.die(id, false);
                Ok(())
            }
        }
    }
}
