use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use warren_core::{Action, Automatic, Caller, Event, JournalEntry, SandboxId};
use warren_testkit::{
    Call, FakeBuildFiles, FakeClock, FakeIsolation, FakeNetworks, FakeRandom, FakeTemplates, MemoryCatalog,
};

use crate::sessions::tests::{eventually, owner, request, stranger};
use crate::{
    Engine, EngineError, LogEntry, OutputCaps, Parts, PathState, ProcessSpec, Settings, ShutdownPolicy,
    StoppedFiles, TakeSnapshot, ToolCall, ToolResources,
};

const CAPS: OutputCaps = OutputCaps { stdout: 1000, stderr: 1000 };

/// Everything that outlives an engine.
pub(crate) struct World {
    pub(crate) isolation: Arc<FakeIsolation>,
    catalog: Arc<MemoryCatalog>,
    pub(crate) clock: Arc<FakeClock>,
    random: Arc<FakeRandom>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            isolation: FakeIsolation::new(),
            catalog: Arc::new(MemoryCatalog::new()),
            clock: Arc::new(FakeClock::new()),
            random: Arc::new(FakeRandom::new(3)),
        }
    }

    pub(crate) async fn open(&self) -> Engine {
        let parts = Parts {
            backends: vec![self.isolation.clone()],
            absent: Vec::new(),
            catalog: self.catalog.clone(),
            templates: Arc::new(FakeTemplates::new()),
            layers: self.isolation.layers(),
            build_files: Arc::new(FakeBuildFiles::default()),
            networks: FakeNetworks::new(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            passed: Arc::new(|_| {}),
        };
        let engine = Engine::open(parts, Settings::default()).await.unwrap();
        engine.reconciled().await;
        engine
    }

    /// An engine with a sandbox in it.
    pub(crate) async fn begin(&self) -> (Engine, SandboxId) {
        let engine = self.open().await;
        let id = engine.of(&owner()).sessions().acquire(request()).await.unwrap().sandbox.id;
        (engine, id)
    }

    pub(crate) async fn exec(&self, engine: &Engine, id: &SandboxId, line: &str) {
        self.clock.advance_ms(10);
        engine.of(&owner()).sandbox(id).exec(program(line), Bytes::new(), CAPS).await.unwrap();
        self.clock.advance_ms(10);
    }
}

pub(crate) fn program(line: &str) -> ProcessSpec {
    ProcessSpec { argv: line.split(' ').map(Into::into).collect(), ..ProcessSpec::default() }
}

pub(crate) async fn log(engine: &Engine, id: &SandboxId) -> Vec<JournalEntry> {
    let entries = engine.of(&owner()).sandbox(id).history().log(None, 100, false).await.unwrap();
    entries.into_iter().map(|LogEntry { entry, .. }| entry).collect()
}

pub(crate) async fn newest(engine: &Engine, id: &SandboxId) -> JournalEntry {
    log(engine, id).await.into_iter().next().unwrap()
}

pub(crate) async fn until_ended(engine: &Engine, id: &SandboxId) -> JournalEntry {
    eventually(|| async { newest(engine, id).await.ended_unix_ms.is_some() }).await;
    newest(engine, id).await
}

fn code(entry: &JournalEntry) -> Option<i32> {
    entry.outcome.as_ref().and_then(|outcome| outcome.exit_code)
}

pub(crate) fn detail(entry: &JournalEntry) -> &str {
    entry.outcome.as_ref().and_then(|outcome| outcome.detail.as_deref()).unwrap_or_default()
}

pub(crate) async fn blamed(engine: &Engine, id: &SandboxId, path: &str) -> Vec<u64> {
    let blame = engine.of(&owner()).sandbox(id).history().blame(Path::new(path)).await.unwrap();
    blame.entries.iter().map(|entry| entry.number).collect()
}

fn tool(name: &str, params: serde_json::Value) -> ToolCall {
    ToolCall {
        tool: name.to_owned(),
        call: Some("c1".to_owned()),
        params,
        resources: ToolResources::default(),
        snapshot: false,
        session: None,
    }
}

