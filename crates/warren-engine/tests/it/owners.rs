//! Another owner's thing is answered for as one that does not exist, by every method.

use std::time::Duration;

use bytes::Bytes;
use warren_core::catalog::{SandboxFilter, SessionFilter, SnapshotFilter};
use warren_core::network::GrantEffect;
use warren_core::{Conflicts, DiffOptions, NetworkPolicy, PageRequest, SandboxId, SessionId, SnapshotId};
use warren_engine::{
    Acquire, Attach, Engine, EngineError, ExportOrder, Patch, Point, PromoteOrder, Release, StoppedFiles,
    TakeSnapshot, ToolCall, ToolResources,
};
use warren_wire::guest::{
    FileCall, FileOperation, GrepQuery, ProcessId, ProcessSelector, Reader, TerminalSize, WriteMode,
};

use crate::support::*;
use crate::travel::{forks, snap};

fn file(operation: FileOperation) -> FileCall {
    FileCall { user: None, operation, as_root: None }
}

fn stat() -> FileCall {
    file(FileOperation::Stat { path: "/tmp".into(), follow: true, detail: None })
}

fn grep() -> FileCall {
    let (root, pattern) = ("/".into(), "mine".to_owned());
    file(FileOperation::Grep(GrepQuery { root, pattern, ignore_case: false, files: None, limit: 10 }))
}

fn first() -> ProcessSelector {
    ProcessSelector::Id(ProcessId(1))
}

fn nothing() -> SnapshotId {
    SnapshotId::from_random([7; 16])
}

fn promotion() -> PromoteOrder {
    PromoteOrder { into: None, apply: true, conflicts: Conflicts::Theirs, force: true }
}

fn tool() -> ToolCall {
    ToolCall {
        tool: "ls".to_owned(),
        call: None,
        params: serde_json::json!({ "path": "/" }),
        resources: ToolResources::default(),
        snapshot: true,
        session: None,
    }
}

/// Every method that takes a sandbox's or a session's id, with what it answers to a stranger.
macro_rules! answers {
    ($engine:ident, $id:ident, $session:ident, $($name:literal => $call:expr;)*) => {
        vec![$(($name, $call.await.map(|_| ()))),*]
    };
}

