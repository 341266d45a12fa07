use warren_core::{IsolationErrorKind, SessionRequest, SessionVerdict, Status, decide_session};
use warren_testkit::Call;

use super::*;
use crate::{Attach, Release};

async fn second(bench: &Bench, first: &Acquired) -> SessionRecord {
    let wish = Attach {
        sandbox: first.sandbox.id.clone(),
        client: "second".to_owned(),
        create_if_missing: None,
        timeouts: None,
    };
    bench.engine.attach(&owner(), wish).await.unwrap().session
}

/// Asks a session for something through the door that clients use.
async fn ask(bench: &Bench, session: &SessionRecord, request: SessionRequest) -> Result<(), EngineError> {
    let (engine, id) = (&bench.engine, &session.id);
    match request {
        SessionRequest::Detach => engine.detach(&owner(), id).await.map(drop),
        SessionRequest::Suspend => engine.suspend(&owner(), id).await.map(drop),
        SessionRequest::Resume => engine.resume_session(&owner(), id).await.map(drop),
        SessionRequest::Think => engine.think(&owner(), id, 10).await.map(drop),
        SessionRequest::Release => engine.release(&owner(), id, Release::KeepAlive).await.map(drop),
        SessionRequest::Expire => engine.expire(&owner(), id).await.map(drop),
        SessionRequest::Terminate => engine.terminate(&owner(), id, "tests").await.map(drop),
    }
}

/// A session in a state, reached as clients reach it.
async fn in_state(bench: &Bench, state: SessionState) -> Acquired {
    let acquired = bench.acquire().await;
    let request = match state {
        SessionState::Active => return acquired,
        SessionState::Detached => SessionRequest::Detach,
        SessionState::Suspended => SessionRequest::Suspend,
        SessionState::Expired => SessionRequest::Expire,
        SessionState::Released => SessionRequest::Release,
        SessionState::Terminated => SessionRequest::Terminate,
    };
    ask(bench, &acquired.session, request).await.unwrap();
    if state == SessionState::Expired {
        eventually(async || bench.standing(&acquired.sandbox) == Some(Standing::Halted)).await;
    }
    acquired
}

#[tokio::test]
async fn every_request_in_every_state_does_what_the_table_says() {
    for state in SessionState::ALL {
        for request in SessionRequest::ALL {
            let bench = Bench::new().await;
            let session = in_state(&bench, state).await.session;
            let result = ask(&bench, &session, request).await;
            let now = bench.state(&session).await;
            match decide_session(state, request) {
                SessionVerdict::Enter(next) => {
                    assert!(result.is_ok(), "{state:?} {request:?}: {result:?}");
                    assert_eq!(now, next, "{state:?} {request:?}");
                    ask(&bench, &session, request).await.unwrap();
                    assert_eq!(bench.state(&session).await, next, "{state:?} {request:?} twice");
                }
                SessionVerdict::AlreadySo => {
                    assert!(result.is_ok(), "{state:?} {request:?}: {result:?}");
                    assert_eq!(now, state, "{request:?}");
                }
                SessionVerdict::Denied(expected) => {
                    let Err(EngineError::SessionState { state: told, advice, .. }) = &result else {
                        panic!("{state:?} {request:?}: {result:?}");
                    };
                    assert_eq!((*told, *advice, now), (state, expected, state));
                }
            }
        }
    }
}

#[tokio::test]
async fn another_owners_session_is_like_none() {
    let bench = Bench::new().await;
    let session = bench.acquire().await.session;
    let engine = &bench.engine;
    let (who, id) = (stranger(), &session.id);
    let results = [
        engine.detach(&who, id).await.err(),
        engine.suspend(&who, id).await.err(),
        engine.resume_session(&who, id).await.err(),
        engine.think(&who, id, 1).await.err(),
        engine.release(&who, id, Release::Destroy).await.err(),
        engine.expire(&who, id).await.err(),
        engine.terminate(&who, id, "tests").await.err(),
        engine.session(&who, id).await.err(),
        engine.can_run(&who, id).await.err(),
        engine.runs(&who, id).await.err(),
        engine.mark_ready(&who, id, None, None).await.err(),
        engine.mark_failed(&who, id, "no".to_owned()).await.err(),
    ];
    for result in results {
        assert!(matches!(result, Some(EngineError::NotFound { .. })), "{result:?}");
    }
    assert_eq!(bench.state(&session).await, SessionState::Active);
}

#[tokio::test]
async fn a_suspended_sandbox_is_frozen_until_it_is_resumed() {
    let bench = Bench::new().await;
    let acquired = bench.acquire().await;
    let view = bench.engine.suspend(&owner(), &acquired.session.id).await.unwrap();
    assert_eq!(view.sandbox.unwrap().status, Status::Paused);
    assert_eq!(bench.standing(&acquired.sandbox), Some(Standing::Frozen));
    let view = bench.engine.resume_session(&owner(), &acquired.session.id).await.unwrap();
    assert_eq!(view.sandbox.unwrap().status, Status::Ready);
    assert_eq!(bench.standing(&acquired.sandbox), Some(Standing::Running));
}