#[tokio::test]
async fn an_exec_is_written_down_with_who_asked_and_how_it_ended() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let spec = ProcessSpec { env: vec!["TOKEN=secret".into()], ..program("exit 4") };
    engine.of(&owner()).sandbox(&id).exec(spec, Bytes::new(), CAPS).await.unwrap();
    let entry = newest(&engine, &id).await;
    assert_eq!((entry.number, entry.turn, entry.by.as_str()), (1, 1, "tester"));
    assert_eq!(entry.action, Action::Exec { command: "exit 4".to_owned(), process: Some(1) });
    assert_eq!(code(&entry), Some(4));
    assert!(!format!("{entry:?}").contains("secret"));
    let others = engine.of(&stranger()).sandbox(&id).history().log(None, 10, true).await;
    assert!(matches!(others, Err(EngineError::NotFound { .. })), "{others:?}");
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_written_down_with_the_reason() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    engine.of(&owner()).sandbox(&id).exec(ProcessSpec::default(), Bytes::new(), CAPS).await.unwrap_err();
    let entry = newest(&engine, &id).await;
    assert!(entry.ended_unix_ms.is_some() && detail(&entry).contains("no program is named"), "{entry:?}");
}

#[tokio::test]
async fn the_end_of_a_process_that_nobody_follows_is_noticed() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 0.05")).await.unwrap();
    assert_eq!(code(&until_ended(&engine, &id).await), Some(0));
    let handle = engine.of(&owner()).sandbox(&id).start(program("sleep 0.05")).await.unwrap();
    drop(handle);
    assert_eq!(code(&until_ended(&engine, &id).await), Some(0));
    let (executing, sandbox) = (engine.clone(), id.clone());
    let exec = tokio::spawn(async move {
        drop(executing.of(&owner()).sandbox(&sandbox).exec(program("sleep 0.5"), Bytes::new(), CAPS).await);
    });
    let has_begun = |entry: JournalEntry| {
        entry.number == 3 && matches!(entry.action, Action::Exec { process: Some(_), .. })
    };
    eventually(|| async { has_begun(newest(&engine, &id).await) }).await;
    exec.abort();
    assert_eq!(code(&until_ended(&engine, &id).await), Some(0));
    assert_eq!(newest(&engine, &id).await.number, 3);
    let ends = |events: Vec<warren_core::EventRecord>| {
        events.iter().filter(|event| matches!(event.event, Event::ExecEnded { .. })).count()
    };
    let all = warren_core::catalog::EventFilter::default();
    eventually(|| async {
        ends(engine.of(&owner()).events().find(all.clone(), 0, 100).await.unwrap().0) == 3
    })
    .await;
    assert!(
        engine.shared.registry.find(&owner(), &id).unwrap().life().inside() == 0,
        "nobody counts as inside"
    );
}

#[tokio::test]
async fn a_process_that_ends_with_its_sandbox_is_written_down_so() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let entry = until_ended(&engine, &id).await;
    assert!(detail(&entry).contains("ended with its sandbox"), "{entry:?}");
}

#[tokio::test]
async fn processes_that_outlive_a_server_are_seen_by_the_next() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 0.5")).await.unwrap();
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1.5")).await.unwrap();
    assert_eq!(log(&engine, &id).await.len(), 2);
    engine.shutdown(ShutdownPolicy::Leave).await;
    drop(engine);
    eventually(|| async { world.isolation.running(&id) < 2 }).await;
    let engine = world.open().await;
    eventually(|| async { log(&engine, &id).await.iter().all(|entry| code(entry) == Some(0)) }).await;
}

#[tokio::test]
async fn what_nobody_can_have_seen_is_closed_as_such() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    log(&engine, &id).await;
    engine.shutdown(ShutdownPolicy::Leave).await;
    drop(engine);
    world.isolation.die(&id, false);
    let engine = world.open().await;
    let entry = until_ended(&engine, &id).await;
    assert!(code(&entry).is_none() && !detail(&entry).is_empty(), "{entry:?}");
}

