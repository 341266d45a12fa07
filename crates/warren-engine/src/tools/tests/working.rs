//! Each tool against an agent whose every byte the test decides.

use serde_json::{Value, json};
use tokio::sync::mpsc;
use warren_wire::guest::{
    EntryKind, Exit, ExitCause, Failure, FailureCode, FileEntry, FileOperation, FrameKind, GrepMatch, Reply,
    Request, Start,
};

use crate::EngineError;
use crate::guest::fake::{FakeGate, FarEnd};
use crate::tools::answer::Answer;
use crate::tools::offer::Tool;
use crate::tools::{ContentBlock, Context, ToolProgress};

const EXIT: Exit = Exit { code: 0, cause: ExitCause::Exited, duration_ms: 1, output_bytes: 0 };

fn context(gate: &FakeGate) -> Context {
    Context {
        guest: gate.guest(),
        progress: None,
        timeout_ms: 5000,
        most_output: 30_000,
        memory_bytes: None,
        whose: None,
    }
}

async fn run(context: &Context, tool: Tool, params: Value) -> Answer {
    tool.parse(&params).unwrap().run(context).await.unwrap()
}

fn text(answer: &Answer) -> &str {
    match &answer.content[..] {
        [ContentBlock::Text { text, .. }] => text,
        other => panic!("not one text: {other:?}"),
    }
}

fn entry(path: &str, kind: EntryKind, size: u64) -> FileEntry {
    FileEntry {
        path: path.into(),
        kind,
        size,
        permissions: 0o644,
        uid: 0,
        gid: 0,
        modified_ns: 5,
        target: (kind == EntryKind::Symlink).then(|| "there".into()),
        owner: None,
        group: None,
        inode: 1,
        links: 1,
        resolved: None,
        attributes: None,
    }
}

async fn file_call(end: &mut FarEnd) -> FileOperation {
    match end.request().await {
        Request::File(call) => call.operation,
        other => panic!("no process is to be started: {other:?}"),
    }
}

async fn start(end: &mut FarEnd) -> Start {
    match end.request().await {
        Request::Start(start) => start,
        other => panic!("not a start: {other:?}"),
    }
}

/// Tells the end, and stays until that was heard.
async fn exited(mut end: FarEnd, exit: Exit) {
    end.reply(&Reply::Exited(exit)).await;
    end.linger().await;
}

fn refused(code: FailureCode, message: &str) -> Reply {
    Reply::Failed(Failure::new(code, message))
}

async fn send_file(mut end: FarEnd, content: Vec<u8>) {
    assert!(matches!(file_call(&mut end).await, FileOperation::Read { .. }));
    end.reply(&Reply::Entry(entry("/f", EntryKind::File, content.len() as u64))).await;
    for piece in content.chunks(7000) {
        end.send(FrameKind::Data, piece).await;
    }
    end.send(FrameKind::End, &[]).await;
}

async fn take_file(mut end: FarEnd) -> Option<Vec<u8>> {
    assert!(matches!(file_call(&mut end).await, FileOperation::Write { .. }));
    end.reply(&Reply::Done).await;
    let mut content = Vec::new();
    loop {
        let frame = end.receive().await?;
        match frame.kind {
            FrameKind::Data => content.extend(frame.payload),
            _ => break,
        }
    }
    end.reply(&Reply::Written { bytes: content.len() as u64 }).await;
    Some(content)
}