async fn ask_everything(
    engine: &Engine,
    id: &SandboxId,
    session: &SessionId,
) -> Vec<(&'static str, Result<(), EngineError>)> {
    let them = stranger();
    let size = TerminalSize { columns: 80, rows: 24 };
    let write = FileOperation::Write {
        path: "/tmp/a".into(),
        mode: WriteMode::Replace,
        permissions: None,
        parents: false,
    };
    answers! { engine, id, session,
        "sandbox" => engine.sandbox(&them, id);
        "update_sandbox" => engine.update_sandbox(&them, id, Patch::default());
        "pause" => engine.pause(&them, id);
        "end_time" => engine.end_time(&them, id);
        "resume" => engine.resume(&them, id);
        "stop" => engine.stop(&them, id, StoppedFiles::Delete, "them");
        "death" => engine.death(&them, id);
        "usage" => engine.usage(&them, id);
        "changed" => engine.changed(&them, id, 0, 10);
        "exec" => engine.exec(&them, id, program("true"), Bytes::new(), CAPS);
        "start" => engine.start(&them, id, program("true"));
        "spawn" => engine.spawn(&them, id, program("true"));
        "launch" => engine.launch(&them, id, program("listen"), 8000);
        "launch_status" => engine.launch_status(&them, id, first());
        "follow" => engine.follow(&them, id, first(), 0, Reader::Skips);
        "processes" => engine.processes(&them, id);
        "process" => engine.process(&them, id, first());
        "signal" => engine.signal(&them, id, first(), 9, true);
        "input" => engine.input(&them, id, first(), Bytes::new(), false);
        "open_input" => engine.open_input(&them, id, first(), false);
        "resize" => engine.resize(&them, id, first(), size);
        "wait" => engine.wait(&them, id, first());
        "connect" => engine.connect(&them, id, 8000);
        "visit" => engine.visit(&them, id);
        "begin_files" => engine.begin_files(&them, id, warren_core::FileDeed::Write, "/tmp/x", None);
        "file_call" => engine.file_call(&them, id, file(FileOperation::Remove { path: "/tmp".into(), recursive: true }));
        "stat" => engine.stat(&them, id, stat());
        "read_file" => engine.read_file(&them, id, file(FileOperation::Read { path: "/tmp/a".into(), offset: 0, length: None }));
        "write_file" => engine.write_file(&them, id, file(write));
        "entries" => engine.entries(&them, id, file(FileOperation::List { path: "/".into(), depth: 1, detail: None }));
        "grep" => engine.grep(&them, id, grep());
        "watch" => engine.watch(&them, id, file(FileOperation::Watch { path: "/".into(), recursive: true }));
        "attach" => engine.attach(&them, attach(id));
        "set_default_sandbox" => engine.set_default_sandbox(&them, Some(id));
        "session" => engine.session(&them, session);
        "session_details" => engine.session_details(&them, session);
        "detach" => engine.detach(&them, session);
        "suspend" => engine.suspend(&them, session);
        "resume_session" => engine.resume_session(&them, session);
        "release" => engine.release(&them, session, Release::Destroy);
        "terminate" => engine.terminate(&them, session, "them");
        "think" => engine.think(&them, session, 10);
        "record_run" => engine.record_run(&them, session, run_of(1));
        "can_run" => engine.can_run(&them, session);
        "runs" => engine.runs(&them, session);
        "mark_ready" => engine.mark_ready(&them, session, None, None);
        "mark_failed" => engine.mark_failed(&them, session, "no".to_owned());
        "expire" => engine.expire(&them, session);
        "pause_after" => engine.pause_after(&them, id, Duration::ZERO);
        "take_snapshot" => engine.take_snapshot(&them, id, TakeSnapshot::default());
        "complete_turn" => engine.complete_turn(&them, id, None, None);
        "rollback" => engine.rollback(&them, id, &nothing(), true);
        "undo" => engine.undo(&them, id, 1, true);
        "redo" => engine.redo(&them, id, 1, true);
        "fork" => engine.fork(&them, &Point::Sandbox(id.clone()), forks(1));
        "diff" => engine.diff(&them, &Point::Sandbox(id.clone()), &Point::Sandbox(id.clone()), DiffOptions::default());
        "promote" => engine.promote(&them, id, promotion());
        "export" => engine.export(&them, &Point::Sandbox(id.clone()), ExportOrder::History, Box::new(std::io::sink()));
        "end_session" => engine.end_session(&them, session);
        "journal" => engine.journal(&them, id, None, 10, false);
        "blame" => engine.blame(&them, id, std::path::Path::new("/tmp/a"));
        "network" => engine.network(&them, id);
        "set_network" => engine.set_network(&them, id, NetworkPolicy::public());
        "allow" => engine.allow(&them, id, vec!["*".parse().unwrap()], None);
        "deny" => engine.deny(&them, id, vec!["*".parse().unwrap()], None);
        "network_log" => engine.network_log(&them, id, 0, 10);
        "follow_network_log" => engine.follow_network_log(&them, id, Some(0));
        "network_asks" => engine.network_asks(&them, id);
        "answer_network_ask" => engine.answer_network_ask(&them, id, 1, GrantEffect::Allow, None);
        "learned_network" => engine.learned_network(&them, id);
        "call_tool" => engine.call_tool(&them, id, tool(), None);
    }
}

#[tokio::test]
async fn another_owners_snapshots_do_not_exist() {
    let world = World::new();
    let engine = world.open().await;
    let mine = make(&engine).await.sandbox.id;
    let snapshot = snap(&engine, &mine).await.snapshot.id;
    let them = stranger();
    let request = Acquire { fresh: true, ..Acquire::new("stranger", new_sandbox()) };
    let theirs = engine.acquire(&them, request.clone()).await.unwrap().sandbox.id;
    let (point, own) = (Point::Snapshot(snapshot.clone()), Point::Sandbox(theirs.clone()));
    let mut from = request;
    from.sandbox.from = Some(snapshot.clone());
    let answers = [
        engine.snapshot(&them, &snapshot).await.map(drop),
        engine.name_snapshot(&them, &snapshot, None).await.map(drop),
        engine.delete_snapshot(&them, &snapshot).await,
        engine.rollback(&them, &theirs, &snapshot, true).await.map(drop),
        engine.fork(&them, &point, forks(1)).await.map(drop),
        engine.diff(&them, &own, &point, DiffOptions::default()).await.map(drop),
        engine.export(&them, &point, ExportOrder::History, Box::new(std::io::sink())).await,
        engine.make_template(&them, &snapshot, &"theirs".parse().unwrap()).await.map(drop),
        engine.acquire(&them, from).await.map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
    }
    let all = SnapshotFilter::default();
    assert!(engine.snapshots(&them, &all, &PageRequest::default()).await.unwrap().items.is_empty());
    assert_eq!(engine.snapshot(&owner(), &snapshot).await.unwrap().id, snapshot);
    assert_eq!(all_sandboxes(&engine, &them).await.len(), 1);
}

