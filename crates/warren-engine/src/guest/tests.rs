use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use warren_wire::guest::{
    CHUNK, CallError, Failure, FailureCode, Frame, FrameError, FrameKind, MAX_PAYLOAD, Reply, Request,
};

use super::fake::FakeGate;
use super::{ANSWER, Piece};
use crate::EngineError;

/// The result of a call whose agent answers with these bytes and closes.
async fn answered_with(bytes: Vec<u8>) -> Result<Reply, EngineError> {
    let gate = FakeGate::default()
        .serve(|mut end| async move {
            end.request().await;
            end.stream.write_all(&bytes).await.ok();
        })
        .serve(|end| end.linger());
    gate.guest().ask(&Request::Ping, ANSWER).await
}

fn source(outcome: Result<Reply, EngineError>) -> CallError {
    match outcome {
        Err(EngineError::Agent { source, .. }) => source,
        other => panic!("not the agent's fault: {other:?}"),
    }
}

#[tokio::test]
async fn a_frame_over_the_limit_is_refused_before_its_payload() {
    let length = u32::try_from(MAX_PAYLOAD).unwrap() + 1;
    let error = source(answered_with(length.to_le_bytes().to_vec()).await);
    assert!(matches!(error, CallError::Frame(FrameError::TooLong(_))), "{error}");
}

#[tokio::test]
async fn a_frame_of_an_unknown_kind_is_refused() {
    let error = source(answered_with(vec![0, 0, 0, 0, 77]).await);
    assert!(matches!(error, CallError::Frame(FrameError::UnknownKind(77))), "{error}");
}

#[tokio::test]
async fn a_message_of_noise_is_refused() {
    let mut bytes = Frame::header(FrameKind::Message, 3).to_vec();
    bytes.extend([0xff, 0xff, 0xff]);
    assert!(matches!(source(answered_with(bytes).await), CallError::Message(_)));
}

#[tokio::test]
async fn data_instead_of_an_answer_is_refused() {
    let bytes = Frame::header(FrameKind::Data, 0).to_vec();
    assert!(matches!(source(answered_with(bytes).await), CallError::Unexpected(_)));
}

#[tokio::test]
async fn a_close_in_the_middle_of_a_frame_is_told() {
    let bytes = Frame::header(FrameKind::Message, 100).to_vec();
    assert!(matches!(source(answered_with(bytes).await), CallError::Closed));
}

#[tokio::test]
async fn a_broken_connection_tells_how_the_sandbox_ended() {
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
    });
    let outcome = gate.guest().ask(&Request::Ping, ANSWER).await;
    assert!(matches!(&outcome, Err(EngineError::SandboxEnded { detail, .. }) if detail.contains("memory")));
}

#[tokio::test]
async fn a_refusal_is_passed_on() {
    let failure = Failure::new(FailureCode::Unsupported, "no");
    let payload = minicbor::to_vec(Reply::Failed(failure.clone())).unwrap();
    let mut bytes = Frame::header(FrameKind::Message, payload.len()).to_vec();
    bytes.extend(payload);
    assert!(matches!(answered_with(bytes).await, Err(EngineError::Refused(told)) if told == failure));
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_is_not_waited_for_for_ever() {
    let gate = FakeGate::default().serve(|end| end.linger());
    let began = tokio::time::Instant::now();
    let outcome = gate.guest().ask(&Request::Ping, ANSWER).await;
    assert!(matches!(outcome, Err(EngineError::TimedOut { seconds: 30, .. })), "{outcome:?}");
    assert!(began.elapsed() < ANSWER + Duration::from_secs(1));
}

#[tokio::test]
async fn frames_of_all_sizes_arrive_whole_however_they_are_cut() {
    let sizes = [0, 1, 5, 4096, 16 * 1024 - 5, CHUNK, CHUNK + 1, 3, MAX_PAYLOAD, 7];
    let gate = FakeGate::default().serve(move |mut end| async move {
        end.request().await;
        let mut bytes = Vec::new();
        for size in sizes {
            bytes.extend(Frame::header(FrameKind::Data, size));
            bytes.extend((0..251).cycle().take(size));
        }
        bytes.extend(Frame::header(FrameKind::End, 0));
        for piece in bytes.chunks(33_331) {
            end.stream.write_all(piece).await.unwrap();
        }
    });
    let mut call = gate.guest().open(&Request::List).await.unwrap();
    for size in sizes {
        let Piece::Data(bytes) = call.next(ANSWER).await.unwrap() else { panic!("not data") };
        assert_eq!(bytes.len(), size);
        assert!(bytes.iter().copied().eq((0..251).cycle().take(size)));
    }
    assert!(matches!(call.next(ANSWER).await.unwrap(), Piece::End));
}

#[tokio::test]
async fn a_send_that_is_given_up_is_finished_by_the_next() {
    let (told, mut heard) = tokio::sync::mpsc::channel(64);
    let (go, ready) = tokio::sync::oneshot::channel();
    let gate = FakeGate::default().serve(|mut end| async move {
        end.request().await;
        ready.await.unwrap();
        while let Some(frame) = end.receive().await {
            told.send((frame.kind, frame.payload.len())).await.unwrap();
        }
    });
    let mut call = gate.guest().open(&Request::List).await.unwrap();
    let large = Bytes::from(vec![1; CHUNK]);
    // More than the socket holds, so that one of them is given up half-way.
    for _ in 0..4 {
        let sent = tokio::time::timeout(Duration::from_millis(20), call.sender.data(large.clone())).await;
        if sent.is_err() {
            break;
        }
    }
    go.send(()).unwrap();
    poll_fn(|context| call.sender.poll_flush(context)).await.unwrap();
    call.sender.end().await.unwrap();
    drop(call);
    let mut frames = Vec::new();
    while let Some(frame) = heard.recv().await {
        frames.push(frame);
    }
    let (last, data) = frames.split_last().unwrap();
    assert_eq!(*last, (FrameKind::End, 0));
    assert!(!data.is_empty() && data.iter().all(|frame| *frame == (FrameKind::Data, CHUNK)), "{frames:?}");
}