#[tokio::test]
async fn bash_answers_both_streams_in_order_and_tells_them_as_they_come() {
    let gate = FakeGate::default().serve(|mut end| async move {
        let start = start(&mut end).await;
        assert_eq!(start.argv, ["bash".into(), "-lc".into(), "make all".into()]);
        assert_eq!((start.cwd, start.timeout_ms), (Some("/src".into()), Some(5000)));
        end.started(0).await;
        end.send(FrameKind::Stdout, b"one \xe2\x82").await;
        end.send(FrameKind::Stderr, b"two\n").await;
        end.send(FrameKind::Stdout, b"\xac\n").await;
        exited(end, Exit { code: 3, ..EXIT }).await;
    });
    let (sender, mut receiver) = mpsc::channel(16);
    let context = Context { progress: Some(sender), ..context(&gate) };
    let answer = run(&context, Tool::Bash, json!({ "command": "make all", "cwd": "/src" })).await;
    assert_eq!(text(&answer), "one two\n€\n[exit code 3]");
    assert_eq!((answer.exit_code, answer.is_error), (Some(3), true));
    drop(context);
    let mut told = Vec::new();
    while let Some(progress) = receiver.recv().await {
        told.push(progress);
    }
    let expected = [
        ToolProgress::Stdout("one ".to_owned()),
        ToolProgress::Stderr("two\n".to_owned()),
        ToolProgress::Stdout("€\n".to_owned()),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn progress_that_nobody_takes_holds_nothing_up() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.started(0).await;
        for _ in 0..100 {
            end.send(FrameKind::Stdout, b"line\n").await;
        }
        exited(end, EXIT).await;
    });
    let (sender, mut receiver) = mpsc::channel(1);
    let context = Context { progress: Some(sender), ..context(&gate) };
    let answer = run(&context, Tool::Bash, json!({ "command": "x" })).await;
    assert_eq!(text(&answer).len(), 500);
    assert!(receiver.recv().await.is_some());
}

#[tokio::test]
async fn bash_falls_back_to_sh_where_there_is_none() {
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            end.request().await;
            end.reply(&refused(FailureCode::NotFound, "start bash: no such file")).await;
        })
        .serve(|mut end| async move {
            assert_eq!(start(&mut end).await.argv[0], "sh".into());
            end.started(0).await;
            exited(end, EXIT).await;
        });
    let answer = run(&context(&gate), Tool::Bash, json!({ "command": "x" })).await;
    assert_eq!((text(&answer), answer.is_error, answer.exit_code), ("", false, Some(0)));
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_the_tools_own_failure() {
    async fn refuse(mut end: FarEnd) {
        end.request().await;
        end.reply(&refused(FailureCode::NotFound, "enter `/nowhere`: it does not exist")).await;
    }
    let gate = FakeGate::default().serve(refuse).serve(refuse);
    let answer = run(&context(&gate), Tool::Bash, json!({ "command": "x", "cwd": "/nowhere" })).await;
    assert_eq!((text(&answer), answer.is_error), ("enter `/nowhere`: it does not exist", true));
}

#[tokio::test]
async fn a_sandbox_that_ended_is_an_error_and_no_answer() {
    let order = Tool::Bash.parse(&json!({ "command": "x" })).unwrap();
    let outcome = order.run(&context(&FakeGate::default())).await;
    assert!(matches!(outcome, Err(EngineError::SandboxEnded { .. })), "{outcome:?}");
}

#[tokio::test]
async fn what_is_too_long_is_cut_out_of_the_middle() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.started(0).await;
        end.send(FrameKind::Stdout, b"first").await;
        for _ in 0..64 {
            end.send(FrameKind::Stdout, &vec![b'.'; 1 << 16]).await;
        }
        end.send(FrameKind::Stderr, b"last").await;
        exited(end, EXIT).await;
    });
    let context = Context { most_output: 100, ..context(&gate) };
    let answer = run(&context, Tool::Bash, json!({ "command": "x" })).await;
    let missing = (64 << 16) + 9 - 100;
    assert!(text(&answer).starts_with("first...") && text(&answer).ends_with("...last"));
    assert!(text(&answer).contains(&format!("\n[… {missing} bytes left out …]\n")), "{}", text(&answer));
    assert!(matches!(answer.content[0], ContentBlock::Text { truncated: true, .. }));
}

#[tokio::test]
async fn a_time_limit_and_a_signal_are_told_in_words() {
    for (cause, expected) in [
        (ExitCause::TimedOut, "[killed: it took longer than 5s]"),
        (ExitCause::Signalled { signal: 9 }, "[killed by signal 9]"),
    ] {
        let gate = FakeGate::default().serve(move |mut end| async move {
            end.request().await;
            end.started(0).await;
            end.send(FrameKind::Stdout, b"half").await;
            exited(end, Exit { code: 137, cause, ..EXIT }).await;
        });
        let answer = run(&context(&gate), Tool::Bash, json!({ "command": "x" })).await;
        assert_eq!(text(&answer), format!("half\n{expected}"));
        assert!(answer.is_error);
    }
}