#[tokio::test]
async fn every_command_is_bound_to_the_states_around_it() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    world.exec(&engine, &id, "write /tmp/a one").await;
    world.exec(&engine, &id, "true").await;
    world.exec(&engine, &id, "write /tmp/b two").await;
    eventually(|| async { log(&engine, &id).await.iter().all(|entry| entry.after.is_some()) }).await;
    let entries: Vec<_> = log(&engine, &id).await.into_iter().rev().collect();
    assert!(entries.windows(2).all(|pair| pair[0].after == pair[1].before), "{entries:?}");
    assert_eq!(entries[1].before, entries[1].after, "nothing was changed");
    let counted = engine.of(&owner()).sandbox(&id).history().log(None, 100, true).await.unwrap();
    let changed: Vec<_> = counted.iter().map(|entry| entry.changed).collect();
    assert_eq!(changed, [Some(1), Some(0), Some(1)]);
    let page = engine.of(&owner()).sandbox(&id).history().log(Some(3), 1, false).await.unwrap();
    assert_eq!(page.iter().map(|entry| entry.entry.number).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn commands_that_change_nothing_are_bound_to_one_state_without_a_seal() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    world.exec(&engine, &id, "write /tmp/a one").await;
    let bound = || async { log(&engine, &id).await.iter().all(|entry| entry.after.is_some()) };
    eventually(bound).await;
    world.exec(&engine, &id, "true").await;
    eventually(bound).await;
    let seals = world.isolation.calls(Call::Seal);
    for _ in 0..5 {
        world.exec(&engine, &id, "true").await;
    }
    eventually(bound).await;
    assert_eq!(world.isolation.calls(Call::Seal), seals, "one look told that nothing was written");
    let entries = log(&engine, &id).await;
    assert!(entries[..5].iter().all(|entry| entry.before == entry.after && entry.after == entries[5].after));
    world.exec(&engine, &id, "write /tmp/a two").await;
    eventually(bound).await;
    let entries = log(&engine, &id).await;
    assert!(entries[0].before == entries[1].after && entries[0].before != entries[0].after, "{entries:?}");
}

#[tokio::test]
async fn what_a_program_writes_beside_commands_that_change_nothing_is_not_lost() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let mut long = engine.of(&owner()).sandbox(&id).start(program("sleep 1000")).await.unwrap();
    world.exec(&engine, &id, "true").await;
    world.exec(&engine, &id, "write /tmp/a one").await;
    world.exec(&engine, &id, "true").await;
    long.writer.signal(15).await.unwrap();
    while long.next().await.unwrap().is_some() {}
    drop(long);
    eventually(|| async { log(&engine, &id).await.iter().all(|entry| entry.after.is_some()) }).await;
    assert!(blamed(&engine, &id, "/tmp/a").await.contains(&3));
}

#[tokio::test]
async fn the_command_that_last_wrote_a_path_is_to_blame() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    world.exec(&engine, &id, "write /tmp/a one").await;
    world.exec(&engine, &id, "write /tmp/b two").await;
    world.exec(&engine, &id, "write /tmp/a three").await;
    world.exec(&engine, &id, "true").await;
    assert_eq!(blamed(&engine, &id, "/tmp/a").await, [3]);
    assert_eq!(blamed(&engine, &id, "/tmp/b").await, [2]);
    assert_eq!(blamed(&engine, &id, "/tmp").await, [3]);
    assert_eq!(blamed(&engine, &id, "/etc").await, [0u64; 0]);
    let relative = engine.of(&owner()).sandbox(&id).history().blame(Path::new("tmp")).await;
    assert!(matches!(relative, Err(EngineError::Invalid { field: warren_core::Field::Path, .. })));
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    assert_eq!(blamed(&engine, &id, "/tmp/a").await, [3], "also once it has been stopped");
}

#[tokio::test]
async fn commands_that_overlap_are_blamed_together() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let mut long = engine.of(&owner()).sandbox(&id).start(program("sleep 1000")).await.unwrap();
    world.exec(&engine, &id, "write /tmp/a one").await;
    long.writer.signal(15).await.unwrap();
    while long.next().await.unwrap().is_some() {}
    drop(long);
    world.clock.advance_ms(10);
    let mut numbers = blamed(&engine, &id, "/tmp/a").await;
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
}

#[tokio::test]
async fn going_back_leaves_the_entries_and_adds_its_own() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    world.exec(&engine, &id, "write /tmp/a one").await;
    world.exec(&engine, &id, "write /tmp/a two").await;
    assert_eq!(blamed(&engine, &id, "/tmp/a").await, [2]);
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    let entries = log(&engine, &id).await;
    assert_eq!(entries.len(), 3);
    assert!(matches!(&entries[0].action, Action::Rollback { to } if entries[1].before.as_ref() == Some(to)));
    assert_eq!(blamed(&engine, &id, "/tmp/a").await, [1]);
    engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap();
    assert_eq!(blamed(&engine, &id, "/tmp/a").await, [2]);
    assert_eq!(log(&engine, &id).await.len(), 4);
}

