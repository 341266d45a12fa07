use std::io::{Read, Write};

use anyhow::{Result, bail};
use warren_wire::guest::{
    Attach, CallError, Connection, Control, Failure, FailureCode, FileCall, FileOperation, Frame, FrameKind,
    MAX_PAYLOAD, ProcessId, ProcessSelector, Reader, Reply, Request, SignalCall, Start, Stdin, TerminalSize,
};

use crate::support::{Agent, shell, start};

/// Sends bytes as they are and takes the one answer.
fn answer_to(agent: &Agent, bytes: &[u8]) -> Result<Failure> {
    let mut stream = agent.dial()?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    // The agent may close with bytes of ours unread, which counts as a reset.
    stream.read_to_end(&mut answer).ok();
    let mut decoder = warren_wire::guest::FrameDecoder::default();
    decoder.push(&answer);
    match decoder.next_frame()? {
        Some(frame) => match minicbor::decode(&frame.payload)? {
            Reply::Failed(failure) => Ok(failure),
            other => bail!("unexpected {other:?}"),
        },
        None => bail!("no answer, only {answer:?}"),
    }
}

fn framed(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    [Frame::header(kind, payload.len()).as_slice(), payload].concat()
}

#[test]
fn what_is_not_a_request_is_refused_with_a_reason() -> Result<()> {
    let agent = Agent::start()?;
    let unknown = minicbor::to_vec((200u32, [0u8; 0]))?;
    let cases = [
        (framed(FrameKind::Message, &unknown), FailureCode::Unsupported),
        (framed(FrameKind::Message, b"\xff\xff"), FailureCode::Invalid),
        (framed(FrameKind::Message, b""), FailureCode::Invalid),
        (framed(FrameKind::Data, b"hello"), FailureCode::Invalid),
        ((u32::MAX).to_le_bytes().to_vec(), FailureCode::Invalid),
        (vec![0, 0, 0, 0, 77], FailureCode::Invalid),
        (framed(FrameKind::Message, &vec![0x82; MAX_PAYLOAD]), FailureCode::Invalid),
    ];
    for (bytes, code) in cases {
        let failure = answer_to(&agent, &bytes)?;
        assert_eq!(failure.code, code, "{failure}");
        assert!(!failure.message.is_empty());
    }
    agent.ping()
}

#[test]
fn truncated_requests_and_silence_harm_nobody() -> Result<()> {
    let agent = Agent::start()?;
    let request = framed(FrameKind::Message, &minicbor::to_vec(Request::Start(start(&["true"])))?);
    let mut silent = Vec::new();
    for cut in 0..request.len() {
        let mut stream = agent.dial()?;
        stream.write_all(&request[..cut])?;
        if cut % 2 == 0 {
            silent.push(stream);
        }
    }
    agent.ping()?;
    // Clients that never finish their request are sent away.
    for mut stream in silent {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        assert!(!answer.is_empty());
    }
    agent.ping()
}

#[test]
fn a_crowd_is_refused_and_goes_away_again() -> Result<()> {
    let agent = Agent::start()?;
    let waiting = agent.follow(shell("sleep 100"))?;
    let crowd = (0..1100).map(|_| agent.dial()).collect::<Result<Vec<_>, _>>()?;
    match Connection::ask(agent.dial()?, &Request::Ping) {
        // The agent refuses before it reads, so either its answer or the reset is seen first.
        Err(CallError::Failed(failure)) => assert_eq!(failure.code, FailureCode::Exhausted),
        Err(CallError::Stream(_)) => {}
        other => bail!("unexpected {other:?}"),
    }
    drop(crowd);
    agent.eventually("there is room again", || agent.ping().is_ok())?;
    drop(waiting);
    Ok(())
}

/// A small generator with a fixed seed, so that a failure can be repeated.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

