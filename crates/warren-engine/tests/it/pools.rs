//! Machines that are made ahead of time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use warren_core::{Isolation, NetworkPolicy, SandboxId, TemplateName};
use warren_engine::{Engine, Mode, PoolSettings, ShutdownPolicy};
use warren_testkit::{Call, Standing};

use crate::support::*;

pub(crate) fn pool_of(count: usize) -> PoolSettings {
    PoolSettings { templates: BTreeMap::from([(TemplateName::host(), count)]), ..PoolSettings::default() }
}

/// A world whose pool serves what [`acquire`] asks for.
fn world(count: usize) -> World {
    let mut world = World::new();
    world.settings.pools = pool_of(count);
    world.settings.network.default = NetworkPolicy::public();
    world
}

async fn filled(engine: &Engine, count: u64) {
    eventually("the pool is full", async || engine.stats().await.pool_size == count).await;
}

fn machines(world: &World) -> BTreeSet<SandboxId> {
    world.isolation.standings().into_keys().collect()
}

fn without_pools(world: &World) -> World {
    let mut world = world.clone();
    world.settings.pools = PoolSettings::default();
    world
}

#[tokio::test]
async fn who_asks_for_an_ordinary_sandbox_gets_one_that_runs() {
    let world = world(2);
    let engine = world.open().await;
    filled(&engine, 2).await;
    let spares = machines(&world);
    let mut asked = acquire();
    asked.sandbox.spec.labels.insert("team".to_owned(), "red".to_owned());
    let made = engine.of(&stranger()).sessions().acquire(asked).await.unwrap();
    let id = made.sandbox.id.clone();
    assert!(spares.contains(&id) && made.fresh && made.session.sandbox == id);
    assert_eq!(made.sandbox.owner, stranger());
    assert_eq!(world.networks.policies(&id), Some(vec![NetworkPolicy::public()]));
    assert!(!made.sandbox.addresses.is_empty());
    let found = world.isolation.list().unwrap().into_iter().find(|found| found.id == id).unwrap();
    assert_eq!(found.spec.labels.get("team").map(String::as_str), Some("red"));
    assert!(!found.spec.labels.contains_key("warren.spare"), "it is somebody's");
    let sandbox = engine.of(&stranger()).sandbox(&id);
    let echo = sandbox.exec(program("echo hello"), Bytes::new(), CAPS).await.unwrap();
    assert_eq!(echo.stdout.bytes, b"hello\n");
    assert!(engine.of(&owner()).sandbox(&id).record().await.is_err(), "nobody else sees it");
    filled(&engine, 2).await;
    let stats = engine.stats().await;
    assert_eq!((stats.created, stats.pool_hit_rate), (1, 1.0));
    engine.shutdown(ShutdownPolicy::Leave).await;
    assert_eq!(machines(&world), BTreeSet::from([id]), "spares end with the server");
    assert_eq!(world.networks.attached().len(), 1);
    assert_eq!(world.isolation.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn who_asks_for_something_else_gets_that_and_the_pool_stays() {
    let world = world(1);
    let engine = world.open().await;
    filled(&engine, 1).await;
    let spares = machines(&world);
    let mut asked = acquire();
    asked.sandbox.spec.env.insert("A".to_owned(), "b".to_owned());
    let made = engine.of(&owner()).sessions().acquire(asked).await.unwrap();
    assert!(!spares.contains(&made.sandbox.id));
    assert!(spares.is_subset(&machines(&world)));
    assert_eq!(engine.stats().await.pool_hit_rate, 0.0);
}

#[tokio::test]
async fn one_that_has_ended_is_not_handed_out() {
    let world = world(1);
    let engine = world.open().await;
    filled(&engine, 1).await;
    let spare = machines(&world).pop_first().unwrap();
    world.isolation.die(&spare, false);
    let made = make(&engine).await;
    assert_ne!(made.sandbox.id, spare);
    output(&engine, &made.sandbox.id, "true").await;
    eventually("it is removed", async || world.isolation.standing(&spare).is_none()).await;
}

#[tokio::test]
async fn one_that_is_too_old_is_replaced() {
    let mut world = world(1);
    world.settings.pools.oldest = Duration::from_millis(50);
    let engine = world.open().await;
    filled(&engine, 1).await;
    let first = machines(&world);
    eventually("another is there", async || {
        let now = machines(&world);
        !now.is_empty() && now.is_disjoint(&first)
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_them_to_the_next_which_removes_them() {
    let world = world(10);
    let engine = world.open().await;
    filled(&engine, 10).await;
    let made = make(&engine).await;
    crash(&world, engine).await;
    world.inherit();
    let later = without_pools(&world);
    let engine = later.open().await;
    assert_eq!(engine.mode(), Mode::Normal, "many spares are no reason for doubt");
    assert_consistent(&later, &engine).await;
    assert_eq!(later.standing(&made.sandbox), Some(Standing::Running));
}

#[tokio::test]
async fn a_claim_that_fails_leaves_nothing() {
    let world = world(1);
    let engine = world.open().await;
    filled(&engine, 1).await;
    world.isolation.fail_next(Call::HandOver, warren_core::IsolationErrorKind::Host);
    engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    let later = without_pools(&world);
    engine.shutdown(ShutdownPolicy::Leave).await;
    drop(engine);
    let engine = later.open().await;
    assert_consistent(&later, &engine).await;
    assert!(machines(&later).is_empty());
}

#[tokio::test]
async fn many_at_once_get_one_each() {
    let world = world(4);
    let engine = world.open().await;
    filled(&engine, 4).await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { make(&engine).await.sandbox.id })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for task in tasks {
        assert!(ids.insert(task.await.unwrap()));
    }
    for id in &ids {
        output(&engine, id, "true").await;
    }
}
