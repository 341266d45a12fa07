//! Policies that change while a sandbox exists.

use futures_util::future::join_all;
use warren_core::Field;
use warren_core::catalog::CatalogErrorKind;
use warren_core::{Event, NetworkMode, NetworkPolicy, Status};
use warren_engine::{EngineError, Missing, StoppedFiles};

use super::{asked, events, invalid_field, listed, make_with, rules};
use crate::support::*;

#[tokio::test]
async fn a_running_sandbox_obeys_its_new_policy_at_once() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let view = engine.of(&owner()).sandbox(&id).network().set(listed(&["a.example"])).await.unwrap();
    assert_eq!(view.policy, listed(&["a.example"]));
    assert_eq!(world.networks.policies(&id), Some(vec![view.policy]));
    let again = record(&engine, &id).await.generation;
    engine.of(&owner()).sandbox(&id).network().set(listed(&["a.example"])).await.unwrap();
    assert_eq!(record(&engine, &id).await.generation, again, "nothing changed");
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    engine.of(&owner()).sandbox(&id).network().set(listed(&["b.example"])).await.unwrap();
    assert_eq!(status(&engine, &id).await, Status::Paused);
    assert_consistent(&world, &engine).await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&id).network().set(listed(&["c.example"])).await.unwrap();
    assert!(world.networks.attached().is_empty());
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(world.networks.policies(&id), Some(vec![listed(&["c.example"])]));
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let error = engine.of(&owner()).sandbox(&id).network().set(NetworkPolicy::public()).await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { .. }), "{error:?}");
    let by_tester = |event: &Event| matches!(event, Event::NetworkChanged { by, .. } if by == "tester");
    assert_eq!(events(&engine, by_tester).await, 3);
}

#[tokio::test]
async fn none_cuts_a_running_sandbox_off_until_it_is_started_again() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).network().set(NetworkPolicy::none()).await.unwrap();
    assert!(world.networks.attached().is_empty());
    assert_consistent(&world, &engine).await;
    let error = engine.of(&owner()).sandbox(&id).network().set(NetworkPolicy::public()).await.unwrap_err();
    assert_eq!(invalid_field(error), "network.mode");
    let error =
        engine.of(&owner()).sandbox(&id).network().allow(rules(&["a.example"]), None).await.unwrap_err();
    assert!(matches!(error, EngineError::Invalid { field: Field::NetworkRules, .. }));
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&id).network().set(NetworkPolicy::public()).await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_consistent(&world, &engine).await;
    assert_eq!(world.networks.policies(&id), Some(vec![NetworkPolicy::public()]));
}

#[tokio::test]
async fn a_grant_is_over_when_its_time_is() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, listed(&["a.example"])).await;
    engine
        .of(&owner())
        .sandbox(&id)
        .network()
        .allow(rules(&["b.example", "c.example:443"]), Some(60_000))
        .await
        .unwrap();
    let view = engine.of(&owner()).sandbox(&id).network().deny(rules(&["a.example"]), None).await.unwrap();
    assert_eq!(view.policy.grants.len(), 3);
    assert_eq!(world.networks.policies(&id), Some(vec![view.policy]));
    world.pass(&engine, 59).await;
    assert_eq!(record(&engine, &id).await.spec.network.grants.len(), 3);
    world.pass(&engine, 1).await;
    let left = record(&engine, &id).await.spec.network;
    assert_eq!(left.grants.len(), 1, "{left:?}");
    assert_eq!(world.networks.policies(&id), Some(vec![left]));
    engine.of(&owner()).sandbox(&id).network().allow(rules(&["b.example"]), Some(60_000)).await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    world.pass(&engine, 61).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(record(&engine, &id).await.spec.network.grants.len(), 1, "it was over before the start");
    assert_consistent(&world, &engine).await;
    let error = engine.of(&owner()).sandbox(&id).network().allow(Vec::new(), None).await.unwrap_err();
    assert_eq!(invalid_field(error), "rules");
    let error =
        engine.of(&owner()).sandbox(&id).network().allow(rules(&["10.0.0.1"]), None).await.unwrap_err();
    assert_eq!(invalid_field(error), "network.allow");
}

