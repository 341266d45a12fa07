use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;
use tokio::net::unix::OwnedWriteHalf;
use warren_wire::guest::{CHUNK, CallError, Failure, Frame, FrameKind, HEADER_BYTES, MAX_PAYLOAD};

/// Sends frames to the agent, without copying their payloads. A send that is given up half-way is
/// finished by the next one, so the stream is never cut in the middle of a frame.
#[derive(Debug)]
pub(crate) struct Sender {
    stream: OwnedWriteHalf,
    header: [u8; HEADER_BYTES],
    header_sent: usize,
    payload: Bytes,
}

impl Sender {
    pub(super) fn new(stream: OwnedWriteHalf) -> Self {
        Self { stream, header: [0; HEADER_BYTES], header_sent: HEADER_BYTES, payload: Bytes::new() }
    }

    pub(crate) async fn message(&mut self, message: &impl minicbor::Encode<()>) -> Result<(), CallError> {
        let payload = minicbor::to_vec(message)
            .map_err(|_| CallError::Unexpected("a request that cannot be encoded"))?;
        self.send(FrameKind::Message, payload.into()).await
    }

    pub(crate) async fn data(&mut self, mut bytes: Bytes) -> Result<(), CallError> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(CHUNK));
            self.send(FrameKind::Data, piece).await?;
        }
        Ok(())
    }

    /// An empty data frame, which a watch takes as a question.
    pub(crate) async fn nudge(&mut self) -> Result<(), CallError> {
        self.send(FrameKind::Data, Bytes::new()).await
    }

    pub(crate) async fn end(&mut self) -> Result<(), CallError> {
        self.send(FrameKind::End, Bytes::new()).await
    }

    async fn send(&mut self, kind: FrameKind, payload: Bytes) -> Result<(), CallError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(CallError::Failed(Failure::too_large(payload.len(), MAX_PAYLOAD)));
        }
        poll_fn(|context| self.poll_flush(context)).await?;
        self.begin(kind, payload);
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Puts a frame in line. The one before must have been flushed, and the payload fit a frame.
    pub(crate) fn begin(&mut self, kind: FrameKind, payload: Bytes) {
        debug_assert!(self.is_idle(), "one frame at a time");
        self.header = Frame::header(kind, payload.len());
        self.header_sent = 0;
        self.payload = payload;
    }

    fn is_idle(&self) -> bool {
        self.header_sent == HEADER_BYTES && self.payload.is_empty()
    }

    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        while !self.is_idle() {
            let pieces = [IoSlice::new(&self.header[self.header_sent..]), IoSlice::new(&self.payload)];
            let stream = Pin::new(&mut self.stream);
            let sent = ready!(stream.poll_write_vectored(context, &pieces)).and_then(|sent| match sent {
                0 => Err(io::ErrorKind::WriteZero.into()),
                sent => Ok(sent),
            });
            let sent = sent.map_err(CallError::Stream)?;
            let of_header = sent.min(HEADER_BYTES - self.header_sent);
            self.header_sent += of_header;
            self.payload.advance(sent - of_header);
        }
        // An empty slice of a shared buffer would keep all of it.
        self.payload = Bytes::new();
        Poll::Ready(Ok(()))
    }

    /// Goes away without telling the agent that nothing more will come.
    pub(crate) fn forget(self) {
        self.stream.forget();
    }
}
