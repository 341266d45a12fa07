use warren_core::{NewRun, OnExpiry, Provision, RunDenied, RunStatus, RunTotals, SessionState};
use warren_testkit::Standing;

use super::*;
use crate::sessions::tests::{Bench, eventually, field, limits, new_sandbox, owner, request};
use crate::{Acquire, NewSandbox};

fn run(tokens: u64) -> NewRun {
    NewRun {
        task: "look it up".to_owned(),
        result: Some("found".to_owned()),
        duration_ms: 10,
        tokens,
        screenshots: vec!["https://example.test/1.png".to_owned()],
        provider: Some("somebody".to_owned()),
    }
}

async fn limited(bench: &Bench, runs: u32) -> SessionRecord {
    let wish = Acquire { limits: Some(limits(runs)), ..request() };
    bench.engine.of(&owner()).sessions().acquire(wish).await.unwrap().session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sums_are_exact_however_many_record_at_once() {
    let bench = Bench::new().await;
    let session = limited(&bench, 60).await;
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let (engine, id) = (bench.engine.clone(), session.id.clone());
            tokio::spawn(async move { engine.of(&owner()).session(&id).record_run(run(number)).await })
        })
        .collect();
    let mut recorded = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            Ok(run) => recorded.push(run),
            Err(EngineError::RunDenied(RunDenied::OutOfRuns)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let tokens = recorded.iter().map(|run| run.run.tokens).sum();
    let details = bench.engine.of(&owner()).session(&session.id).details().await.unwrap();
    assert_eq!(details.view.session.totals, RunTotals { runs: 60, tokens, duration_ms: 600 });
    let numbers: Vec<_> = details.runs.iter().map(|run| run.number).collect();
    assert_eq!(numbers, (1..=60).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_session_says_what_it_has_left_and_why_it_may_not_run() {
    let bench = Bench::new().await;
    let session = limited(&bench, 2).await;
    let left = bench.engine.of(&owner()).session(&session.id).can_run().await.unwrap();
    let whole = Allowance { denied: None, runs_left: 2, tokens_left: 50_000, seconds_left: Some(900) };
    assert_eq!(left, whole);
    bench.engine.of(&owner()).session(&session.id).record_run(run(50_000)).await.unwrap();
    let left = bench.engine.of(&owner()).session(&session.id).can_run().await.unwrap();
    assert_eq!((left.denied, left.runs_left, left.tokens_left), (Some(RunDenied::OutOfTokens), 1, 0));
    let denied = bench.engine.of(&owner()).session(&session.id).record_run(run(1)).await;
    assert!(matches!(denied, Err(EngineError::RunDenied(RunDenied::OutOfTokens))), "{denied:?}");
    bench.clock.advance_s(900);
    let left = bench.engine.of(&owner()).session(&session.id).can_run().await.unwrap();
    assert_eq!((left.denied, left.seconds_left), (Some(RunDenied::Expired), Some(0)));
}

#[tokio::test]
async fn a_run_that_took_too_long_is_recorded_as_such() {
    let bench = Bench::new().await;
    let session = limited(&bench, 2).await;
    let slow = NewRun { duration_ms: 300_001, ..run(1) };
    let recorded = bench.engine.of(&owner()).session(&session.id).record_run(slow).await.unwrap();
    assert_eq!((recorded.status, recorded.number), (RunStatus::OverTime, 1));
    assert_eq!(bench.engine.of(&owner()).session(&session.id).runs().await.unwrap(), [recorded]);
}

#[tokio::test]
async fn a_run_that_is_too_large_is_refused_by_the_name_of_its_field() {
    type Spoil = fn(&mut NewRun);
    let bench = Bench::new().await;
    let session = limited(&bench, 2).await;
    let cases: [(&str, Spoil); 5] = [
        ("task", |run| run.task = " ".to_owned()),
        ("task", |run| run.task = "x".repeat(MOST_TASK_BYTES + 1)),
        ("result", |run| run.result = Some("x".repeat(MOST_RESULT_BYTES + 1))),
        ("screenshots", |run| run.screenshots = vec![String::new(); MOST_SCREENSHOTS + 1]),
        ("provider", |run| run.provider = Some("x".repeat(MOST_PROVIDER_BYTES + 1))),
    ];
    for (name, spoil) in cases {
        let mut run = run(1);
        spoil(&mut run);
        assert_eq!(field(bench.engine.of(&owner()).session(&session.id).record_run(run).await), name);
    }
    assert_eq!(bench.look(&session).await.totals, RunTotals::default());
}

#[tokio::test]
async fn provisioning_is_told_once_and_failure_is_final() {
    let bench = Bench::new().await;
    let session = limited(&bench, 1).await;
    let (engine, id) = (&bench.engine, &session.id);
    let url = Some("http://127.0.0.1:1".to_owned());
    let ready =
        engine.of(&owner()).session(id).mark_ready(url.clone(), Some("job".to_owned())).await.unwrap();
    assert_eq!(ready.provision, Provision::Ready { url, job: Some("job".to_owned()) });
    let failed = engine.of(&owner()).session(id).mark_failed("it broke".to_owned()).await.unwrap();
    assert_eq!(failed.provision, Provision::Failed { reason: "it broke".to_owned() });
    let again = engine.of(&owner()).session(id).mark_failed("it broke again".to_owned()).await.unwrap();
    assert_eq!(again.provision, failed.provision);
    let back = engine.of(&owner()).session(id).mark_ready(None, None).await;
    assert!(matches!(back, Err(EngineError::SessionState { .. })), "{back:?}");
    assert_eq!(engine.of(&owner()).session(id).can_run().await.unwrap().denied, Some(RunDenied::NotReady));
    engine.of(&owner()).session(id).terminate().await.unwrap();
    let over = engine.of(&owner()).session(id).mark_failed("late".to_owned()).await;
    assert!(matches!(over, Err(EngineError::SessionState { .. })), "{over:?}");
}

#[tokio::test]
async fn expiring_marks_at_once_and_cleans_up_behind() {
    let bench = Bench::new().await;
    for (on_expiry, left) in [(OnExpiry::Keep, Some(Standing::Halted)), (OnExpiry::Delete, None)] {
        let sandbox = NewSandbox { on_expiry, ..new_sandbox() };
        let acquired =
            bench.engine.of(&owner()).sessions().acquire(Acquire { sandbox, ..request() }).await.unwrap();
        let expired = bench.engine.of(&owner()).session(&acquired.session.id).expire().await.unwrap();
        assert_eq!(expired.state, SessionState::Expired);
        eventually(async || bench.standing(&acquired.sandbox) == left).await;
    }
}
