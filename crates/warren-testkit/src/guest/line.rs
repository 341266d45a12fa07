use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use warren_wire::guest::{CHUNK, Failure, Frame, FrameDecoder, FrameKind, Reply};

use super::{Gone, Guest};

/// One end of a connection, in frames.
#[derive(Debug)]
pub(super) struct Line {
    stream: Arc<UnixStream>,
    decoder: FrameDecoder,
    scratch: Vec<u8>,
}

impl Line {
    pub(super) fn new(stream: Arc<UnixStream>) -> Self {
        Self { stream, decoder: FrameDecoder::default(), scratch: Vec::new() }
    }

    /// The next frame; `None` when the other side sends no more.
    pub(super) fn receive(&mut self) -> Result<Option<Frame>, Gone> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(|_| Gone)? {
                return Ok(Some(frame));
            }
            self.scratch.resize(self.decoder.wanted().min(CHUNK), 0);
            match (&*self.stream).read(&mut self.scratch) {
                Ok(0) if self.decoder.is_empty() => return Ok(None),
                Ok(0) => return Err(Gone),
                Ok(count) => self.decoder.push(&self.scratch[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
    }

    /// Sends a frame. In a frozen sandbox it waits for the thaw.
    pub(super) fn send(&self, guest: &Guest, kind: FrameKind, payload: &[u8]) -> Result<(), Gone> {
        drop(guest.awake()?);
        let mut bytes = Frame::header(kind, payload.len()).to_vec();
        bytes.extend_from_slice(payload);
        (&*self.stream).write_all(&bytes).map_err(|_| Gone)
    }

    pub(super) fn reply(&self, guest: &Guest, reply: &Reply) -> Result<(), Gone> {
        let payload = minicbor::to_vec(reply).map_err(|_| Gone)?;
        self.send(guest, FrameKind::Message, &payload)
    }

    pub(super) fn fail(&self, guest: &Guest, failure: Failure) -> Result<(), Gone> {
        self.reply(guest, &Reply::Failed(failure))
    }

    /// Sends the answer to a call.
    pub(super) fn answer(&self, guest: &Guest, answer: Result<Reply, Failure>) -> Result<(), Gone> {
        self.reply(guest, &answer.unwrap_or_else(Reply::Failed))
    }

    pub(super) fn stream(&self) -> &Arc<UnixStream> {
        &self.stream
    }
}
