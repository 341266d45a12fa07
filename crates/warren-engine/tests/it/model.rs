//! Sequences of requests, against a model that says in a page what the engine says in thousands of
//! lines.

mod expected;

use proptest::prelude::*;
use warren_core::{NetworkMode, NetworkPolicy, OnExpiry, SandboxId, SessionId, SessionState, Status};
use warren_engine::{Engine, EngineError, Patch, Release, StoppedFiles};
use warren_testkit::Standing;

use crate::support::*;
use expected::{Answer, Model, Place};

/// Indices are taken modulo what exists.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Acquire,
    Attach(usize),
    Pause(usize),
    Resume(usize),
    Stop(usize, bool),
    /// Its time is over, and this becomes of it.
    Expire(usize, OnExpiry),
    Exec(usize),
    Die(usize),
    Detach(usize),
    Suspend(usize),
    ResumeSession(usize),
    Release(usize, bool),
    Terminate(usize),
    /// Another policy, or none at all.
    SetNetwork(usize, u8),
    /// Something is opened or closed for a while.
    Grant(usize, bool),
    /// Long enough to fall idle, and so much longer.
    Wait(u64),
    Restart,
    Reboot,
}

fn any_op() -> impl Strategy<Value = Op> {
    let index = 0..8usize;
    prop_oneof![
        3 => Just(Op::Acquire),
        2 => index.clone().prop_map(Op::Attach),
        2 => index.clone().prop_map(Op::Pause),
        2 => index.clone().prop_map(Op::Resume),
        2 => (index.clone(), any::<bool>()).prop_map(|(index, keep)| Op::Stop(index, keep)),
        2 => (index.clone(), any_end()).prop_map(|(index, end)| Op::Expire(index, end)),
        3 => index.clone().prop_map(Op::Exec),
        1 => index.clone().prop_map(Op::Die),
        2 => index.clone().prop_map(Op::Detach),
        2 => index.clone().prop_map(Op::Suspend),
        2 => index.clone().prop_map(Op::ResumeSession),
        2 => (index.clone(), any::<bool>()).prop_map(|(index, keep)| Op::Release(index, keep)),
        1 => index.clone().prop_map(Op::Terminate),
        2 => (index.clone(), 0..4u8).prop_map(|(index, which)| Op::SetNetwork(index, which)),
        2 => (index, any::<bool>()).prop_map(|(index, allow)| Op::Grant(index, allow)),
        1 => prop_oneof![Just(0), Just(DETACHED_S), Just(SUSPENDED_S)].prop_map(Op::Wait),
        1 => Just(Op::Restart),
        1 => Just(Op::Reboot),
    ]
}

fn any_end() -> impl Strategy<Value = OnExpiry> {
    prop_oneof![Just(OnExpiry::Keep), Just(OnExpiry::Delete), Just(OnExpiry::Pause)]
}

/// The engine under test, and what the model knows by number.
struct Real {
    world: World,
    engine: Engine,
    sandboxes: Vec<SandboxId>,
    sessions: Vec<SessionId>,
    boots: usize,
}

fn policy(which: u8) -> NetworkPolicy {
    let modes = [NetworkMode::Public, NetworkMode::Allow, NetworkMode::Ask, NetworkMode::None];
    let mut policy = NetworkPolicy::of(modes[usize::from(which)]);
    if matches!(policy.mode, NetworkMode::Allow | NetworkMode::Ask) {
        policy.allow = vec!["listed.example".parse().unwrap()];
    }
    policy
}

fn answer<T>(result: &Result<T, EngineError>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(EngineError::Denied { .. }) => Answer::Denied,
        Err(EngineError::SessionState { .. }) => Answer::SessionDenied,
        Err(EngineError::SandboxEnded { .. }) => Answer::Ended,
        Err(EngineError::MaxSandboxes { .. }) => Answer::TooMany,
        Err(error) => panic!("an answer the model does not know: {error:?}"),
    }
}

impl Real {
    async fn new() -> Self {
        let mut world = World::new();
        world.settings.max_sandboxes = expected::MOST;
        let engine = world.open().await;
        Self { world, engine, sandboxes: Vec::new(), sessions: Vec::new(), boots: 0 }
    }

