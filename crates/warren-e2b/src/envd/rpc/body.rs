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

use super::{Idle, RpcError};
use crate::rpc::{Codec, Message, write_end, write_envelope};

/// Messages that are there already go out together, up to about this many bytes.
const TOGETHER: usize = 64 * 1024;

/// A row of messages on its way to a client. It is asked for more only when the connection takes
/// more.
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

    /// So that the last message is the last frame, and no empty one follows: some clients count
    /// those.
    fn is_end_stream(&self) -> bool {
        self.state == State::Over
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::process::StartResponse;
    use crate::rpc::{Code, Envelopes};
    use futures_util::stream;
    use http_body_util::BodyExt as _;

    use super::*;

    const PULSE: Duration = Duration::from_secs(50);

    fn message() -> Result<StartResponse, RpcError> {
        Ok(StartResponse { event: None })
    }

    fn body<S>(messages: S, deadline: Option<Instant>) -> (StreamBody<S>, CancellationToken)
    where
        S: Stream<Item = Result<StartResponse, RpcError>>,
    {
        let shutdown = CancellationToken::new();
        (StreamBody::new(Codec::Json, messages, PULSE, deadline, &shutdown), shutdown)
    }

    /// The next frame, as the texts of its messages.
    async fn frame<S>(body: &mut StreamBody<S>) -> Option<io::Result<Vec<String>>>
    where
        S: Stream<Item = Result<StartResponse, RpcError>>,
    {
        let frame = match body.frame().await? {
            Ok(frame) => frame,
            Err(error) => return Some(Err(error)),
        };
        let mut envelopes = Envelopes::new(1 << 20);
        envelopes.push(&frame.into_data().unwrap());
        let mut texts = Vec::new();
        while let Some(envelope) = envelopes.next_envelope().unwrap() {
            texts.push(String::from_utf8(envelope.payload.to_vec()).unwrap());
        }
        envelopes.finish().unwrap();
        Some(Ok(texts))
    }

    #[tokio::test]
    async fn what_is_there_goes_out_together_and_nothing_follows_the_end() {
        let (mut body, _) = body(stream::iter([message(), message()]), None);
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), ["{}", "{}", "{}"]);
        assert!(body.is_end_stream());
        assert!(frame(&mut body).await.is_none());
    }

    #[tokio::test]
    async fn nothing_is_made_before_somebody_wants_it() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let endless = stream::repeat_with(move || {
            count.fetch_add(1, Ordering::Relaxed);
            message()
        });
        let (mut body, _) = body(endless, None);
        assert_eq!(made.load(Ordering::Relaxed), 0);
        let first = frame(&mut body).await.unwrap().unwrap();
        assert_eq!(made.load(Ordering::Relaxed), first.len());
        assert!(first.len() <= TOGETHER, "{}", first.len());
    }

    #[tokio::test]
    async fn a_failure_is_told_after_what_was_said() {
        let failure = Err(RpcError::new(Code::NotFound, "gone"));
        let (mut body, _) = body(stream::iter([message(), failure, message()]), None);
        let end = r#"{"error":{"code":"not_found","message":"gone"}}"#;
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), ["{}", end]);
        assert!(frame(&mut body).await.is_none());
    }

    #[tokio::test]
    async fn the_end_of_a_sandbox_breaks_the_connection_after_what_was_said() {
        let (mut body, _) = body(stream::iter([message(), Err(RpcError::Gone)]), None);
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), ["{}"]);
        assert!(!body.is_end_stream(), "that would be an orderly end");
        assert!(frame(&mut body).await.unwrap().is_err());
        assert!(frame(&mut body).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pulse_comes_when_nothing_else_did() {
        let slow = stream::unfold(0, |number| async move {
            tokio::time::sleep(Duration::from_secs(if number == 0 { 30 } else { 1000 })).await;
            Some((message(), number + 1))
        });
        let (mut body, _) = body(slow, None);
        let began = Instant::now();
        let pulse = r#"{"event":{"keepalive":{}}}"#;
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), ["{}"]);
        assert_eq!(began.elapsed().as_secs(), 30);
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), [pulse]);
        assert_eq!(began.elapsed().as_secs(), 80);
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), [pulse]);
        assert_eq!(began.elapsed().as_secs(), 130);
    }

    #[tokio::test(start_paused = true)]
    async fn time_and_the_server_end_a_stream_whatever_it_has_to_say() {
        let deadline = Instant::now() + Duration::from_secs(5);
        let (mut late, _) = body(stream::pending(), Some(deadline));
        assert!(frame(&mut late).await.unwrap().unwrap()[0].contains("deadline_exceeded"));
        assert!(late.is_end_stream());
        let (mut cut, shutdown) = body(stream::repeat_with(message), None);
        assert!(frame(&mut cut).await.unwrap().is_ok());
        shutdown.cancel();
        assert!(frame(&mut cut).await.unwrap().unwrap()[0].contains("unavailable"));
        assert!(frame(&mut cut).await.is_none());
    }
}
