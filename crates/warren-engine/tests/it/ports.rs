use std::io::ErrorKind;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use warren_core::{DenyReason, IsolationErrorKind, PausedBy, SandboxId, Status, Traffic, Wake};
use warren_engine::{Acquire, Engine, EngineError, NewSandbox, Point, StoppedFiles};
use warren_testkit::Call;
use warren_wire::guest::FailureCode;

use crate::support::*;
use crate::travel::forks;

/// A service on the loopback that all sandboxes of the world have.
async fn service(world: &World) -> (TcpListener, u16) {
    world.isolation.share_network();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_connection_goes_over_a_socket_of_the_sandboxs_own_network() {
    let world = World::new();
    let (listener, port) = service(&world).await;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let mut near = engine.of(&owner()).sandbox(&id).connect(port).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    near.write_all(b"there").await.unwrap();
    near.shutdown().await.unwrap();
    let mut heard = String::new();
    far.read_to_string(&mut heard).await.unwrap();
    far.write_all(b"and back").await.unwrap();
    drop(far);
    let mut answer = String::new();
    near.read_to_string(&mut answer).await.unwrap();
    assert_eq!((heard.as_str(), answer.as_str()), ("there", "and back"));
}

#[tokio::test]
async fn a_port_on_which_nobody_listens_is_said_to_be_closed() {
    let world = World::new();
    let (listener, port) = service(&world).await;
    drop(listener);
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let error = engine.of(&owner()).sandbox(&id).connect(port).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Refused(failure) if failure.code == FailureCode::NotFound),
        "{error}"
    );
    let error = engine.of(&stranger()).sandbox(&id).connect(port).await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. }), "{error}");
    assert_eq!(engine.live(&id).map(|record| record.owner.clone()), Some(owner()));
}

#[tokio::test]
async fn a_visit_keeps_a_sandbox_awake_and_a_resting_connection_does_not() {
    let world = World::new();
    let (listener, port) = service(&world).await;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let visit = engine.of(&owner()).sandbox(&id).visit().await.unwrap();
    let mut near = visit.connect(port).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    world.fall_idle(&engine).await;
    assert_eq!(status(&engine, &id).await, Status::Ready);
    let life = visit.life();
    drop(visit);
    world.fall_idle(&engine).await;
    let paused = record(&engine, &id).await;
    assert_eq!(paused.paused.map(|paused| paused.by), Some(PausedBy::Idleness));
    // The next visit thaws it, and the connection is still good.
    let visit = engine.of(&owner()).sandbox(&id).visit().await.unwrap();
    assert_eq!((status(&engine, &id).await, visit.life() == life), (Status::Ready, true));
    far.write_all(b"x").await.unwrap();
    assert_eq!(near.read_u8().await.unwrap(), b'x');
}

#[tokio::test]
async fn an_open_connection_holds_up_no_pause_and_ends_with_the_life() {
    let world = World::new();
    let (listener, port) = service(&world).await;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let visit = engine.of(&owner()).sandbox(&id).visit().await.unwrap();
    let mut near = visit.connect(port).await.unwrap();
    let (_far, _) = listener.accept().await.unwrap();
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    assert!(matches!(engine.of(&owner()).sandbox(&id).connect(port).await, Err(EngineError::Denied { .. })));
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let error = near.read_u8().await.unwrap_err();
    assert_eq!((error.kind(), visit.life().is_over()), (ErrorKind::ConnectionReset, true));
    assert!(matches!(visit.connect(port).await, Err(EngineError::SandboxEnded { .. })));
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    let again = engine.of(&owner()).sandbox(&id).visit().await.unwrap();
    assert!(again.life() != visit.life() && !again.life().is_over());
}

/// A sandbox that traffic wakes, if there is a promise of time for it.
async fn paused_by_request(engine: &Engine, wake: Option<Wake>) -> SandboxId {
    let traffic = Traffic { wake, ..Traffic::default() };
    let new = NewSandbox { traffic, ..new_sandbox() };
    let request = Acquire { fresh: true, ..Acquire::new("tester", new) };
    let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    id
}

#[tokio::test]
async fn traffic_wakes_a_paused_sandbox_that_wakes_for_it_and_no_other() {
    let world = World::new();
    let (_listener, port) = service(&world).await;
    let engine = world.open().await;
    let sleeper = paused_by_request(&engine, None).await;
    let refused = engine.of(&owner()).sandbox(&sleeper).connect(port).await.unwrap_err();
    assert!(matches!(refused, EngineError::Denied { reason: DenyReason::Paused, .. }), "{refused:?}");
    assert_eq!(status(&engine, &sleeper).await, Status::Paused);

    let id = paused_by_request(&engine, Some(Wake { lifetime_s: 60 })).await;
    engine.of(&owner()).sandbox(&id).connect(port).await.unwrap();
    let woken = record(&engine, &id).await;
    assert_eq!((woken.status, woken.spec.limits.lifetime_s), (Status::Ready, 300), "some minutes at least");

    let id = paused_by_request(&engine, Some(Wake { lifetime_s: 4000 })).await;
    engine.of(&owner()).sandbox(&id).wake().await.unwrap();
    assert_eq!(record(&engine, &id).await.spec.limits.lifetime_s, 4000);
    engine.of(&owner()).sandbox(&id).wake().await.expect("it goes on already");
    let forked = engine.of(&owner()).snapshots().fork(&Point::Sandbox(id), forks(1)).await.unwrap();
    assert_eq!(forked[0].sandbox.traffic.wake, Some(Wake { lifetime_s: 4000 }), "forks wake as well");
}

#[tokio::test]
async fn a_port_that_opens_a_moment_after_the_wake_is_waited_for() {
    let world = World::new();
    let (listener, port) = service(&world).await;
    drop(listener);
    let engine = world.open().await;
    let awake = make(&engine).await.sandbox.id;
    let visit = engine.of(&owner()).sandbox(&awake).visit().await.unwrap();
    visit.connect(port).await.expect_err("nobody waits in one that was awake");
    let id = paused_by_request(&engine, Some(Wake { lifetime_s: 60 })).await;
    let visit = engine.of(&owner()).sandbox(&id).visit().await.unwrap();
    visit.connect_now(port).await.expect_err("nobody listens yet");
    let opens = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap()
    };
    let (connected, _listener) = tokio::join!(visit.connect(port), opens);
    connected.unwrap();
}

#[tokio::test]
async fn a_sandbox_that_cannot_wake_says_why() {
    let world = World::new();
    let engine = world.open().await;
    let id = paused_by_request(&engine, Some(Wake { lifetime_s: 60 })).await;
    world.isolation.fail_next(Call::Thaw, IsolationErrorKind::Host);
    let error = engine.of(&owner()).sandbox(&id).visit().await.unwrap_err();
    assert!(matches!(error, EngineError::NotWoken { .. }), "{error:?}");
}
