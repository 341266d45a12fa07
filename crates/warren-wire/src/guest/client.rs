use std::io::{self, Read, Write};

use super::{CHUNK, Control, Failure, Frame, FrameDecoder, FrameError, FrameKind, Reply, Request};

/// Why a call could not be carried on.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("talk to the agent")]
    Stream(#[source] io::Error),
    #[error("the agent closed the connection in the middle of the call")]
    Closed,
    #[error("the agent sent something that is not a frame")]
    Frame(#[source] FrameError),
    #[error("the agent sent a message this version does not understand")]
    Message(#[source] minicbor::decode::Error),
    #[error("the agent's answer does not fit the call: {0}")]
    Unexpected(&'static str),
    #[error(transparent)]
    Failed(Failure),
}

/// The writing half of a call: data and control on their way to the agent.
#[derive(Debug)]
pub struct CallSender<W> {
    stream: W,
    scratch: Vec<u8>,
}

impl<W: Write> CallSender<W> {
    /// Wraps a stream on which the call is opened elsewhere.
    pub fn new(stream: W) -> Self {
        Self { stream, scratch: Vec::new() }
    }

    /// Sends bytes of the call: stdin, file content, a connection's bytes.
    pub fn send_data(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        bytes.chunks(CHUNK).try_for_each(|chunk| self.send(FrameKind::Data, chunk))
    }

    /// Says that no more data follows.
    pub fn send_end(&mut self) -> Result<(), CallError> {
        self.send(FrameKind::End, &[])
    }

    pub fn send_control(&mut self, control: &Control) -> Result<(), CallError> {
        self.send_message(control)
    }

    fn send_message(&mut self, message: &impl minicbor::Encode<()>) -> Result<(), CallError> {
        let payload = minicbor::to_vec(message)
            .map_err(|_| CallError::Unexpected("a request that cannot be encoded"))?;
        self.send(FrameKind::Message, &payload)
    }

    fn send(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), CallError> {
        if payload.len() > super::MAX_PAYLOAD {
            return Err(CallError::Failed(Failure::too_large(payload.len(), super::MAX_PAYLOAD)));
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&Frame::header(kind, payload.len()));
        self.scratch.extend_from_slice(payload);
        self.stream.write_all(&self.scratch).map_err(CallError::Stream)
    }
}

/// One call over a blocking byte stream. The agent is not trusted: every frame is bounded.
#[derive(Debug)]
pub struct Connection<S> {
    sender: CallSender<S>,
    decoder: FrameDecoder,
    scratch: Vec<u8>,
}

impl<S: Read + Write> Connection<S> {
    /// Opens the call on a freshly dialled stream.
    pub fn open(stream: S, request: &Request) -> Result<Self, CallError> {
        let mut sender = CallSender::new(stream);
        sender.send_message(request)?;
        Ok(Self { sender, decoder: FrameDecoder::default(), scratch: Vec::new() })
    }

    /// Opens the call and takes its only answer.
    pub fn ask(stream: S, request: &Request) -> Result<Reply, CallError> {
        Self::open(stream, request)?.reply()
    }

    /// See [`CallSender::send_data`].
    pub fn send_data(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        self.sender.send_data(bytes)
    }

    /// See [`CallSender::send_end`].
    pub fn send_end(&mut self) -> Result<(), CallError> {
        self.sender.send_end()
    }

    /// See [`CallSender::send_control`].
    pub fn send_control(&mut self, control: &Control) -> Result<(), CallError> {
        self.sender.send_control(control)
    }

    /// The next frame; `None` when the agent has closed the stream between two frames.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, CallError> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(CallError::Frame)? {
                return Ok(Some(frame));
            }
            self.scratch.resize(self.decoder.wanted().min(CHUNK), 0);
            match self.sender.stream.read(&mut self.scratch) {
                Ok(0) if self.decoder.is_empty() => return Ok(None),
                Ok(0) => return Err(CallError::Closed),
                Ok(count) => self.decoder.push(&self.scratch[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CallError::Stream(error)),
            }
        }
    }

    /// The next frame, which must be a message; a [`Failure`] becomes the error.
    pub fn reply(&mut self) -> Result<Reply, CallError> {
        let frame = self.next_frame()?.ok_or(CallError::Closed)?;
        if frame.kind != FrameKind::Message {
            return Err(CallError::Unexpected("data where a message was due"));
        }
        parse_reply(&frame.payload)
    }

    pub fn stream(&self) -> &S {
        &self.sender.stream
    }
}

/// Decodes an answer; a [`Failure`] becomes the error.
pub fn parse_reply(payload: &[u8]) -> Result<Reply, CallError> {
    match minicbor::decode(payload).map_err(CallError::Message)? {
        Reply::Failed(failure) => Err(CallError::Failed(failure)),
        reply => Ok(reply),
    }
}
