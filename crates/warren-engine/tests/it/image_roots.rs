//! Sandboxes on images that their backend has itself.

use std::sync::Arc;

use warren_core::{
    Automatic, Capabilities, ChangeKind, DiffOptions, Field, IsolationErrorKind, RootImage, RootImageName,
    RootKind, SandboxId, Status, WallChoice,
};
use warren_engine::{Acquire, Engine, EngineError, ExportOrder, NewSandbox, Point};
use warren_testkit::{Call, FakeIsolation, Standing};

use crate::support::*;
use crate::travel::*;

/// A world with a backend without images, and one that has nothing else.
fn world() -> (World, Arc<FakeIsolation>) {
    let mut world = World::new();
    world.settings.automatic_snapshots = Automatic::Off;
    let able = Capabilities { roots: vec![RootKind::Image], ..FakeIsolation::everything() };
    let container = world.isolation.beside("container", able);
    container.tag_image("python:3.12", "one");
    world.wall = Some(Arc::clone(&container));
    (world, container)
}

fn image(name: &str) -> RootImage {
    name.parse::<RootImageName>().unwrap().into()
}

fn on(name: &str) -> Acquire {
    let mut new: NewSandbox = new_sandbox();
    new.spec.image = Some(image(name));
    Acquire { sandbox: new, ..acquire() }
}

async fn begin(engine: &Engine) -> SandboxId {
    engine.of(&owner()).sessions().acquire(on("python:3.12")).await.unwrap().sandbox.id
}

fn field(error: EngineError) -> Field {
    match error {
        EngineError::Invalid { field, .. } => field,
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn an_image_is_started_by_the_first_backend_that_has_images_and_stays_the_same_one() {
    let (world, container) = world();
    let engine = world.open().await;
    let id = begin(&engine).await;
    let first = record(&engine, &id).await;
    assert_eq!(first.backend, "container");
    let digest = |record: &warren_core::SandboxRecord| record.spec.image.clone().unwrap().digest;
    assert_eq!(digest(&first).as_deref(), Some("one"));
    assert!(engine.of(&owner()).sandbox(&id).record().await.unwrap().spec.used_template().is_none());
    write_and_snap(&engine, &id, "mine").await;

    container.tag_image("python:3.12", "two");
    container.tag_image("python:3.12-old", "one");
    let fork = engine.of(&owner()).snapshots().fork(&Point::Sandbox(id.clone()), forks(1)).await.unwrap();
    let fork = fork[0].sandbox.id.clone();
    assert_eq!(digest(&record(&engine, &fork).await).as_deref(), Some("one"), "that of the snapshot");
    assert_eq!(work(&engine, &fork).await, "mine");
    let fresh = record(&engine, &begin(&engine).await).await;
    assert_eq!(digest(&fresh).as_deref(), Some("two"), "what the name means now");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn history_works_on_an_image_and_what_needs_a_template_is_refused() {
    let (world, _) = world();
    let engine = world.open().await;
    let id = begin(&engine).await;
    let one = write_and_snap(&engine, &id, "one").await;
    write_and_snap(&engine, &id, "two").await;
    let snapshots = engine.of(&owner()).snapshots();
    let (from, to) = (Point::Snapshot(one.clone()), Point::Sandbox(id.clone()));
    let diff = snapshots.diff(&from, &to, DiffOptions::default()).await.unwrap();
    assert_eq!(diff.changes.iter().map(|change| change.kind()).collect::<Vec<_>>(), [ChangeKind::Changed]);
    back(&engine, &id, &one).await;
    assert_eq!(work(&engine, &id).await, "one");
    let made = snapshots.make_template(&one, &"mine".parse().unwrap()).await;
    assert_eq!(field(made.unwrap_err()), Field::Snapshot);
    let history = snapshots.export(&from, ExportOrder::History, Box::new(std::io::sink())).await;
    assert_eq!(field(history.unwrap_err()), Field::Snapshot);
    let plain = make(&engine).await.sandbox.id;
    let other = snapshots.diff(&from, &Point::Sandbox(plain), DiffOptions::default()).await;
    assert_eq!(field(other.unwrap_err()), Field::ComparedTo, "on other files");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn an_image_that_is_not_there_is_refused_before_anything_is_made() {
    let (world, container) = world();
    let engine = world.open().await;
    let refused = engine.of(&owner()).sessions().acquire(on("python:4")).await.unwrap_err();
    assert_eq!(field(refused), Field::Image);
    let named = Acquire { backend: Some("fake".to_owned()), ..on("python:3.12") };
    let refused = engine.of(&owner()).sessions().acquire(named).await.unwrap_err().to_string();
    assert!(refused.contains("`roots`"), "{refused}");
    container.go_away();
    let refused = engine.of(&owner()).sessions().acquire(on("python:3.12")).await.unwrap_err();
    assert!(matches!(refused, EngineError::BackendUnavailable { .. }), "{refused:?}");
    container.come_back();
    assert_eq!(container.calls(Call::Create), 0);
    assert!(all_sandboxes(&engine, &owner()).await.is_empty(), "nothing was written down");
}

#[tokio::test]
async fn no_other_backend_has_its_image() {
    let (world, container) = world();
    let engine = world.open().await;
    let id = begin(&engine).await;
    let moved = engine.of(&owner()).sandbox(&id).move_to(WallChoice::backend("fake"), false).await;
    let refused = moved.unwrap_err().to_string();
    assert!(refused.contains("`roots`") && refused.contains("python:3.12"), "{refused}");
    assert_eq!(container.standing(&id), Some(Standing::Running));
    let plain = make(&engine).await.sandbox.id;
    let moved = engine.of(&owner()).sandbox(&plain).move_to(WallChoice::backend("container"), false).await;
    assert!(moved.unwrap_err().to_string().contains("`roots`"));
    assert_eq!(status(&engine, &plain).await, Status::Ready);
}

#[tokio::test]
async fn an_image_that_was_removed_stops_a_start_and_takes_no_files() {
    let (world, container) = world();
    let engine = world.open().await;
    let id = begin(&engine).await;
    output(&engine, &id, "write /root/work one").await;
    let stopped = engine.of(&owner()).sandbox(&id).stop(warren_engine::StoppedFiles::Keep).await;
    stopped.unwrap();
    container.fail_always(Call::Image, Some(IsolationErrorKind::Invalid));
    let refused = engine.of(&owner()).sandbox(&id).resume().await.unwrap_err();
    assert_eq!(field(refused), Field::Image);
    container.fail_always(Call::Image, None);
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
}