#[tokio::test]
async fn a_sandbox_that_another_client_uses_is_not_frozen_under_it() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let second = second(&bench, &first).await;
    let refused = bench.engine.suspend(&owner(), &first.session.id).await;
    assert!(matches!(refused, Err(EngineError::SessionState { .. })), "{refused:?}");
    assert_eq!(bench.standing(&first.sandbox), Some(Standing::Running));
    bench.engine.detach(&owner(), &second.id).await.unwrap();
    bench.engine.suspend(&owner(), &first.session.id).await.unwrap();
    assert_eq!(bench.standing(&first.sandbox), Some(Standing::Frozen));
}

#[tokio::test]
async fn only_the_last_session_to_go_takes_the_sandbox_along() {
    let bench = Bench::new().await;
    for (release, left) in [(Release::KeepAlive, Some(Standing::Halted)), (Release::Destroy, None)] {
        let first = bench.acquire().await;
        let second = second(&bench, &first).await;
        bench.engine.release(&owner(), &first.session.id, release).await.unwrap();
        assert_eq!(bench.standing(&first.sandbox), Some(Standing::Running));
        let released = bench.engine.release(&owner(), &second.id, release).await.unwrap();
        assert_eq!(released.state, SessionState::Released);
        assert_eq!(bench.standing(&first.sandbox), left);
        assert_eq!(bench.state(&first.session).await, SessionState::Released);
    }
}

#[tokio::test]
async fn two_who_leave_at_once_do_not_leave_the_sandbox_running() {
    let bench = Bench::new().await;
    for _ in 0..20 {
        let first = bench.acquire().await;
        let second = second(&bench, &first).await;
        let owner = owner();
        let (one, other) = tokio::join!(
            bench.engine.release(&owner, &first.session.id, Release::Destroy),
            bench.engine.release(&owner, &second.id, Release::Destroy),
        );
        one.unwrap();
        other.unwrap();
        assert_eq!(bench.standing(&first.sandbox), None);
    }
}

#[tokio::test]
async fn a_session_whose_sandbox_could_not_be_stopped_is_not_given_back() {
    let bench = Bench::new().await;
    let acquired = bench.acquire().await;
    bench.backend.fail_always(Call::Destroy, Some(IsolationErrorKind::Host));
    let failed = bench.engine.release(&owner(), &acquired.session.id, Release::Destroy).await;
    bench.backend.fail_always(Call::Destroy, None);
    if failed.is_err() {
        assert_ne!(bench.state(&acquired.session).await, SessionState::Released);
        bench.engine.release(&owner(), &acquired.session.id, Release::Destroy).await.unwrap();
    }
    eventually(async || bench.standing(&acquired.sandbox).is_none()).await;
}

#[tokio::test]
async fn a_release_whose_caller_went_away_is_finished() {
    let bench = Bench::new().await;
    let acquired = bench.acquire().await;
    let hold = bench.backend.hold(Call::Destroy);
    let (engine, session) = (bench.engine.clone(), acquired.session.id.clone());
    let caller =
        tokio::spawn(async move { drop(engine.release(&owner(), &session, Release::Destroy).await) });
    eventually(async || bench.backend.held(Call::Destroy) == 1).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    drop(hold);
    eventually(async || bench.standing(&acquired.sandbox).is_none()).await;
    eventually(async || bench.state(&acquired.session).await == SessionState::Released).await;
}

#[tokio::test]
async fn terminating_ends_the_sandbox_whoever_else_uses_it() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let second = second(&bench, &first).await;
    let ended = bench.engine.terminate(&owner(), &first.session.id, "tests").await.unwrap();
    assert_eq!(ended.state, SessionState::Terminated);
    assert_eq!(bench.state(&second).await, SessionState::Terminated);
    assert_eq!(bench.standing(&first.sandbox), None);
}

#[tokio::test]
async fn a_client_that_thinks_keeps_its_sandbox_from_being_idle() {
    let bench = Bench::new().await;
    let acquired = bench.acquire().await;
    let (id, sandbox) = (&acquired.session.id, &acquired.sandbox.id);
    assert!(!bench.engine.is_thinking(sandbox));
    bench.engine.think(&owner(), id, 60).await.unwrap();
    assert!(bench.engine.is_thinking(sandbox));
    bench.clock.jump_wall_s(86_400);
    assert!(bench.engine.is_thinking(sandbox), "the wall clock decides nothing");
    bench.clock.advance_s(60);
    assert!(!bench.engine.is_thinking(sandbox));
    bench.engine.sweep_sessions().await;
    assert_eq!(bench.look(&acquired.session).await.thinking_until, None);
    bench.engine.think(&owner(), id, 60).await.unwrap();
    bench.engine.think(&owner(), id, 0).await.unwrap();
    assert!(!bench.engine.is_thinking(sandbox));
    bench.engine.think(&owner(), id, 60).await.unwrap();
    bench.engine.detach(&owner(), id).await.unwrap();
    assert!(!bench.engine.is_thinking(sandbox));
    assert_eq!(field(bench.engine.think(&owner(), id, 3601).await), "seconds");
}
