//! Calls through the engine: ids, limits, and callers that leave.

use std::sync::Arc;

use serde_json::{Value, json};
use warren_core::{SandboxId, ToolAnswer};
use warren_wire::guest::ProcessSelector;

use crate::sessions::tests::{Bench, eventually, field, owner, stranger};
use crate::tools::once::fingerprint;
use crate::tools::{ContentBlock, ToolCall, ToolResources, ToolResult};
use crate::{Engine, EngineError};

fn call(tool: &str, params: Value) -> ToolCall {
    ToolCall {
        tool: tool.to_owned(),
        call: None,
        params,
        resources: ToolResources::default(),
        snapshot: false,
        session: None,
    }
}

fn bash(command: &str) -> ToolCall {
    call("bash", json!({ "command": command }))
}

fn with_id(id: &str, call: ToolCall) -> ToolCall {
    ToolCall { call: Some(id.to_owned()), ..call }
}

async fn ask(engine: &Engine, id: &SandboxId, call: ToolCall) -> Result<ToolResult, EngineError> {
    engine.of(&owner()).sandbox(id).call_tool(call, None).await
}

fn text(result: &ToolResult) -> &str {
    match &result.content[..] {
        [ContentBlock::Text { text, .. }] => text,
        other => panic!("not one text: {other:?}"),
    }
}

#[tokio::test]
async fn tools_of_both_tiers_see_the_same_files() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    let wrote =
        ask(&bench.engine, &id, call("write", json!({ "path": "/tmp/d/a", "content": "hello" }))).await;
    assert_eq!(wrote.unwrap().tier, 1);
    let shown = ask(&bench.engine, &id, bash("read /tmp/d/a")).await.unwrap();
    assert_eq!((text(&shown), shown.tier, shown.exit_code, shown.is_error), ("hello", 2, Some(0), false));
    let edit = call("edit", json!({ "path": "/tmp/d/a", "old": "ell", "new": "owl" }));
    assert!(!ask(&bench.engine, &id, edit).await.unwrap().is_error);
    let read = ask(&bench.engine, &id, call("read", json!({ "path": "/tmp/d/a" }))).await.unwrap();
    assert_eq!(text(&read), "howlo");
    let listed = ask(&bench.engine, &id, call("ls", json!({ "path": "/tmp", "depth": 2 }))).await.unwrap();
    assert_eq!(text(&listed), "d/\nd/a\t5\n");
}

#[tokio::test]
async fn a_tools_own_failure_is_an_answer_and_the_engines_is_not() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    let missing = ask(&bench.engine, &id, call("read", json!({ "path": "/nowhere" }))).await.unwrap();
    assert!(missing.is_error && missing.exit_code.is_none());
    let failed = ask(&bench.engine, &id, bash("fail")).await.unwrap();
    assert_eq!((failed.is_error, failed.exit_code, text(&failed)), (true, Some(3), "failed\n[exit code 3]"));
    let denied = bench.engine.of(&stranger()).sandbox(&id).call_tool(bash("true"), None).await;
    assert!(matches!(denied, Err(EngineError::NotFound { .. })), "{denied:?}");
    bench.engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    let paused = ask(&bench.engine, &id, bash("true")).await;
    assert!(matches!(paused, Err(EngineError::Denied { .. })), "{paused:?}");
}

#[tokio::test]
async fn limits_out_of_range_and_bad_ids_are_refused_by_name() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    let with = |resources: ToolResources| ToolCall { resources, ..bash("true") };
    let timeout = with(ToolResources { timeout_ms: Some(0), ..ToolResources::default() });
    assert_eq!(field(ask(&bench.engine, &id, timeout).await), "timeout");
    let output = with(ToolResources { most_output_bytes: Some(1 << 40), ..ToolResources::default() });
    assert_eq!(field(ask(&bench.engine, &id, output).await), "most_output_bytes");
    let memory = with(ToolResources { memory_bytes: Some(5), ..ToolResources::default() });
    assert_eq!(field(ask(&bench.engine, &id, memory).await), "memory_bytes");
    for bad in ["", "a b", "ä", &"x".repeat(256)] {
        assert_eq!(field(ask(&bench.engine, &id, with_id(bad, bash("true"))).await), "call");
    }
    assert_eq!(field(ask(&bench.engine, &id, call("rm", json!({}))).await), "tool");
}

