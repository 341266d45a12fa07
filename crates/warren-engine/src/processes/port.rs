use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use warren_wire::guest::{CHUNK, CallError, FrameKind, Reply, Request, parse_reply};

use crate::EngineError;
use crate::guest::{ANSWER, Call, Guest};

/// A connection to a port inside a sandbox, as a plain byte stream. Each direction ends on its own. At most one chunk is
/// held in either direction.
#[derive(Debug)]
pub struct PortStream {
    call: Call,
    unread: Bytes,
    reading: Direction,
    writing: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Open,
    Ended,
}

impl Guest {
    pub(super) async fn connect(&self, port: u16) -> Result<PortStream, EngineError> {
        match self.begin(&Request::Connect { port }, ANSWER).await? {
            (Reply::Done, call) => Ok(PortStream {
                call,
                unread: Bytes::new(),
                reading: Direction::Open,
                writing: Direction::Open,
            }),
            _ => Err(self.unexpected("something other than a connection")),
        }
    }
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Whoever waits for an answer may have forgotten to flush the question.
        if let Poll::Ready(Err(error)) = self.call.sender.poll_flush(context) {
            return Poll::Ready(Err(as_io(error)));
        }
        while self.unread.is_empty() && self.reading == Direction::Open {
            match ready!(self.call.receiver.poll_next(context)).map_err(as_io)? {
                Some((FrameKind::Data, bytes)) => self.unread = bytes,
                Some((FrameKind::End, _)) => self.reading = Direction::Ended,
                Some((FrameKind::Message, payload)) => {
                    let error = parse_reply(&payload).err();
                    let odd = CallError::Unexpected("a message where data was due");
                    return Poll::Ready(Err(as_io(error.unwrap_or(odd))));
                }
                Some(_) => return Poll::Ready(Err(as_io(CallError::Unexpected("a process's output")))),
                None => return Poll::Ready(Err(as_io(CallError::Closed))),
            }
        }
        let count = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..count]);
        self.unread.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.writing == Direction::Ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.call.sender.poll_flush(context)).map_err(as_io)?;
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // A copy, since a frame must be sent whole and the caller may not come back with the rest.
        let piece = Bytes::copy_from_slice(&bytes[..bytes.len().min(CHUNK)]);
        let count = piece.len();
        self.call.sender.begin(FrameKind::Data, piece);
        match self.call.sender.poll_flush(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(as_io(error))),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.call.sender.poll_flush(context).map_err(as_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.call.sender.poll_flush(context)).map_err(as_io)?;
        if self.writing == Direction::Open {
            self.writing = Direction::Ended;
            self.call.sender.begin(FrameKind::End, Bytes::new());
        }
        self.call.sender.poll_flush(context).map_err(as_io)
    }
}

fn as_io(error: CallError) -> io::Error {
    match error {
        CallError::Stream(error) => error,
        CallError::Closed => io::ErrorKind::ConnectionReset.into(),
        error => io::Error::other(error),
    }
}
