use warren_core::{Flush, IsolationErrorKind};
use warren_engine::{Engine, EngineError, ProcessEvent};
use warren_testkit::Call;
use warren_wire::guest::{ProcessSelector, Reader};

use crate::support::*;

async fn world_that(flush: Flush) -> (World, Engine) {
    let mut world = World::new();
    world.settings.flush = flush;
    let engine = world.open().await;
    (world, engine)
}

#[tokio::test]
async fn nobody_is_told_of_an_end_before_what_was_written_is_on_disk() {
    let (world, engine) = world_that(Flush::Commands).await;
    let id = make(&engine).await.sandbox.id;
    assert_eq!(world.isolation.calls(Call::Flush), 0);
    output(&engine, &id, "write /root/work precious").await;
    assert_eq!(world.isolation.calls(Call::Flush), 1, "who waited for an answer");
    let mut followed =
        engine.of(&owner()).sandbox(&id).start(program("write /root/work more")).await.unwrap();
    let process = ProcessSelector::Id(followed.started.process);
    while !matches!(followed.next().await.unwrap(), Some(ProcessEvent::Exited(_))) {}
    assert_eq!(world.isolation.calls(Call::Flush), 2, "who followed it");
    engine.of(&owner()).sandbox(&id).processes().wait(process.clone()).await.unwrap();
    assert_eq!(world.isolation.calls(Call::Flush), 3, "who came for the end alone");
    let mut again =
        engine.of(&owner()).sandbox(&id).processes().follow(process, 0, Reader::Holds).await.unwrap();
    while !matches!(again.next().await.unwrap(), Some(ProcessEvent::Exited(_))) {}
    assert_eq!(world.isolation.calls(Call::Flush), 4, "who came late");
}

#[tokio::test]
async fn a_disk_that_fails_is_told_instead_of_the_end() {
    let (world, engine) = world_that(Flush::Commands).await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.fail_next(Call::Flush, IsolationErrorKind::Host);
    let error = exec(&engine, &id, "write /root/work precious").await.unwrap_err();
    assert!(matches!(error, EngineError::Backend(_)), "{error:?}");
    output(&engine, &id, "write /root/work precious").await;
}

#[tokio::test]
async fn without_the_promise_nobody_waits_for_the_disk() {
    let (world, engine) = world_that(Flush::Background).await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "write /root/work precious").await;
    assert_eq!(world.isolation.calls(Call::Flush), 0);
}
