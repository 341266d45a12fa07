//! Names, and the words that mean a sandbox.

use warren_core::catalog::{CatalogErrorKind, SandboxFilter};
use warren_core::{PageRequest, SandboxId, SandboxName, SandboxWord, Status};
use warren_engine::{
    Acquire, Acquired, Attach, Engine, EngineError, Missing, NewSandbox, Patch, Point, StoppedFiles,
};

use crate::support::*;
use crate::travel::forks;

fn name(text: &str) -> SandboxName {
    text.parse().expect("a name")
}

fn called(text: &str) -> Acquire {
    Acquire { sandbox: NewSandbox { name: Some(name(text)), ..new_sandbox() }, ..acquire() }
}

async fn make_called(engine: &Engine, text: &str) -> Acquired {
    engine.of(&owner()).sessions().acquire(called(text)).await.expect("the name is free")
}

async fn found(engine: &Engine, word: &str) -> Result<SandboxId, EngineError> {
    engine.of(&owner()).find(word).await.map(|sandbox| sandbox.id().clone())
}

fn assert_unknown(answer: Result<SandboxId, EngineError>) {
    assert!(matches!(&answer, Err(EngineError::NotFound { what: Missing::Sandbox, .. })), "{answer:?}");
}

fn rename(text: &str) -> Patch {
    Patch { name: Some(Some(name(text))), ..Patch::default() }
}

