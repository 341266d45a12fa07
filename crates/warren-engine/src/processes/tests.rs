use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use warren_core::Event;
use warren_wire::guest::{
    Exit, ExitCause, Failure, FailureCode, FrameKind, ProcessId, ProcessInfo, ProcessSelector, Reader, Reply,
    Request, Start, Stdin,
};

use super::{LaunchStatus, OutputCaps, ProcessEvent};
use crate::guest::fake::{FakeGate, FarEnd};
use crate::{EngineError, Missing};

const EXIT: Exit = Exit { code: 5, cause: ExitCause::Exited, duration_ms: 12, output_bytes: 0 };
const CAPS: OutputCaps = OutputCaps { stdout: 1000, stderr: 1000 };
const THIRD: ProcessSelector = ProcessSelector::Id(ProcessId(3));

fn spec() -> Start {
    Start { argv: vec!["make".into(), "all".into()], ..Start::default() }
}

fn refusal(code: FailureCode) -> Reply {
    Reply::Failed(Failure::new(code, "it cannot be"))
}

fn row(process: u64, exit: Option<Exit>) -> ProcessInfo {
    ProcessInfo {
        process: ProcessId(process),
        pid: 40,
        argv: vec!["serve".into()],
        tag: Some("web".into()),
        terminal: false,
        exit,
        age_ms: 1,
        kept_from: 0,
        kept_to: 0,
        cwd: "/".into(),
        env: vec!["A=1".into(), "PORT=8080".into()],
    }
}

async fn list(mut end: FarEnd, rows: Vec<ProcessInfo>) {
    assert_eq!(end.request().await, Request::List);
    end.reply(&Reply::Processes(rows)).await;
    end.send(FrameKind::End, &[]).await;
}

#[tokio::test]
async fn an_exec_feeds_its_input_and_collects_both_streams() {
    let gate = FakeGate::default().serve(|mut end| async move {
        let Request::Start(start) = end.request().await else { panic!("not a start") };
        assert_eq!((start.stdin, start.follow), (Stdin::Piped, Some(Reader::Holds)));
        end.started(0).await;
        let input = end.receive().await.unwrap();
        assert_eq!(end.receive().await.unwrap().kind, FrameKind::End);
        end.send(FrameKind::Stdout, &input.payload).await;
        end.send(FrameKind::Stderr, b"warning").await;
        end.reply(&Reply::Exited(EXIT)).await;
    });
    let result = gate.guest().exec(spec(), Bytes::from_static(b"text"), CAPS).await.unwrap();
    assert_eq!(result.exit, EXIT);
    assert_eq!(
        (result.stdout.bytes.as_slice(), result.stderr.bytes.as_slice()),
        (&b"text"[..], &b"warning"[..])
    );
    assert_eq!((result.stdout.total, result.stdout.dropped_at), (4, None));
    assert_eq!(gate.output(), b"textwarning");
    let ended = Event::ExecEnded { process: 3, exit_code: 5, duration_ms: 12 };
    let started = Event::ExecStarted { process: 3, command: "make all".to_owned() };
    assert_eq!(gate.events(), [started, ended]);
}

#[tokio::test]
async fn an_exec_whose_process_reads_nothing_still_ends() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.started(0).await;
        end.reply(&Reply::Exited(EXIT)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    });
    let input = Bytes::from(vec![0; 8 << 20]);
    let result = gate.guest().exec(spec(), input, CAPS).await.unwrap();
    assert_eq!(result.exit, EXIT);
}

#[tokio::test]
async fn of_endless_output_the_beginning_and_the_end_are_kept() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.started(0).await;
        end.send(FrameKind::Stdout, b"first").await;
        for _ in 0..64 {
            end.send(FrameKind::Stdout, &vec![b'.'; 1 << 20]).await;
        }
        end.send(FrameKind::Stdout, b"last").await;
        end.reply(&Reply::Exited(EXIT)).await;
    });
    let output = gate.guest().exec(spec(), Bytes::new(), CAPS).await.unwrap().stdout;
    assert_eq!(output.total, (64 << 20) + 9);
    assert_eq!((output.bytes.len(), output.dropped_at), (1000, Some(500)));
    assert!(output.bytes.starts_with(b"first.") && output.bytes.ends_with(b".last"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_ignores_a_time_limit_is_left_behind() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.started(0).await;
        end.linger().await;
    });
    let spec = Start { timeout_ms: Some(5000), ..spec() };
    let outcome = gate.guest().exec(spec, Bytes::new(), CAPS).await;
    assert!(matches!(outcome, Err(EngineError::TimedOut { seconds: 5, .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_refused() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&refusal(FailureCode::NotFound)).await;
    });
    let outcome = gate.guest().start(spec()).await;
    assert!(matches!(outcome, Err(EngineError::Refused(failure)) if failure.code == FailureCode::NotFound));
    assert!(gate.events().is_empty(), "nothing was started");
}

