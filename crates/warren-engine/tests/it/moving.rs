//! Behind another wall: the same files, id, history, name and policy.

use warren_core::{
    Action, Capabilities, DenyReason, DiskQuota, Event, IsolationErrorKind, IsolationKind, Mount,
    NetworkSupport, SandboxId, SnapshotSupport, Status, WallChoice,
};
use warren_engine::{Acquire, Engine, EngineError, Moved, Point, StoppedFiles, TakeSnapshot};
use warren_testkit::{Call, FakeIsolation, Standing};

use crate::support::*;
use crate::travel::forks;

fn wall(name: &str) -> WallChoice {
    WallChoice::backend(name)
}

async fn go(engine: &Engine, id: &SandboxId, to: WallChoice) -> Result<Moved, EngineError> {
    engine.of(&owner()).sandbox(id).move_to(to, false).await
}

/// A running sandbox behind `fake` that has written something.
async fn begin(engine: &Engine) -> SandboxId {
    let mut request = Acquire { backend: Some("fake".to_owned()), ..acquire() };
    request.sandbox.name = "web".parse().ok();
    let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
    output(engine, &id, "write /root/work one").await;
    id
}

#[tokio::test]
async fn a_sandbox_goes_behind_another_wall_and_back_with_all_that_it_has() {
    let world = World::walled();
    let engine = world.open().await;
    let id = begin(&engine).await;
    let before = record(&engine, &id).await;
    let taken = engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.unwrap();
    output(&engine, &id, "write /root/work two").await;
    let moved = go(&engine, &id, WallChoice::tier(IsolationKind::UserKernel)).await.unwrap();
    assert_eq!((moved.from.as_str(), moved.to.as_str()), ("fake", "wall"));
    assert_eq!((world.isolation.standing(&id), world.wall().standing(&id)), (None, Some(Standing::Running)));
    let after = record(&engine, &id).await;
    assert_eq!((after.backend.as_str(), after.status), ("wall", Status::Ready));
    assert_eq!(after.wall, WallChoice::tier(IsolationKind::UserKernel));
    assert_eq!((&after.name, &after.spec.network), (&before.name, &before.spec.network));
    assert!(!after.unplaced && after.left.is_none());
    assert_eq!(output(&engine, &id, "read /root/work").await, "two");
    output(&engine, &id, "write /root/work three").await;
    assert_consistent(&world, &engine).await;

    go(&engine, &id, wall("fake")).await.unwrap();
    assert_eq!((world.isolation.standing(&id), world.wall().standing(&id)), (Some(Standing::Running), None));
    assert_eq!(output(&engine, &id, "read /root/work").await, "three");
    let history = engine.of(&owner()).sandbox(&id).history();
    history.rollback(&taken.snapshot.id, false).await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "one");
    history.undo(1, false).await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "three");
    let log = history.log(None, 100, false).await.unwrap();
    let moves = log.iter().filter(|logged| matches!(logged.entry.action, Action::Move { .. })).count();
    assert_eq!(moves, 2);
    let events = all_events(&engine, &owner()).await;
    let moves = events.iter().filter(|event| matches!(event.event, Event::SandboxMoved { .. })).count();
    assert_eq!(moves, 2);
    let (mut deaths, mut open) = (0, 0);
    for event in &events {
        deaths += usize::from(matches!(event.event, Event::SandboxDied { .. }));
    }
    for session in all_sessions(&engine, &owner()).await {
        open += usize::from(session.state.is_open());
    }
    assert_eq!((deaths, open), (0, 1), "its session went along");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_stopped_sandbox_is_moved_and_stays_stopped() {
    let world = World::walled();
    let engine = world.open().await;
    let id = begin(&engine).await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    go(&engine, &id, wall("wall")).await.unwrap();
    let rests = record(&engine, &id).await;
    assert_eq!((rests.status, rests.backend.as_str(), rests.unplaced), (Status::Stopped, "wall", true));
    assert!(rests.files_kept() && rests.left.is_none());
    assert_eq!((world.isolation.standing(&id), world.wall().standing(&id)), (None, None));
    let engine = world.reopen(engine).await;
    // It can be captured, forked and sent back as it rests.
    let history = engine.of(&owner()).sandbox(&id).history();
    let taken = history.take(TakeSnapshot::default()).await.unwrap();
    let fork = engine.of(&owner()).snapshots().fork(&Point::Snapshot(taken.snapshot.id), forks(1)).await;
    let fork = fork.unwrap().remove(0).sandbox;
    assert_eq!(fork.backend, "wall", "a fork is behind the wall of its original");
    assert_eq!(output(&engine, &fork.id, "read /root/work").await, "one");
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(world.wall().standing(&id), Some(Standing::Running));
    assert_eq!(output(&engine, &id, "read /root/work").await, "one");
    assert_consistent(&world, &engine).await;
    // Once it was started there, its files are there as any sandbox's.
    output(&engine, &id, "write /root/work two").await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "two");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn one_that_was_moved_while_it_rested_can_be_removed() {
    let world = World::walled();
    let engine = world.open().await;
    let id = begin(&engine).await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    go(&engine, &id, wall("wall")).await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    world.isolations().for_each(|backend| backend.assert_only(&[]));
}

