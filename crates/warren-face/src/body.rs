//! Bodies of requests, which must keep flowing and may not be longer than is allowed.

use std::error::Error;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::{Instant, Sleep};

use crate::error::{ApiError, Code};

/// The bytes of a body that must arrive in the time that a pause may take. A body that only
/// trickles is as bad as one that stands still.
const LEAST_BYTES: usize = 1024;

/// A body that is cut when it comes too slowly.
pub fn flowing(body: Body, pause: Duration) -> Body {
    Body::new(TimedBody::new(body, pause, Arc::default()))
}

/// Reads a body that must fit into memory.
pub async fn read_body(body: Body, most: usize) -> Result<Bytes, ApiError> {
    let collected = Limited::new(body, most).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return ApiError::new(Code::PayloadTooLarge, format!("the body may have up to {most} bytes"));
        }
        broken_body(&*error)
    })?;
    Ok(collected.to_bytes())
}

/// The answer to a body that is read piece by piece and broke off.
pub fn broken_body(error: &(dyn Error + 'static)) -> ApiError {
    let mut next = Some(error);
    while let Some(error) = next {
        let timed_out = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        if error.downcast_ref().is_some_and(timed_out) {
            return ApiError::new(Code::RequestTimeout, "the request's body came too slowly");
        }
        next = error.source();
    }
    ApiError::new(Code::InvalidRequest, "the request's body broke off")
}

/// A request's body that must keep flowing.
pub(crate) struct TimedBody {
    body: Body,
    pause: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Bytes since the deadline was set.
    arrived: usize,
    complete: Arc<AtomicBool>,
}

impl TimedBody {
    pub(crate) fn new(body: Body, pause: Duration, complete: Arc<AtomicBool>) -> Self {
        Self { body, pause, deadline: Box::pin(tokio::time::sleep(pause)), arrived: 0, complete }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.arrived += frame.data_ref().map_or(0, Bytes::len);
                if self.arrived >= LEAST_BYTES {
                    self.arrived = 0;
                    let deadline = Instant::now() + self.pause;
                    self.deadline.as_mut().reset(deadline);
                }
                if self.body.is_end_stream() {
                    self.complete.store(true, Ordering::Relaxed);
                }
            }
            Poll::Ready(_) => self.complete.store(true, Ordering::Relaxed),
            Poll::Pending if self.deadline.as_mut().poll(context).is_ready() => {
                let error = io::Error::new(io::ErrorKind::TimedOut, "the body came too slowly");
                return Poll::Ready(Some(Err(axum::Error::new(error))));
            }
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