#[tokio::test]
async fn a_turn_is_an_entry_and_counts_those_after_it() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    world.exec(&engine, &id, "write /tmp/a one").await;
    let done = engine.of(&owner()).sandbox(&id).history().complete_turn(None, None).await.unwrap();
    world.exec(&engine, &id, "true").await;
    let turns: Vec<_> = log(&engine, &id).await.iter().rev().map(|entry| entry.turn).collect();
    assert_eq!(turns, [1, 1, 2]);
    let turn = log(&engine, &id).await.into_iter().find(|entry| entry.action == Action::Turn).unwrap();
    assert_eq!(turn.after, Some(done.taken.snapshot.id));
}

#[tokio::test]
async fn where_only_turns_are_captured_their_commands_are_blamed() {
    let world = World::new();
    let engine = world.open().await;
    let mut wanted = request();
    wanted.sandbox.automatic = Some(Automatic::Turns);
    let id = engine.of(&owner()).sessions().acquire(wanted).await.unwrap().sandbox.id;
    world.exec(&engine, &id, "write /tmp/a one").await;
    world.exec(&engine, &id, "true").await;
    engine.of(&owner()).sandbox(&id).history().complete_turn(None, None).await.unwrap();
    world.exec(&engine, &id, "true").await;
    assert_eq!(blamed(&engine, &id, "/tmp/a").await, [2, 1]);
}

#[tokio::test]
async fn a_tool_call_is_an_entry_and_its_snapshot_is_its_state() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let write = ToolCall { snapshot: true, ..tool("write", json!({ "path": "/tmp/a", "content": "x" })) };
    let result = engine.of(&owner()).sandbox(&id).call_tool(write, None).await.unwrap();
    let taken = engine.of(&owner()).snapshots().get(&result.snapshot.unwrap()).await.unwrap();
    assert_eq!(taken.reason, warren_core::SnapshotReason::Tool);
    engine
        .of(&owner())
        .sandbox(&id)
        .call_tool(ToolCall { call: None, ..tool("read", json!({ "path": "/none" })) }, None)
        .await
        .unwrap();
    let entries = log(&engine, &id).await;
    let Action::Tool { tool, call, summary } = &entries[1].action else { panic!("{entries:?}") };
    assert_eq!((tool.as_str(), call.as_deref()), ("write", Some("c1")));
    assert!(summary.contains("/tmp/a"), "{summary}");
    assert!(entries[1].ended_unix_ms.is_some() && entries[1].outcome.is_some());
    assert_eq!((entries[0].before.is_some(), &entries[0].after), (true, &entries[0].before));
    assert!(detail(&entries[0]).contains("does not exist"), "{:?}", entries[0]);
    assert_eq!(blamed(&engine, &id, "/tmp/a").await, [1]);
}

#[tokio::test]
async fn a_snapshot_that_somebody_asks_for_tells_the_state_after() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let mut busy = engine.of(&owner()).sandbox(&id).start(program("sleep 1000")).await.unwrap();
    world.exec(&engine, &id, "write /tmp/a one").await;
    let taken = engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.unwrap();
    let entries = log(&engine, &id).await;
    // One that nobody asked for may have come first.
    let after = engine.of(&owner()).snapshots().get(entries[0].after.as_ref().unwrap()).await.unwrap();
    assert_eq!(after.stack, taken.snapshot.stack);
    assert_eq!(entries[1].after, None, "it goes on");
    busy.writer.signal(15).await.unwrap();
    while busy.next().await.unwrap().is_some() {}
}

#[tokio::test]
async fn a_terminal_is_a_session_with_the_command_that_was_asked_for() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let size = warren_wire::guest::TerminalSize { columns: 80, rows: 24 };
    let session =
        |words: ProcessSpec| ProcessSpec { terminal: Some(size), env: vec!["TERM=x".into()], ..words };
    world.clock.advance_ms(10);
    let mut handle =
        engine.of(&owner()).sandbox(&id).start(session(program("write /tmp/a one"))).await.unwrap();
    while handle.next().await.unwrap().is_some() {}
    drop(handle);
    world.clock.advance_ms(10);
    let entry = until_ended(&engine, &id).await;
    assert_eq!(entry.action, Action::Terminal { command: "write /tmp/a one".to_owned(), process: Some(1) });
    assert_eq!((code(&entry), entry.by.as_str()), (Some(0), "tester"));
    assert_eq!(blamed(&engine, &id, "/tmp/a").await, [1]);
    let argv = warren_wire::guest::LOGIN_SHELL.map(Into::into).to_vec();
    engine
        .of(&owner())
        .sandbox(&id)
        .spawn(session(ProcessSpec { argv, ..ProcessSpec::default() }))
        .await
        .ok();
    let action = newest(&engine, &id).await.action;
    assert!(matches!(&action, Action::Terminal { command, .. } if command == "login shell"), "{action:?}");
}