#[tokio::test]
async fn a_limit_on_memory_is_set_before_the_program_begins() {
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            let argv = start(&mut end).await.argv;
            assert_eq!(argv[2], "ulimit -v 2048 || exit 125; make".into());
            end.started(0).await;
            exited(end, EXIT).await;
        })
        .serve(|mut end| async move {
            let argv = start(&mut end).await.argv;
            let expected = ["sh", "-c", "ulimit -v 2048 && exec \"$@\"", "sh", "python3", "-u", "-"];
            assert_eq!(argv, expected.map(Into::into));
            end.started(0).await;
            exited(end, EXIT).await;
        });
    let context = Context { memory_bytes: Some(2 << 20), ..context(&gate) };
    run(&context, Tool::Bash, json!({ "command": "make" })).await;
    run(&context, Tool::Python, json!({ "code": "1" })).await;
}

#[tokio::test]
async fn a_command_longer_than_the_system_takes_is_told() {
    let answer =
        run(&context(&FakeGate::default()), Tool::Bash, json!({ "command": "x".repeat(130_000) })).await;
    assert!(answer.is_error && text(&answer).contains("130000 bytes"), "{}", text(&answer));
}

#[tokio::test]
async fn python_finds_its_program_on_its_standard_input() {
    let gate = FakeGate::default().serve(|mut end| async move {
        assert_eq!(start(&mut end).await.argv, ["python3", "-u", "-"].map(Into::into));
        end.started(0).await;
        let code = end.receive().await.unwrap().payload;
        end.send(FrameKind::Stdout, &code).await;
        exited(end, EXIT).await;
    });
    let answer = run(&context(&gate), Tool::Python, json!({ "code": "print(1)" })).await;
    assert_eq!(text(&answer), "print(1)");
}

#[tokio::test]
async fn a_file_is_read_by_lines_with_or_without_numbers() {
    let content = || b"one\ntwo\nthree\n".to_vec();
    let gate = FakeGate::default()
        .serve(move |end| send_file(end, content()))
        .serve(move |end| send_file(end, content()))
        .serve(|end| send_file(end, Vec::new()));
    let context = context(&gate);
    let answer = run(&context, Tool::Read, json!({ "path": "/f" })).await;
    assert_eq!(text(&answer), "one\ntwo\nthree\n");
    let params = json!({ "path": "/f", "offset": 2, "limit": 1, "numbers": true });
    let answer = run(&context, Tool::Read, params).await;
    assert_eq!(text(&answer), "     2\ttwo\n[… it goes on: read from line 3 with `offset` …]\n");
    let answer = run(&context, Tool::Read, json!({ "path": "/f" })).await;
    assert_eq!((text(&answer), answer.is_error), ("", false));
}

#[tokio::test]
async fn an_image_is_shown_as_one_and_other_binaries_are_not() {
    let png = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![7; 20_000]].concat();
    let large = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![7; 4_000_000]].concat();
    let size = png.len();
    let gate = FakeGate::default()
        .serve(|end| send_file(end, png))
        .serve(|end| send_file(end, large))
        .serve(|end| send_file(end, b"\x7fELF\0\0\0".to_vec()));
    let context = context(&gate);
    let answer = run(&context, Tool::Read, json!({ "path": "/f" })).await;
    let [ContentBlock::Image { media_type, base64 }] = &answer.content[..] else { panic!("{answer:?}") };
    assert_eq!((media_type.as_str(), base64.len()), ("image/png", size.div_ceil(3) * 4));
    let answer = run(&context, Tool::Read, json!({ "path": "/f" })).await;
    assert!(answer.is_error && text(&answer).contains("4000008 bytes"), "{}", text(&answer));
    let answer = run(&context, Tool::Read, json!({ "path": "/f" })).await;
    assert!(answer.is_error && text(&answer).contains("xxd"), "{}", text(&answer));
}

#[tokio::test]
async fn a_file_that_is_not_there_is_told() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&refused(FailureCode::NotFound, "read /f: it does not exist")).await;
    });
    let answer = run(&context(&gate), Tool::Read, json!({ "path": "/f" })).await;
    assert_eq!((text(&answer), answer.is_error), ("read /f: it does not exist", true));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_never_comes_is_given_up_in_time() {
    let gate = FakeGate::default().serve(|end| end.linger());
    let answer = run(&context(&gate), Tool::Read, json!({ "path": "/f" })).await;
    assert_eq!((text(&answer), answer.is_error), ("it took longer than 5s, and was given up", true));
}

