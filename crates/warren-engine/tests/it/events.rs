use futures_util::StreamExt;
use std::time::Duration;
use warren_core::catalog::EventFilter;
use warren_core::{Event, EventRecord, PausedBy};
use warren_engine::{Engine, ShutdownPolicy, StoppedFiles};

use crate::support::*;

async fn logged(engine: &Engine, after: u64) -> Vec<EventRecord> {
    events_after(engine, &owner(), after).await
}

fn word(event: &Event) -> String {
    let text = serde_json::to_value(event).unwrap();
    text["event"].as_str().unwrap().to_owned()
}

/// Waits until the log, which is written in the background, ends with this.
async fn until(engine: &Engine, last: &str) -> Vec<EventRecord> {
    eventually(last, async || {
        logged(engine, 0).await.last().is_some_and(|record| word(&record.event) == last)
    })
    .await;
    logged(engine, 0).await
}

#[tokio::test]
async fn a_life_is_told_in_order() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    output(&engine, &id, "true").await;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    engine.of(&owner()).session(&made.session.id).detach().await.unwrap();
    engine.of(&owner()).session(&made.session.id).resume().await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let events = until(&engine, "session_terminated").await;
    assert!(events.is_sorted_by(|one, two| one.number < two.number), "{events:#?}");
    let words: Vec<String> = events.iter().map(|record| word(&record.event)).collect();
    let expected = [
        "sandbox_created",
        "sandbox_ready",
        "session_acquired",
        "exec_started",
        "exec_ended",
        "sandbox_paused",
        "sandbox_resumed",
        "session_detached",
        "session_resumed",
        "sandbox_died",
        "session_terminated",
    ];
    let mut rest = words.iter();
    for each in expected {
        assert!(rest.any(|word| word == each), "{each} is missing or late in {words:?}");
    }
    assert!(events.iter().all(|record| record.owner == owner()));
    let paused = events.iter().find(|record| word(&record.event) == "sandbox_paused").unwrap();
    assert_eq!(paused.event, Event::SandboxPaused { by: PausedBy::Request });
    assert_eq!(paused.sandbox.as_ref(), Some(&id));
}

#[tokio::test]
async fn who_follows_gets_what_was_and_what_comes_without_a_gap() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let mut follower = engine.of(&owner()).events().follow(0).await.unwrap();
    let mut theirs = engine.of(&stranger()).events().follow(0).await.unwrap();
    for _ in 0..20 {
        engine.of(&owner()).sandbox(&id).pause().await.unwrap();
        engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    }
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let mut heard = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, follower.next()).await.expect("an event");
        let record = next.expect("the engine lives");
        let died = matches!(record.event, Event::SandboxDied { .. });
        heard.push(record);
        if died {
            break;
        }
    }
    assert!(heard.is_sorted_by(|one, two| one.number < two.number));
    let pauses = heard.iter().filter(|record| matches!(record.event, Event::SandboxPaused { .. })).count();
    assert_eq!(pauses, 20);
    let nothing = tokio::time::timeout(Duration::from_millis(30), theirs.next()).await;
    assert!(nothing.is_err(), "another owner heard {nothing:?}");
    let middle = heard[heard.len() / 2].number;
    let mut later = engine.of(&owner()).events().follow(middle).await.unwrap();
    let next = tokio::time::timeout(PATIENCE, later.next()).await.unwrap().unwrap();
    assert_eq!(next.number, heard[heard.len() / 2 + 1].number, "it goes on where one left off");
}

#[tokio::test]
async fn numbers_grow_over_restarts_and_streams_end_with_the_engine() {
    let world = World::new();
    let engine = world.open().await;
    make(&engine).await;
    let mut follower = engine.of(&owner()).events().follow(engine.last_event().await).await.unwrap();
    engine.shutdown(ShutdownPolicy::Leave).await;
    let ended = tokio::time::timeout(PATIENCE, async { while follower.next().await.is_some() {} });
    ended.await.expect("the stream ends with the engine");
    let last = engine.last_event().await;
    world.isolation.owner_ended();
    let engine = world.open().await;
    assert!(engine.last_event().await >= last);
    make(&engine).await;
    assert!(engine.last_event().await > last);
    let acquired = |events: &[EventRecord]| {
        events.iter().filter(|record| word(&record.event) == "session_acquired").count()
    };
    eventually("both lives are told", async || acquired(&logged(&engine, 0).await) == 2).await;
    let events = logged(&engine, 0).await;
    assert!(events.is_sorted_by(|one, two| one.number < two.number));
}

#[tokio::test]
async fn a_follower_that_falls_far_behind_misses_nothing() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let mut follower = engine.of(&owner()).events().follow(engine.last_event().await).await.unwrap();
    let rounds = 1500;
    for _ in 0..rounds {
        engine.of(&owner()).sandbox(&id).pause().await.unwrap();
        engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    }
    let (mut heard, mut last) = (0, 0);
    while heard < 2 * rounds {
        let next = tokio::time::timeout(PATIENCE, follower.next()).await;
        let record = next.unwrap_or_else(|_| panic!("only {heard} of {} were heard", 2 * rounds));
        let record = record.expect("the engine lives");
        assert!(record.number > last, "{} after {last}", record.number);
        last = record.number;
        heard +=
            u64::from(matches!(record.event, Event::SandboxPaused { .. } | Event::SandboxResumed { .. }));
    }
}

/// So the numbers that somebody has seen are never given again, also if the process is killed now.
#[tokio::test]
async fn what_a_follower_sees_is_in_the_catalog_by_then() {
    use warren_core::catalog::EventLog as _;

    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let mut follower = engine.of(&owner()).events().follow(0).await.unwrap();
    for round in 0..10 {
        output(&engine, &id, "true").await;
        for _ in 0..2 {
            let seen = tokio::time::timeout(PATIENCE, follower.next()).await.unwrap().unwrap();
            let kept = world.catalog.events(&owner(), &EventFilter::default(), seen.number - 1, 1).unwrap();
            assert_eq!(kept, [seen], "{round}");
        }
    }
}
