use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;
use warren_wire::guest::{CallError, Frame, FrameKind, HEADER_BYTES, Reply, parse_reply};

/// Read beyond the frame in progress, so that small frames arrive many at a time. A large frame is
/// read to its end and no further but for the next header, so that hardly anything is moved when
/// the next buffer is begun.
const AHEAD: usize = 16 * 1024;

/// Cuts what the agent sends into frames, without copying their payloads.
#[derive(Debug)]
pub(crate) struct Receiver {
    stream: OwnedReadHalf,
    buffer: BytesMut,
}

impl Receiver {
    pub(super) fn new(stream: OwnedReadHalf) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// The next frame; `None` when the agent has closed the stream between two frames. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<(FrameKind, Bytes)>, CallError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<(FrameKind, Bytes)>, CallError>> {
        loop {
            let announced = Frame::announced(&self.buffer).map_err(CallError::Frame)?;
            let whole = HEADER_BYTES + announced.map_or(0, |(_, length)| length);
            if let Some((kind, length)) = announced.filter(|_| self.buffer.len() >= whole) {
                self.buffer.advance(HEADER_BYTES);
                return Poll::Ready(Ok(Some((kind, self.buffer.split_to(length).freeze()))));
            }
            if ready!(self.poll_fill(context, whole - self.buffer.len()))? == 0 {
                return Poll::Ready(if self.buffer.is_empty() { Ok(None) } else { Err(CallError::Closed) });
            }
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>, missing: usize) -> Poll<Result<usize, CallError>> {
        let room = AHEAD.max(missing + HEADER_BYTES);
        self.buffer.reserve(room);
        let mut space = (&mut self.buffer).limit(room);
        pin!(self.stream.read_buf(&mut space)).poll(context).map_err(CallError::Stream)
    }

    /// The next frame, which must be a message; a refusal becomes the error.
    pub(crate) async fn reply(&mut self) -> Result<Reply, CallError> {
        match self.next().await? {
            Some((FrameKind::Message, payload)) => parse_reply(&payload),
            Some(_) => Err(CallError::Unexpected("data where a message was due")),
            None => Err(CallError::Closed),
        }
    }
}