/// All names that are in use lead to their sandboxes, and all others can be had.
pub(crate) async fn assert_names_hold(engine: &Engine) {
    for record in all_sandboxes(engine, &owner()).await {
        let Some(name) = &record.name else { continue };
        if record.is_live() || record.files_kept() {
            assert_eq!(found(engine, name.as_str()).await.expect("it has a holder"), record.id);
        } else if let Err(error) = engine.of(&owner()).sessions().acquire(called(name.as_str())).await {
            assert!(matches!(error, EngineError::SandboxNameTaken { holder: Some(_), .. }), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_sandbox_is_found_by_its_id_a_beginning_of_it_its_name_and_as_the_last() {
    let world = World::new();
    let engine = world.open().await;
    let first = make_called(&engine, "web").await.sandbox;
    world.clock.advance_s(1);
    let second = make(&engine).await.sandbox;
    for (word, expected) in [
        (first.id.as_str(), &first.id),
        ("web", &first.id),
        ("@last", &second.id),
        (second.id.as_str(), &second.id),
        (&second.id.as_str()[..28], &second.id),
    ] {
        assert_eq!(&found(&engine, word).await.expect(word), expected, "{word}");
    }
    for word in ["", "we", "web-2", "Web", "sbx", "@", "@first", "../web", "%", "we%", "w_b", "*", "\0"] {
        assert_unknown(found(&engine, word).await);
    }
    engine.of(&owner()).sandbox(&second.id).stop(StoppedFiles::Keep).await.unwrap();
    assert_eq!(found(&engine, "@last").await.unwrap(), second.id, "a stopped one counts");
    engine.of(&owner()).sandbox(&second.id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!(found(&engine, "@last").await.unwrap(), first.id);
    let ended = &second.id.as_str()[..28];
    assert_eq!(found(&engine, ended).await.unwrap(), second.id, "there is still something to tell of it");
}

#[tokio::test]
async fn an_id_is_taken_as_it_is_and_costs_no_look_at_the_catalog() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await.sandbox;
    world.catalog.fail_next(CatalogErrorKind::Host);
    assert_eq!(found(&engine, made.id.as_str()).await.unwrap(), made.id);
    let failed = found(&engine, "web").await;
    assert!(matches!(failed, Err(EngineError::Catalog(_))), "the catalog was to fail: {failed:?}");
}

#[tokio::test]
async fn a_beginning_of_several_ids_is_refused_with_some_of_them() {
    let world = World::new();
    let engine = world.open().await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(make(&engine).await.sandbox.id);
    }
    // 7 ids have at most 8 different digits in the first place, so two of them share one or there
    // are seven beginnings to choose from.
    let beginnings = ids.iter().map(|id| id.as_str()[..4].to_owned());
    for beginning in beginnings {
        let same: Vec<_> = ids.iter().filter(|id| id.as_str().starts_with(&beginning)).collect();
        match found(&engine, &beginning).await {
            Ok(id) => assert_eq!(same, [&id]),
            Err(EngineError::AmbiguousPrefix { ids: told, more, .. }) => {
                assert!(same.len() > 1 && told.len() == same.len().min(5) && more == (same.len() > 5));
                assert!(told.iter().all(|id| same.contains(&id)));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_with_its_holder_and_leaves_nothing() {
    let world = World::new();
    let engine = world.open().await;
    let first = make_called(&engine, "web").await.sandbox;
    let error = engine.of(&owner()).sessions().acquire(called("web")).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::SandboxNameTaken { holder: Some(holder), .. } if *holder == first.id),
        "{error:?}"
    );
    assert!(error.told().contains(first.id.as_str()), "{}", error.told());
    assert_eq!(all_sandboxes(&engine, &owner()).await.len(), 1);
    world.isolation.assert_only(&[first.id]);
}

#[tokio::test]
async fn of_several_creates_at_once_one_gets_the_name() {
    let world = World::new();
    let engine = world.open().await;
    let attempts = (0..8).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.of(&owner()).sessions().acquire(called("web")).await })
    });
    let mut made = Vec::new();
    for attempt in attempts.collect::<Vec<_>>() {
        match attempt.await.unwrap() {
            Ok(acquired) => made.push(acquired.sandbox.id),
            Err(error) => assert!(matches!(error, EngineError::SandboxNameTaken { .. }), "{error:?}"),
        }
    }
    assert_eq!(made.len(), 1);
    assert_eq!(found(&engine, "web").await.unwrap(), made[0]);
    world.isolation.assert_only(&made);
}

#[tokio::test]
async fn another_owners_words_mean_nothing_and_its_names_are_free() {
    let world = World::new();
    let engine = world.open().await;
    let mine = make_called(&engine, "web").await.sandbox;
    engine.of(&owner()).sandboxes().set_default(Some(&mine.id)).await.unwrap();
    let theirs = engine.of(&stranger());
    for word in ["web", "@last", &mine.id.as_str()[..20]] {
        assert_unknown(theirs.find(word).await.map(|sandbox| sandbox.id().clone()));
    }
    let none = theirs.find("@default").await.map(drop);
    assert!(matches!(none, Err(EngineError::NotFound { what: Missing::DefaultSandbox, .. })), "{none:?}");
    // A full id is not looked up: whatever is done with it finds nothing.
    assert!(theirs.find(mine.id.as_str()).await.unwrap().record().await.is_err());
    let other = theirs.sessions().acquire(called("web")).await.expect("names are each owner's").sandbox;
    assert_eq!(theirs.find("web").await.unwrap().id(), &other.id);
    assert_eq!(found(&engine, "web").await.unwrap(), mine.id);
}

#[tokio::test]
async fn a_sandbox_is_renamed_and_a_removed_one_lets_go_of_its_name() {
    let world = World::new();
    let engine = world.open().await;
    let first = make_called(&engine, "web").await.sandbox;
    let second = make(&engine).await.sandbox;
    let refused = engine.of(&owner()).sandbox(&second.id).update(rename("web")).await;
    assert!(matches!(refused, Err(EngineError::SandboxNameTaken { .. })), "{refused:?}");
    assert_eq!(record(&engine, &second.id).await.name, None);
    engine.of(&owner()).sandbox(&first.id).update(rename("web")).await.expect("it has that name anyway");
    engine.of(&owner()).sandbox(&first.id).update(rename("old")).await.unwrap();
    assert_unknown(found(&engine, "web").await);
    engine.of(&owner()).sandbox(&second.id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&second.id).update(rename("web")).await.expect("a stopped one has names");
    assert_eq!(found(&engine, "web").await.unwrap(), second.id);
    engine.of(&owner()).sandbox(&second.id).resume().await.unwrap();
    assert_eq!(record(&engine, &second.id).await.name, Some(name("web")));
    let none = Patch { name: Some(None), ..Patch::default() };
    assert_eq!(engine.of(&owner()).sandbox(&second.id).update(none).await.unwrap().name, None);
    engine.of(&owner()).sandbox(&first.id).stop(StoppedFiles::Delete).await.unwrap();
    let third = make_called(&engine, "old").await.sandbox;
    assert_eq!(found(&engine, "old").await.unwrap(), third.id);
    let filter = SandboxFilter { name: Some(name("old")), ..SandboxFilter::default() };
    let listed = engine.of(&owner()).sandboxes().list(&filter, &PageRequest::default()).await.unwrap().items;
    assert_eq!(listed.iter().map(|record| &record.id).collect::<Vec<_>>(), [&third.id]);
}

#[tokio::test]
async fn a_fork_has_a_name_only_if_it_is_given_one() {
    let world = World::new();
    let engine = world.open().await;
    let first = make_called(&engine, "web").await.sandbox;
    let snapshots = engine.of(&owner()).snapshots();
    let from = Point::Sandbox(first.id.clone());
    assert_eq!(snapshots.fork(&from, forks(1)).await.unwrap()[0].sandbox.name, None);
    let mut order = forks(1);
    order.name = Some(name("web-2"));
    let fork = snapshots.fork(&from, order.clone()).await.unwrap().remove(0).sandbox;
    assert_eq!(found(&engine, "web-2").await.unwrap(), fork.id);
    let taken = snapshots.fork(&from, order.clone()).await;
    assert!(matches!(taken, Err(EngineError::SandboxNameTaken { .. })), "{taken:?}");
    order.count = 2;
    let several = snapshots.fork(&from, order).await;
    assert!(matches!(several, Err(EngineError::Invalid { .. })), "{several:?}");
    assert_eq!(all_sandboxes(&engine, &owner()).await.len(), 3);
}

#[tokio::test]
async fn sessions_are_got_by_any_word() {
    let world = World::new();
    let engine = world.open().await;
    let first = make_called(&engine, "web").await.sandbox;
    let sessions = engine.of(&owner()).sessions();
    let wish = |text: &str| {
        let sandbox = text.parse::<SandboxWord>().expect("a word");
        Attach { sandbox, ..attach(&first.id) }
    };
    assert_eq!(sessions.attach(wish("web")).await.unwrap().sandbox.id, first.id);
    assert!(matches!(sessions.attach(wish("db")).await, Err(EngineError::NotFound { .. })));
    let prefer = |text: &str| Acquire { preferred: text.parse().ok(), fresh: false, ..acquire() };
    assert_eq!(sessions.acquire(prefer("@last")).await.unwrap().sandbox.id, first.id);
    let fresh = Attach { create_if_missing: Some(new_sandbox()), ..wish("db") };
    assert!(sessions.attach(fresh).await.unwrap().fresh);
    assert!(sessions.acquire(prefer("db")).await.unwrap().fresh);
    engine.of(&owner()).sandboxes().set_default(Some(&first.id)).await.unwrap();
    assert_eq!(sessions.attach(wish("@default")).await.unwrap().sandbox.id, first.id);
}

#[tokio::test]
async fn a_name_and_its_holder_are_known_after_a_restart() {
    let world = World::new();
    let engine = world.open().await;
    let made = make_called(&engine, "web").await.sandbox;
    let engine = world.restart(engine).await;
    assert_eq!(status(&engine, &made.id).await, Status::Ready);
    assert_eq!(found(&engine, "web").await.unwrap(), made.id);
    let refused = engine.of(&owner()).sessions().acquire(called("web")).await;
    assert!(matches!(refused, Err(EngineError::SandboxNameTaken { .. })), "{refused:?}");
}
