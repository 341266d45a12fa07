//! Taking snapshots, naming and deleting them.

use warren_core::catalog::CatalogErrorKind;
use warren_core::{
    Automatic, DenyReason, Event, IsolationErrorKind, LayerDriver, LayerErrorKind, SnapshotId,
    SnapshotMethod, SnapshotReason, Status,
};
use warren_engine::{EngineError, StoppedFiles, TakeSnapshot};
use warren_testkit::Call;

use crate::support::*;
use crate::travel::*;

/// A world in which nothing is captured unless somebody asks.
async fn quiet() -> (World, warren_engine::Engine, warren_core::SandboxId) {
    let mut world = World::new();
    world.settings.automatic_snapshots = Automatic::Off;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    (world, engine, id)
}

#[tokio::test]
async fn what_an_idle_sandbox_wrote_is_sealed_and_it_goes_on() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    let taken = snap(&engine, &id).await;
    assert_eq!(taken.snapshot.method, SnapshotMethod::Sealed);
    assert_eq!((taken.snapshot.stack.depth(), taken.snapshot.reason), (1, SnapshotReason::Request));
    let history = record(&engine, &id).await.history;
    assert_eq!((history.head.as_ref(), &history.stack), (Some(&taken.snapshot.id), &taken.snapshot.stack));
    assert_eq!(work(&engine, &id).await, "one");
    let all = snapshots_of(&engine, &owner(), &id).await;
    let start = all.iter().find(|row| row.reason == SnapshotReason::Start).expect("the beginning");
    assert_eq!((all.len(), start.stack.depth(), &start.parent), (2, 0, &None));
    assert_eq!(taken.snapshot.parent.as_ref(), Some(&start.id));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_snapshot_of_what_has_not_changed_needs_no_layer() {
    let (world, engine, id) = quiet().await;
    let first = snap(&engine, &id).await.snapshot;
    assert_eq!((first.method, first.stack.depth()), (SnapshotMethod::Unchanged, 0));
    output(&engine, &id, "write /root/work one").await;
    let second = snap(&engine, &id).await.snapshot;
    let third = snap(&engine, &id).await.snapshot;
    assert_eq!((third.method, &third.stack), (SnapshotMethod::Unchanged, &second.stack));
    assert_eq!(third.parent, Some(second.id));
    assert_eq!(layers(&world), 1);
}

#[tokio::test]
async fn a_busy_sandbox_is_copied_while_it_stands_still_and_keeps_its_own_layers() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    let taken = snap(&engine, &id).await;
    assert_eq!(taken.snapshot.method, SnapshotMethod::Copied);
    assert_eq!((taken.snapshot.stack.depth(), record(&engine, &id).await.history.stack.depth()), (1, 0));
    assert_eq!(world.isolation.running(&id), 1, "it runs on");
    assert_eq!((world.isolation.calls(Call::Freeze), world.isolation.calls(Call::Thaw)), (1, 1));
    output(&engine, &id, "write /root/work two").await;
    let forked = engine
        .of(&owner())
        .snapshots()
        .fork(&warren_engine::Point::Snapshot(taken.snapshot.id), forks(1))
        .await
        .unwrap();
    assert_eq!(work(&engine, &forked[0].sandbox.id).await, "one");
    assert_eq!(work(&engine, &id).await, "two");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_store_that_shares_data_is_always_copied_to() {
    let (world, engine, id) = quiet().await;
    world.isolation.layers().set_driver(LayerDriver::Reflink);
    let first = write_and_snap(&engine, &id, "one").await;
    let method = engine.of(&owner()).snapshots().get(&first).await.unwrap().method;
    assert!(matches!(method, SnapshotMethod::Cloned | SnapshotMethod::Copied), "{method:?}");
    assert_eq!(world.isolation.calls(Call::Seal), 0);
    output(&engine, &id, "write /root/work two").await;
    let rolled = back(&engine, &id, &first).await;
    assert_eq!(work(&engine, &id).await, "one");
    back(&engine, &id, &rolled.safety.id).await;
    assert_eq!(work(&engine, &id).await, "two");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn paused_and_stopped_sandboxes_are_captured_as_they_are() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    assert_eq!(snap(&engine, &id).await.snapshot.method, SnapshotMethod::Sealed);
    assert_eq!(status(&engine, &id).await, Status::Paused);
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    output(&engine, &id, "write /root/work two").await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let kept = snap(&engine, &id).await.snapshot;
    assert_eq!((kept.method, kept.stack.depth()), (SnapshotMethod::Sealed, 2));
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "two");
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let error = engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { reason: DenyReason::Stopped, .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_must_last_is_on_disk_at_once_and_the_rest_soon() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    let order = TakeSnapshot { durable: true, ..TakeSnapshot::default() };
    let lasting = engine.of(&owner()).sandbox(&id).history().take(order).await.unwrap().snapshot;
    assert!(lasting.durable && lasting.stack.0.iter().all(|layer| world.isolation.layers().is_synced(layer)));
    let soon = write_and_snap(&engine, &id, "two").await;
    assert!(!engine.of(&owner()).snapshots().get(&soon).await.unwrap().durable);
    eventually("it is on disk", async || engine.of(&owner()).snapshots().get(&soon).await.unwrap().durable)
        .await;
    let row = engine.of(&owner()).snapshots().get(&soon).await.unwrap();
    assert!(row.stack.0.iter().all(|layer| world.isolation.layers().is_synced(layer)));
    assert!(row.space.is_some(), "what it holds is counted");
}