#[tokio::test]
async fn a_written_file_has_all_its_content_and_its_parents() {
    let gate = FakeGate::default().serve(|mut end| async move {
        let FileOperation::Write { parents, .. } = file_call(&mut end).await else { panic!("not a write") };
        assert!(parents);
        end.reply(&Reply::Done).await;
        assert_eq!(end.receive().await.unwrap().payload, b"text");
        end.reply(&Reply::Written { bytes: 4 }).await;
    });
    let answer = run(&context(&gate), Tool::Write, json!({ "path": "/a/b", "content": "text" })).await;
    assert_eq!(text(&answer), "wrote 4 bytes to /a/b");
}

#[tokio::test]
async fn an_edit_replaces_the_text_and_nothing_else() {
    let (told, heard) = tokio::sync::oneshot::channel();
    let gate = FakeGate::default()
        .serve(|end| send_file(end, b"a\nold\nc\n".to_vec()))
        .serve(|end| async move {
            told.send(take_file(end).await).unwrap();
        })
        .serve(|mut end| async move {
            assert!(matches!(file_call(&mut end).await, FileOperation::Stat { follow: true, .. }));
            end.reply(&Reply::Entry(entry("/f", EntryKind::File, 8))).await;
        });
    let params = json!({ "path": "/f", "old": "old", "new": "new" });
    let answer = run(&context(&gate), Tool::Edit, params).await;
    assert_eq!(text(&answer), "replaced 1 occurrence in /f, at line 2");
    assert_eq!(heard.await.unwrap().unwrap(), b"a\nnew\nc\n");
}

#[tokio::test]
async fn an_edit_of_a_file_that_changes_meanwhile_changes_nothing() {
    let (told, heard) = tokio::sync::oneshot::channel();
    let gate = FakeGate::default()
        .serve(|end| send_file(end, b"a\nold\nc\n".to_vec()))
        .serve(|end| async move {
            told.send(take_file(end).await).unwrap();
        })
        .serve(|mut end| async move {
            end.request().await;
            end.reply(&Reply::Entry(entry("/f", EntryKind::File, 9))).await;
        });
    let params = json!({ "path": "/f", "old": "old", "new": "new" });
    let answer = run(&context(&gate), Tool::Edit, params).await;
    assert!(answer.is_error && text(&answer).contains("changed by somebody else"), "{}", text(&answer));
    assert_eq!(heard.await.unwrap(), None, "the write was never ended");
}

#[tokio::test]
async fn an_edit_that_would_be_ambiguous_or_void_is_refused() {
    let content = || b"x x x".to_vec();
    let gate = FakeGate::default()
        .serve(move |end| send_file(end, content()))
        .serve(move |end| send_file(end, content()));
    let context = context(&gate);
    let answer = run(&context, Tool::Edit, json!({ "path": "/f", "old": "x", "new": "y" })).await;
    assert!(answer.is_error && text(&answer).contains("3 times"), "{}", text(&answer));
    let answer = run(&context, Tool::Edit, json!({ "path": "/f", "old": "z", "new": "y" })).await;
    assert!(answer.is_error && text(&answer).contains("0 matches"), "{}", text(&answer));
    let answer = run(&context, Tool::Edit, json!({ "path": "/f", "old": "x", "new": "x" })).await;
    assert!(answer.is_error && text(&answer).contains("nothing to change"), "{}", text(&answer));
}

#[tokio::test]
async fn a_directory_is_listed_with_what_each_entry_is() {
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            let FileOperation::List { depth, .. } = file_call(&mut end).await else { panic!("not a list") };
            assert_eq!(depth, 2);
            let entries = vec![
                entry("/d/link", EntryKind::Symlink, 0),
                entry("/d/b", EntryKind::Directory, 0),
                entry("/d/b/file", EntryKind::File, 12),
            ];
            end.reply(&Reply::Entries(entries)).await;
            end.send(FrameKind::End, &[]).await;
        })
        .serve(|mut end| async move {
            end.request().await;
            end.send(FrameKind::End, &[]).await;
        });
    let context = context(&gate);
    let answer = run(&context, Tool::Ls, json!({ "path": "/d", "depth": 2 })).await;
    assert_eq!(text(&answer), "b/\nb/file\t12\nlink -> there\n");
    let answer = run(&context, Tool::Ls, json!({ "path": "/d" })).await;
    assert_eq!(text(&answer), "[it is empty]");
}