#[tokio::test]
async fn another_owners_things_do_not_exist() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    output(&engine, &made.sandbox.id, "write /tmp/a mine").await;
    engine.spawn(&owner(), &made.sandbox.id, program("sleep 1000")).await.unwrap();
    let before = (record(&engine, &made.sandbox.id).await, all_sessions(&engine, &owner()).await);
    let foreign = ask_everything(&engine, &made.sandbox.id, &made.session.id).await;
    let nobody = SandboxId::from_random([7; 16]);
    let nothing = SessionId::from_random([7; 16]);
    let unknown = ask_everything(&engine, &nobody, &nothing).await;
    for ((name, foreign), (_, unknown)) in foreign.into_iter().zip(unknown) {
        let foreign = foreign.expect_err(name);
        assert!(matches!(foreign, EngineError::NotFound { .. }), "{name}: {foreign:?}");
        let neutral = |text: String| {
            let ids = [made.sandbox.id.as_str(), made.session.id.as_str(), nobody.as_str(), nothing.as_str()];
            ids.iter().fold(text, |text, id| text.replace(id, "ID"))
        };
        let unknown = unknown.expect_err(name);
        assert_eq!(neutral(format!("{foreign:?}")), neutral(format!("{unknown:?}")), "{name}");
    }
    let after = (record(&engine, &made.sandbox.id).await, all_sessions(&engine, &owner()).await);
    assert_eq!(after, before, "a stranger changed something");
    assert_eq!(world.isolation.file(&made.sandbox.id, "/tmp/a").as_deref(), Some(&b"mine"[..]));
    assert_eq!(world.isolation.running(&made.sandbox.id), 1);
}

#[tokio::test]
async fn every_public_method_with_an_id_is_in_the_table() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = include_str!("owners.rs");
    let mut pending = vec![root];
    let mut missing = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for method in text.split("pub async fn ").skip(1) {
            let name = method.split(['(', '<']).next().unwrap();
            let arguments = method.split("->").next().unwrap();
            let asks = arguments.contains("owner: &Owner")
                && (arguments.contains("id: &SandboxId") || arguments.contains("id: &SessionId"));
            if asks && !table.contains(&format!("\"{name}\" =>")) {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "say in the table what a stranger is told by {missing:?}");
}

#[tokio::test]
async fn lists_and_events_hold_the_owners_things_only() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let page = PageRequest::default();
    let ended = SandboxFilter { ended: true, ..SandboxFilter::default() };
    assert!(engine.sandboxes(&stranger(), &ended, &page).await.unwrap().items.is_empty());
    let filter = SessionFilter { sandbox: Some(made.sandbox.id.clone()), ended: true, client: None };
    assert!(engine.sessions(&stranger(), &filter, &page).await.unwrap().items.is_empty());
    assert!(engine.events(&stranger(), 0, 1000).await.unwrap().is_empty());
    let request = Attach { create_if_missing: Some(new_sandbox()), ..attach(&made.sandbox.id) };
    let theirs = engine.attach(&stranger(), request).await.unwrap();
    assert!(theirs.fresh && theirs.sandbox.id != made.sandbox.id);
    let request = Acquire { preferred: Some(made.sandbox.id.clone()), fresh: false, ..acquire() };
    let theirs = engine.acquire(&stranger(), request).await.unwrap();
    assert!(theirs.fresh && theirs.sandbox.id != made.sandbox.id);
}
