//! Secrets that belong to policies.

use warren_core::Field;
use warren_core::catalog::SecretCatalog as _;
use warren_core::network::{Injection, Secret, SecretName, SecretRecord};
use warren_core::{NetworkPolicy, SandboxId};
use warren_engine::{Engine, EngineError, Point, StoppedFiles};

use super::{make_with, rules};
use crate::support::*;
use crate::travel::forks;

async fn keep(engine: &Engine) -> SecretName {
    let headers = vec![("Authorization".to_owned(), "Bearer hidden-value".to_owned())];
    engine.of(&owner()).secrets().keep_transform(rules(&["api.example"]), headers).await.unwrap()
}

async fn make_naming(engine: &Engine, name: &SecretName) -> SandboxId {
    make_with(engine, NetworkPolicy { secrets: vec![name.clone()], ..NetworkPolicy::public() }).await
}

fn kept(world: &World) -> Vec<SecretName> {
    world.catalog.secrets(&owner()).unwrap().into_iter().map(|record| record.name).collect()
}

#[tokio::test]
async fn a_transform_is_kept_and_nobody_knows_it_by_name() {
    let world = World::new();
    let engine = world.open().await;
    let name = keep(&engine).await;
    let secret = world.catalog.secret(&owner(), &name).unwrap().unwrap();
    assert_eq!(secret.value, "Bearer hidden-value");
    assert_eq!(engine.of(&owner()).secrets().list().await.unwrap(), []);
    assert!(matches!(engine.of(&owner()).secrets().get(&name).await, Err(EngineError::NotFound { .. })));
    assert!(matches!(engine.of(&owner()).secrets().remove(&name).await, Err(EngineError::NotFound { .. })));
    let injection = Injection::Header { header: "x".to_owned(), template: "{}".to_owned() };
    let record = SecretRecord { injection, ..secret.record };
    let replaced = engine.of(&owner()).secrets().put(Secret { record, value: "mine".to_owned() }).await;
    assert!(matches!(replaced, Err(EngineError::Invalid { field: Field::SecretName, .. })));
    assert_eq!(kept(&world), [name]);
}

#[tokio::test]
async fn a_transform_that_cannot_be_is_refused() {
    let world = World::new();
    let engine = world.open().await;
    for (host, header, value, wrong) in [
        ("*", "x-a", "1", Field::SecretHosts),
        ("api.example", "host", "1", Field::SecretHeader),
        ("api.example", "x-a", "1\n2", Field::SecretValue),
        ("api.example", "x-a", "ä", Field::SecretHeaders),
    ] {
        let headers = vec![(header.to_owned(), value.to_owned())];
        let error = engine.of(&owner()).secrets().keep_transform(rules(&[host]), headers).await.unwrap_err();
        assert!(matches!(&error, EngineError::Invalid { field, .. } if *field == wrong), "{error}");
    }
    assert_eq!(kept(&world), []);
}

#[tokio::test]
async fn a_transform_goes_with_the_last_sandbox_that_names_it() {
    let world = World::new();
    let engine = world.open().await;
    let (name, other) = (keep(&engine).await, keep(&engine).await);
    let id = make_naming(&engine, &name).await;
    let both = [name.clone(), other];
    engine.of(&stranger()).secrets().drop_transforms(&both).await.unwrap();
    assert_eq!(kept(&world).len(), 2, "they are not the stranger's");
    engine.of(&owner()).secrets().drop_transforms(&both).await.unwrap();
    assert_eq!(kept(&world), std::slice::from_ref(&name));
    let point = Point::Sandbox(id.clone());
    let fork = engine.of(&owner()).snapshots().fork(&point, forks(1)).await.unwrap().remove(0).sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    engine.of(&owner()).secrets().drop_transforms(&both).await.unwrap();
    assert_eq!(kept(&world), std::slice::from_ref(&name), "the fork has it");
    engine.of(&owner()).sandbox(&fork).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).secrets().drop_transforms(&both).await.unwrap();
    assert_eq!(kept(&world), [name], "the fork can be resumed");
}

#[tokio::test]
async fn what_no_policy_names_is_swept_when_it_is_old_enough() {
    let world = World::new();
    let engine = world.open().await;
    let (used, left) = (keep(&engine).await, keep(&engine).await);
    make_naming(&engine, &used).await;
    engine.sweep().await;
    assert_eq!(kept(&world).len(), 2, "somebody may be about to name it");
    world.clock.advance_s(16 * 60);
    engine.sweep().await;
    assert_eq!(kept(&world), [used]);
    assert_ne!(kept(&world), [left]);
}
