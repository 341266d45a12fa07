//! Changes to files as the journal tells them.

use bytes::Bytes;
use warren_core::{Action, FileDeed, JournalEntry, SandboxId, SnapshotId};
use warren_wire::guest::{FileCall, FileOperation, WriteMode};

use crate::journal::tests::{World, blamed, detail, log, newest, until_ended};
use crate::sessions::tests::{eventually, owner};
use crate::{Engine, EngineError};

fn call(operation: FileOperation) -> FileCall {
    FileCall { user: None, operation, as_root: None }
}

fn write(path: &str) -> FileCall {
    let (mode, permissions) = (WriteMode::Replace, None);
    call(FileOperation::Write { path: path.into(), mode, permissions, parents: false })
}

fn remove(path: &str) -> FileCall {
    call(FileOperation::Remove { path: path.into(), recursive: false })
}

fn files(operation: FileDeed, path: &str) -> Action {
    Action::Files { operation, path: path.to_owned(), to: None, bytes: None, files: None }
}

async fn put(world: &World, engine: &Engine, id: &SandboxId, path: &str, text: &'static str) {
    world.clock.advance_ms(10);
    let mut file = engine.of(&owner()).sandbox(id).files().write(write(path)).await.unwrap();
    file.write(Bytes::from_static(text.as_bytes())).await.unwrap();
    file.finish().await.unwrap();
    world.clock.advance_ms(10);
}

async fn content(engine: &Engine, id: &SandboxId, path: &str) -> Option<Vec<u8>> {
    let read = call(FileOperation::Read { path: path.into(), offset: 0, length: None });
    let mut file = engine.of(&owner()).sandbox(id).files().read(read).await.ok()?;
    let mut all = Vec::new();
    while let Some(piece) = file.next().await.unwrap() {
        all.extend_from_slice(&piece);
    }
    Some(all)
}

/// Waits for the states around the newest entry.
async fn states(engine: &Engine, id: &SandboxId) -> (SnapshotId, SnapshotId) {
    eventually(|| async { newest(engine, id).await.after.is_some() }).await;
    let entry = newest(engine, id).await;
    (entry.before.unwrap(), entry.after.unwrap())
}

#[tokio::test]
async fn a_written_file_is_an_entry_that_is_blamed_and_undone() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    world.exec(&engine, &id, "write /tmp/f before").await;
    put(&world, &engine, &id, "/tmp/f", "after").await;
    let entry = newest(&engine, &id).await;
    let action = Action::Files {
        operation: FileDeed::Write,
        path: "/tmp/f".into(),
        to: None,
        bytes: Some(5),
        files: None,
    };
    assert_eq!((entry.action, entry.by.as_str()), (action, "tester"));
    let outcome = entry.outcome.expect("it is over");
    assert_eq!((outcome.exit_code, outcome.detail), (None, None));
    world.exec(&engine, &id, "true").await;
    assert_eq!(blamed(&engine, &id, "/tmp/f").await, [2], "neither of the commands around it");
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(content(&engine, &id, "/tmp/f").await.as_deref(), Some(&b"before"[..]));
}

#[tokio::test]
async fn every_kind_of_change_is_an_entry_with_the_states_around_it() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let changes = [
        (
            FileOperation::MakeDirectory { path: "/tmp/d".into(), permissions: None, parents: false },
            files(FileDeed::MakeDirectory, "/tmp/d"),
        ),
        (
            FileOperation::Rename { from: "/tmp/d".into(), to: "/tmp/e".into() },
            Action::Files {
                operation: FileDeed::Rename,
                path: "/tmp/d".into(),
                to: Some("/tmp/e".into()),
                bytes: None,
                files: None,
            },
        ),
        (
            FileOperation::SetPermissions { path: "/tmp/e".into(), permissions: 0o700 },
            files(FileDeed::SetPermissions, "/tmp/e"),
        ),
        (FileOperation::Remove { path: "/tmp/e".into(), recursive: true }, files(FileDeed::Remove, "/tmp/e")),
    ];
    let mut last = None;
    for (operation, action) in changes {
        world.clock.advance_ms(10);
        engine.of(&owner()).sandbox(&id).files().call(call(operation)).await.unwrap();
        world.clock.advance_ms(10);
        assert_eq!(newest(&engine, &id).await.action, action);
        let (before, after) = states(&engine, &id).await;
        assert!(last.is_none_or(|last| last == before), "{action:?} begins where the one before it ended");
        assert_ne!(before, after, "{action:?}");
        last = Some(after);
    }
    assert_eq!(log(&engine, &id).await.len(), 4);
}