#[tokio::test]
async fn the_shorter_of_two_time_limits_counts() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    let resources = ToolResources { timeout_ms: Some(30), ..ToolResources::default() };
    let slow =
        ToolCall { resources, ..call("bash", json!({ "command": "sleep 1000", "timeout_ms": 60000 })) };
    let result = ask(&bench.engine, &id, slow).await.unwrap();
    assert!(result.is_error && text(&result).contains("longer than 30ms"), "{result:?}");
}

#[tokio::test]
async fn a_repeated_call_gets_the_first_answer_and_does_nothing() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    let write = |text: &str| with_id("one", call("write", json!({ "path": "/tmp/a", "content": text })));
    let first = ask(&bench.engine, &id, write("x")).await.unwrap();
    assert!(!first.repeated);
    ask(&bench.engine, &id, bash("write /tmp/a changed")).await.unwrap();
    let again = ask(&bench.engine, &id, write("x")).await.unwrap();
    assert_eq!(again, ToolResult { repeated: true, ..first });
    assert_eq!(bench.backend.file(&id, "/tmp/a").unwrap(), b"changed");
    let other = ask(&bench.engine, &id, write("y")).await;
    assert!(matches!(other, Err(EngineError::IdempotencyMismatch)), "{other:?}");
    let elsewhere = bench.acquire().await.sandbox.id;
    assert!(!ask(&bench.engine, &elsewhere, write("y")).await.unwrap().repeated, "ids are a sandbox's own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_calls_of_one_id_at_once_one_is_made() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (engine, id) = (bench.engine.clone(), id.clone());
            tokio::spawn(async move { ask(&engine, &id, with_id("same", bash("sleep 0.05"))).await.unwrap() })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    assert_eq!(results.iter().filter(|result| !result.repeated).count(), 1);
    assert_eq!(bench.engine.of(&owner()).sandbox(&id).processes().list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_call_goes_on_without_its_caller_and_its_answer_is_kept() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    let slow = || with_id("left", bash("sleep 1000"));
    let (engine, sandbox, call) = (bench.engine.clone(), id.clone(), slow());
    let caller = tokio::spawn(async move { drop(ask(&engine, &sandbox, call).await) });
    eventually(async || bench.backend.running(&id) == 1).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    let process = bench.engine.of(&owner()).sandbox(&id).processes().list().await.unwrap()[0].process;
    bench
        .engine
        .of(&owner())
        .sandbox(&id)
        .processes()
        .signal(ProcessSelector::Id(process), 15, true)
        .await
        .unwrap();
    let again = ask(&bench.engine, &id, slow()).await.unwrap();
    assert!(again.repeated, "{again:?}");
    assert_eq!(bench.engine.of(&owner()).sandbox(&id).processes().list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_call_that_failed_may_be_made_again() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    bench.engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    let made = || with_id("again", bash("true"));
    assert!(ask(&bench.engine, &id, made()).await.is_err());
    bench.engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert!(!ask(&bench.engine, &id, made()).await.unwrap().repeated);
}

#[tokio::test]
async fn a_call_that_an_earlier_server_did_not_finish_is_made_again() {
    let bench = Bench::new().await;
    let id = bench.acquire().await.sandbox.id;
    let catalog = Arc::clone(&bench.engine.shared.parts.catalog);
    let begun = ToolAnswer {
        owner: owner(),
        sandbox: id.clone(),
        call: "lost".to_owned(),
        fingerprint: fingerprint(&with_id("lost", bash("true"))),
        answer: None,
        at_unix_ms: 0,
    };
    assert_eq!(catalog.begin_call(&begun).unwrap(), None);
    let other = ask(&bench.engine, &id, with_id("lost", bash("false"))).await;
    assert!(matches!(other, Err(EngineError::IdempotencyMismatch)), "{other:?}");
    let again = ask(&bench.engine, &id, with_id("lost", bash("true"))).await.unwrap();
    assert!(!again.repeated);
    assert!(ask(&bench.engine, &id, with_id("lost", bash("true"))).await.unwrap().repeated);
}

#[tokio::test]
async fn a_relative_path_starts_where_programs_do() {
    let bench = Bench::new().await;
    let mut wanted = crate::sessions::tests::request();
    wanted.sandbox.spec.workdir = Some("/tmp".into());
    let id = bench.engine.of(&owner()).sessions().acquire(wanted).await.unwrap().sandbox.id;
    ask(&bench.engine, &id, call("write", json!({ "path": "a", "content": "x" }))).await.unwrap();
    assert_eq!(bench.backend.file(&id, "/tmp/a").unwrap(), b"x");
}
