//! Sightings of what sandboxes do.

use futures_util::StreamExt;
use warren_core::catalog::NetworkCatalog as _;
use warren_core::network::GrantEffect;
use warren_core::{Event, NetworkMode, NetworkPolicy, NetworkVerdict, Status};
use warren_engine::StoppedFiles;

use super::{asked, entry, events, listed, make_with, rules};
use crate::support::*;

fn is_denial(event: &Event) -> bool {
    matches!(event, Event::NetworkDenied { .. })
}

#[tokio::test]
async fn a_log_is_read_and_followed() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.networks.act(&id, entry(NetworkVerdict::Allowed, "a.example", 443));
    world.networks.act(&id, entry(NetworkVerdict::Denied, "b.example", 443));
    let log = engine.of(&owner()).sandbox(&id).network().log(0, 100).await.unwrap();
    let hosts: Vec<_> = log.iter().filter_map(|sighting| sighting.entry.host.as_deref()).collect();
    assert_eq!(hosts, ["a.example", "b.example"]);
    assert_eq!(log[1].number, log[0].number + 1);
    assert_eq!(engine.of(&owner()).sandbox(&id).network().log(log[0].number, 100).await.unwrap(), log[1..]);
    let mut all = engine.of(&owner()).sandbox(&id).network().follow_log(Some(log[0].number)).await.unwrap();
    let mut new = engine.of(&owner()).sandbox(&id).network().follow_log(None).await.unwrap();
    assert_eq!(all.next().await.unwrap(), log[1]);
    world.networks.act(&id, entry(NetworkVerdict::Denied, "c.example", 443));
    let third = all.next().await.unwrap();
    assert_eq!(new.next().await.unwrap(), third);
    assert_eq!(third.number, log[1].number + 1);
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    assert_eq!(
        engine.of(&owner()).sandbox(&id).network().log(0, 100).await.unwrap().len(),
        3,
        "it can still be read"
    );
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, all.next()).await;
    assert_eq!(ended, Ok(None), "there is nothing to follow any more");
    world.networks.act(&id, entry(NetworkVerdict::Denied, "late.example", 443));
    assert!(engine.of(&owner()).sandbox(&id).network().log(0, 100).await.unwrap().is_empty());
}

#[tokio::test]
async fn numbers_of_a_log_go_on_after_a_start() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.networks.act(&id, entry(NetworkVerdict::Denied, "a.example", 443));
    let seen = engine.of(&owner()).sandbox(&id).network().log(0, 100).await.unwrap()[0].number;
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.inherit();
    world.clock.advance_ms(10);
    let engine = world.open().await;
    world.networks.act(&id, entry(NetworkVerdict::Denied, "b.example", 443));
    assert_eq!(engine.of(&owner()).sandbox(&id).network().log(seen, 100).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_flood_of_denials_is_told_in_few_events_and_counted_in_full() {
    let world = World::new();
    let engine = world.open().await;
    let (loud, quiet) = (make(&engine).await.sandbox.id, make(&engine).await.sandbox.id);
    for number in 0..5000 {
        let host = format!("h{}.example", number % 1000);
        world.networks.act(&loud, entry(NetworkVerdict::Denied, &host, 443));
    }
    world.networks.act(&quiet, entry(NetworkVerdict::Denied, "quiet.example", 443));
    let at_once = events(&engine, is_denial).await;
    assert!((2..=20).contains(&at_once), "{at_once}");
    world.pass(&engine, 61).await;
    let all = all_events(&engine, &owner()).await;
    let of_loud = all.iter().filter(|record| record.sandbox.as_ref() == Some(&loud));
    let counted: u32 = of_loud
        .filter_map(|record| match &record.event {
            Event::NetworkDenied { entry } => Some(entry.count),
            _ => None,
        })
        .sum();
    assert_eq!(counted, 5000);
    world.networks.act(&quiet, entry(NetworkVerdict::Denied, "quiet.example", 443));
    let before = events(&engine, is_denial).await;
    world.networks.act(&quiet, entry(NetworkVerdict::Denied, "quiet.example", 443));
    engine.of(&owner()).sandbox(&quiet).stop(StoppedFiles::Keep).await.unwrap();
    assert_eq!(events(&engine, is_denial).await, before + 1, "its end does not hide what it did last");
    assert!(events(&engine, is_denial).await <= 30);
    assert!(engine.of(&owner()).sandbox(&loud).network().log(0, u32::MAX).await.unwrap().len() <= 1000);
}

#[tokio::test]
async fn what_waits_to_be_told_is_told_before_the_engine_ends() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    for _ in 0..10 {
        world.networks.act(&id, entry(NetworkVerdict::Denied, "a.example", 443));
    }
    assert_eq!(events(&engine, is_denial).await, 1);
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.inherit();
    let engine = world.open().await;
    assert_eq!(events(&engine, is_denial).await, 2);
}