#[tokio::test]
async fn a_listing_without_end_is_cut_off() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        let many = vec![entry("/d/x", EntryKind::File, 1); 1000];
        while end.send(FrameKind::Message, &minicbor::to_vec(Reply::Entries(many.clone())).unwrap()).await {}
    });
    let context = Context { most_output: 1 << 20, ..context(&gate) };
    let answer = run(&context, Tool::Ls, json!({ "path": "/d", "depth": 9 })).await;
    assert!(text(&answer).contains("more than 5000"));
    assert!(matches!(answer.content[0], ContentBlock::Text { truncated: true, .. }));
}

#[tokio::test]
async fn paths_of_a_shape_are_found_and_a_bad_shape_is_told() {
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            let FileOperation::Glob { root, pattern, .. } = file_call(&mut end).await else {
                panic!("no glob")
            };
            assert_eq!((root, pattern), ("/src".into(), "**/*.rs".into()));
            let entries =
                vec![entry("/src/b.rs", EntryKind::File, 1), entry("/src/a.rs", EntryKind::File, 1)];
            end.reply(&Reply::Entries(entries)).await;
            end.send(FrameKind::End, &[]).await;
        })
        .serve(|mut end| async move {
            end.request().await;
            end.reply(&refused(FailureCode::Invalid, "use glob `[`: it is not closed")).await;
        });
    let context = context(&gate);
    let answer = run(&context, Tool::Glob, json!({ "pattern": "**/*.rs", "path": "/src" })).await;
    assert_eq!(text(&answer), "/src/a.rs\n/src/b.rs\n");
    let answer = run(&context, Tool::Glob, json!({ "pattern": "[" })).await;
    assert!(answer.is_error && text(&answer).contains("not closed"));
}

#[tokio::test]
async fn matches_are_shown_with_the_lines_around_them() {
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            let FileOperation::Grep(query) = file_call(&mut end).await else { panic!("not a search") };
            assert_eq!((query.files, query.limit, query.ignore_case), (Some("**/*.rs".into()), 4, true));
            let found = |line: u64, text: &str| GrepMatch { path: "/f".into(), line, text: text.into() };
            end.reply(&Reply::Matches(vec![found(2, "hit two"), found(6, "hit six")])).await;
            end.send(FrameKind::End, &[]).await;
        })
        .serve(|end| send_file(end, b"one\nhit two\nthree\nfour\nfive\nhit six\nseven".to_vec()));
    let params = json!({ "pattern": "HIT", "glob": "*.rs", "ignore_case": true, "context": 1, "most": 3 });
    let answer = run(&context(&gate), Tool::Grep, params).await;
    let expected = "/f-1-one\n/f:2:hit two\n/f-3-three\n--\n/f-5-five\n/f:6:hit six\n/f-7-seven\n";
    assert_eq!(text(&answer), expected);
}

#[tokio::test]
async fn more_matches_than_asked_for_are_mentioned_and_none_is_told() {
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            end.request().await;
            let found = |line: u64| GrepMatch { path: "/f".into(), line, text: "x".into() };
            end.reply(&Reply::Matches(vec![found(1), found(2)])).await;
            end.send(FrameKind::End, &[]).await;
        })
        .serve(|mut end| async move {
            end.request().await;
            end.send(FrameKind::End, &[]).await;
        });
    let context = context(&gate);
    let answer = run(&context, Tool::Grep, json!({ "pattern": "x", "most": 1 })).await;
    assert_eq!(text(&answer), "/f:1:x\n[… there are more than 1 matches …]\n");
    let answer = run(&context, Tool::Grep, json!({ "pattern": "x" })).await;
    assert_eq!((text(&answer), answer.is_error), ("[nothing matches]", false));
}
