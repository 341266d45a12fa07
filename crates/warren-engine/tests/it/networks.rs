//! Links of sandboxes: made before they start, changed while they run, gone when they end.

mod changing;
mod transforms;
mod watching;

use warren_core::catalog::CatalogErrorKind;
use warren_core::network::Protocol;
use warren_core::{
    Capabilities, Event, IsolationErrorKind, NetworkEntry, NetworkLimits, NetworkMode, NetworkPolicy,
    NetworkRule, NetworkSupport, NetworkVerdict, SandboxId, Status,
};
use warren_engine::{Acquire, Engine, EngineError, NewSandbox, Point, StoppedFiles};
use warren_testkit::{Call, FakeIsolation};

use crate::support::*;
use crate::travel::{forks, snap};

pub(crate) fn rules(texts: &[&str]) -> Vec<NetworkRule> {
    texts.iter().map(|text| text.parse().expect("a rule")).collect()
}

fn entry(verdict: NetworkVerdict, host: &str, port: u16) -> NetworkEntry {
    NetworkEntry {
        verdict,
        protocol: Protocol::Tcp,
        host: Some(host.to_owned()),
        address: Some("192.0.2.77".parse().unwrap()),
        port,
        rule: "a rule".to_owned(),
        process: Some("curl".to_owned()),
        count: 1,
    }
}

pub(crate) fn asked(host: &str, port: u16) -> NetworkEntry {
    entry(NetworkVerdict::Asked, host, port)
}

fn with(policy: NetworkPolicy) -> Acquire {
    let mut new: NewSandbox = new_sandbox();
    new.spec.network = policy;
    Acquire { sandbox: new, ..acquire() }
}

fn listed(texts: &[&str]) -> NetworkPolicy {
    NetworkPolicy { allow: rules(texts), ..NetworkPolicy::of(NetworkMode::Allow) }
}

async fn make_with(engine: &Engine, policy: NetworkPolicy) -> SandboxId {
    engine.of(&owner()).sessions().acquire(with(policy)).await.expect("acquire a sandbox").sandbox.id
}

async fn events(engine: &Engine, wanted: fn(&Event) -> bool) -> usize {
    let all = all_events(engine, &owner()).await;
    all.iter().filter(|record| wanted(&record.event)).count()
}