#[tokio::test]
async fn a_snapshot_that_a_power_cut_overtook_is_damaged() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    let order = TakeSnapshot { durable: true, ..TakeSnapshot::default() };
    let lasting = engine.of(&owner()).sandbox(&id).history().take(order).await.unwrap().snapshot.id;
    world.isolation.layers().fail_next("sync", LayerErrorKind::Host);
    let hasty = write_and_snap(&engine, &id, "two").await;
    drop(engine);
    tokio::task::yield_now().await;
    world.isolation.reboot();
    world.clock.reboot(60);
    let engine = world.open().await;
    assert!(engine.of(&owner()).snapshots().get(&hasty).await.unwrap().damaged);
    let error = engine.of(&owner()).sandbox(&id).history().rollback(&hasty, false).await.unwrap_err();
    assert!(matches!(error, EngineError::SnapshotDamaged { .. }), "{error:?}");
    let mut request = acquire();
    request.sandbox.from = Some(hasty.clone());
    let error = engine.of(&owner()).sessions().acquire(request).await.unwrap_err();
    assert!(matches!(error, EngineError::SnapshotDamaged { .. }), "{error:?}");
    back(&engine, &id, &lasting).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
}

#[tokio::test]
async fn one_whose_files_are_lost_does_not_keep_the_others_from_the_disk() {
    let (world, engine, id) = quiet().await;
    let whole = write_and_snap(&engine, &id, "one").await;
    let other = make(&engine).await.sandbox.id;
    let lost = write_and_snap(&engine, &other, "two").await;
    let layer = engine.of(&owner()).snapshots().get(&lost).await.unwrap().stack.0.remove(0);
    world.isolation.layers().damage(&layer);
    eventually("the whole one is on disk", async || {
        engine.of(&owner()).snapshots().get(&whole).await.unwrap().durable
    })
    .await;
    eventually("the other is damaged", async || {
        engine.of(&owner()).snapshots().get(&lost).await.unwrap().damaged
    })
    .await;
}

#[tokio::test]
async fn a_sandbox_that_stands_on_what_is_lost_can_go_back_to_what_is_whole() {
    let (world, engine, id) = quiet().await;
    let whole = write_and_snap(&engine, &id, "one").await;
    let lost = write_and_snap(&engine, &id, "two").await;
    output(&engine, &id, "write /root/more three").await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let layer = engine.of(&owner()).snapshots().get(&lost).await.unwrap().stack.0.remove(0);
    world.isolation.layers().damage(&layer);
    engine.of(&owner()).sandbox(&id).resume().await.unwrap_err();
    let rolled = engine.of(&owner()).sandbox(&id).history().rollback(&whole, false).await.unwrap();
    assert!(rolled.safety.damaged, "what it had is kept, and nothing is started from it");
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
}

#[tokio::test]
async fn after_a_mere_restart_nothing_is_damaged() {
    let (world, engine, id) = quiet().await;
    let taken = write_and_snap(&engine, &id, "one").await;
    drop(engine);
    tokio::task::yield_now().await;
    world.isolation.owner_ended();
    let engine = world.open().await;
    eventually("it is on disk", async || engine.of(&owner()).snapshots().get(&taken).await.unwrap().durable)
        .await;
    assert!(!engine.of(&owner()).snapshots().get(&taken).await.unwrap().damaged);
}