#[tokio::test]
async fn somebody_answers_what_a_sandbox_asks() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, NetworkPolicy::of(NetworkMode::Ask)).await;
    for host in ["a.example", "a.example", "b.example", "c.example"] {
        world.networks.act(&id, asked(host, 443));
    }
    assert_eq!(events(&engine, |event| matches!(event, Event::NetworkAsked { .. })).await, 3);
    let asks = engine.of(&owner()).sandbox(&id).network().asks().await.unwrap();
    let shown: Vec<_> = asks.iter().map(|ask| (ask.rule.to_string(), ask.entry.count)).collect();
    let expected = [("a.example:443", 2), ("b.example:443", 1), ("c.example:443", 1)];
    assert_eq!(shown, expected.map(|(rule, count)| (rule.to_owned(), count)));
    let [a, b] = [asks[0].number, asks[1].number];
    let view =
        engine.of(&owner()).sandbox(&id).network().answer(a, GrantEffect::Allow, Some(60_000)).await.unwrap();
    assert_eq!(view.pending, 2);
    let view = engine.of(&owner()).sandbox(&id).network().answer(b, GrantEffect::Deny, None).await.unwrap();
    let granted: Vec<_> = view.policy.grants.iter().map(|grant| grant.rule.to_string()).collect();
    assert_eq!(granted, ["a.example:443", "b.example:443"]);
    engine.of(&owner()).sandbox(&id).network().allow(rules(&["*.example"]), None).await.unwrap();
    assert_eq!(
        engine.of(&owner()).sandbox(&id).network().view().await.unwrap().pending,
        0,
        "the last is answered by that"
    );
    world.networks.act(&id, asked("d.test", 443));
    world.pass(&engine, 3600).await;
    assert!(
        engine.of(&owner()).sandbox(&id).network().asks().await.unwrap().is_empty(),
        "nobody waits any more"
    );
}

#[tokio::test]
async fn what_was_learned_outlives_the_engine_and_goes_with_the_sandbox() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, NetworkPolicy::of(NetworkMode::Learn)).await;
    world.networks.act(&id, entry(NetworkVerdict::Allowed, "a.example", 443));
    world.networks.act(&id, entry(NetworkVerdict::Denied, "denied.example", 443));
    engine.sweep().await;
    world.inherit();
    drop(engine);
    let engine = world.open().await;
    world.networks.act(&id, entry(NetworkVerdict::Allowed, "b.example", 80));
    let learned = engine.of(&owner()).sandbox(&id).network().learned().await.unwrap();
    assert_eq!(learned, listed(&["a.example:443", "b.example:80"]));
    engine.sweep().await;
    let written = || world.catalog.reached(&owner(), &id).unwrap().len();
    assert_eq!(written(), 2);
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    assert_eq!(engine.of(&owner()).sandbox(&id).network().learned().await.unwrap(), learned);
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!(written(), 0);
    engine.sweep().await;
    assert_eq!(written(), 0);
}

#[tokio::test]
async fn a_connection_through_the_proxy_keeps_a_sandbox_awake() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.networks.change_usage(&id, |usage| usage.proxied = 1);
    world.fall_idle(&engine).await;
    assert_eq!(status(&engine, &id).await, Status::Ready);
    world.networks.change_usage(&id, |usage| usage.proxied = 0);
    world.fall_idle(&engine).await;
    assert_eq!(status(&engine, &id).await, Status::Paused);
}

#[tokio::test]
async fn what_links_carried_is_told_and_summed() {
    let world = World::new();
    let engine = world.open().await;
    let (one, other) = (make(&engine).await.sandbox.id, make(&engine).await.sandbox.id);
    for id in [&one, &other] {
        world.networks.change_usage(id, |usage| {
            (usage.sent_bytes, usage.received_bytes, usage.proxied, usage.denied) = (10, 20, 1, 2);
        });
    }
    let usage = engine.of(&owner()).sandbox(&one).usage().await.unwrap().network.unwrap();
    assert_eq!((usage.sent_bytes, usage.received_bytes), (10, 20));
    engine.of(&owner()).sandbox(&one).stop(StoppedFiles::Keep).await.unwrap();
    let last = engine.of(&owner()).sandbox(&one).usage().await.unwrap().network.unwrap();
    assert_eq!(last.sent_bytes, 10, "its certificate has it");
    let total = engine.network_totals().await;
    assert_eq!((total.sent_bytes, total.received_bytes, total.denied), (20, 40, 4));
    assert_eq!(total.proxied, 1, "those of a link that is gone are closed");
}
