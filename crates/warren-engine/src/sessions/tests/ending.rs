use warren_core::{DeathCause, OnExpiry};

use super::*;
use crate::{Attach, StoppedFiles};

#[tokio::test]
async fn a_detached_session_expires_and_comes_back_with_its_files() {
    let bench = Bench::new().await;
    let acquired = bench.acquire().await;
    bench.engine.of(&owner()).session(&acquired.session.id).detach().await.unwrap();
    bench.clock.jump_wall_s(86_400);
    bench.pass_s(3599).await;
    assert_eq!(bench.state(&acquired.session).await, SessionState::Detached);
    bench.pass_s(1).await;
    assert_eq!(bench.state(&acquired.session).await, SessionState::Expired);
    assert_eq!(bench.standing(&acquired.sandbox), Some(Standing::Halted));
    let death = bench.engine.of(&owner()).sandbox(&acquired.sandbox.id).death().await.unwrap().unwrap();
    assert_eq!(death.cause, DeathCause::Timeout);
    let view = bench.engine.of(&owner()).session(&acquired.session.id).resume().await.unwrap();
    assert_eq!(view.session.state, SessionState::Active);
    assert_eq!(view.session.detached_until, None);
    assert_eq!(bench.standing(&acquired.sandbox), Some(Standing::Running));
}

#[tokio::test]
async fn a_sandbox_that_somebody_else_holds_outlives_a_detached_session() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let wish = Attach {
        sandbox: first.sandbox.id.clone().into(),
        client: "second".to_owned(),
        create_if_missing: None,
        timeouts: None,
    };
    let second = bench.engine.of(&owner()).sessions().attach(wish).await.unwrap().session;
    bench.engine.of(&owner()).session(&first.session.id).detach().await.unwrap();
    bench.pass_s(3600).await;
    assert_eq!(bench.state(&first.session).await, SessionState::Expired);
    assert_eq!(bench.state(&second).await, SessionState::Active);
    assert_eq!(bench.standing(&first.sandbox), Some(Standing::Running));
}

#[tokio::test]
async fn a_session_with_limits_lasts_as_long_as_they_say() {
    let bench = Bench::new().await;
    for (on_expiry, left) in [(OnExpiry::Keep, Some(Standing::Halted)), (OnExpiry::Delete, None)] {
        let sandbox = NewSandbox { on_expiry, ..new_sandbox() };
        let wish = Acquire { limits: Some(limits(1)), sandbox, ..request() };
        let acquired = bench.engine.of(&owner()).sessions().acquire(wish).await.unwrap();
        bench.pass_s(899).await;
        assert_eq!(bench.state(&acquired.session).await, SessionState::Active);
        bench.pass_s(1).await;
        assert!(!bench.state(&acquired.session).await.is_open());
        assert_eq!(bench.standing(&acquired.sandbox), left);
        let back = bench.engine.of(&owner()).session(&acquired.session.id).resume().await;
        assert!(matches!(back, Err(EngineError::SessionState { .. })), "{back:?}");
    }
}

#[tokio::test]
async fn the_end_of_a_sandbox_is_the_end_of_its_sessions() {
    let bench = Bench::new().await;
    let acquired = bench.acquire().await;
    let (id, session) = (&acquired.sandbox.id, &acquired.session);
    bench.engine.of(&owner()).sandbox(id).stop(StoppedFiles::Keep).await.unwrap();
    assert_eq!(bench.state(session).await, SessionState::Expired);
    bench.engine.of(&owner()).session(&session.id).resume().await.unwrap();
    bench.backend.die(id, false);
    eventually(async || bench.state(session).await == SessionState::Expired).await;
    bench.engine.of(&owner()).sandbox(id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!(bench.state(session).await, SessionState::Terminated);
}

#[tokio::test]
async fn a_session_that_was_not_told_of_its_sandboxs_end_is_told_by_the_sweep() {
    let bench = Bench::new().await;
    let acquired = bench.acquire().await;
    bench.engine.of(&owner()).sandbox(&acquired.sandbox.id).stop(StoppedFiles::Keep).await.unwrap();
    let (clock, owner) = (bench.clock.clone(), owner());
    let untold = bench.engine.change(&owner, &acquired.session.id, move |session| {
        session.enter(SessionState::Active, clock.as_ref());
        Ok(true)
    });
    untold.await.unwrap();
    bench.engine.sweep_sessions().await;
    assert_eq!(bench.state(&acquired.session).await, SessionState::Expired);
}