#[tokio::test]
async fn names_are_unique_in_a_sandbox_and_can_be_changed() {
    let (_, engine, id) = quiet().await;
    let first = named(&engine, &id, "before").await.unwrap().snapshot;
    output(&engine, &id, "write /root/work one").await;
    let error = named(&engine, &id, "before").await.unwrap_err();
    assert!(matches!(error, EngineError::SnapshotNameTaken { .. }), "{error:?}");
    assert_eq!(record(&engine, &id).await.history.head, Some(first.id.clone()), "nothing was taken");
    let second = snap(&engine, &id).await.snapshot.id;
    let error = engine.of(&owner()).snapshots().rename(&second, Some("before".to_owned())).await.unwrap_err();
    assert!(matches!(error, EngineError::SnapshotNameTaken { .. }), "{error:?}");
    engine.of(&owner()).snapshots().rename(&first.id, None).await.unwrap();
    let named = engine.of(&owner()).snapshots().rename(&second, Some("before".to_owned())).await.unwrap();
    assert_eq!(named.name.as_deref(), Some("before"));
    let error = engine.of(&owner()).snapshots().rename(&second, Some("\n".to_owned())).await.unwrap_err();
    assert!(matches!(error, EngineError::Invalid { .. }), "{error:?}");
    let nobody = SnapshotId::from_random([9; 16]);
    let error = engine.of(&owner()).snapshots().rename(&nobody, None).await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn a_deleted_head_leaves_the_sandbox_what_it_has() {
    let (world, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    let second = write_and_snap(&engine, &id, "two").await;
    engine.of(&owner()).snapshots().delete(&second).await.unwrap();
    assert_eq!(record(&engine, &id).await.history.head, Some(first.clone()));
    assert_eq!(work(&engine, &id).await, "two");
    engine.sweep().await;
    assert_eq!(layers(&world), 2, "it stands on what is deleted");
    let third = snap(&engine, &id).await.snapshot;
    assert_eq!((third.method, third.parent.as_ref()), (SnapshotMethod::Unchanged, Some(&first)));
    assert_eq!(third.stack.depth(), 2);
    engine.of(&owner()).snapshots().delete(&first).await.unwrap();
    let parent = engine.of(&owner()).snapshots().get(&third.id).await.unwrap().parent;
    assert!(parent.is_some_and(|parent| parent != first), "its child goes on with what came before it");
    let undone = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(undone.to.reason, SnapshotReason::Start);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn turns_are_counted_and_tell_what_the_sandbox_holds() {
    let (_, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    let first = engine.of(&owner()).sandbox(&id).history().complete_turn(None, None).await.unwrap();
    output(&engine, &id, "write /root/more two").await;
    let second = engine
        .of(&owner())
        .sandbox(&id)
        .history()
        .complete_turn(None, Some("second".to_owned()))
        .await
        .unwrap();
    assert_eq!((first.turn, second.turn, record(&engine, &id).await.history.turn), (1, 2, 2));
    assert_eq!(second.taken.snapshot.turn, Some(2));
    assert_eq!(second.taken.snapshot.reason, SnapshotReason::Turn);
    let (one, two) = (first.space_used.unwrap(), second.space_used.unwrap());
    assert!(two.bytes > one.bytes && two.inodes > one.inodes, "{one:?} {two:?}");
}

#[tokio::test]
async fn a_capture_that_fails_leaves_the_sandbox_whole() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    world.isolation.fail_next(Call::Seal, IsolationErrorKind::Host);
    assert!(engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.is_err());
    world.isolation.layers().fail_next("commit", LayerErrorKind::Full);
    assert!(engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.is_err());
    world.catalog.fail_next_call("record_snapshots", CatalogErrorKind::Full);
    output(&engine, &id, "write /root/work two").await;
    assert!(engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.is_err());
    assert_eq!(work(&engine, &id).await, "two");
    engine.sweep().await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "two");
    assert_eq!(record(&engine, &id).await.history.stack.depth(), 2);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_sandbox_that_dies_before_its_layer_is_written_down_keeps_its_files() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    world.catalog.fail_next_call("record_snapshots", CatalogErrorKind::Full);
    world.catalog.fail_next_call("update_sandbox", CatalogErrorKind::Full);
    assert!(engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.is_err());
    assert_eq!(record(&engine, &id).await.history.stack.depth(), 0, "the record does not know the layer");
    world.isolation.die(&id, false);
    eventually("its end is noticed", async || status(&engine, &id).await.is_terminal()).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    assert_eq!(record(&engine, &id).await.history.stack.depth(), 1);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_copy_that_fails_lets_the_sandbox_go_on() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    world.isolation.layers().fail_next("settle", LayerErrorKind::Full);
    let error = engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.unwrap_err();
    assert!(matches!(error, EngineError::Layers(_)), "{error:?}");
    assert_eq!(work(&engine, &id).await, "one");
    world.isolation.fail_next(Call::Thaw, IsolationErrorKind::Host);
    assert!(engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.is_err());
    assert_eq!(work(&engine, &id).await, "one");
    engine.sweep().await;
    assert_eq!(layers(&world), 0);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn commands_are_captured_by_themselves_unless_nobody_wants_that() {
    for (automatic, captured) in
        [(Automatic::Commands, true), (Automatic::Turns, false), (Automatic::Off, false)]
    {
        let world = World::new();
        let engine = world.open().await;
        let mut request = acquire();
        request.sandbox.automatic = Some(automatic);
        let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
        output(&engine, &id, "write /root/work one").await;
        if captured {
            eventually("it is captured", async || {
                let all = snapshots_of(&engine, &owner(), &id).await;
                all.iter().any(|row| row.reason == SnapshotReason::Command)
            })
            .await;
        }
        output(&engine, &id, "write /root/work two").await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let count = snapshots_of(&engine, &owner(), &id).await.len();
        assert_eq!(count > 0, captured, "{automatic:?}: {count}");
    }
}

#[tokio::test]
async fn followers_hear_of_snapshots() {
    let (_, engine, id) = quiet().await;
    let taken = write_and_snap(&engine, &id, "one").await;
    engine.of(&owner()).snapshots().delete(&taken).await.unwrap();
    let events = all_events(&engine, &owner()).await;
    let told = |wanted: fn(&Event) -> bool| events.iter().any(|event| wanted(&event.event));
    assert!(told(|event| matches!(event, Event::SnapshotTaken { method: SnapshotMethod::Sealed, .. })));
    assert!(told(|event| matches!(event, Event::SnapshotDeleted { .. })));
}