fn invalid_field(error: EngineError) -> String {
    match error {
        EngineError::Invalid { field, wording } => {
            let (field, message) = (field.to_string(), wording.of(&field.to_string()));
            assert!(message.starts_with(&field), "{field}: {message}");
            field
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_sandbox_starts_in_the_namespace_that_it_was_attached_with() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, listed(&["a.example"])).await;
    assert_eq!(world.networks.policies(&id), Some(vec![listed(&["a.example"])]));
    assert!(!world.networks.is_namespace_held(&id), "only the sandbox keeps it");
    assert!(output(&engine, &id, "env").await.contains("FAKE_LINK=up"));
    let found = record(&engine, &id).await;
    assert_eq!(found.addresses.len(), 1);
    let view = engine.of(&owner()).sandbox(&id).network().view().await.unwrap();
    assert_eq!((view.addresses, view.policy), (found.addresses, found.spec.network));
    assert!(view.usage.is_some());
    let closed = make_with(&engine, NetworkPolicy::none()).await;
    assert_eq!(world.networks.policies(&closed), None);
    assert!(!output(&engine, &closed, "env").await.contains("FAKE_LINK"));
    assert_eq!(engine.of(&owner()).sandbox(&closed).network().view().await.unwrap().usage, None);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_link() {
    let world = World::new();
    let engine = world.open().await;
    world.networks.fail_next("attach");
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::Network { .. }), "{error:?}");
    world.isolation.fail_next(Call::Create, IsolationErrorKind::Layer);
    engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    world.isolation.fail_next(Call::Watch, IsolationErrorKind::Host);
    engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(world.networks.attached().is_empty());
    world.isolation.assert_only(&[]);
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    assert!(world.networks.attached().is_empty());
    for call in [Call::Create, Call::Watch] {
        world.isolation.fail_next(call, IsolationErrorKind::Host);
        engine.of(&owner()).sandbox(&id).resume().await.unwrap_err();
        assert!(world.networks.attached().is_empty());
    }
    world.networks.fail_next("attach");
    engine.of(&owner()).sandbox(&id).resume().await.unwrap_err();
    assert_consistent(&world, &engine).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_link_that_could_not_be_removed_is_removed_later() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.networks.fail_next("detach");
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!(status(&engine, &id).await, Status::Stopped);
    assert_eq!(world.networks.attached().len(), 1);
    world.pass(&engine, 10).await;
    assert!(world.networks.attached().is_empty());
    world.networks.fail_next("detach");
    world.isolation.fail_next(Call::Create, IsolationErrorKind::Layer);
    engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert_eq!(world.networks.attached().len(), 1);
    world.pass(&engine, 10).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn whatever_ends_a_sandbox_takes_its_link_away() {
    let world = World::new();
    let engine = world.open().await;
    let dead = make(&engine).await.sandbox.id;
    world.isolation.die(&dead, false);
    eventually("its end is noticed", async || status(&engine, &dead).await == Status::Stopped).await;
    let (kept, gone) = (make(&engine).await.sandbox.id, make(&engine).await.sandbox.id);
    engine.of(&owner()).sandbox(&kept).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&gone).stop(StoppedFiles::Delete).await.unwrap();
    assert!(world.networks.attached().is_empty());
    assert!(record(&engine, &kept).await.addresses.is_empty());
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_ended_reaches_nobody() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.fail_next(Call::Halt, IsolationErrorKind::Host);
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap_err();
    assert_eq!(status(&engine, &id).await, Status::Stopping);
    assert!(world.networks.attached().is_empty());
    world.pass(&engine, 10).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_policy_survives_everything_and_forks_inherit_it_without_grants() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, listed(&["a.example"])).await;
    output(&engine, &id, "write /root/work one").await;
    engine.of(&owner()).sandbox(&id).network().allow(rules(&["b.example"]), None).await.unwrap();
    let policy = record(&engine, &id).await.spec.network;
    assert_eq!(policy.grants.len(), 1);
    let holds = async |engine: &Engine| {
        assert_eq!(record(engine, &id).await.spec.network, policy);
        assert_eq!(world.networks.policies(&id), Some(vec![policy.clone()]));
    };
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    holds(&engine).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    let snapshot = snap(&engine, &id).await.snapshot.id;
    output(&engine, &id, "write /root/work two").await;
    engine.of(&owner()).sandbox(&id).history().rollback(&snapshot, false).await.unwrap();
    holds(&engine).await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    holds(&engine).await;
    for point in [Point::Sandbox(id.clone()), Point::Snapshot(snapshot.clone())] {
        let fork = engine.of(&owner()).snapshots().fork(&point, forks(1)).await.unwrap().remove(0).sandbox;
        assert_eq!(fork.spec.network, listed(&["a.example"]));
        assert_eq!(world.networks.policies(&fork.id), Some(vec![listed(&["a.example"])]));
    }
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.inherit();
    let engine = world.open().await;
    holds(&engine).await;
    assert_consistent(&world, &engine).await;
    engine.of(&owner()).sandbox(&id).network().set(listed(&["c.example"])).await.unwrap();
    let fork = engine
        .of(&owner())
        .snapshots()
        .fork(&Point::Snapshot(snapshot), forks(1))
        .await
        .unwrap()
        .remove(0)
        .sandbox;
    assert_eq!(fork.spec.network, listed(&["c.example"]), "an old state opens nothing that was closed since");
}

