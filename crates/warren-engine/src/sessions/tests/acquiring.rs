use std::collections::BTreeMap;

use warren_core::{
    ByteSize, IsolationErrorKind, NetworkPolicy, Provision, RunLimits, SandboxId, SandboxKind, Status,
};
use warren_testkit::Call;

use super::*;
use crate::{Attach, Expected, StoppedFiles};

fn attach(id: &SandboxId) -> Attach {
    Attach {
        sandbox: id.clone().into(),
        client: "second".to_owned(),
        create_if_missing: None,
        timeouts: None,
    }
}

fn promised(fingerprint: &str) -> Acquire {
    let expected = Expected { key: "once".to_owned(), fingerprint: fingerprint.to_owned() };
    Acquire { idempotency: Some(expected), ..request() }
}

#[tokio::test]
async fn a_fresh_sandbox_comes_with_a_session_that_is_ready() {
    let bench = Bench::new().await;
    let acquired = bench.acquire().await;
    assert!(acquired.fresh && !acquired.repeated);
    assert_eq!(acquired.sandbox.status, Status::Ready);
    assert_eq!(acquired.session.provision, Provision::Ready { url: None, job: None });
    assert_eq!(acquired.session.state, SessionState::Active);
    assert_eq!(acquired.session.sandbox, acquired.sandbox.id);
    assert_eq!(acquired.session.deadline, None);
}

#[tokio::test]
async fn a_preferred_sandbox_is_joined_and_made_to_run() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let id = &first.sandbox.id;
    for round in 0..3 {
        match round {
            0 => {}
            1 => drop(bench.engine.of(&owner()).sandbox(id).pause().await.unwrap()),
            _ => drop(bench.engine.of(&owner()).sandbox(id).stop(StoppedFiles::Keep).await.unwrap()),
        }
        let wish = Acquire { preferred: Some(id.clone().into()), ..request() };
        let again = bench.engine.of(&owner()).sessions().acquire(wish).await.unwrap();
        assert_eq!((&again.sandbox.id, again.fresh), (id, false));
        assert_eq!(again.sandbox.status, Status::Ready);
        assert_eq!(bench.standing(&again.sandbox), Some(Standing::Running));
        assert_ne!(again.session.id, first.session.id);
    }
}

#[tokio::test]
async fn a_preferred_sandbox_that_does_not_do_makes_room_for_a_fresh_one() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let gone = bench.acquire().await;
    bench.engine.of(&owner()).session(&gone.session.id).terminate().await.unwrap();
    let labels = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
    let wishes = [
        Acquire { preferred: Some(first.sandbox.id.clone().into()), fresh: true, ..request() },
        Acquire { preferred: Some(gone.sandbox.id.clone().into()), ..request() },
        Acquire { preferred: Some(SandboxId::from_random([9; 16]).into()), ..request() },
        Acquire {
            preferred: Some(first.sandbox.id.clone().into()),
            required: Requirements { labels: labels.clone(), ..Requirements::default() },
            ..request()
        },
    ];
    for wish in wishes {
        let other = bench.engine.of(&owner()).sessions().acquire(wish).await.unwrap();
        assert!(other.fresh);
        assert_ne!(other.sandbox.id, first.sandbox.id);
    }
    let wish = Acquire { preferred: Some(first.sandbox.id.clone().into()), ..request() };
    let foreign = bench.engine.of(&stranger()).sessions().acquire(wish).await.unwrap();
    assert!(foreign.fresh);
    assert_ne!(foreign.sandbox.id, first.sandbox.id);
}

#[tokio::test]
async fn a_search_that_finds_nothing_says_why_for_each_candidate() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let wish = Acquire {
        preferred: Some(first.sandbox.id.clone().into()),
        backend: Some("elsewhere".to_owned()),
        ..request()
    };
    let error = bench.engine.of(&owner()).sessions().acquire(wish).await.unwrap_err();
    let EngineError::NothingFits { reasons, .. } = &error else { panic!("{error:?}") };
    assert_eq!(reasons[0].0, first.sandbox.id.to_string());
    assert!(error.to_string().contains("elsewhere"), "{error}");
}

#[tokio::test]
async fn requirements_shape_a_fresh_sandbox_or_are_named() {
    let bench = Bench::new().await;
    let required = Requirements { memory: Some(ByteSize::gib(6)), network: true, ..Requirements::default() };
    let mut wish = Acquire { required, ..request() };
    assert_eq!(field(bench.engine.of(&owner()).sessions().acquire(wish.clone()).await), "required.network");
    wish.sandbox.spec.network = NetworkPolicy::public();
    let made = bench.engine.of(&owner()).sessions().acquire(wish.clone()).await.unwrap();
    assert_eq!(made.sandbox.spec.limits.memory, ByteSize::gib(6));
    wish.required.memory = Some(ByteSize::gib(65));
    assert_eq!(field(bench.engine.of(&owner()).sessions().acquire(wish).await), "required.memory");
}

