//! A tour through the builds of images.

use std::collections::BTreeSet;

use warren_core::catalog::{ImageCatalog as _, NodeCatalog as _, SandboxCatalog as _};
use warren_core::{Event, SnapshotId};
use warren_engine::{Engine, EngineError};

use super::Promises;
use crate::images::{begin, image, named, outcome, recipe, run, sandbox_of};
use crate::support::*;

/// Every way to make an image and to lose it.
pub(super) async fn through_builds(
    world: &World,
    engine: &Engine,
    promises: &Promises,
) -> Result<(), EngineError> {
    let steps = vec![run("write /root/work precious"), run("true")];
    let first = begin(engine, "app", recipe(steps.clone())).await.unwrap();
    outcome(engine, "app", &first).await;
    let id = sandbox_of(engine, "app").await;
    promises.holds(&id, "precious");
    // Another build takes the tag of the first, whose snapshot goes.
    let second = begin(engine, "app", recipe(steps)).await.unwrap();
    outcome(engine, "app", &second).await;
    engine.of(&owner()).images().capture(&id, Some(named("saved"))).await.unwrap();
    until_tidy(world).await;
    let built = image(engine, "saved").await.built("default").cloned().expect("it is ready");
    promises.captured(&built.snapshot, "precious");
    engine.of(&owner()).images().remove(&named("app")).await.unwrap();
    until_tidy(world).await;
    // That a snapshot is gone is told a moment after its row is: the last step of the tour.
    eventually("the end of both snapshots is told", async || {
        let events = all_events(engine, &owner()).await;
        events.iter().filter(|event| matches!(event.event, Event::SnapshotDeleted { .. })).count() == 2
    })
    .await;
    Ok(())
}

async fn until_tidy(world: &World) {
    eventually("only what is needed is there", async || loose(world).is_empty()).await;
}

/// Snapshots of images that nothing names.
fn loose(world: &World) -> BTreeSet<SnapshotId> {
    let mut ids: BTreeSet<SnapshotId> = world
        .catalog
        .snapshots_of_images(world.catalog.node())
        .unwrap()
        .into_iter()
        .map(|row| row.id)
        .collect();
    for image in world.catalog.images(&owner()).unwrap() {
        ids.retain(|id| !image.snapshots().contains(id));
    }
    for step in world.catalog.kept_steps(&owner()).unwrap() {
        ids.remove(&step.snapshot);
    }
    ids
}

/// A start has cleared away what builds of an earlier process left.
pub(super) fn assert_nothing_is_left(world: &World) {
    assert_eq!(loose(world), BTreeSet::new());
    assert_eq!(world.catalog.images_being_built().unwrap(), []);
    let sandboxes = world.catalog.unfinished_sandboxes(world.catalog.node()).unwrap();
    assert!(sandboxes.iter().all(|record| record.build.is_none()), "{sandboxes:?}");
}