fn valid_requests() -> Vec<Request> {
    let process = ProcessSelector::Id(ProcessId(1));
    let size = TerminalSize { columns: 80, rows: 24 };
    // Harmless whatever becomes of them: nothing here writes, and the process signalled is one of
    // ours.
    let stat = FileOperation::Stat { path: "/etc/passwd".into(), follow: true, detail: None };
    vec![
        Request::Ping,
        Request::Start(Start { follow: Some(Reader::Holds), ..start(&["true"]) }),
        Request::Start(Start {
            terminal: Some(size),
            timeout_ms: Some(5),
            stdin: Stdin::Piped,
            ..start(&["true"])
        }),
        Request::Attach(Attach { process: process.clone(), from: 3, reader: Reader::Skips }),
        Request::Input { process: process.clone(), keep_open: true },
        Request::Signal(SignalCall { process: process.clone(), signal: 0, group: true }),
        Request::Resize { process: process.clone(), size },
        Request::Wait { process },
        Request::List,
        Request::Connect { port: 1 },
        Request::Usage,
        Request::File(FileCall { user: None, operation: stat, as_root: None }),
    ]
}

fn mutate(bytes: &mut Vec<u8>, noise: &mut Noise) {
    for _ in 0..=noise.below(4) {
        let at = noise.below(bytes.len());
        match noise.below(4) {
            0 => bytes[at] = noise.byte(),
            1 => bytes[at] ^= 1 << noise.below(8),
            2 => bytes.insert(at, noise.byte()),
            _ if bytes.len() > 1 => {
                bytes.remove(at);
            }
            _ => {}
        }
    }
}

#[test]
fn mutated_requests_leave_the_agent_answering() -> Result<()> {
    let agent = Agent::start()?;
    let requests = valid_requests();
    let mut noise = Noise(0x5eed_1234_5678_9abc);
    let mut kept = Vec::new();
    for round in 0..4000 {
        let request = &requests[noise.below(requests.len())];
        let mut bytes = framed(FrameKind::Message, &minicbor::to_vec(request)?);
        // The header is left alone in most rounds, else little would get past it.
        if round % 4 == 0 {
            mutate(&mut bytes, &mut noise);
        } else {
            let mut payload = bytes.split_off(5);
            mutate(&mut payload, &mut noise);
            bytes = framed(FrameKind::Message, &payload);
        }
        let mut stream = agent.dial()?;
        stream.write_all(&bytes)?;
        kept.push(stream);
        if kept.len() > 20 {
            kept.remove(noise.below(20));
        }
        if round % 100 == 0 {
            agent.ping()?;
        }
    }
    drop(kept);
    agent.ping()
}

#[test]
fn noise_after_a_valid_request_leaves_the_agent_answering() -> Result<()> {
    let agent = Agent::start()?;
    let mut noise = Noise(0xfeed_beef_cafe_f00d);
    for _ in 0..300 {
        let start = Start { stdin: Stdin::Piped, follow: Some(Reader::Holds), ..start(&["cat"]) };
        let mut bytes = framed(FrameKind::Message, &minicbor::to_vec(Request::Start(start))?);
        let control = minicbor::to_vec(Control::Resize(TerminalSize { columns: 1, rows: 1 }))?;
        let mut rest = [
            framed(FrameKind::Message, &control),
            framed(FrameKind::Data, b"text"),
            framed(FrameKind::End, b""),
        ]
        .concat();
        mutate(&mut rest, &mut noise);
        bytes.extend_from_slice(&rest);
        let mut stream = agent.dial()?;
        stream.write_all(&bytes)?;
        stream.shutdown(std::net::Shutdown::Write).ok();
    }
    agent.ping()
}

#[test]
fn control_messages_that_make_no_sense_are_ignored() -> Result<()> {
    let agent = Agent::start()?;
    let mut follower = agent.follow(shell("sleep 0.3; exit 2"))?;
    for signal in [-1, 0, 65, i32::MAX, i32::MIN] {
        follower.connection.send_control(&Control::Signal { signal })?;
    }
    follower.connection.send_control(&Control::Resize(TerminalSize { columns: 0, rows: 0 }))?;
    assert_eq!(follower.finish()?.code(), Some(2));
    Ok(())
}