#[tokio::test]
async fn a_follower_comes_back_from_where_it_was() {
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            end.request().await;
            end.started(0).await;
            end.send(FrameKind::Stdout, b"12345").await;
            end.stream.write_all(&[9, 0, 0, 0, 2, b'x']).await.unwrap();
        })
        .serve(|mut end| async move {
            let Request::Attach(attach) = end.request().await else { panic!("not an attach") };
            assert_eq!((attach.process, attach.from, attach.reader), (THIRD, 5, Reader::Holds));
            end.started(7).await;
            end.send(FrameKind::Stderr, b"8").await;
            end.reply(&Reply::Missed { bytes: 10, position: 18 }).await;
            end.send(FrameKind::Stdout, b"9").await;
            end.reply(&Reply::Exited(EXIT)).await;
        });
    let mut handle = gate.guest().start(spec()).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = handle.next().await.unwrap() {
        events.push(event);
    }
    assert_eq!(
        events,
        [
            ProcessEvent::Stdout { position: 0, bytes: Bytes::from_static(b"12345") },
            ProcessEvent::Missed { bytes: 2, position: 7 },
            ProcessEvent::Stderr { position: 7, bytes: Bytes::from_static(b"8") },
            ProcessEvent::Missed { bytes: 10, position: 18 },
            ProcessEvent::Stdout { position: 18, bytes: Bytes::from_static(b"9") },
            ProcessEvent::Exited(EXIT),
        ]
    );
}

#[tokio::test]
async fn a_follower_learns_that_the_sandbox_ended() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.started(0).await;
    });
    let mut handle = gate.guest().start(spec()).await.unwrap();
    assert!(matches!(handle.next().await, Err(EngineError::SandboxEnded { .. })));
    assert_eq!(handle.next().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_follower_gives_up_on_an_agent_that_always_hangs_up() {
    let mut gate = FakeGate::default();
    for _ in 0..20 {
        gate = gate.serve(|mut end| async move {
            end.request().await;
            end.started(0).await;
        });
    }
    let mut handle = gate.guest().start(spec()).await.unwrap();
    assert!(matches!(handle.next().await, Err(EngineError::Agent { .. })));
    assert!(gate.unused() > 10, "it stopped trying");
}

#[tokio::test]
async fn waiting_for_an_event_may_be_given_up_without_loss() {
    let (go, ready) = tokio::sync::oneshot::channel::<()>();
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.started(0).await;
        end.stream.write_all(&[4, 0, 0, 0, 2, b'w', b'h']).await.unwrap();
        ready.await.unwrap();
        end.stream.write_all(b"at").await.unwrap();
        end.linger().await;
    });
    let mut handle = gate.guest().start(spec()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(30), handle.next()).await.is_err());
    go.send(()).unwrap();
    let event = handle.next().await.unwrap();
    assert_eq!(event, Some(ProcessEvent::Stdout { position: 0, bytes: Bytes::from_static(b"what") }));
}

#[tokio::test]
async fn what_does_not_belong_to_a_process_ends_the_following() {
    for (kind, payload) in
        [(FrameKind::Data, Vec::new()), (FrameKind::Message, minicbor::to_vec(Reply::Done).unwrap())]
    {
        let gate = FakeGate::default().serve(move |mut end| async move {
            end.request().await;
            end.started(0).await;
            end.send(kind, &payload).await;
            end.linger().await;
        });
        let mut handle = gate.guest().start(spec()).await.unwrap();
        assert!(matches!(handle.next().await, Err(EngineError::Agent { .. })));
    }
}

#[tokio::test]
async fn input_goes_on_when_the_connection_breaks() {
    let (told, heard) = tokio::sync::oneshot::channel();
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            end.request().await;
            end.started(0).await;
        })
        .serve(|mut end| async move {
            assert_eq!(end.request().await, Request::Input { process: THIRD, keep_open: true });
            told.send(end.receive().await.unwrap().payload).unwrap();
        });
    let (_reader, mut writer) = gate.guest().start(spec()).await.unwrap().split();
    while gate.unused() > 0 {
        writer.write(Bytes::from_static(b"yes\n")).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(heard.await.unwrap(), b"yes\n");
}