#[tokio::test]
async fn a_change_that_fails_leaves_the_old_policy() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.networks.fail_next("set");
    let error = engine.of(&owner()).sandbox(&id).network().set(listed(&["a.example"])).await.unwrap_err();
    assert!(matches!(error, EngineError::Network { .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
    world.catalog.fail_next_call("update_sandbox", CatalogErrorKind::Full);
    let error = engine.of(&owner()).sandbox(&id).network().set(listed(&["a.example"])).await.unwrap_err();
    assert!(matches!(error, EngineError::Catalog(_)), "{error:?}");
    assert_eq!(record(&engine, &id).await.spec.network, NetworkPolicy::public());
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_link_that_could_not_be_relaxed_is_relaxed_later() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, listed(&["a.example"])).await;
    // The first call tightens; it, and the way back, fail.
    world.networks.fail_next("set");
    world.networks.fail_next("set");
    engine.of(&owner()).sandbox(&id).network().set(NetworkPolicy::public()).await.unwrap_err();
    world.catalog.before_each({
        let networks = world.networks.clone();
        move |method| {
            if method == "update_sandbox" {
                networks.fail_next("set");
            }
        }
    });
    engine.of(&owner()).sandbox(&id).network().set(NetworkPolicy::public()).await.unwrap();
    let both = vec![listed(&["a.example"]), NetworkPolicy::public()];
    assert_eq!(world.networks.policies(&id), Some(both), "tight, and not loose");
    world.catalog.before_each(|_| {});
    world.networks.forgive();
    world.pass(&engine, 10).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn many_who_change_one_policy_at_once_take_turns() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, NetworkPolicy::of(NetworkMode::Ask)).await;
    let hosts: Vec<String> = (0..20).map(|number| format!("h{number}.example")).collect();
    let changes = hosts.iter().map(|host| {
        let (engine, id) = (engine.clone(), id.clone());
        async move { engine.of(&owner()).sandbox(&id).network().allow(rules(&[host]), None).await }
    });
    for result in join_all(changes).await {
        result.unwrap();
    }
    let policy = record(&engine, &id).await.spec.network;
    assert_eq!(policy.grants.len(), 20, "none is lost");
    assert_consistent(&world, &engine).await;
    let sandbox = engine.of(&owner()).sandbox(&id);
    let network = sandbox.network();
    let (one, other) = tokio::join!(network.set(listed(&["a.example"])), network.set(listed(&["b.example"])));
    assert!(one.is_ok() && other.is_ok());
    assert_consistent(&world, &engine).await;
    let (paused, changed, stopped) =
        tokio::join!(sandbox.pause(), network.set(listed(&["c.example"])), sandbox.stop(StoppedFiles::Keep),);
    assert!(changed.is_ok() && stopped.is_ok(), "{changed:?} {stopped:?}");
    drop(paused);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn of_two_answers_to_one_ask_the_first_counts() {
    use warren_core::network::GrantEffect::{Allow, Deny};
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, NetworkPolicy::of(NetworkMode::Ask)).await;
    world.networks.act(&id, asked("a.example", 443));
    let number = engine.of(&owner()).sandbox(&id).network().asks().await.unwrap()[0].number;
    let network = engine.of(&owner()).sandbox(&id).network();
    let (one, other) = tokio::join!(network.answer(number, Allow, None), network.answer(number, Deny, None));
    assert!(one.is_ok());
    assert!(matches!(other, Err(EngineError::NotFound { what: Missing::NetworkAsk, .. })), "{other:?}");
    world.networks.act(&id, asked("b.example", 443));
    let number = engine.of(&owner()).sandbox(&id).network().asks().await.unwrap()[0].number;
    world.networks.fail_next("set");
    network.answer(number, Allow, None).await.unwrap_err();
    network.answer(number, Allow, Some(1000)).await.unwrap();
    assert_consistent(&world, &engine).await;
}
