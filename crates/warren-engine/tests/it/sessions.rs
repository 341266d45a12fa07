use std::collections::BTreeMap;
use std::slice::from_ref;

use warren_core::catalog::{SandboxFilter, SessionFilter};
use warren_core::{PageRequest, Provision, SessionState, Status};
use warren_engine::{Acquire, Attach, EngineError, Missing, Release, StoppedFiles};
use warren_testkit::{Call, Standing};

use crate::support::*;

fn words(key: &str, value: &str) -> BTreeMap<String, String> {
    [(key.to_owned(), value.to_owned())].into()
}

#[tokio::test]
async fn a_second_session_shares_the_sandbox() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    output(&engine, &id, "write /tmp/a shared").await;
    let second = engine.of(&owner()).sessions().attach(attach(&id)).await.unwrap();
    assert!(!second.fresh);
    assert_eq!((second.sandbox.id.clone(), second.session.client.as_str()), (id.clone(), "second"));
    assert_eq!(output(&engine, &id, "read /tmp/a").await, "shared");
    let filter = SessionFilter { sandbox: Some(id), ..SessionFilter::default() };
    let page = engine.of(&owner()).sessions().list(&filter, &PageRequest::default()).await.unwrap();
    assert_eq!(page.items.len(), 2);
}

#[tokio::test]
async fn attaching_makes_a_sandbox_run() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    output(&engine, &id, "write /tmp/a kept").await;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    let joined = engine.of(&owner()).sessions().attach(attach(&id)).await.unwrap();
    assert_eq!(joined.sandbox.status, Status::Ready);
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let joined = engine.of(&owner()).sessions().attach(attach(&id)).await.unwrap();
    assert_eq!((joined.sandbox.status, joined.fresh), (Status::Ready, false));
    assert_eq!(output(&engine, &id, "read /tmp/a").await, "kept");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn attaching_to_what_is_gone_is_refused_or_makes_another() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let error = engine.of(&owner()).sessions().attach(attach(&id)).await.unwrap_err();
    assert!(matches!(error, EngineError::SandboxEnded { .. }), "{error:?}");
    let request = Attach { create_if_missing: Some(new_sandbox()), ..attach(&id) };
    let made = engine.of(&owner()).sessions().attach(request).await.unwrap();
    assert!(made.fresh && made.sandbox.id != id);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_suspended_session_freezes_its_sandbox_until_it_is_resumed() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    let view = engine.of(&owner()).session(&made.session.id).suspend().await.unwrap();
    assert_eq!(view.session.state, SessionState::Suspended);
    assert_eq!(world.isolation.standing(&id), Some(Standing::Frozen));
    let error = exec(&engine, &id, "true").await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { .. }), "{error:?}");
    let view = engine.of(&owner()).session(&made.session.id).resume().await.unwrap();
    assert_eq!(view.session.state, SessionState::Active);
    output(&engine, &id, "true").await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_session_is_not_suspended_under_another_client() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let second = engine.of(&owner()).sessions().attach(attach(&made.sandbox.id)).await.unwrap();
    let error = engine.of(&owner()).session(&made.session.id).suspend().await.unwrap_err();
    assert!(matches!(error, EngineError::SessionState { .. }), "{error:?}");
    assert_eq!(status(&engine, &made.sandbox.id).await, Status::Ready);
    engine.of(&owner()).session(&second.session.id).detach().await.unwrap();
    engine.of(&owner()).session(&made.session.id).suspend().await.unwrap();
    assert_eq!(status(&engine, &made.sandbox.id).await, Status::Paused);
}

