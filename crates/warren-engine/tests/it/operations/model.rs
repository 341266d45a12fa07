//! Random sequences of what people do, against a model of two piles: what can be undone, and what
//! can be redone. Every way back that an answer tells is followed, and must lead where it said.

use proptest::prelude::*;
use warren_core::{Conflicts, LeaveOut, SandboxId, SnapshotId};
use warren_engine::{
    Engine, EngineError, Point, PromoteOrder, RolledBack, ShutdownPolicy, StoppedFiles, WayBack,
};

use crate::support::*;
use crate::travel::*;

#[derive(Debug, Clone, Copy)]
enum Op {
    /// A command that changes the file.
    Write,
    /// One that does not.
    Look,
    /// A program that stays.
    Background,
    Undo(u32),
    Redo(u32),
    /// To one of the states that there have been.
    Rollback(usize),
    /// A fork changes the file, and its change is merged.
    Promote,
    Snapshot,
    PauseAndResume,
    StopAndResume,
    Restart,
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Write),
        3 => Just(Op::Look),
        3 => Just(Op::Background),
        5 => (1..4u32).prop_map(Op::Undo),
        4 => (1..4u32).prop_map(Op::Redo),
        3 => (0..20usize).prop_map(Op::Rollback),
        1 => Just(Op::Promote),
        1 => Just(Op::Snapshot),
        1 => Just(Op::PauseAndResume),
        1 => Just(Op::StopAndResume),
        1 => Just(Op::Restart),
    ]
}

/// The expected state: the file's content, and the piles with the nearest last.
#[derive(Debug, Default)]
struct Model {
    now: String,
    undo: Vec<String>,
    redo: Vec<String>,
    written: u32,
}

impl Model {
    fn change(&mut self, to: String) {
        self.redo.clear();
        self.undo.push(std::mem::replace(&mut self.now, to));
    }

    fn next_text(&mut self) -> String {
        self.written += 1;
        format!("text-{}", self.written)
    }

    /// Moves along; says whether there was anywhere to go.
    fn undo(&mut self, steps: u32) -> bool {
        Self::travel(&mut self.now, &mut self.undo, &mut self.redo, steps)
    }

    fn redo(&mut self, steps: u32) -> bool {
        Self::travel(&mut self.now, &mut self.redo, &mut self.undo, steps)
    }

    fn travel(now: &mut String, from: &mut Vec<String>, to: &mut Vec<String>, steps: u32) -> bool {
        let any = !from.is_empty();
        for _ in 0..steps {
            let Some(next) = from.pop() else { break };
            to.push(std::mem::replace(now, next));
        }
        any
    }
}

struct Real {
    world: World,
    engine: Engine,
    id: SandboxId,
    /// States that were captured, with the file's content in them.
    states: Vec<(SnapshotId, String)>,
}

impl Real {
    async fn new() -> Self {
        let world = World::new();
        let engine = world.open().await;
        let id = make(&engine).await.sandbox.id;
        let mut real = Self { world, engine, id, states: Vec::new() };
        // What it began with is a state like others.
        real.write("text-0").await;
        real
    }

    async fn content(&self) -> String {
        work(&self.engine, &self.id).await
    }

    async fn write(&mut self, text: &str) {
        output(&self.engine, &self.id, &format!("write /root/work {text}")).await;
    }

    /// Remembers the present state.
    async fn remember(&mut self, text: &str) {
        self.engine
            .of(&owner())
            .sandbox(&self.id)
            .history()
            .blame(std::path::Path::new("/root/work"))
            .await
            .unwrap();
        if let Some(head) = record(&self.engine, &self.id).await.history.head {
            self.states.push((head, text.to_owned()));
        }
    }

    /// Does what an answer says leads back, and comes again.
    async fn follow_the_hint(&self, model: &mut Model, rolled: &RolledBack, was: &str) {
        let (now, me, id) = (model.now.clone(), owner(), &self.id);
        match rolled.back {
            Some(WayBack::Undo(steps)) => {
                self.engine.of(&me).sandbox(id).history().undo(steps, false).await.unwrap();
                assert_eq!(self.content().await, was, "an undo of {steps} was said to lead back");
                self.engine.of(&me).sandbox(id).history().redo(steps, false).await.unwrap();
            }
            Some(WayBack::Redo(steps)) => {
                self.engine.of(&me).sandbox(id).history().redo(steps, false).await.unwrap();
                assert_eq!(self.content().await, was, "a redo of {steps} was said to lead back");
                self.engine.of(&me).sandbox(id).history().undo(steps, false).await.unwrap();
            }
            None => assert_eq!(now, was, "there is always a way back to another state"),
        }
        assert_eq!(self.content().await, now);
    }

