use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use warren_e2b::rpc::{Codec, Message, write_end, write_envelope};

use super::{Idle, RpcError};

/// Messages that are there already go out together, up to about this many bytes.
const TOGETHER: usize = 64 * 1024;

/// A row of messages on its way to a client. It is asked for more only when the connection takes more.
pub(super) struct StreamBody<S> {
    codec: Codec,
    messages: Pin<Box<S>>,
    state: State,
    pulse: Duration,
    next_pulse: Pin<Box<Sleep>>,
    deadline: Option<Pin<Box<Sleep>>>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The connection is to be broken off.
    Cut,
    /// Everything is said.
    Over,
}

impl<S, A> StreamBody<S>
where
    S: Stream<Item = Result<A, RpcError>>,
    A: Message + Idle,
{
    pub(super) fn new(
        codec: Codec,
        messages: S,
        pulse: Duration,
        deadline: Option<Instant>,
        shutdown: &CancellationToken,
    ) -> Self {
        Self {
            codec,
            messages: Box::pin(messages),
            state: State::Open,
            pulse,
            next_pulse: Box::pin(tokio::time::sleep(pulse)),
            deadline: deadline.map(|at| Box::pin(tokio::time::sleep_until(at))),
            shutdown: Box::pin(shutdown.clone().cancelled_owned()),
        }
    }

    /// Writes what is there, and how it ended if it has.
    fn fill(&mut self, context: &mut Context<'_>, buffer: &mut BytesMut) {
        if let Some(error) = self.farewell(context) {
            return self.end(Err(error), buffer);
        }
        while buffer.len() < TOGETHER {
            match self.messages.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(message))) => write_envelope(self.codec, &message, buffer),
                Poll::Ready(Some(Err(error))) => return self.end(Err(error), buffer),
                Poll::Ready(None) => return self.end(Ok(()), buffer),
                Poll::Pending => break,
            }
        }
        if buffer.is_empty() && self.next_pulse.as_mut().poll(context).is_ready() {
            write_envelope(self.codec, &A::idle(), buffer);
        }
        if !buffer.is_empty() {
            self.next_pulse.as_mut().reset(Instant::now() + self.pulse);
        }
    }

    /// Why it must end, whatever there is to say.
    fn farewell(&mut self, context: &mut Context<'_>) -> Option<RpcError> {
        if self.shutdown.as_mut().poll(context).is_ready() {
            return Some(RpcError::shutting_down());
        }
        let late = self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready());
        late.then(RpcError::late)
    }

    fn end(&mut self, outcome: Result<(), RpcError>, buffer: &mut BytesMut) {
        self.state = State::Over;
        match outcome {
            Ok(()) => write_end(None, buffer),
            Err(RpcError::Gone) => self.state = State::Cut,
            Err(error) => write_end(Some(&error.into_body()), buffer),
        }
    }
}

impl<S, A> Body for StreamBody<S>
where
    S: Stream<Item = Result<A, RpcError>>,
    A: Message + Idle,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut buffer = BytesMut::new();
        if self.state == State::Open {
            self.fill(context, &mut buffer);
        }
        if !buffer.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(buffer.freeze()))));
        }
        match self.state {
            State::Open => Poll::Pending,
            State::Cut => {
                self.state = State::Over;
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the sandbox ended"))))
            }
            State::Over => Poll::Ready(None),
        }
    }

    /// So that the last message is the last frame, and no empty one follows: some clients count those.
    fn is_end_stream(&self) -> bool {
        self.state == State::Over
    }
}
