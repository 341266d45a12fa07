//! Another owner's thing is answered for as one that does not exist, by every method.

use std::time::Duration;

use bytes::Bytes;
use warren_core::catalog::{SandboxFilter, SessionFilter, SnapshotFilter};
use warren_core::network::GrantEffect;
use warren_core::{
    Conflicts, DiffOptions, LeaveOut, NetworkPolicy, PageRequest, SandboxId, SessionId, SnapshotId,
};
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
    let leave_out = LeaveOut::default();
    let (conflicts, below) = (Conflicts::Theirs, "/".into());
    PromoteOrder { into: None, apply: true, conflicts, below, force: true, leave_out }
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
        "sandbox" => engine.of(&them).sandbox(id).record();
        "update_sandbox" => engine.of(&them).sandbox(id).update(Patch::default());
        "pause" => engine.of(&them).sandbox(id).pause();
        "end_time" => engine.of(&them).sandbox(id).end_time();
        "resume" => engine.of(&them).sandbox(id).resume();
        "stop" => engine.of(&them).sandbox(id).stop(StoppedFiles::Delete);
        "death" => engine.of(&them).sandbox(id).death();
        "usage" => engine.of(&them).sandbox(id).usage();
        "changed" => engine.of(&them).sandbox(id).changed(0, 10);
        "exec" => engine.of(&them).sandbox(id).exec(program("true"), Bytes::new(), CAPS);
        "start" => engine.of(&them).sandbox(id).start(program("true"));
        "spawn" => engine.of(&them).sandbox(id).spawn(program("true"));
        "launch" => engine.of(&them).sandbox(id).launch(program("listen"), 8000);
        "launch_status" => engine.of(&them).sandbox(id).processes().launch_status(first());
        "follow" => engine.of(&them).sandbox(id).processes().follow(first(), 0, Reader::Skips);
        "processes" => engine.of(&them).sandbox(id).processes().list();
        "process" => engine.of(&them).sandbox(id).processes().get(first());
        "signal" => engine.of(&them).sandbox(id).processes().signal(first(), 9, true);
        "input" => engine.of(&them).sandbox(id).processes().input(first(), Bytes::new(), false);
        "open_input" => engine.of(&them).sandbox(id).processes().open_input(first(), false);
        "resize" => engine.of(&them).sandbox(id).processes().resize(first(), size);
        "wait" => engine.of(&them).sandbox(id).processes().wait(first());
        "connect" => engine.of(&them).sandbox(id).connect(8000);
        "visit" => engine.of(&them).sandbox(id).visit();
        "begin_files" => engine.of(&them).sandbox(id).files().begin(warren_core::FileDeed::Write, "/tmp/x", None);
        "file_call" => engine.of(&them).sandbox(id).files().call(file(FileOperation::Remove { path: "/tmp".into(), recursive: true }));
        "stat" => engine.of(&them).sandbox(id).files().stat(stat());
        "read_file" => engine.of(&them).sandbox(id).files().read(file(FileOperation::Read { path: "/tmp/a".into(), offset: 0, length: None }));
        "write_file" => engine.of(&them).sandbox(id).files().write(file(write));
        "entries" => engine.of(&them).sandbox(id).files().entries(file(FileOperation::List { path: "/".into(), depth: 1, detail: None }));
        "grep" => engine.of(&them).sandbox(id).files().grep(grep());
        "watch" => engine.of(&them).sandbox(id).files().watch(file(FileOperation::Watch { path: "/".into(), recursive: true }));
        "attach" => engine.of(&them).sessions().attach(attach(id));
        "set_default_sandbox" => engine.of(&them).sandboxes().set_default(Some(id));
        "session" => engine.of(&them).session(session).view();
        "session_details" => engine.of(&them).session(session).details();
        "detach" => engine.of(&them).session(session).detach();
        "suspend" => engine.of(&them).session(session).suspend();
        "resume_session" => engine.of(&them).session(session).resume();
        "release" => engine.of(&them).session(session).release(Release::Destroy);
        "terminate" => engine.of(&them).session(session).terminate();
        "think" => engine.of(&them).session(session).think(10);
        "record_run" => engine.of(&them).session(session).record_run(run_of(1));
        "can_run" => engine.of(&them).session(session).can_run();
        "runs" => engine.of(&them).session(session).runs();
        "mark_ready" => engine.of(&them).session(session).mark_ready(None, None);
        "mark_failed" => engine.of(&them).session(session).mark_failed("no".to_owned());
        "expire" => engine.of(&them).session(session).expire();
        "pause_after" => engine.of(&them).sandbox(id).pause_after(Duration::ZERO);
        "take_snapshot" => engine.of(&them).sandbox(id).history().take(TakeSnapshot::default());
        "complete_turn" => engine.of(&them).sandbox(id).history().complete_turn(None, None);
        "rollback" => engine.of(&them).sandbox(id).history().rollback(&nothing(), true);
        "undo" => engine.of(&them).sandbox(id).history().undo(1, true);
        "redo" => engine.of(&them).sandbox(id).history().redo(1, true);
        "fork" => engine.of(&them).snapshots().fork(&Point::Sandbox(id.clone()), forks(1));
        "diff" => engine.of(&them).snapshots().diff(&Point::Sandbox(id.clone()), &Point::Sandbox(id.clone()), DiffOptions::default());
        "promote" => engine.of(&them).sandbox(id).history().promote(promotion());
        "export" => engine.of(&them).snapshots().export(&Point::Sandbox(id.clone()), ExportOrder::History, Box::new(std::io::sink()));
        "end_session" => engine.of(&them).session(session).end();
        "journal" => engine.of(&them).sandbox(id).history().log(None, 10, false);
        "blame" => engine.of(&them).sandbox(id).history().blame(std::path::Path::new("/tmp/a"));
        "network" => engine.of(&them).sandbox(id).network().view();
        "set_network" => engine.of(&them).sandbox(id).network().set(NetworkPolicy::public());
        "allow" => engine.of(&them).sandbox(id).network().allow(vec!["*".parse().unwrap()], None);
        "deny" => engine.of(&them).sandbox(id).network().deny(vec!["*".parse().unwrap()], None);
        "network_log" => engine.of(&them).sandbox(id).network().log(0, 10);
        "follow_network_log" => engine.of(&them).sandbox(id).network().follow_log(Some(0));
        "network_asks" => engine.of(&them).sandbox(id).network().asks();
        "answer_network_ask" => engine.of(&them).sandbox(id).network().answer(1, GrantEffect::Allow, None);
        "learned_network" => engine.of(&them).sandbox(id).network().learned();
        "call_tool" => engine.of(&them).sandbox(id).call_tool(tool(), None);
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
    let theirs = engine.of(&them).sessions().acquire(request.clone()).await.unwrap().sandbox.id;
    let (point, own) = (Point::Snapshot(snapshot.clone()), Point::Sandbox(theirs.clone()));
    let mut from = request;
    from.sandbox.from = Some(snapshot.clone());
    let answers = [
        engine.of(&them).snapshots().get(&snapshot).await.map(drop),
        engine.of(&them).snapshots().rename(&snapshot, None).await.map(drop),
        engine.of(&them).snapshots().delete(&snapshot).await,
        engine.of(&them).sandbox(&theirs).history().rollback(&snapshot, true).await.map(drop),
        engine.of(&them).snapshots().fork(&point, forks(1)).await.map(drop),
        engine.of(&them).snapshots().diff(&own, &point, DiffOptions::default()).await.map(drop),
        engine.of(&them).snapshots().export(&point, ExportOrder::History, Box::new(std::io::sink())).await,
        engine.of(&them).snapshots().make_template(&snapshot, &"theirs".parse().unwrap()).await.map(drop),
        engine.of(&them).sessions().acquire(from).await.map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
    }
    let all = SnapshotFilter::default();
    assert!(engine.of(&them).snapshots().list(&all, &PageRequest::default()).await.unwrap().items.is_empty());
    assert_eq!(engine.of(&owner()).snapshots().get(&snapshot).await.unwrap().id, snapshot);
    assert_eq!(all_sandboxes(&engine, &them).await.len(), 1);
}

#[tokio::test]
async fn another_owners_things_do_not_exist() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    output(&engine, &made.sandbox.id, "write /tmp/a mine").await;
    engine.of(&owner()).sandbox(&made.sandbox.id).spawn(program("sleep 1000")).await.unwrap();
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
    assert!(engine.of(&stranger()).sandboxes().list(&ended, &page).await.unwrap().items.is_empty());
    let filter = SessionFilter { sandbox: Some(made.sandbox.id.clone()), ended: true, client: None };
    assert!(engine.of(&stranger()).sessions().list(&filter, &page).await.unwrap().items.is_empty());
    assert!(all_events(&engine, &stranger()).await.is_empty());
    let request = Attach { create_if_missing: Some(new_sandbox()), ..attach(&made.sandbox.id) };
    let theirs = engine.of(&stranger()).sessions().attach(request).await.unwrap();
    assert!(theirs.fresh && theirs.sandbox.id != made.sandbox.id);
    let request = Acquire { preferred: Some(made.sandbox.id.clone().into()), fresh: false, ..acquire() };
    let theirs = engine.of(&stranger()).sessions().acquire(request).await.unwrap();
    assert!(theirs.fresh && theirs.sandbox.id != made.sandbox.id);
}
