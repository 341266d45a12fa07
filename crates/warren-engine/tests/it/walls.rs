//! The choice of a wall: by name, by tier, by template, and no less than an owner may have.

use std::collections::BTreeMap;

use warren_core::{
    Capabilities, Event, ImportFormat, Isolation as _, IsolationErrorKind, IsolationKind, NetworkMode,
    NetworkPolicy, NetworkSupport, Owner, SandboxId, Status, TemplateName, WallChoice,
};
use warren_engine::{
    Acquire, Acquired, Engine, EngineError, ExportOrder, Point, RaiseWhen, StoppedFiles, TakeSnapshot,
    WallSettings,
};
use warren_testkit::{Call, FakeIsolation, Standing};

use crate::support::*;
use crate::travel::{Sink, forks, named};

async fn ask(
    engine: &Engine,
    owner: &Owner,
    backend: Option<&str>,
    tier: Option<IsolationKind>,
) -> Result<Acquired, EngineError> {
    let mut request = Acquire { backend: backend.map(str::to_owned), ..acquire() };
    request.sandbox.tier = tier;
    engine.of(owner).sessions().acquire(request).await
}

fn least(tier: IsolationKind) -> WallSettings {
    WallSettings { least_of: BTreeMap::from([(owner(), tier)]), ..WallSettings::default() }
}

#[tokio::test]
async fn a_tier_or_a_name_chooses_and_is_written_down_as_asked() {
    let world = World::walled();
    let engine = world.open().await;
    let (namespaces, kernel) = (IsolationKind::Namespaces, IsolationKind::UserKernel);
    for (backend, tier, expected) in [
        (None, None, "fake"),
        (None, Some(kernel), "wall"),
        (None, Some(namespaces), "fake"),
        (Some("wall"), None, "wall"),
        (Some("wall"), Some(kernel), "wall"),
    ] {
        let made = ask(&engine, &owner(), backend, tier).await.unwrap().sandbox;
        assert_eq!(made.backend, expected);
        assert_eq!(made.wall, WallChoice { backend: backend.map(str::to_owned), tier });
    }
    let error = ask(&engine, &owner(), Some("fake"), Some(kernel)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("fake: its tier is `namespaces`, and `user_kernel` is asked for"), "{text}");
    let error = ask(&engine, &owner(), None, Some(IsolationKind::Vm)).await.unwrap_err();
    let EngineError::NothingFits { asked: Some(field), reasons } = error else { panic!("a refusal") };
    assert_eq!((field.to_string().as_str(), reasons.len()), ("tier", 2), "{reasons:?}");
}

#[tokio::test]
async fn a_template_has_a_tier_for_those_who_ask_for_none() {
    let mut world = World::walled();
    let templates = BTreeMap::from([(TemplateName::host(), IsolationKind::UserKernel)]);
    world.settings.walls = WallSettings { templates, ..WallSettings::default() };
    let engine = world.open().await;
    let made = ask(&engine, &owner(), None, None).await.unwrap().sandbox;
    assert_eq!((made.backend.as_str(), made.wall), ("wall", WallChoice::default()));
    let made = ask(&engine, &owner(), Some("fake"), None).await.unwrap().sandbox;
    assert_eq!(made.backend, "fake");
}

#[tokio::test]
async fn a_refusal_names_no_field_that_nobody_sent() {
    let mut world = World::walled();
    let templates = BTreeMap::from([(TemplateName::host(), IsolationKind::Vm)]);
    world.settings.walls = WallSettings { templates, ..WallSettings::default() };
    let engine = world.open().await;
    let made = ask(&engine, &owner(), Some("fake"), None).await.unwrap().sandbox;
    let taken = named(&engine, &made.id, "kept").await.unwrap();
    engine.of(&owner()).sandbox(&made.id).stop(StoppedFiles::Delete).await.unwrap();
    let error = ask(&engine, &owner(), None, None).await.unwrap_err();
    assert!(matches!(&error, EngineError::NothingFits { asked: None, .. }), "by its template: {error:?}");
    // The backend can no longer do what its original needs.
    let able = Capabilities { network: NetworkSupport::None, ..FakeIsolation::everything() };
    world.isolation = world.isolation.beside("fake", able);
    let engine = world.reopen(engine).await;
    let from = Point::Snapshot(taken.snapshot.id);
    let error = engine.of(&owner()).snapshots().fork(&from, forks(1)).await.unwrap_err();
    assert!(matches!(&error, EngineError::NothingFits { asked: None, .. }), "of a fork: {error:?}");
}

