//! Frames, envelopes and the messages in them, between host and sandbox and between E2B's clients
//! and the server.
//!
//! The first byte says which reader is tried, the second how the stream is torn. Nothing panics,
//! how a stream is torn changes nothing, and what was read is the same once it has been written and
//! read again.

#![no_main]

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use warren_e2b::rpc::{Codec, EnvelopeError, Envelopes, Message};
use warren_e2b::{filesystem, process, rest, timestamp};
use warren_wire::guest::{
    BootPlan, BootReport, Control, Elevate, Frame, FrameDecoder, FrameError, FrameKind, HEADER_BYTES,
    MAX_PAYLOAD, Reply, Request, parse_reply,
};
use warren_wire::{api, guest};

/// Of one message in an envelope, so that the limit is met as well.
const MOST_ENVELOPE: usize = 2048;

fuzz_target!(|data: &[u8]| {
    let [reader, tear, data @ ..] = data else { return };
    let tear = usize::from(*tear % 64) + 1;
    match reader % 6 {
        0 => frames(data, tear),
        1 => messages(data),
        2 => envelopes(data, tear),
        3 => calls(Codec::Binary, &Bytes::copy_from_slice(data)),
        4 => calls(Codec::Json, &Bytes::copy_from_slice(data)),
        _ => bodies(data),
    }
});

fn frames(data: &[u8], tear: usize) {
    let whole = cut(data, |_| data.len().max(1));
    assert_eq!(cut(data, |_| tear), whole, "torn into pieces of {tear}");
    assert_eq!(cut(data, FrameDecoder::wanted), whole, "no more than was wanted");
    let mut written = Vec::new();
    for frame in &whole.0 {
        assert!(frame.payload.len() <= MAX_PAYLOAD);
        written.extend_from_slice(&Frame::header(frame.kind, frame.payload.len()));
        written.extend_from_slice(&frame.payload);
        if frame.kind == FrameKind::Message {
            messages(&frame.payload);
        }
    }
    assert!(data.starts_with(&written));
}

type Cut = (Vec<Frame>, Option<FrameError>);

fn cut(data: &[u8], piece: impl Fn(&FrameDecoder) -> usize) -> Cut {
    let (mut decoder, mut frames, mut rest) = (FrameDecoder::default(), Vec::new(), data);
    while !rest.is_empty() {
        let wanted = decoder.wanted();
        assert!((1..=HEADER_BYTES + MAX_PAYLOAD).contains(&wanted), "{wanted}");
        let (now, later) = rest.split_at(piece(&decoder).min(rest.len()));
        decoder.push(now);
        rest = later;
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn messages(data: &[u8]) {
    drop(parse_reply(data));
    again::<Request>(data);
    again::<Reply>(data);
    again::<Control>(data);
    again::<Elevate>(data);
    again::<BootPlan>(data);
    again::<BootReport>(data);
    again::<guest::AgentConfig>(data);
    again::<guest::FileCall>(data);
    again::<guest::FileEntry>(data);
}

fn again<M>(data: &[u8])
where
    M: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()> + PartialEq + Debug,
{
    let Ok(message) = minicbor::decode::<M>(data) else { return };
    let written = minicbor::to_vec(&message).expect("what was read can be written");
    assert_eq!(minicbor::decode::<M>(&written).expect("what was written can be read"), message);
}

fn envelopes(data: &[u8], tear: usize) {
    let whole = taken(data, data.len().max(1));
    assert_eq!(taken(data, tear), whole);
    for (_, payload) in &whole.0 {
        assert!(payload.len() <= MOST_ENVELOPE);
        calls(Codec::Json, payload);
        calls(Codec::Binary, payload);
    }
}

fn taken(data: &[u8], tear: usize) -> (Vec<(bool, Bytes)>, Option<EnvelopeError>) {
    let (mut envelopes, mut all) = (Envelopes::new(MOST_ENVELOPE), Vec::new());
    for piece in data.chunks(tear) {
        envelopes.push(piece);
        loop {
            match envelopes.next_envelope() {
                Ok(Some(envelope)) => all.push((envelope.end, envelope.payload)),
                Ok(None) => break,
                Err(error) => return (all, Some(error)),
            }
        }
    }
    (all, envelopes.finish().err())
}

fn calls(codec: Codec, data: &Bytes) {
    call::<process::StartRequest>(codec, data);
    call::<process::StartResponse>(codec, data);
    call::<process::UpdateRequest>(codec, data);
    call::<process::ConnectRequest>(codec, data);
    call::<process::SendInputRequest>(codec, data);
    call::<process::SendSignalRequest>(codec, data);
    call::<process::StreamInputRequest>(codec, data);
    call::<process::ListResponse>(codec, data);
    call::<filesystem::StatResponse>(codec, data);
    call::<filesystem::MoveRequest>(codec, data);
    call::<filesystem::ListDirRequest>(codec, data);
    call::<filesystem::ListDirResponse>(codec, data);
    call::<filesystem::WatchDirRequest>(codec, data);
    call::<filesystem::WatchDirResponse>(codec, data);
    call::<filesystem::GetWatcherEventsResponse>(codec, data);
}

/// Times that the text cannot say are moved when they are written first, hence the two rounds.
fn call<M: Message + PartialEq + Debug + Clone>(codec: Codec, data: &Bytes) {
    let Ok(message) = codec.decode::<M>(data.clone()) else { return };
    assert_eq!(through(Codec::Binary, &message), message);
    let settled = through(Codec::Json, &message);
    assert_eq!(through(Codec::Json, &settled), settled);
}

fn through<M: Message>(codec: Codec, message: &M) -> M {
    let mut bytes = BytesMut::new();
    codec.encode(message, &mut bytes);
    codec.decode(bytes.freeze()).expect("what was written can be read")
}

/// Bodies of requests to both REST interfaces, and the small texts in them.
fn bodies(data: &[u8]) {
    body::<api::CreateSandbox>(data);
    body::<api::PatchSandbox>(data);
    body::<api::Exec>(data);
    body::<api::StreamOpening>(data);
    body::<api::NetworkRequest>(data);
    body::<api::ChangeNetworkRules>(data);
    body::<api::ToolCall>(data);
    body::<api::RunCode>(data);
    body::<rest::NewSandbox>(data);
    body::<rest::NetworkUpdate>(data);
    body::<rest::templates::StartBuild>(data);
    let Ok(text) = str::from_utf8(data) else { return };
    drop(rest::metadata_filter(text));
    if let Ok(time) = text.parse::<timestamp::Timestamp>() {
        let written = time.to_string();
        assert_eq!(written.parse(), Ok(time), "{written}");
    }
    if let Ok(host) = text.parse::<warren_core::network::Host>() {
        drop(host);
    }
    if let Ok(rule) = text.parse::<warren_core::network::NetworkRule>() {
        let written = rule.to_string();
        assert_eq!(written.parse(), Ok(rule), "{written}");
    }
}

fn body<B: serde::de::DeserializeOwned>(data: &[u8]) {
    drop(serde_json::from_slice::<B>(data));
}