#[tokio::test]
async fn a_wall_that_lacks_something_is_refused_with_the_reason_and_nothing_changes() {
    let everything = FakeIsolation::everything;
    let table: Vec<(&str, Capabilities)> = vec![
        ("network", Capabilities { network: NetworkSupport::None, ..everything() }),
        ("snapshots", Capabilities { snapshots: SnapshotSupport::None, ..everything() }),
        ("roots", Capabilities { roots: Vec::new(), ..everything() }),
        ("host_mounts", Capabilities { host_mounts: false, ..everything() }),
        ("disk_quota", Capabilities { disk_quota: DiskQuota::None, ..everything() }),
    ];
    for (capability, able) in table {
        let mut world = World::walled();
        world.isolation.allow_mounts(vec!["/tmp".into()]);
        world.wall = Some(world.isolation.beside("wall", able));
        let engine = world.open().await;
        let mut request = Acquire { backend: Some("fake".to_owned()), ..acquire() };
        request.sandbox.disk_limit_required = true;
        let mount = Mount { source: "/tmp".into(), target: "/mnt".into(), access: Default::default() };
        request.sandbox.spec.mounts = vec![mount];
        let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
        let error = go(&engine, &id, wall("wall")).await.unwrap_err();
        let EngineError::NothingFits { asked: Some(field), reasons } = &error else { panic!("{error:?}") };
        assert_eq!(field.to_string(), "backend");
        assert!(reasons[0].1.contains(&format!("`{capability}`")), "{reasons:?}");
        assert_eq!(world.standing(&record(&engine, &id).await), Some(Standing::Running));
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn mounts_that_the_other_wall_may_not_have_stay_where_they_are() {
    let world = World::walled();
    world.isolation.allow_mounts(vec!["/tmp".into()]);
    let engine = world.open().await;
    let mut request = Acquire { backend: Some("fake".to_owned()), ..acquire() };
    let mount = Mount { source: "/tmp".into(), target: "/mnt".into(), access: Default::default() };
    request.sandbox.spec.mounts = vec![mount];
    let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
    let error = go(&engine, &id, wall("wall")).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Invalid { field, .. } if field.to_string() == "mounts"),
        "{error:?}"
    );
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_move_that_names_nothing_or_nobody_is_refused() {
    let world = World::walled();
    let engine = world.open().await;
    let id = begin(&engine).await;
    let error = go(&engine, &id, WallChoice::default()).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Invalid { field, .. } if field.to_string() == "backend"),
        "{error:?}"
    );
    let error = go(&engine, &id, wall("vault")).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("vault: there is no backend of that name here, but fake, wall"), "{text}");
    let error = go(&engine, &id, WallChoice::tier(IsolationKind::Vm)).await.unwrap_err();
    let EngineError::NothingFits { asked: Some(field), reasons } = &error else { panic!("{error:?}") };
    assert_eq!((field.to_string().as_str(), reasons.len()), ("tier", 2), "{reasons:?}");
    let stranger = engine.of(&stranger()).sandbox(&id).move_to(wall("wall"), false).await.unwrap_err();
    assert!(matches!(stranger, EngineError::NotFound { .. }), "{stranger:?}");
    // It is there already.
    let calls = world.isolation.calls(Call::Halt);
    let moved = go(&engine, &id, WallChoice::tier(IsolationKind::Namespaces)).await.unwrap();
    assert_eq!((moved.from, moved.to), ("fake".to_owned(), "fake".to_owned()));
    assert_eq!(world.isolation.calls(Call::Halt), calls);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn commands_that_somebody_waits_for_are_not_cut_without_force() {
    let world = World::walled();
    let engine = world.open().await;
    let id = begin(&engine).await;
    let (working, which) = (engine.clone(), id.clone());
    let command = tokio::spawn(async move { exec(&working, &which, "sleep 1000").await });
    eventually("it runs", async || world.isolation.running(&id) == 1).await;
    let error = go(&engine, &id, wall("wall")).await.unwrap_err();
    assert!(matches!(&error, EngineError::Denied { reason: DenyReason::ToolsInFlight, .. }), "{error:?}");
    let moved = engine.of(&owner()).sandbox(&id).move_to(wall("wall"), true).await.unwrap();
    assert_eq!(moved.ended.len(), 1);
    assert!(command.await.unwrap().is_err(), "it ended with the old wall");
    assert_eq!(output(&engine, &id, "read /root/work").await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn others_wait_while_it_is_moved_and_find_it_afterwards() {
    let world = World::walled();
    let engine = world.open().await;
    let id = begin(&engine).await;
    let hold = world.wall().hold(Call::Create);
    let (moving, which) = (engine.clone(), id.clone());
    let moved = tokio::spawn(async move { go(&moving, &which, wall("wall")).await });
    eventually("it is on its way", async || world.wall().held(Call::Create) == 1).await;
    let error = exec(&engine, &id, "true").await.unwrap_err();
    assert!(matches!(&error, EngineError::Denied { reason: DenyReason::MoveInProgress, .. }), "{error:?}");
    // A letter waits in the mailbox.
    let (stopping, which) = (engine.clone(), id.clone());
    let stopped =
        tokio::spawn(async move { stopping.of(&owner()).sandbox(&which).stop(StoppedFiles::Keep).await });
    drop(hold);
    moved.await.unwrap().unwrap();
    assert_eq!(stopped.await.unwrap().unwrap().status, Status::Stopped);
    assert_eq!(world.wall().standing(&id), Some(Standing::Halted));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_sandbox_that_cannot_start_there_is_where_it_was() {
    for (call, at_wall) in
        [(Call::Create, true), (Call::Watch, true), (Call::Halt, false), (Call::Seal, false)]
    {
        let mut world = World::walled();
        // What the test asks to fail is the move's own call.
        world.settings.automatic_snapshots = warren_core::Automatic::Off;
        let engine = world.open().await;
        let id = begin(&engine).await;
        let backend = if at_wall { world.wall() } else { &world.isolation };
        backend.fail_next(call, IsolationErrorKind::Host);
        go(&engine, &id, wall("wall")).await.unwrap_err();
        let after = record(&engine, &id).await;
        assert_eq!((after.backend.as_str(), after.status), ("fake", Status::Ready), "{call:?}");
        assert_eq!(after.wall, wall("fake"), "what was asked for is what it has");
        assert_eq!(output(&engine, &id, "read /root/work").await, "one", "{call:?}");
        assert_consistent(&world, &engine).await;
        go(&engine, &id, wall("wall")).await.unwrap();
        assert_eq!(output(&engine, &id, "read /root/work").await, "one", "{call:?}");
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn one_that_can_start_nowhere_is_stopped_with_its_files() {
    let world = World::walled();
    let engine = world.open().await;
    let id = begin(&engine).await;
    world.isolations().for_each(|backend| backend.fail_next(Call::Create, IsolationErrorKind::Host));
    go(&engine, &id, wall("wall")).await.unwrap_err();
    let after = record(&engine, &id).await;
    assert_eq!((after.backend.as_str(), after.status), ("fake", Status::Stopped));
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_it_left_goes_even_if_that_fails_at_first() {
    let world = World::walled();
    let engine = world.open().await;
    let id = begin(&engine).await;
    world.isolation.fail_next(Call::Destroy, IsolationErrorKind::Host);
    go(&engine, &id, wall("wall")).await.unwrap();
    let after = record(&engine, &id).await;
    assert_eq!((after.backend.as_str(), after.left.as_deref()), ("wall", Some("fake")));
    assert_eq!(output(&engine, &id, "read /root/work").await, "one");
    world.clock.advance_s(6);
    engine.sweep().await;
    eventually("nothing is left", async || world.isolation.standing(&id).is_none()).await;
    eventually("that is known", async || record(&engine, &id).await.left.is_none()).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_cannot_be_sealed_is_copied() {
    let world = World::walled();
    world.isolation.set_unmovable(true);
    let engine = world.open().await;
    let id = begin(&engine).await;
    go(&engine, &id, wall("wall")).await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "one");
    go(&engine, &id, wall("fake")).await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "one");
    assert_consistent(&world, &engine).await;
}