#[tokio::test]
async fn a_released_sandbox_is_stopped_once_nobody_holds_it() {
    for (release, standing) in [(Release::KeepAlive, Some(Standing::Halted)), (Release::Destroy, None)] {
        let world = World::new();
        let engine = world.open().await;
        let made = make(&engine).await;
        let id = made.sandbox.id;
        let second = engine.of(&owner()).sessions().attach(attach(&id)).await.unwrap();
        let released = engine.of(&owner()).session(&made.session.id).release(release).await.unwrap();
        assert_eq!(released.state, SessionState::Released);
        output(&engine, &id, "true").await;
        engine.of(&owner()).session(&second.session.id).release(release).await.unwrap();
        assert_eq!(world.isolation.standing(&id), standing);
        assert_consistent(&world, &engine).await;
        let again = engine.of(&owner()).session(&second.session.id).release(release).await.unwrap();
        assert_eq!(again.state, SessionState::Released, "to end what has ended is no error");
        let error = engine.of(&owner()).session(&second.session.id).resume().await.unwrap_err();
        assert!(matches!(error, EngineError::SessionState { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn two_who_leave_at_once_do_not_leave_the_sandbox_to_each_other() {
    for seed in 0..30 {
        let world = World::seeded(seed);
        let engine = world.open().await;
        let made = make(&engine).await;
        let second = engine.of(&owner()).sessions().attach(attach(&made.sandbox.id)).await.unwrap();
        let me = engine.of(&owner());
        let (one, two) = (me.session(&made.session.id), me.session(&second.session.id));
        let (first, second) = tokio::join!(one.release(Release::Destroy), two.release(Release::Destroy));
        assert_eq!(
            (first.unwrap().state, second.unwrap().state),
            (SessionState::Released, SessionState::Released)
        );
        world.isolation.assert_only(&[]);
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn a_terminated_session_takes_its_sandbox_and_every_other_session_along() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let second = engine.of(&owner()).sessions().attach(attach(&made.sandbox.id)).await.unwrap();
    let ended = engine.of(&owner()).session(&made.session.id).terminate().await.unwrap();
    assert_eq!(ended.state, SessionState::Terminated);
    assert_eq!(state(&engine, &second.session.id).await, SessionState::Terminated);
    world.isolation.assert_only(&[]);
    engine.of(&owner()).session(&made.session.id).terminate().await.unwrap();
    let error = engine.of(&owner()).session(&second.session.id).resume().await.unwrap_err();
    assert!(matches!(error, EngineError::SessionState { .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_released_session_cannot_take_the_sandbox_of_others_along() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    engine.of(&owner()).sessions().attach(attach(&made.sandbox.id)).await.unwrap();
    engine.of(&owner()).session(&made.session.id).release(Release::Destroy).await.unwrap();
    let error = engine.of(&owner()).session(&made.session.id).terminate().await.unwrap_err();
    assert!(matches!(error, EngineError::SessionState { .. }), "{error:?}");
    output(&engine, &made.sandbox.id, "true").await;
}

#[tokio::test]
async fn an_expired_session_stops_its_sandbox_in_the_background() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let expired = engine.of(&owner()).session(&made.session.id).expire().await.unwrap();
    assert_eq!(expired.state, SessionState::Expired);
    eventually("it is stopped", async || {
        world.isolation.standing(&made.sandbox.id) == Some(Standing::Halted)
            && status(&engine, &made.sandbox.id).await == Status::Stopped
    })
    .await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn lists_show_what_was_asked_for() {
    let world = World::new();
    let engine = world.open().await;
    let mut request = Acquire { client: "red".to_owned(), labels: words("team", "red"), ..acquire() };
    request.sandbox.spec.labels = words("team", "red");
    request.sandbox.metadata = words("ticket", "1");
    let red = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    let blue = make(&engine).await;
    let list = |filter: SandboxFilter| {
        let engine = engine.clone();
        async move {
            let page = engine.of(&owner()).sandboxes().list(&filter, &PageRequest::default()).await.unwrap();
            page.items.into_iter().map(|record| record.id).collect::<Vec<_>>()
        }
    };
    let labelled = SandboxFilter { labels: words("team", "red"), ..SandboxFilter::default() };
    assert_eq!(list(labelled).await, from_ref(&red.sandbox.id));
    let noted = SandboxFilter { metadata: words("ticket", "1"), ..SandboxFilter::default() };
    assert_eq!(list(noted).await, from_ref(&red.sandbox.id));
    engine.of(&owner()).sandbox(&blue.sandbox.id).pause().await.unwrap();
    let paused = SandboxFilter { statuses: vec![Status::Paused], ..SandboxFilter::default() };
    assert_eq!(list(paused).await, from_ref(&blue.sandbox.id));
    engine.of(&owner()).sandbox(&blue.sandbox.id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!(list(SandboxFilter::default()).await, from_ref(&red.sandbox.id));
    assert_eq!(list(SandboxFilter { ended: true, ..SandboxFilter::default() }).await.len(), 2);
    let filter = SessionFilter { client: Some("red".to_owned()), ..SessionFilter::default() };
    let page = engine.of(&owner()).sessions().list(&filter, &PageRequest::default()).await.unwrap();
    assert_eq!(page.items.iter().map(|session| &session.id).collect::<Vec<_>>(), [&red.session.id]);
}

#[tokio::test]
async fn long_lists_come_in_pages_that_miss_and_repeat_nothing() {
    let world = World::new();
    let engine = world.open().await;
    for _ in 0..7 {
        make(&engine).await;
        world.clock.advance_ms(5);
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let request = PageRequest { limit: 3, after };
        let page = engine.of(&owner()).sandboxes().list(&SandboxFilter::default(), &request).await.unwrap();
        assert!(page.items.len() <= 3);
        seen.extend(page.items.into_iter().map(|record| record.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let all: Vec<_> = all_sandboxes(&engine, &owner()).await.into_iter().map(|record| record.id).collect();
    assert_eq!((seen.len(), &seen), (7, &all));
}

#[tokio::test]
async fn an_owner_has_one_default_sandbox_until_it_is_gone() {
    let world = World::new();
    let engine = world.open().await;
    let missing =
        |error: EngineError| matches!(error, EngineError::NotFound { what: Missing::DefaultSandbox, .. });
    assert!(missing(engine.of(&owner()).sandboxes().default().await.unwrap_err()));
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandboxes().set_default(Some(&id)).await.unwrap();
    assert_eq!(engine.of(&owner()).sandboxes().default().await.unwrap().id, id);
    assert!(missing(engine.of(&stranger()).sandboxes().default().await.unwrap_err()));
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.isolation.owner_ended();
    let engine = world.open().await;
    assert_eq!(engine.of(&owner()).sandboxes().default().await.unwrap().id, id, "it is remembered");
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    assert!(missing(engine.of(&owner()).sandboxes().default().await.unwrap_err()));
    let error = engine.of(&owner()).sandboxes().set_default(Some(&id)).await.unwrap_err();
    assert!(matches!(error, EngineError::SandboxEnded { .. }), "{error:?}");
    engine.of(&owner()).sandboxes().set_default(None).await.unwrap();
}

#[tokio::test]
async fn a_session_knows_how_far_its_sandbox_is() {
    let world = World::new();
    let engine = world.open().await;
    let hold = world.isolation.hold(Call::Create);
    let request = Acquire { background: true, ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    assert_eq!(made.session.provision, Provision::Pending);
    drop(hold);
    eventually("it is ready", async || {
        let view = engine.of(&owner()).session(&made.session.id).view().await.unwrap();
        matches!(view.session.provision, Provision::Ready { .. })
    })
    .await;
    world.isolation.fail_next(Call::Create, warren_core::IsolationErrorKind::Layer);
    let request = Acquire { background: true, ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    eventually("it has failed", async || {
        let view = engine.of(&owner()).session(&made.session.id).view().await.unwrap();
        matches!(view.session.provision, Provision::Failed { .. }) && !view.session.state.is_open()
    })
    .await;
    assert_consistent(&world, &engine).await;
}