#[tokio::test]
async fn what_is_refused_is_an_entry_that_says_why() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    engine.of(&owner()).sandbox(&id).files().call(remove("/tmp/none")).await.unwrap_err();
    let entry = newest(&engine, &id).await;
    assert_eq!(entry.action, files(FileDeed::Remove, "/tmp/none"));
    assert!(detail(&entry).contains("/tmp/none"), "{entry:?}");
    engine.of(&owner()).sandbox(&id).files().write(write("/none/f")).await.unwrap_err();
    let entry = until_ended(&engine, &id).await;
    assert_eq!((entry.number, entry.action.clone()), (2, files(FileDeed::Write, "/none/f")));
    assert_eq!(detail(&entry), "/none does not exist");
}

#[tokio::test]
async fn an_upload_that_is_broken_off_says_so() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let mut file = engine.of(&owner()).sandbox(&id).files().write(write("/tmp/f")).await.unwrap();
    file.write(Bytes::from_static(b"half")).await.unwrap();
    assert_eq!(newest(&engine, &id).await.ended_unix_ms, None, "it goes on");
    drop(file);
    let entry = newest(&engine, &id).await;
    assert!(entry.ended_unix_ms.is_some() && detail(&entry).contains("broken off"), "{entry:?}");
    assert_eq!(content(&engine, &id, "/tmp/f").await, None);
}

#[tokio::test]
async fn what_only_looks_is_no_entry() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let stat = FileOperation::Stat { path: "/tmp".into(), follow: true, detail: None };
    engine.of(&owner()).sandbox(&id).files().stat(call(stat.clone())).await.unwrap();
    let refused = engine.of(&owner()).sandbox(&id).files().call(call(stat)).await;
    assert!(matches!(refused, Err(EngineError::Invalid { .. })), "{refused:?}");
    assert_eq!(log(&engine, &id).await, Vec::<JournalEntry>::new());
}

#[tokio::test]
async fn calls_that_are_one_thing_are_one_entry_and_one_undo() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    world.clock.advance_ms(10);
    let work =
        engine.of(&owner()).sandbox(&id).files().begin(FileDeed::Unpack, "/tmp/d", None).await.unwrap();
    let directory = FileOperation::MakeDirectory { path: "/tmp/d".into(), permissions: None, parents: true };
    work.change(call(directory)).await.unwrap();
    for path in ["/tmp/d/a", "/tmp/d/b"] {
        let mut file = work.write(write(path)).await.unwrap();
        file.write(Bytes::from_static(b"abc")).await.unwrap();
        file.finish().await.unwrap();
    }
    // What fails on the way may be part of it.
    work.change(remove("/tmp/d/none")).await.unwrap_err();
    work.done();
    world.clock.advance_ms(10);
    let entry = newest(&engine, &id).await;
    let Action::Files { operation, bytes, files, .. } = &entry.action else { panic!("{entry:?}") };
    assert_eq!((entry.number, *operation, *bytes, *files), (1, FileDeed::Unpack, Some(6), Some(2)));
    assert_eq!(detail(&entry), "");
    assert_eq!(blamed(&engine, &id, "/tmp/d/b").await, [1]);
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(content(&engine, &id, "/tmp/d/a").await, None);
}

#[tokio::test]
async fn one_thing_that_fails_half_way_says_what_failed() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let work =
        engine.of(&owner()).sandbox(&id).files().begin(FileDeed::Unpack, "/tmp/d", None).await.unwrap();
    work.write(write("/none/f")).await.unwrap_err();
    drop(work);
    let entry = newest(&engine, &id).await;
    assert_eq!(detail(&entry), "/none does not exist");
}