#[tokio::test]
async fn limits_come_from_the_request_then_the_tier_then_the_settings() {
    let mut settings = Settings { run_limits: limits(1), ..Settings::default() };
    settings.tiers.insert("gold".to_owned(), RunLimits { duration_s: 60, ..limits(2) });
    let bench = Bench::with(settings).await;
    let cases = [
        (request(), 1, None),
        (Acquire { tier: Some("gold".to_owned()), ..request() }, 2, Some(60_000)),
        (Acquire { tier: Some("gold".to_owned()), limits: Some(limits(3)), ..request() }, 3, Some(900_000)),
        (
            Acquire { sandbox: NewSandbox { kind: SandboxKind::Research, ..new_sandbox() }, ..request() },
            1,
            Some(900_000),
        ),
    ];
    for (wish, runs, lasts_ms) in cases {
        let session = bench.engine.of(&owner()).sessions().acquire(wish).await.unwrap().session;
        assert_eq!(session.limits.runs, runs);
        let left = session.deadline.map(|deadline| deadline.remaining_ms(bench.clock.as_ref()));
        assert_eq!(left, lasts_ms);
    }
    let wish = Acquire { tier: Some("lead".to_owned()), ..request() };
    assert_eq!(field(bench.engine.of(&owner()).sessions().acquire(wish).await), "tier");
}

#[tokio::test]
async fn bad_values_are_refused_by_name_and_nothing_is_made() {
    type Spoil = fn(&mut Acquire);
    let cases: [(&str, Spoil); 8] = [
        ("client", |r| r.client = String::new()),
        ("client", |r| r.client = "x".repeat(201)),
        ("client", |r| r.client = "a\nb".to_owned()),
        ("labels", |r| drop(r.labels.insert(String::new(), String::new()))),
        ("metadata", |r| drop(r.metadata.insert("k".to_owned(), "v".repeat(2000)))),
        ("limits.runs", |r| r.limits = Some(limits(0))),
        ("timeouts.detached_s", |r| {
            r.timeouts = Some(warren_core::Timeouts { detached_s: 0, ..Default::default() })
        }),
        ("idempotency_key", |r| {
            r.idempotency = Some(Expected { key: "a b".to_owned(), fingerprint: String::new() });
        }),
    ];
    let bench = Bench::new().await;
    for (name, spoil) in cases {
        let mut wish = request();
        spoil(&mut wish);
        assert_eq!(field(bench.engine.of(&owner()).sessions().acquire(wish).await), name);
    }
    assert_eq!(bench.backend.calls(Call::Create), 0);
}

#[tokio::test]
async fn a_repeated_request_answers_what_the_first_one_made() {
    let bench = Bench::new().await;
    let first = bench.engine.of(&owner()).sessions().acquire(promised("a")).await.unwrap();
    let again = bench.engine.of(&owner()).sessions().acquire(promised("a")).await.unwrap();
    assert!(again.repeated);
    assert_eq!(again.session.id, first.session.id);
    let other = bench.engine.of(&owner()).sessions().acquire(promised("b")).await;
    assert!(matches!(other, Err(EngineError::IdempotencyMismatch)), "{other:?}");
    let foreign = bench.engine.of(&stranger()).sessions().acquire(promised("b")).await.unwrap();
    assert!(!foreign.repeated);
    assert_eq!(bench.backend.calls(Call::Create), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_one_key_at_once_make_one_sandbox() {
    let bench = Bench::new().await;
    let hold = bench.backend.hold(Call::Create);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let engine = bench.engine.clone();
            tokio::spawn(async move { engine.of(&owner()).sessions().acquire(promised("a")).await.unwrap() })
        })
        .collect();
    eventually(async || bench.backend.held(Call::Create) == 1).await;
    drop(hold);
    let mut made = Vec::new();
    for call in calls {
        let acquired = call.await.unwrap();
        assert_eq!(acquired.sandbox.status, Status::Ready);
        assert_eq!(acquired.session.provision, Provision::Ready { url: None, job: None });
        made.push((acquired.session.id, acquired.repeated));
    }
    assert!(made.iter().all(|(id, _)| *id == made[0].0));
    assert_eq!(made.iter().filter(|(_, repeated)| !repeated).count(), 1);
    assert_eq!(bench.backend.calls(Call::Create), 1);
}