#[tokio::test]
async fn a_rollback_that_cannot_start_again_leaves_no_link() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "write /root/work one").await;
    let snapshot = snap(&engine, &id).await.snapshot.id;
    world.networks.fail_next("attach");
    engine.of(&owner()).sandbox(&id).history().rollback(&snapshot, false).await.unwrap_err();
    eventually("it is stopped", async || status(&engine, &id).await == Status::Stopped).await;
    assert_consistent(&world, &engine).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_start_takes_over_the_links_of_those_that_run_and_removes_the_rest() {
    let world = World::new();
    let engine = world.open().await;
    let (kept, lost, dead) =
        (make(&engine).await.sandbox.id, make(&engine).await.sandbox.id, make(&engine).await.sandbox.id);
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.inherit();
    world.networks.lose(&lost);
    world.isolation.die(&dead, false);
    let engine = world.open().await;
    assert_eq!(world.networks.attached(), [kept].into());
    let found = record(&engine, &lost).await;
    assert_eq!((found.status, found.addresses.len()), (Status::Ready, 0), "it runs on, cut off");
    let told = |event: &Event| matches!(event, Event::NetworkLost { .. });
    eventually("its owner is told", async || events(&engine, told).await == 1).await;
    engine.of(&owner()).sandbox(&lost).network().set(listed(&["a.example"])).await.unwrap();
    engine.of(&owner()).sandbox(&lost).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&lost).resume().await.unwrap();
    assert_eq!(world.networks.policies(&lost), Some(vec![listed(&["a.example"])]));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_link_that_cannot_be_taken_over_is_cut() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.inherit();
    world.networks.fail_next("adopt");
    let engine = world.open().await;
    assert!(world.networks.attached().is_empty(), "nobody would hold it to its policy");
    assert_eq!(status(&engine, &id).await, Status::Ready);
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_before_anything_is_made() {
    let mut world = World::new();
    world.settings.network.exceptions = rules(&["10.1.0.0/16"]);
    let engine = world.open().await;
    let limits = NetworkLimits { connections: 60_000, ..NetworkLimits::default() };
    let wrong = [
        (listed(&["10.0.0.1"]), "network.allow"),
        (NetworkPolicy { allow: rules(&["a.example"]), ..NetworkPolicy::public() }, "network.allow"),
        (NetworkPolicy { deny: rules(&["a.example"]), ..NetworkPolicy::none() }, "network.deny"),
        (NetworkPolicy { limits, ..NetworkPolicy::public() }, "network.limits.connections"),
        (
            NetworkPolicy { secrets: vec!["token".parse().unwrap()], ..NetworkPolicy::public() },
            "network.secrets",
        ),
    ];
    for (policy, field) in wrong {
        let error = engine.of(&owner()).sessions().acquire(with(policy)).await.unwrap_err();
        assert_eq!(invalid_field(error), field);
    }
    assert!(
        engine.of(&owner()).sessions().acquire(with(listed(&["10.1.2.3"]))).await.is_ok(),
        "the operator excepts it"
    );
    world.networks.break_down("there is no nftables");
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(&error, EngineError::NothingFits { .. }), "{error:?}");
    assert!(error.to_string().contains("there is no nftables"), "{error}");
    assert!(engine.of(&owner()).sessions().acquire(with(NetworkPolicy::none())).await.is_ok());
}

#[tokio::test]
async fn a_backend_without_networks_serves_those_that_need_none() {
    let can = Capabilities { network: NetworkSupport::None, ..FakeIsolation::everything() };
    let world = World { isolation: FakeIsolation::able("fake", can), ..World::new() };
    let engine = world.open().await;
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::NothingFits { .. }), "{error:?}");
    let id = make_with(&engine, NetworkPolicy::none()).await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let error = engine.of(&owner()).sandbox(&id).network().set(NetworkPolicy::public()).await.unwrap_err();
    assert!(matches!(error, EngineError::NothingFits { .. }), "{error:?}");
}

#[tokio::test]
async fn a_record_that_cannot_be_written_leaves_no_link() {
    let world = World::new();
    let engine = world.open().await;
    world.catalog.fail_next_call("update_sandbox", CatalogErrorKind::Full);
    engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    world.pass(&engine, 10).await;
    assert!(world.networks.attached().is_empty());
    assert_consistent(&world, &engine).await;
}
