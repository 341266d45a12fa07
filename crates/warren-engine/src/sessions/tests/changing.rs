use warren_core::{IsolationErrorKind, SessionRequest, SessionVerdict, Status, decide_session};
use warren_testkit::Call;

use super::*;
use crate::{Attach, Release};

async fn second(bench: &Bench, first: &Acquired) -> SessionRecord {
    let wish = Attach {
        sandbox: first.sandbox.id.clone().into(),
        client: "second".to_owned(),
        create_if_missing: None,
        timeouts: None,
    };
    bench.engine.of(&owner()).sessions().attach(wish).await.unwrap().session
}

/// Asks a session for something through the door that clients use.
async fn ask(bench: &Bench, session: &SessionRecord, request: SessionRequest) -> Result<(), EngineError> {
    let (engine, id) = (&bench.engine, &session.id);
    match request {
        SessionRequest::Detach => engine.of(&owner()).session(id).detach().await.map(drop),
        SessionRequest::Suspend => engine.of(&owner()).session(id).suspend().await.map(drop),
        SessionRequest::Resume => engine.of(&owner()).session(id).resume().await.map(drop),
        SessionRequest::Think => engine.of(&owner()).session(id).think(10).await.map(drop),
        SessionRequest::Release => {
            engine.of(&owner()).session(id).release(Release::KeepAlive).await.map(drop)
        }
        SessionRequest::Expire => engine.of(&owner()).session(id).expire().await.map(drop),
        SessionRequest::Terminate => engine.of(&owner()).session(id).terminate().await.map(drop),
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
        engine.of(&who).session(id).detach().await.err(),
        engine.of(&who).session(id).suspend().await.err(),
        engine.of(&who).session(id).resume().await.err(),
        engine.of(&who).session(id).think(1).await.err(),
        engine.of(&who).session(id).release(Release::Destroy).await.err(),
        engine.of(&who).session(id).expire().await.err(),
        engine.of(&who).session(id).terminate().await.err(),
        engine.of(&who).session(id).view().await.err(),
        engine.of(&who).session(id).can_run().await.err(),
        engine.of(&who).session(id).runs().await.err(),
        engine.of(&who).session(id).mark_ready(None, None).await.err(),
        engine.of(&who).session(id).mark_failed("no".to_owned()).await.err(),
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
    let view = bench.engine.of(&owner()).session(&acquired.session.id).suspend().await.unwrap();
    assert_eq!(view.sandbox.unwrap().status, Status::Paused);
    assert_eq!(bench.standing(&acquired.sandbox), Some(Standing::Frozen));
    let view = bench.engine.of(&owner()).session(&acquired.session.id).resume().await.unwrap();
    assert_eq!(view.sandbox.unwrap().status, Status::Ready);
    assert_eq!(bench.standing(&acquired.sandbox), Some(Standing::Running));
}

#[tokio::test]
async fn a_sandbox_that_another_client_uses_is_not_frozen_under_it() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let second = second(&bench, &first).await;
    let refused = bench.engine.of(&owner()).session(&first.session.id).suspend().await;
    assert!(matches!(refused, Err(EngineError::SessionState { .. })), "{refused:?}");
    assert_eq!(bench.standing(&first.sandbox), Some(Standing::Running));
    bench.engine.of(&owner()).session(&second.id).detach().await.unwrap();
    bench.engine.of(&owner()).session(&first.session.id).suspend().await.unwrap();
    assert_eq!(bench.standing(&first.sandbox), Some(Standing::Frozen));
}

#[tokio::test]
async fn only_the_last_session_to_go_takes_the_sandbox_along() {
    let bench = Bench::new().await;
    for (release, left) in [(Release::KeepAlive, Some(Standing::Halted)), (Release::Destroy, None)] {
        let first = bench.acquire().await;
        let second = second(&bench, &first).await;
        bench.engine.of(&owner()).session(&first.session.id).release(release).await.unwrap();
        assert_eq!(bench.standing(&first.sandbox), Some(Standing::Running));
        let released = bench.engine.of(&owner()).session(&second.id).release(release).await.unwrap();
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
        let me = bench.engine.of(&owner());
        let (held, also) = (me.session(&first.session.id), me.session(&second.id));
        let (one, other) = tokio::join!(held.release(Release::Destroy), also.release(Release::Destroy));
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
    let failed = bench.engine.of(&owner()).session(&acquired.session.id).release(Release::Destroy).await;
    bench.backend.fail_always(Call::Destroy, None);
    if failed.is_err() {
        assert_ne!(bench.state(&acquired.session).await, SessionState::Released);
        bench.engine.of(&owner()).session(&acquired.session.id).release(Release::Destroy).await.unwrap();
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
        tokio::spawn(
            async move { drop(engine.of(&owner()).session(&session).release(Release::Destroy).await) },
        );
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
    let ended = bench.engine.of(&owner()).session(&first.session.id).terminate().await.unwrap();
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
    bench.engine.of(&owner()).session(id).think(60).await.unwrap();
    assert!(bench.engine.is_thinking(sandbox));
    bench.clock.jump_wall_s(86_400);
    assert!(bench.engine.is_thinking(sandbox), "the wall clock decides nothing");
    bench.clock.advance_s(60);
    assert!(!bench.engine.is_thinking(sandbox));
    bench.engine.sweep_sessions().await;
    assert_eq!(bench.look(&acquired.session).await.thinking_until, None);
    bench.engine.of(&owner()).session(id).think(60).await.unwrap();
    bench.engine.of(&owner()).session(id).think(0).await.unwrap();
    assert!(!bench.engine.is_thinking(sandbox));
    bench.engine.of(&owner()).session(id).think(60).await.unwrap();
    bench.engine.of(&owner()).session(id).detach().await.unwrap();
    assert!(!bench.engine.is_thinking(sandbox));
    assert_eq!(field(bench.engine.of(&owner()).session(id).think(3601).await), "seconds");
}
