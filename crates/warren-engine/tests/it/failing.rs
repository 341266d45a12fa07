//! A catalog that is busy or full leaves nothing half done.

use warren_core::catalog::CatalogErrorKind;
use warren_core::{Isolation, SandboxId, SessionId, Status};
use warren_engine::{Engine, EngineError, Patch, Release, StoppedFiles};
use warren_testkit::{Call, Standing};

use crate::support::*;

const METHODS: [&str; 9] = [
    "insert",
    "update_sandbox",
    "sandbox",
    "insert_session",
    "update_session",
    "session",
    "sessions",
    "remembered",
    "forget_reached",
];

type Outcome = Result<(), EngineError>;

/// Every change that is written down.
const CHANGES: [&str; 14] = [
    "acquire",
    "attach",
    "pause",
    "resume",
    "stop keeping",
    "stop deleting",
    "restart",
    "patch",
    "detach",
    "suspend",
    "resume session",
    "release",
    "terminate",
    "record run",
];

async fn prepare(engine: &Engine, change: &str, id: &SandboxId, session: &SessionId) {
    let me = owner();
    match change {
        "resume" => drop(engine.of(&me).sandbox(id).pause().await.unwrap()),
        "restart" => drop(engine.of(&me).sandbox(id).stop(StoppedFiles::Keep).await.unwrap()),
        "resume session" => drop(engine.of(&me).session(session).suspend().await.unwrap()),
        _ => {}
    }
}

async fn make_change(engine: &Engine, change: &str, id: &SandboxId, session: &SessionId) -> Outcome {
    let me = owner();
    match change {
        "acquire" => engine.of(&me).sessions().acquire(acquire()).await.map(drop),
        "attach" => engine.of(&me).sessions().attach(attach(id)).await.map(drop),
        "pause" => engine.of(&me).sandbox(id).pause().await.map(drop),
        "resume" | "restart" => engine.of(&me).sandbox(id).resume().await.map(drop),
        "stop keeping" => engine.of(&me).sandbox(id).stop(StoppedFiles::Keep).await.map(drop),
        "stop deleting" => engine.of(&me).sandbox(id).stop(StoppedFiles::Delete).await.map(drop),
        "patch" => {
            let patch =
                Patch { metadata: Some([("a".to_owned(), "b".to_owned())].into()), ..Patch::default() };
            engine.of(&me).sandbox(id).update(patch).await.map(drop)
        }
        "detach" => engine.of(&me).session(session).detach().await.map(drop),
        "suspend" => engine.of(&me).session(session).suspend().await.map(drop),
        "resume session" => engine.of(&me).session(session).resume().await.map(drop),
        "release" => engine.of(&me).session(session).release(Release::KeepAlive).await.map(drop),
        "terminate" => engine.of(&me).session(session).terminate().await.map(drop),
        "record run" => engine.of(&me).session(session).record_run(run_of(1)).await.map(drop),
        other => panic!("{other}"),
    }
}

/// Lets everything that did not get through be tried again.
async fn try_again(world: &World, engine: &Engine) {
    for _ in 0..3 {
        world.pass(engine, 10).await;
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_written_down_is_not_half_made() {
    for kind in [CatalogErrorKind::Busy, CatalogErrorKind::Full] {
        for change in CHANGES {
            for method in METHODS {
                let world = World::new();
                let engine = world.open().await;
                let made = make(&engine).await;
                let (id, session) = (made.sandbox.id, made.session.id);
                output(&engine, &id, "write /root/work precious").await;
                prepare(&engine, change, &id, &session).await;
                world.catalog.fail_next_call(method, kind);
                let outcome = make_change(&engine, change, &id, &session).await;
                world.catalog.forgive();
                let told = format!("{change} with {method} {kind:?}: {outcome:?}");
                if let Err(error) = &outcome {
                    assert!(matches!(error, EngineError::Catalog(error) if error.kind == kind), "{told}");
                }
                try_again(&world, &engine).await;
                assert_consistent(&world, &engine).await;
                let again = make_change(&engine, change, &id, &session).await;
                assert!(again.is_ok(), "{told}, and again {again:?}");
                assert_consistent(&world, &engine).await;
                if !change.contains("delet") && change != "terminate" {
                    assert_eq!(
                        world.isolation.file(&id, "/root/work").as_deref(),
                        Some(&b"precious"[..]),
                        "{told}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_sandbox_that_was_made_but_not_written_down_is_undone() {
    let world = World::new();
    let engine = world.open().await;
    world.catalog.fail_next_call("update_sandbox", CatalogErrorKind::Full);
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::Catalog(_)), "{error:?}");
    assert_eq!(world.isolation.calls(Call::Create), 1);
    world.isolation.assert_only(&[]);
    try_again(&world, &engine).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_undone_is_removed_later() {
    let world = World::new();
    let engine = world.open().await;
    world.catalog.fail_next_call("update_sandbox", CatalogErrorKind::Full);
    world.isolation.fail_next(Call::Destroy, warren_core::IsolationErrorKind::Host);
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::Catalog(_)), "{error:?}");
    try_again(&world, &engine).await;
    assert!(
        world.isolation.list().unwrap().is_empty(),
        "nobody looks after {:?}",
        world.isolation.standings()
    );
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn an_end_that_cannot_be_written_down_happens_and_is_written_later() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    for _ in 0..4 {
        world.catalog.fail_next_call("update_sandbox", CatalogErrorKind::Busy);
    }
    world.isolation.die(&made.sandbox.id, false);
    eventually("it is written down", async || {
        try_again(&world, &engine).await;
        status(&engine, &made.sandbox.id).await == Status::Stopped
    })
    .await;
    assert_eq!(world.isolation.standing(&made.sandbox.id), Some(Standing::Halted));
    assert!(!state(&engine, &made.session.id).await.is_open());
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn events_that_cannot_be_written_disturb_nobody() {
    let world = World::new();
    let engine = world.open().await;
    for _ in 0..5 {
        world.catalog.fail_next_call("append_events", CatalogErrorKind::Busy);
    }
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "true").await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    assert_consistent(&world, &engine).await;
}