    /// Does it; `None` when there is nothing to do it to.
    async fn perform(&mut self, op: Op) -> Option<Answer> {
        let (engine, me) = (self.engine.clone(), owner());
        // What is newer than something else is so by the clock.
        self.world.clock.advance_ms(1);
        let sandbox = |index: usize| self.sandboxes.get(index % self.sandboxes.len().max(1)).cloned();
        let session = |index: usize| self.sessions.get(index % self.sessions.len().max(1)).cloned();
        let files = |keep| if keep { StoppedFiles::Keep } else { StoppedFiles::Delete };
        Some(match op {
            Op::Acquire => return Some(self.acquire().await),
            Op::Attach(index) => {
                let result = engine.of(&me).sessions().attach(attach(&sandbox(index)?)).await;
                let answer = answer(&result);
                self.sessions.extend(result.map(|joined| joined.session.id));
                answer
            }
            Op::Pause(index) => answer(&engine.of(&me).sandbox(&sandbox(index)?).pause().await),
            Op::Resume(index) => answer(&engine.of(&me).sandbox(&sandbox(index)?).resume().await),
            Op::Stop(index, keep) => {
                answer(&engine.of(&me).sandbox(&sandbox(index)?).stop(files(keep)).await)
            }
            Op::Expire(index, end) => {
                let (id, patch) = (sandbox(index)?, Patch { on_expiry: Some(end), ..Patch::default() });
                match answer(&engine.of(&me).sandbox(&id).update(patch).await) {
                    Answer::Done => answer(&engine.of(&me).sandbox(&id).end_time().await),
                    other => other,
                }
            }
            Op::Exec(index) => answer(&exec(&engine, &sandbox(index)?, "write /root/work precious").await),
            Op::Die(index) => {
                let id = sandbox(index)?;
                self.world.isolation.die(&id, false);
                eventually("its end is noticed", async || !record(&engine, &id).await.is_live()).await;
                Answer::Done
            }
            Op::Detach(index) => answer(&engine.of(&me).session(&session(index)?).detach().await),
            Op::Suspend(index) => answer(&engine.of(&me).session(&session(index)?).suspend().await),
            Op::ResumeSession(index) => answer(&engine.of(&me).session(&session(index)?).resume().await),
            Op::Release(index, keep) => {
                let release = if keep { Release::KeepAlive } else { Release::Destroy };
                answer(&engine.of(&me).session(&session(index)?).release(release).await)
            }
            Op::Terminate(index) => answer(&engine.of(&me).session(&session(index)?).terminate().await),
            Op::SetNetwork(index, which) => {
                let id = sandbox(index)?;
                // One that runs without a network gets none, which is another test.
                if record(&engine, &id).await.spec.network.is_none() {
                    return None;
                }
                answer(&engine.of(&me).sandbox(&id).network().set(policy(which)).await)
            }
            Op::Grant(index, allow) => {
                let id = sandbox(index)?;
                if record(&engine, &id).await.spec.network.is_none() {
                    return None;
                }
                let rules = vec!["granted.example:443".parse().unwrap()];
                let for_ms = Some(ACTIVE_S * 1000);
                answer(&match allow {
                    true => engine.of(&me).sandbox(&id).network().allow(rules, for_ms).await,
                    false => engine.of(&me).sandbox(&id).network().deny(rules, for_ms).await,
                })
            }
            Op::Wait(longer) => {
                self.world.pass(&engine, 1).await;
                self.world.pass(&engine, ACTIVE_S + 1 + longer).await;
                Answer::Done
            }
            Op::Restart => return self.restart(false).await,
            Op::Reboot => return self.restart(true).await,
        })
    }

    async fn acquire(&mut self) -> Answer {
        let result = self.engine.of(&owner()).sessions().acquire(acquire()).await;
        let answer = answer(&result);
        if let Ok(made) = result {
            self.sandboxes.push(made.sandbox.id);
            self.sessions.push(made.session.id);
        }
        answer
    }

    async fn restart(&mut self, reboot: bool) -> Option<Answer> {
        if reboot && self.boots == 7 {
            return None;
        }
        self.engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
        self.world.isolation.owner_ended();
        if reboot {
            self.boots += 1;
            self.world.isolation.reboot();
            self.world.networks.reboot();
            self.world.clock.reboot(1);
        }
        self.engine = self.world.open().await;
        Some(Answer::Done)
    }

    async fn compare(&self, model: &Model) {
        for (number, (id, expected)) in self.sandboxes.iter().zip(&model.sandboxes).enumerate() {
            eventually(&format!("sandbox {number} is {:?}", expected.place), async || {
                place(&self.world, &self.engine, id).await == Some(expected.place)
            })
            .await;
            let content = self.world.isolation.file(id, "/root/work");
            assert_eq!(content.is_some(), expected.written, "what sandbox {number} holds");
        }
        for (number, (id, expected)) in self.sessions.iter().zip(&model.sessions).enumerate() {
            let expected: SessionState = expected.state;
            eventually(&format!("session {number} is {expected:?}"), async || {
                state(&self.engine, id).await == expected
            })
            .await;
        }
        assert_consistent(&self.world, &self.engine).await;
    }
}

/// Where a sandbox stands, if record and backend agree.
async fn place(world: &World, engine: &Engine, id: &SandboxId) -> Option<Place> {
    let record = record(engine, id).await;
    let by = record.paused.as_ref().map(|paused| paused.by);
    match (record.status, world.isolation.standing(id)) {
        (Status::Ready, Some(Standing::Running)) => Some(Place::Ready),
        (Status::Paused, Some(Standing::Frozen)) => by.map(Place::Paused),
        (Status::Stopped, Some(Standing::Halted)) if record.files_kept() => Some(Place::Stopped),
        (Status::Stopped, None) if !record.files_kept() => Some(Place::Gone),
        _ => None,
    }
}

async fn follow(ops: &[Op]) {
    let (mut real, mut model) = (Real::new().await, Model::default());
    for op in ops {
        let Some(answer) = real.perform(*op).await else { continue };
        assert_eq!(answer, model.perform(*op), "{op:?}");
        real.compare(&model).await;
    }
    for id in &real.sandboxes {
        real.engine.of(&owner()).sandbox(id).stop(StoppedFiles::Delete).await.unwrap();
    }
    real.world.isolation.assert_only(&[]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_model_says(ops in proptest::collection::vec(any_op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(follow(&ops));
    }
}
