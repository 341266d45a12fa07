use std::future::Future;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use warren_core::{Owner, abandoned};

use super::Share;
use super::places::{Place, Places, Rules};
use crate::bounds::Presence;

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(600);
/// How long a test waits for what is to happen.
const SOON: Duration = Duration::from_secs(60);

fn places(all: usize, each_owner: usize, waiting: usize) -> Places {
    lasting(Share { all, each_owner }, waiting, LONG, LONG)
}

fn lasting(share: Share, waiting: usize, patience: Duration, longest: Duration) -> Places {
    let (patience, longest) = (Some(patience), Some(longest));
    Places::new(Rules { share, waiting, patience, longest })
}

fn owner(name: &str) -> Owner {
    name.parse().unwrap()
}

/// The result, if it is there without waiting.
async fn now<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::ZERO, work).await.ok()
}

fn waits(places: &std::sync::Arc<Places>, name: &str) -> JoinHandle<Option<Place>> {
    let (places, owner) = (std::sync::Arc::clone(places), owner(name));
    tokio::spawn(async move { places.place(&owner).await })
}

#[tokio::test]
async fn no_owner_has_every_place() {
    let places = places(4, 2, 1);
    let _one = places.place(&owner("mallory")).await.unwrap();
    let _two = places.place(&owner("mallory")).await.unwrap();
    assert!(now(places.place(&owner("mallory"))).await.is_none(), "a third one waits");
    let other = now(places.place(&owner("alice"))).await;
    assert!(other.is_some_and(|place| place.is_some()), "another owner finds a place");
}

#[tokio::test]
async fn all_owners_together_have_so_many_places_and_no_more() {
    let places = places(2, 1, 1);
    let _one = places.place(&owner("a")).await.unwrap();
    let _two = places.place(&owner("b")).await.unwrap();
    assert!(now(places.place(&owner("c"))).await.is_none());
}

#[tokio::test]
async fn places_that_are_lent_are_all_for_one_until_another_comes() {
    let presence = std::sync::Arc::new(Presence::default());
    let share = Share { all: 3, each_owner: 1 };
    let rules = Rules { share, waiting: usize::MAX, patience: None, longest: None };
    let places = std::sync::Arc::new(Places::lent(rules, std::sync::Arc::clone(&presence)));
    let _one = places.place(&owner("mallory")).await.unwrap();
    let two = places.place(&owner("mallory")).await.unwrap();
    presence.note(&owner("alice"));
    let third = waits(&places, "mallory");
    assert!(now(places.place(&owner("alice"))).await.is_some_and(|place| place.is_some()));
    drop(two);
    tokio::task::yield_now().await;
    assert!(!third.is_finished(), "one is as many as there may be while somebody else is there");
    third.abort();
}

#[tokio::test]
async fn who_finds_the_line_full_is_refused_at_once() {
    let places = std::sync::Arc::new(places(1, 1, 2));
    let held = places.place(&owner("mallory")).await.unwrap();
    let waiting: Vec<_> = (0..2).map(|_| waits(&places, "mallory")).collect();
    tokio::task::yield_now().await;
    for _ in 0..1000 {
        let refused = now(places.place(&owner("mallory"))).await.expect("it is not waited for");
        assert!(refused.is_none());
    }
    assert!(now(places.place(&owner("alice"))).await.is_none(), "another owner has a line of their own");
    drop(held);
    for waiting in waiting {
        assert!(waiting.await.unwrap().is_some());
    }
}

#[tokio::test]
async fn the_owner_who_works_least_is_next() {
    let places = std::sync::Arc::new(places(2, 2, 8));
    let (first, second) =
        (places.place(&owner("mallory")).await.unwrap(), places.place(&owner("mallory")).await.unwrap());
    let greedy: Vec<_> = (0..4).map(|_| waits(&places, "mallory")).collect();
    tokio::task::yield_now().await;
    let patient = waits(&places, "alice");
    tokio::task::yield_now().await;
    drop(first);
    let alice = tokio::time::timeout(SOON, patient).await.unwrap().unwrap();
    assert!(alice.is_some(), "she came last and is served first");
    assert!(greedy.iter().all(|waiting| !waiting.is_finished()));
    drop((alice, second));
    for waiting in greedy {
        assert!(waiting.await.unwrap().is_some());
    }
}

#[tokio::test]
async fn whoever_goes_away_leaves_the_line_and_the_place() {
    let places = std::sync::Arc::new(places(1, 1, 1));
    let held = places.place(&owner("a")).await.unwrap();
    let gone = waits(&places, "a");
    tokio::task::yield_now().await;
    gone.abort();
    assert!(gone.await.is_err());
    let next = waits(&places, "a");
    tokio::task::yield_now().await;
    assert!(!next.is_finished(), "it waits where the other one did");
    drop(held);
    drop(tokio::time::timeout(SOON, next).await.unwrap().unwrap().unwrap());
    assert!(now(places.place(&owner("a"))).await.is_some_and(|place| place.is_some()), "nothing is lost");
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let places = lasting(Share { all: 1, each_owner: 1 }, 1, Duration::from_millis(10), LONG);
    let _held = places.place(&owner("a")).await.unwrap();
    assert!(places.place(&owner("a")).await.is_none());
}

#[tokio::test]
async fn work_whose_caller_is_gone_stops_and_only_then_gives_the_place_back() {
    let places = places(1, 1, 1);
    let place = places.place(&owner("a")).await.unwrap();
    let (begun, is_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let work = tokio::spawn(place.work(move || {
        begun.send(()).unwrap();
        let since = Instant::now();
        while !abandoned() && since.elapsed() < SOON {
            std::thread::yield_now();
        }
        let stopped = abandoned();
        may_go.recv().unwrap();
        stopped
    }));
    tokio::task::spawn_blocking(move || is_begun.recv().unwrap()).await.unwrap();
    work.abort();
    assert!(work.await.is_err());
    assert!(now(places.place(&owner("a"))).await.is_none(), "the thread is still there");
    go.send(()).unwrap();
    assert!(tokio::time::timeout(SOON, places.place(&owner("a"))).await.unwrap().is_some());
}

#[tokio::test]
async fn work_that_takes_too_long_is_told_so() {
    let places = lasting(Share { all: 1, each_owner: 1 }, 1, LONG, Duration::from_millis(10));
    let place = places.place(&owner("a")).await.unwrap();
    let told = place.work(|| {
        let since = Instant::now();
        while !abandoned() && since.elapsed() < SOON {
            std::thread::yield_now();
        }
        abandoned()
    });
    assert!(told.await.unwrap());
}

#[tokio::test]
async fn work_is_done_below_the_priority_of_those_who_serve() {
    let places = places(1, 1, 1);
    let mine = || rustix::process::getpriority_process(None).unwrap();
    let before = mine();
    let place = places.place(&owner("a")).await.unwrap();
    assert!(place.work(mine).await.unwrap() > before);
    assert_eq!(mine(), before, "nobody else's changes");
}