#[tokio::test]
async fn calls_on_a_process_that_is_not_there_say_so() {
    async fn refuse(mut end: FarEnd) {
        end.request().await;
        end.reply(&refusal(FailureCode::NotFound)).await;
    }
    let gate = FakeGate::default()
        .serve(refuse)
        .serve(refuse)
        .serve(refuse)
        .serve(refuse)
        .serve(|end| list(end, vec![]));
    let guest = gate.guest();
    let tag = || ProcessSelector::Tag("web".into());
    let outcomes = [
        guest.signal(tag(), 15, false).await.err(),
        guest.input(tag(), Bytes::from_static(b"x"), false).await.err(),
        guest.wait(tag()).await.err(),
        guest.follow(tag(), 0, Reader::Skips).await.err(),
        guest.process(&tag()).await.err(),
    ];
    for outcome in outcomes {
        assert!(
            matches!(&outcome, Some(EngineError::NotFound { what: Missing::Process, id }) if id == "tag:web"),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn the_list_is_put_together_and_searched_as_the_agent_would() {
    let rows = || vec![row(1, Some(EXIT)), row(2, None), row(3, Some(EXIT))];
    let gate = FakeGate::default()
        .serve(move |end| list(end, rows()))
        .serve(move |end| list(end, rows()))
        .serve(move |end| list(end, rows()));
    let guest = gate.guest();
    assert_eq!(guest.process(&ProcessSelector::Pid(40)).await.unwrap().process, ProcessId(2));
    assert_eq!(guest.process(&ProcessSelector::Tag("web".into())).await.unwrap().process, ProcessId(3));
    assert_eq!(guest.process(&ProcessSelector::Id(ProcessId(1))).await.unwrap().process, ProcessId(1));
}

#[tokio::test]
async fn a_list_without_end_is_cut_off() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        while end
            .send(FrameKind::Message, &minicbor::to_vec(Reply::Processes(vec![row(1, None); 1000])).unwrap())
            .await
        {}
    });
    assert!(matches!(gate.guest().processes().await, Err(EngineError::Agent { .. })));
}

#[tokio::test]
async fn a_launched_process_is_told_its_port_and_judged_by_it() {
    async fn start(mut end: FarEnd) {
        let Request::Start(start) = end.request().await else { panic!("not a start") };
        assert_eq!((start.env, start.follow), (vec!["PORT=8080".into()], None));
        end.started(0).await;
    }
    async fn closed(mut end: FarEnd) {
        assert_eq!(end.request().await, Request::Connect { port: 8080 });
        end.reply(&refusal(FailureCode::NotFound)).await;
    }
    async fn open(mut end: FarEnd) {
        end.request().await;
        end.reply(&Reply::Done).await;
    }
    let gate = FakeGate::default()
        .serve(start)
        .serve(|end| list(end, vec![row(3, None)]))
        .serve(closed)
        .serve(|end| list(end, vec![row(3, None)]))
        .serve(open)
        .serve(|end| list(end, vec![row(3, Some(EXIT))]));
    let guest = gate.guest();
    let spec = Start { env: vec!["PORT=1".into()], ..spec() };
    assert_eq!(guest.launch_on(spec, 8080).await.unwrap().status, LaunchStatus::Starting);
    assert_eq!(guest.launch_status(&THIRD).await.unwrap().status, LaunchStatus::Running);
    assert_eq!(guest.launch_status(&THIRD).await.unwrap().status, LaunchStatus::Exited);
}

#[tokio::test]
async fn a_port_is_a_plain_stream_whose_directions_end_apart() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        let mut received = Vec::new();
        while let Some(frame) = end.receive().await.filter(|frame| frame.kind == FrameKind::Data) {
            received.extend(frame.payload);
        }
        for piece in received.chunks(50_000) {
            end.send(FrameKind::Data, piece).await;
        }
        end.send(FrameKind::End, &[]).await;
        end.linger().await;
    });
    let mut stream = gate.guest().connect(80).await.unwrap();
    let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 253) as u8).collect();
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(stream.write(b"more").await.is_err());
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, sent);
}

#[tokio::test]
async fn a_port_whose_agent_hangs_up_was_reset() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        end.reply(&Reply::Done).await;
        end.send(FrameKind::Data, b"half").await;
    });
    let mut stream = gate.guest().connect(80).await.unwrap();
    let mut received = Vec::new();
    let error = stream.read_to_end(&mut received).await.unwrap_err();
    assert_eq!((error.kind(), received.as_slice()), (std::io::ErrorKind::ConnectionReset, &b"half"[..]));
}