#[tokio::test]
async fn a_repeated_request_for_a_preferred_sandbox_adds_no_second_session() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let wish = Acquire { preferred: Some(first.sandbox.id.clone().into()), ..promised("a") };
    let joined = bench.engine.of(&owner()).sessions().acquire(wish.clone()).await.unwrap();
    let again = bench.engine.of(&owner()).sessions().acquire(wish).await.unwrap();
    assert!(again.repeated);
    assert_eq!(again.session.id, joined.session.id);
    assert_eq!(bench.engine.holders(&owner(), &first.sandbox.id).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_repeated_request_whose_sandbox_could_not_be_made_says_so() {
    let bench = Bench::new().await;
    bench.backend.fail_next(Call::Create, IsolationErrorKind::Host);
    assert!(bench.engine.of(&owner()).sessions().acquire(promised("a")).await.is_err());
    let again = bench.engine.of(&owner()).sessions().acquire(promised("a")).await;
    assert!(matches!(again, Err(EngineError::SandboxEnded { .. })), "{again:?}");
}

#[tokio::test]
async fn a_session_in_the_background_waits_for_its_sandbox() {
    let bench = Bench::new().await;
    let hold = bench.backend.hold(Call::Create);
    let session = bench
        .engine
        .of(&owner())
        .sessions()
        .acquire(Acquire { background: true, ..request() })
        .await
        .unwrap()
        .session;
    assert_eq!(session.provision, Provision::Pending);
    let early = bench.engine.of(&owner()).session(&session.id).mark_ready(None, None).await;
    assert!(matches!(early, Err(EngineError::Denied { .. })), "{early:?}");
    drop(hold);
    let ready = Provision::Ready { url: None, job: None };
    eventually(async || bench.look(&session).await.provision == ready).await;
    bench.backend.fail_next(Call::Create, IsolationErrorKind::Host);
    let session = bench
        .engine
        .of(&owner())
        .sessions()
        .acquire(Acquire { background: true, ..request() })
        .await
        .unwrap()
        .session;
    eventually(async || bench.state(&session).await == SessionState::Terminated).await;
    assert!(matches!(bench.look(&session).await.provision, Provision::Failed { .. }));
}

#[tokio::test]
async fn attaching_adds_a_session_to_a_sandbox_of_ones_own() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let second = bench.engine.of(&owner()).sessions().attach(attach(&first.sandbox.id)).await.unwrap();
    assert!(!second.fresh);
    assert_eq!(second.sandbox.id, first.sandbox.id);
    assert_eq!(second.session.client, "second");
    let foreign = bench.engine.of(&stranger()).sessions().attach(attach(&first.sandbox.id)).await;
    let unknown =
        bench.engine.of(&stranger()).sessions().attach(attach(&SandboxId::from_random([9; 16]))).await;
    assert!(matches!(foreign, Err(EngineError::NotFound { .. })), "{foreign:?}");
    assert!(matches!(unknown, Err(EngineError::NotFound { .. })), "{unknown:?}");
}

#[tokio::test]
async fn attaching_to_what_is_not_there_makes_a_new_one_under_a_new_id() {
    let bench = Bench::new().await;
    let first = bench.acquire().await;
    let wish = Attach { create_if_missing: Some(new_sandbox()), ..attach(&first.sandbox.id) };
    let made = bench.engine.of(&stranger()).sessions().attach(wish.clone()).await.unwrap();
    assert!(made.fresh);
    assert_ne!(made.sandbox.id, first.sandbox.id);
    bench.engine.of(&owner()).session(&first.session.id).terminate().await.unwrap();
    let over = bench.engine.of(&owner()).sessions().attach(attach(&first.sandbox.id)).await;
    assert!(matches!(over, Err(EngineError::SandboxEnded { .. })), "{over:?}");
    assert!(bench.engine.of(&owner()).sessions().attach(wish).await.unwrap().fresh);
}

#[tokio::test]
async fn the_default_sandbox_is_found_until_it_has_ended_for_good() {
    let bench = Bench::new().await;
    let made = bench.acquire().await;
    let engine = &bench.engine;
    assert!(engine.of(&owner()).sandboxes().default().await.is_err());
    engine.of(&owner()).sandboxes().set_default(Some(&made.sandbox.id)).await.unwrap();
    assert_eq!(engine.of(&owner()).sandboxes().default().await.unwrap().id, made.sandbox.id);
    assert!(engine.of(&stranger()).sandboxes().default().await.is_err());
    assert!(engine.of(&stranger()).sandboxes().set_default(Some(&made.sandbox.id)).await.is_err());
    engine.of(&owner()).sandbox(&made.sandbox.id).stop(StoppedFiles::Keep).await.unwrap();
    assert!(engine.of(&owner()).sandboxes().default().await.is_ok());
    engine.of(&owner()).sandbox(&made.sandbox.id).stop(StoppedFiles::Delete).await.unwrap();
    let gone = engine.of(&owner()).sandboxes().default().await;
    assert!(
        matches!(gone, Err(EngineError::NotFound { what: crate::Missing::DefaultSandbox, .. })),
        "{gone:?}"
    );
    assert!(engine.of(&owner()).sandboxes().set_default(Some(&made.sandbox.id)).await.is_err());
    engine.of(&owner()).sandboxes().set_default(None).await.unwrap();
}