    async fn perform(&mut self, op: Op, model: &mut Model) {
        let (engine, id, me, was) = (self.engine.clone(), self.id.clone(), owner(), model.now.clone());
        self.world.clock.advance_ms(1);
        match op {
            Op::Write => {
                let text = model.next_text();
                self.write(&text).await;
                model.change(text.clone());
                self.remember(&text).await;
            }
            Op::Look => drop(output(&engine, &id, "read /root/work").await),
            Op::Background => drop(engine.of(&me).sandbox(&id).spawn(program("sleep 100000")).await.unwrap()),
            Op::Undo(steps) => {
                let there = model.undo(steps);
                self.judge(
                    engine.of(&me).sandbox(&id).history().undo(steps, false).await,
                    there,
                    model,
                    &was,
                )
                .await;
            }
            Op::Redo(steps) => {
                let there = model.redo(steps);
                self.judge(
                    engine.of(&me).sandbox(&id).history().redo(steps, false).await,
                    there,
                    model,
                    &was,
                )
                .await;
            }
            Op::Rollback(which) => {
                let Some((to, text)) = self.states.get(which % self.states.len().max(1)).cloned() else {
                    return;
                };
                let rolled = engine.of(&me).sandbox(&id).history().rollback(&to, false).await.unwrap();
                if text != was {
                    model.change(text);
                }
                self.follow_the_hint(model, &rolled, &was).await;
            }
            Op::Promote => {
                let fork = engine
                    .of(&me)
                    .snapshots()
                    .fork(&Point::Sandbox(id.clone()), forks(1))
                    .await
                    .unwrap()
                    .remove(0);
                let text = model.next_text();
                output(&engine, &fork.sandbox.id, &format!("write /root/work {text}")).await;
                let (conflicts, leave_out) = (Conflicts::Refuse, LeaveOut::default());
                let below = "/".into();
                let order =
                    PromoteOrder { into: None, apply: true, conflicts, below, force: false, leave_out };
                let done = engine.of(&me).sandbox(&fork.sandbox.id).history().promote(order).await.unwrap();
                model.change(text);
                self.follow_the_hint(model, &done.applied.unwrap(), &was).await;
                engine.of(&me).sandbox(&fork.sandbox.id).stop(StoppedFiles::Delete).await.unwrap();
            }
            Op::Snapshot => drop(snap(&engine, &id).await),
            Op::PauseAndResume => {
                engine.of(&me).sandbox(&id).pause().await.unwrap();
                engine.of(&me).sandbox(&id).resume().await.unwrap();
            }
            Op::StopAndResume => {
                engine.of(&me).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
                engine.of(&me).sandbox(&id).resume().await.unwrap();
            }
            Op::Restart => {
                self.engine.shutdown(ShutdownPolicy::Leave).await;
                self.world.inherit();
                self.engine = self.world.open().await;
                self.engine.reconciled().await;
            }
        }
    }

    async fn judge(&self, done: Result<RolledBack, EngineError>, there: bool, model: &mut Model, was: &str) {
        match done {
            Ok(rolled) => {
                assert!(there, "there was nowhere to go");
                assert_eq!(self.content().await, model.now);
                self.follow_the_hint(model, &rolled, was).await;
            }
            Err(EngineError::NothingToUndo { .. }) => assert!(!there, "there was a state to go to"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_undo_inverts_the_last_operation_and_every_hint_is_true(ops in prop::collection::vec(any_op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut real = Real::new().await;
            // Before the first file was written there was none.
            let mut model = Model { now: "text-0".to_owned(), ..Model::default() };
            real.engine.of(&owner()).sandbox(&real.id).history().take(Default::default()).await.unwrap();
            for op in ops {
                let depth = model.undo.len();
                if let Op::Undo(steps) = op
                    && steps as usize > depth
                {
                    // It would take back the file itself.
                    continue;
                }
                real.perform(op, &mut model).await;
                let content = real.content().await;
                assert_eq!(content, model.now, "after {op:?}");
            }
            assert_consistent(&real.world, &real.engine).await;
        });
    }
}

fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