#[tokio::test]
async fn a_promotion_names_the_fork_and_what_was_done_in_it() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    let order = crate::ForkOrder {
        name: None,
        count: 1,
        client: "tests".to_owned(),
        lifetime_s: None,
        on_expiry: None,
        labels: Default::default(),
        metadata: Default::default(),
    };
    let promotion = |apply| crate::PromoteOrder {
        into: None,
        apply,
        conflicts: warren_core::Conflicts::Refuse,
        below: "/".into(),
        force: false,
        leave_out: warren_core::LeaveOut::default(),
    };
    world.exec(&engine, &id, "write /tmp/a one").await;
    let fork = engine
        .of(&owner())
        .snapshots()
        .fork(&crate::Point::Sandbox(id.clone()), order)
        .await
        .unwrap()
        .remove(0);
    let fork = fork.sandbox.id;
    world.exec(&engine, &fork, "write /tmp/b two").await;
    world.exec(&engine, &fork, "true").await;
    engine.of(&owner()).sandbox(&fork).history().promote(promotion(false)).await.unwrap();
    assert_eq!(log(&engine, &id).await.len(), 1, "what is only told is no entry");
    engine
        .as_(&Caller::new(owner(), "key_2"))
        .sandbox(&fork)
        .history()
        .promote(promotion(true))
        .await
        .unwrap();
    let entries = log(&engine, &id).await;
    let command = Some("write /tmp/b two; true".to_owned());
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(entries[0].action, Action::Promote { from: fork.clone(), path: None, command });
    assert_eq!(entries[0].by, "key_2");
    assert_eq!(blamed(&engine, &id, "/tmp/b").await, [2]);
    world.exec(&engine, &fork, "write /tmp/c three").await;
    engine.of(&owner()).sandbox(&fork).history().promote(promotion(true)).await.unwrap();
    let action = newest(&engine, &id).await.action;
    let Action::Promote { command, .. } = &action else { panic!("{action:?}") };
    assert_eq!(command.as_deref(), Some("write /tmp/c three"), "only what is new");
    world.exec(&engine, &fork, "write /srv/d four").await;
    world.exec(&engine, &fork, "write /tmp/e five").await;
    for (below, expected) in [("/srv", Some("/srv")), ("/", None)] {
        let order = crate::PromoteOrder { below: below.into(), ..promotion(true) };
        engine.of(&owner()).sandbox(&fork).history().promote(order).await.unwrap();
        let action = newest(&engine, &id).await.action;
        let Action::Promote { path, command, .. } = &action else { panic!("{action:?}") };
        assert_eq!(path.as_deref(), expected);
        let both = "write /srv/d four; write /tmp/e five";
        assert_eq!(command.as_deref(), Some(both), "what came in part has not come");
    }
    assert_eq!(blamed(&engine, &id, "/srv/d").await, [4]);
    assert_eq!(blamed(&engine, &id, "/tmp/e").await, [5]);
}

#[tokio::test]
async fn a_path_that_is_gone_is_told_from_one_that_never_was() {
    let world = World::new();
    let (engine, id) = world.begin().await;
    world.exec(&engine, &id, "write /tmp/a one").await;
    let judged = async |path: &str| {
        let blame = engine.of(&owner()).sandbox(&id).history().blame(Path::new(path)).await.unwrap();
        (blame.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), blame.state)
    };
    assert_eq!(judged("/tmp/a").await, (vec![1], PathState::Changed));
    assert_eq!(judged("/tmp/none").await, (vec![], PathState::NeverThere));
    let remove = warren_wire::guest::FileOperation::Remove { path: "/tmp/a".into(), recursive: false };
    let call = warren_wire::guest::FileCall { user: None, operation: remove, as_root: None };
    world.clock.advance_ms(10);
    engine.of(&owner()).sandbox(&id).files().call(call).await.unwrap();
    world.clock.advance_ms(10);
    assert_eq!(judged("/tmp/a").await, (vec![2], PathState::Removed));
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(judged("/tmp/a").await, (vec![1], PathState::Changed));
}
