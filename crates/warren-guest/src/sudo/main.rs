//! `sudo` inside a sandbox: asks the agent to start a program as another user, lends it this
//! process's input and output, passes signals on, and ends as the program does. It has no rights of
//! its own.

mod options;
mod sys;

use std::ffi::OsString;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use warren_wire::guest::{
    CallSender, Control, Elevate, Exit, ExitCause, Failure, Frame, FrameDecoder, FrameError, FrameKind,
    HEADER_BYTES, MAX_PAYLOAD, Reply, SUDO_SOCKET,
};

use options::{Asked, OptionError};

/// The kernel's record of one signal; its number comes first.
const SIGNAL_RECORD: usize = 128;

#[derive(Debug, thiserror::Error)]
enum SudoError {
    #[error(transparent)]
    Options(OptionError),
    #[error("the sandbox's agent cannot be reached")]
    Reach(#[source] std::io::Error),
    #[error("wait for the program")]
    Wait(#[source] Errno),
    #[error("arguments and variables are too long")]
    TooLong,
    #[error("the sandbox's agent hung up")]
    HungUp,
    #[error("the sandbox's agent sent something that is not a frame")]
    Frame(#[source] FrameError),
    #[error("the sandbox's agent sent something that is not an answer")]
    Answer,
    #[error("{0}")]
    Refused(Failure),
}

fn main() -> ExitCode {
    let texts = |texts: Vec<OsString>| texts.into_iter().map(OsString::into_vec).collect();
    let environment = std::env::vars_os().map(|(key, value)| (key.into_vec(), value.into_vec())).collect();
    let outcome = match options::read(texts(std::env::args_os().skip(1).collect()), environment) {
        Ok(Asked::Nothing) => return ExitCode::SUCCESS,
        Ok(Asked::Text(text)) => return tell(text),
        Ok(Asked::Run(request)) => run(*request),
        Err(error) => Err(SudoError::Options(error)),
    };
    match outcome {
        Ok(exit) => end_like(exit),
        Err(error) => complain(&error),
    }
}

fn run(request: Elevate) -> Result<Exit, SudoError> {
    let signals = sys::forwarded_signals().map_err(SudoError::Wait)?;
    let mut agent = UnixStream::connect(SUDO_SOCKET).map_err(SudoError::Reach)?;
    ask(&agent, &request)?;
    let mut decoder = FrameDecoder::default();
    loop {
        let mut polled = [PollFd::new(&agent, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(SudoError::Wait(errno)),
        }
        let (answered, signalled) = (!polled[0].revents().is_empty(), !polled[1].revents().is_empty());
        if signalled {
            forward(&signals, &agent);
        }
        if answered && let Some(exit) = receive(&mut agent, &mut decoder)? {
            return Ok(exit);
        }
    }
}

/// Sends the request, and with its first bytes this process's input and output.
fn ask(agent: &UnixStream, request: &Elevate) -> Result<(), SudoError> {
    let payload = minicbor::to_vec(request).map_err(|_| SudoError::TooLong)?;
    if payload.len() > MAX_PAYLOAD {
        return Err(SudoError::TooLong);
    }
    let message = [&Frame::header(FrameKind::Message, payload.len())[..], &payload].concat();
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let lent = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&lent));
    let bytes = [IoSlice::new(&message)];
    let sent = rustix::net::sendmsg(agent, &bytes, &mut ancillary, SendFlags::NOSIGNAL)
        .map_err(|errno| SudoError::Reach(errno.into()))?;
    let mut rest = agent;
    rest.write_all(&message[sent..]).map_err(SudoError::Reach)
}

/// Passes on the signals of this process. The reader notices an agent that has hung up.
fn forward(signals: impl AsFd, agent: &UnixStream) {
    let mut records = [0; SIGNAL_RECORD * 8];
    let count = rustix::io::read(signals, &mut records).unwrap_or(0);
    for record in records[..count].chunks_exact(SIGNAL_RECORD) {
        let signal = record.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        CallSender::new(agent).send_control(&Control::Signal { signal }).ok();
    }
}

fn receive(agent: &mut UnixStream, decoder: &mut FrameDecoder) -> Result<Option<Exit>, SudoError> {
    let mut bytes = [0; HEADER_BYTES + 1024];
    match agent.read(&mut bytes) {
        Ok(0) => return Err(SudoError::HungUp),
        Ok(count) => decoder.push(&bytes[..count]),
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Err(error) => return Err(SudoError::Reach(error)),
    }
    let Some(frame) = decoder.next_frame().map_err(SudoError::Frame)? else { return Ok(None) };
    match minicbor::decode(&frame.payload) {
        Ok(Reply::Exited(exit)) => Ok(Some(exit)),
        Ok(Reply::Failed(failure)) => Err(SudoError::Refused(failure)),
        _ => Err(SudoError::Answer),
    }
}

fn end_like(exit: Exit) -> ExitCode {
    if let ExitCause::Signalled { signal } = exit.cause {
        sys::die_by(signal);
    }
    ExitCode::from(u8::try_from(exit.code & 0xff).unwrap_or(1))
}

#[expect(clippy::print_stdout, reason = "what was asked for")]
fn tell(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "the place where a command speaks")]
fn complain(error: &SudoError) -> ExitCode {
    eprint!("sudo: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(each) = cause {
        eprint!(": {each}");
        cause = each.source();
    }
    eprintln!();
    ExitCode::FAILURE
}