#[tokio::test]
async fn an_owners_work_never_runs_below_its_least_tier() {
    let mut world = World::walled();
    world.settings.walls = least(IsolationKind::UserKernel);
    let engine = world.open().await;
    let made = ask(&engine, &owner(), None, None).await.unwrap().sandbox;
    assert_eq!(made.backend, "wall");
    for (backend, tier) in [(Some("fake"), None), (None, Some(IsolationKind::Namespaces))] {
        let error = ask(&engine, &owner(), backend, tier).await.unwrap_err();
        assert!(error.to_string().contains("`user_kernel` is the least that is allowed"), "{error}");
    }
    let sandbox = engine.of(&owner()).sandbox(&made.id);
    let error = sandbox.move_to(WallChoice::backend("fake"), false).await.unwrap_err();
    assert!(error.to_string().contains("least that is allowed"), "{error}");
    let other = ask(&engine, &stranger(), None, None).await.unwrap().sandbox;
    assert_eq!(other.backend, "fake", "another owner's is another matter");
}

#[tokio::test]
async fn what_ran_below_is_stopped_and_goes_on_behind_a_stronger_wall() {
    let mut world = World::walled();
    let engine = world.open().await;
    let below = make(&engine).await.sandbox;
    output(&engine, &below.id, "write /root/work one").await;
    let taken = engine.of(&owner()).sandbox(&below.id).history().take(TakeSnapshot::default()).await.unwrap();
    let above = ask(&engine, &owner(), Some("wall"), None).await.unwrap().sandbox;
    world.settings.walls = least(IsolationKind::UserKernel);
    let engine = world.reopen(engine).await;
    let stopped = record(&engine, &below.id).await;
    assert_eq!((stopped.status, stopped.files_kept()), (Status::Stopped, true));
    assert_eq!(status(&engine, &above.id).await, Status::Ready);
    let sandbox = engine.of(&owner()).sandbox(&below.id);
    let error = sandbox.resume().await.unwrap_err();
    assert!(error.to_string().contains("policy.minimum_tier"), "{error}");
    assert_eq!(world.isolation.standing(&below.id), Some(Standing::Halted));
    let error = sandbox.history().rollback(&taken.snapshot.id, false).await.unwrap_err();
    assert!(error.to_string().contains("policy.minimum_tier"), "{error}");
    let fork = engine.of(&owner()).snapshots().fork(&Point::Snapshot(taken.snapshot.id), forks(1)).await;
    assert_eq!(fork.unwrap().remove(0).sandbox.backend, "wall", "a fork is made where it may be");
    sandbox.move_to(WallChoice::tier(IsolationKind::UserKernel), false).await.unwrap();
    sandbox.resume().await.unwrap();
    assert_eq!(output(&engine, &below.id, "read /root/work").await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_machine_of_a_pool_below_the_least_tier_is_nobodys() {
    let mut world = World::walled();
    world.settings.pools = crate::pools::pool_of(1);
    world.settings.walls = least(IsolationKind::UserKernel);
    let engine = world.open().await;
    eventually("the pool is full", async || engine.stats().await.pool_size == 1).await;
    let made = make(&engine).await.sandbox;
    assert_eq!(made.backend, "wall");
    let stopped = engine.of(&owner()).sandbox(&made.id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!(stopped.status, Status::Stopped);
}

fn rules(raise_when: &[RaiseWhen]) -> World {
    let mut world = World::walled();
    let raise_to = Some(IsolationKind::UserKernel);
    world.settings.walls =
        WallSettings { raise_when: raise_when.to_vec(), raise_to, ..WallSettings::default() };
    world
}

#[tokio::test]
async fn a_rule_moves_a_sandbox_before_its_network_is_opened() {
    let world = rules(&[RaiseWhen::NetworkOpened]);
    let engine = world.open().await;
    assert_eq!(make(&engine).await.sandbox.backend, "wall", "one that begins with a network");
    let id = make_alone(&engine).await;
    assert_eq!(record(&engine, &id).await.backend, "fake");
    output(&engine, &id, "write /root/work one").await;
    let sandbox = engine.of(&owner()).sandbox(&id);
    sandbox.stop(StoppedFiles::Keep).await.unwrap();
    sandbox.network().set(NetworkPolicy::public()).await.unwrap();
    let raised = record(&engine, &id).await;
    assert_eq!((raised.backend.as_str(), raised.spec.network.is_none()), ("wall", false));
    sandbox.resume().await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "one");
    let events = all_events(&engine, &owner()).await;
    let by =
        |event: &Event| matches!(event, Event::SandboxMoved { by, .. } if by.contains("tiers.raise_when"));
    assert!(events.iter().any(|event| by(&event.event)));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_network_is_not_opened_behind_a_wall_that_cannot_be_raised() {
    let world = rules(&[RaiseWhen::NetworkOpened]);
    let engine = world.open().await;
    let id = make_alone(&engine).await;
    let sandbox = engine.of(&owner()).sandbox(&id);
    sandbox.stop(StoppedFiles::Keep).await.unwrap();
    world.isolation.fail_next(Call::Seal, IsolationErrorKind::Host);
    sandbox.network().set(NetworkPolicy::public()).await.unwrap_err();
    let kept = record(&engine, &id).await;
    assert_eq!((kept.backend.as_str(), kept.spec.network.is_none()), ("fake", true));
    assert_consistent(&world, &engine).await;
}

/// A sandbox without a network.
async fn make_alone(engine: &Engine) -> SandboxId {
    let mut alone = acquire();
    alone.sandbox.spec.network = NetworkPolicy::none();
    engine.of(&owner()).sessions().acquire(alone).await.unwrap().sandbox.id
}

#[tokio::test]
async fn a_change_of_the_network_that_is_refused_moves_nothing() {
    let mut world = World::walled();
    let engine = world.open().await;
    let mut linked = acquire();
    linked.sandbox.spec.network = NetworkPolicy::of(NetworkMode::Allow);
    let open = engine.of(&owner()).sessions().acquire(linked).await.unwrap().sandbox.id;
    world.settings.walls = rules(&[RaiseWhen::NetworkOpened]).settings.walls;
    let engine = world.reopen(engine).await;
    let alone = make_alone(&engine).await;
    let network = |id: &SandboxId| engine.of(&owner()).sandbox(id).network();
    // It gets a network only when it is started.
    let error = network(&alone).set(NetworkPolicy::public()).await.unwrap_err();
    assert!(matches!(&error, EngineError::Invalid { field, .. } if field.to_string() == "network.mode"));
    // Nobody may go there.
    let error = network(&open).allow(vec!["10.0.0.1".parse().unwrap()], None).await.unwrap_err();
    assert!(matches!(&error, EngineError::Invalid { field, .. } if field.to_string() == "network.allow"));
    for id in [&open, &alone] {
        let after = record(&engine, id).await;
        assert_eq!((after.backend.as_str(), after.status), ("fake", Status::Ready));
    }
    assert_eq!(world.isolation.calls(Call::Halt), 0, "no process ended");
    // What is refused behind the stronger wall is refused before it is there.
    let able = Capabilities { network: NetworkSupport::None, ..world.wall().capabilities().clone() };
    world.wall = Some(world.isolation.beside("wall", able));
    let engine = world.reopen(engine).await;
    let sandbox = engine.of(&owner()).sandbox(&alone);
    sandbox.stop(StoppedFiles::Keep).await.unwrap();
    let error = sandbox.network().set(NetworkPolicy::public()).await.unwrap_err();
    let EngineError::NothingFits { asked: None, reasons } = &error else { panic!("{error:?}") };
    assert!(reasons[1].1.contains("`network`"), "{reasons:?}");
    assert_eq!(record(&engine, &alone).await.backend, "fake");
    sandbox.resume().await.unwrap();
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_rule_takes_a_stronger_wall_where_there_is_none_of_its_tier() {
    let mut world = rules(&[RaiseWhen::NetworkOpened]);
    let able = Capabilities { isolation: IsolationKind::Vm, ..FakeIsolation::everything() };
    world.wall = Some(world.isolation.beside("wall", able));
    let engine = world.open().await;
    let id = make_alone(&engine).await;
    let sandbox = engine.of(&owner()).sandbox(&id);
    sandbox.stop(StoppedFiles::Keep).await.unwrap();
    sandbox.network().set(NetworkPolicy::public()).await.unwrap();
    let raised = record(&engine, &id).await;
    assert_eq!((raised.backend.as_str(), raised.wall), ("wall", WallChoice::default()));
    sandbox.resume().await.unwrap();
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_came_from_an_archive_runs_behind_the_raised_wall() {
    let world = rules(&[RaiseWhen::Import]);
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    assert_eq!(record(&engine, &id).await.backend, "fake", "it came from nowhere else");
    output(&engine, &id, "write /root/work one").await;
    let taken = engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.unwrap();
    let (sink, access) = (Sink::default(), engine.of(&owner()));
    let from = Point::Snapshot(taken.snapshot.id);
    access.snapshots().export(&from, ExportOrder::History, Box::new(sink.clone())).await.unwrap();
    let archive = Box::new(std::io::Cursor::new(sink.take()));
    let rows = access.snapshots().import(ImportFormat::History, None, None, archive).await.unwrap();
    let imported = Point::Snapshot(rows.last().unwrap().id.clone());
    let fork = access.snapshots().fork(&imported, forks(1)).await.unwrap().remove(0).sandbox;
    assert_eq!(fork.backend, "wall");
    let again = access.snapshots().fork(&from, forks(1)).await.unwrap().remove(0).sandbox;
    assert_eq!(again.backend, "fake");
}
