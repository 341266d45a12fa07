//! Which of many snapshots are kept, and which go.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use warren_core::catalog::{SandboxCatalog, SnapshotCatalog};
use warren_core::{Automatic, LayerStore, SQUASH_DEPTH, SandboxId, SnapshotId};
use warren_engine::{Engine, Point, StoppedFiles};

use crate::support::*;
use crate::travel::*;

async fn quiet(kept: usize) -> (World, Engine, SandboxId) {
    let mut world = World::new();
    world.settings.automatic_snapshots = Automatic::Off;
    world.settings.automatic_snapshots_kept = kept;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    (world, engine, id)
}

#[tokio::test]
async fn a_thousand_snapshots_are_thinned_and_their_layers_joined() {
    let (world, engine, id) = quiet(100).await;
    let depth = async || record(&engine, &id).await.history.stack.depth();
    let early = named(&engine, &id, "early").await.unwrap().snapshot.id;
    let mut all = HashMap::new();
    for number in 0..1000 {
        world.clock.advance_ms(1000);
        let taken = write_and_snap(&engine, &id, &number.to_string()).await;
        // A starved machine takes snapshots faster than it joins layers in the background.
        eventually("its layers are joined", async || depth().await <= SQUASH_DEPTH + 1).await;
        all.insert(taken, number);
    }
    // One that stays stands on those between it and the last squash, whatever became of their
    // snapshots.
    eventually("snapshots are thinned and layers collected", async || {
        engine.sweep().await;
        let rows = snapshots_of(&engine, &owner(), &id).await.len();
        (100..=103).contains(&rows) && layers(&world) < 700
    })
    .await;
    let rows = snapshots_of(&engine, &owner(), &id).await;
    assert!(rows.iter().any(|row| row.id == early), "one with a name stays");
    let head = record(&engine, &id).await.history.head.unwrap();
    assert_eq!(all.get(&head), Some(&999));
    for (index, row) in rows.iter().enumerate().filter(|(index, _)| index % 10 == 0) {
        let Some(number) = all.get(&row.id) else { continue };
        back(&engine, &id, &row.id).await;
        assert_eq!(work(&engine, &id).await, number.to_string(), "the one at {index}");
    }
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_was_asked_for_does_not_go_because_of_what_was_not() {
    let mut world = World::new();
    world.settings.automatic_snapshots_kept = 10;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let asked = write_and_snap(&engine, &id, "asked").await;
    for number in 0..60 {
        world.clock.advance_ms(1000);
        output(&engine, &id, &format!("write /root/work {number}")).await;
        engine.of(&owner()).sandbox(&id).history().complete_turn(None, None).await.unwrap();
    }
    engine.sweep().await;
    let rows = snapshots_of(&engine, &owner(), &id).await;
    assert!(rows.len() < 20, "{} are left", rows.len());
    assert!(rows.iter().any(|row| row.id == asked));
}

#[tokio::test]
async fn deep_stacks_of_stopped_sandboxes_and_forks_are_joined_too() {
    let (world, engine, id) = quiet(1000).await;
    let idle = tasks();
    for number in 0..SQUASH_DEPTH {
        write_and_snap(&engine, &id, &number.to_string()).await;
    }
    let fork = engine
        .of(&owner())
        .snapshots()
        .fork(&Point::Sandbox(id.clone()), forks(1))
        .await
        .unwrap()
        .remove(0)
        .sandbox
        .id;
    engine.of(&owner()).sandbox(&fork).stop(StoppedFiles::Keep).await.unwrap();
    write_and_snap(&engine, &id, "last").await;
    eventually("its layers are joined", async || record(&engine, &id).await.history.stack.depth() < 3).await;
    eventually("the background comes to rest", async || tasks() <= idle).await;
    engine.sweep().await;
    assert_eq!(work(&engine, &id).await, "last");
    output(&engine, &id, "write /root/more there").await;
    snap(&engine, &id).await;
    engine.sweep().await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(
        (work(&engine, &id).await.as_str(), output(&engine, &id, "read /root/more").await.as_str()),
        ("last", "there")
    );
    engine.of(&owner()).sandbox(&fork).resume().await.unwrap();
    assert_eq!(work(&engine, &fork).await, (SQUASH_DEPTH - 1).to_string());
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_removed_sandbox_leaves_what_has_a_name_and_what_a_session_ended_with() {
    let (world, engine, _) = quiet(100).await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    write_and_snap(&engine, &id, "one").await;
    output(&engine, &id, "write /root/work two").await;
    let kept = named(&engine, &id, "kept").await.unwrap().snapshot.id;
    output(&engine, &id, "write /root/work three").await;
    let end = engine.of(&owner()).session(&made.session.id).end().await.unwrap().taken.snapshot.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let left: HashSet<SnapshotId> =
        snapshots_of(&engine, &owner(), &id).await.into_iter().map(|row| row.id).collect();
    assert_eq!(left, HashSet::from([kept.clone(), end.clone()]));
    engine.sweep().await;
    for (from, text) in [(kept, "two"), (end, "three")] {
        let fork = engine
            .of(&owner())
            .snapshots()
            .fork(&Point::Snapshot(from.clone()), forks(1))
            .await
            .unwrap()
            .remove(0);
        assert_eq!(work(&engine, &fork.sandbox.id).await, text);
        engine.of(&owner()).sandbox(&fork.sandbox.id).stop(StoppedFiles::Delete).await.unwrap();
        engine.of(&owner()).snapshots().delete(&from).await.unwrap();
    }
    engine.sweep().await;
    assert_eq!(layers(&world), 0);
}

#[tokio::test]
async fn what_nobody_finished_is_collected() {
    let (world, engine, id) = quiet(100).await;
    write_and_snap(&engine, &id, "one").await;
    world.isolation.layers().fail_next("commit", warren_core::LayerErrorKind::Host);
    output(&engine, &id, "write /root/work two").await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    let order = warren_engine::TakeSnapshot::default();
    assert!(engine.of(&owner()).sandbox(&id).history().take(order).await.is_err());
    engine.sweep().await;
    assert_eq!(layers(&world), 1);
    assert_consistent(&world, &engine).await;
}

/// Indices are taken modulo what exists.
#[derive(Debug, Clone, Copy)]
enum Op {
    Write(usize, u8),
    Snap(usize),
    Name(usize, u8),
    Back(usize, usize),
    Undo(usize, u32),
    Redo(usize, u32),
    Fork(usize),
    ForkSnapshot(usize),
    Delete(usize),
    Stop(usize),
    Resume(usize),
    Remove(usize),
    Restart,
    Sweep,
}

fn any_op() -> impl Strategy<Value = Op> {
    let index = 0..8usize;
    let many = 0..64usize;
    prop_oneof![
        4 => (index.clone(), any::<u8>()).prop_map(|(index, text)| Op::Write(index, text)),
        4 => index.clone().prop_map(Op::Snap),
        1 => (index.clone(), any::<u8>()).prop_map(|(index, name)| Op::Name(index, name)),
        3 => (index.clone(), many.clone()).prop_map(|(index, to)| Op::Back(index, to)),
        2 => (index.clone(), 1..4u32).prop_map(|(index, steps)| Op::Undo(index, steps)),
        2 => (index.clone(), 1..4u32).prop_map(|(index, steps)| Op::Redo(index, steps)),
        1 => index.clone().prop_map(Op::Fork),
        1 => many.clone().prop_map(Op::ForkSnapshot),
        2 => many.prop_map(Op::Delete),
        1 => index.clone().prop_map(Op::Stop),
        2 => index.clone().prop_map(Op::Resume),
        1 => index.prop_map(Op::Remove),
        1 => Just(Op::Restart),
        2 => Just(Op::Sweep),
    ]
}

/// The expected files of every snapshot and every sandbox, whatever is collected.
struct Keeper {
    world: World,
    engine: Engine,
    sandboxes: Vec<SandboxId>,
    snapshots: Vec<SnapshotId>,
    contents: HashMap<SnapshotId, Option<Vec<u8>>>,
}

impl Keeper {
    async fn new() -> Self {
        let (world, engine, id) = quiet(6).await;
        Self { world, engine, sandboxes: vec![id], snapshots: Vec::new(), contents: HashMap::new() }
    }

    fn held(&self, id: &SandboxId) -> Option<Vec<u8>> {
        self.world.isolation.file(id, "/root/work")
    }

    async fn learn(&mut self, sandbox: &SandboxId) {
        let now = record(&self.engine, sandbox).await;
        for row in snapshots_of(&self.engine, &owner(), sandbox).await {
            if self.contents.contains_key(&row.id) {
                continue;
            }
            let content = self.read(&row.id).await;
            if now.is_live() && now.history.head.as_ref() == Some(&row.id) {
                assert_eq!(content, self.held(sandbox), "{row:?}");
            }
            self.contents.insert(row.id.clone(), content);
            self.snapshots.push(row.id);
        }
    }

    async fn perform(&mut self, op: Op) {
        let (engine, me) = (self.engine.clone(), owner());
        self.world.clock.advance_ms(10);
        let sandbox = |index: usize| self.sandboxes[index % self.sandboxes.len()].clone();
        let snapshot = |index: usize| self.snapshots.get(index % self.snapshots.len().max(1)).cloned();
        match op {
            Op::Write(index, text) => {
                drop(exec(&engine, &sandbox(index), &format!("write /root/work {text}")).await)
            }
            Op::Snap(index) => {
                let id = sandbox(index);
                drop(
                    engine.of(&me).sandbox(&id).history().take(warren_engine::TakeSnapshot::default()).await,
                );
                self.learn(&id).await;
            }
            Op::Name(index, name) => {
                let id = sandbox(index);
                drop(named(&engine, &id, &name.to_string()).await);
                self.learn(&id).await;
            }
            Op::Back(index, to) => {
                let (id, Some(to)) = (sandbox(index), snapshot(to)) else { return };
                self.travel(&id, engine.of(&me).sandbox(&id).history().rollback(&to, true).await).await;
            }
            Op::Undo(index, steps) => {
                let id = sandbox(index);
                self.travel(&id, engine.of(&me).sandbox(&id).history().undo(steps, true).await).await;
            }
            Op::Redo(index, steps) => {
                let id = sandbox(index);
                self.travel(&id, engine.of(&me).sandbox(&id).history().redo(steps, true).await).await;
            }
            Op::Fork(index) => {
                let id = sandbox(index);
                let forked = engine.of(&me).snapshots().fork(&Point::Sandbox(id.clone()), forks(1)).await;
                self.learn(&id).await;
                self.sandboxes.extend(forked.into_iter().flatten().map(|fork| fork.sandbox.id));
            }
            Op::ForkSnapshot(index) => {
                let Some(from) = snapshot(index) else { return };
                if let Ok(mut forked) =
                    engine.of(&me).snapshots().fork(&Point::Snapshot(from.clone()), forks(1)).await
                {
                    let id = forked.remove(0).sandbox.id;
                    assert_eq!(self.held(&id), self.contents[&from], "a fork of {from}");
                    self.sandboxes.push(id);
                }
            }
            Op::Delete(index) => {
                let Some(id) = snapshot(index) else { return };
                drop(engine.of(&me).snapshots().delete(&id).await);
            }
            Op::Stop(index) => drop(engine.of(&me).sandbox(&sandbox(index)).stop(StoppedFiles::Keep).await),
            Op::Resume(index) => drop(engine.of(&me).sandbox(&sandbox(index)).resume().await),
            Op::Remove(index) => {
                if self.sandboxes.len() > 1 {
                    let id = self.sandboxes.remove(index % self.sandboxes.len());
                    engine.of(&me).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
                }
            }
            Op::Restart => {
                engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
                self.world.isolation.owner_ended();
                self.engine = self.world.open().await;
            }
            Op::Sweep => engine.sweep().await,
        }
    }

    /// Goes back, and checks that the files are as captured and that those it had are captured.
    async fn travel(
        &mut self,
        id: &SandboxId,
        gone: Result<warren_engine::RolledBack, warren_engine::EngineError>,
    ) {
        if let Ok(rolled) = gone {
            // The start of a fork and what a refused journey captured are met here for the first
            // time: what they hold is learnt from their layers.
            self.meet(&rolled.to.id).await;
            self.meet(&rolled.safety.id).await;
            if record(&self.engine, id).await.is_live() {
                assert_eq!(self.held(id), self.contents[&rolled.to.id], "{:?}", rolled.to);
            }
        }
    }

    async fn meet(&mut self, id: &SnapshotId) {
        if !self.contents.contains_key(id) {
            let content = self.read(id).await;
            self.contents.insert(id.clone(), content);
            self.snapshots.push(id.clone());
        }
    }

    async fn read(&self, id: &SnapshotId) -> Option<Vec<u8>> {
        let row = self.engine.of(&owner()).snapshots().get(id).await.ok()?;
        row.stack.0.iter().find_map(|layer| self.world.isolation.layers().file(layer, "/root/work"))
    }

    /// Every layer that a record names exists, and every snapshot holds what it held.
    async fn check(&self) {
        let exist: HashSet<_> =
            self.world.isolation.layers().layers().unwrap().into_iter().map(|layer| layer.id).collect();
        let named = self.world.catalog.layers_of_snapshots(&warren_testkit::sample_node()).unwrap();
        assert!(named.is_subset(&exist), "a snapshot's layer is gone");
        for record in self.world.catalog.unfinished_sandboxes(&warren_testkit::sample_node()).unwrap() {
            assert!(record.history.stack.0.iter().all(|layer| exist.contains(layer)), "{record:?}");
        }
        for id in &self.snapshots {
            if self.engine.of(&owner()).snapshots().get(id).await.is_ok() {
                assert_eq!(self.read(id).await, self.contents[id], "{id}");
            }
        }
        assert_consistent(&self.world, &self.engine).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_named_is_ever_collected(ops in proptest::collection::vec(any_op(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut keeper = Keeper::new().await;
            for op in ops {
                keeper.perform(op).await;
            }
            keeper.engine.sweep().await;
            keeper.check().await;
            for id in keeper.sandboxes.clone() {
                keeper.engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
            }
            for id in keeper.snapshots.clone() {
                drop(keeper.engine.of(&owner()).snapshots().delete(&id).await);
            }
            keeper.engine.sweep().await;
            let left = keeper.world.catalog.layers_of_snapshots(&warren_testkit::sample_node()).unwrap();
            prop_assert_eq!(layers(&keeper.world), left.len(), "layers that nobody names are left");
            Ok(())
        })?;
    }
}
