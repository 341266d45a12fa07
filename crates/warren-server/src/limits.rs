//! What a request may cost in time: a body that does not flow is cut, and so is an answer that does not come.

use std::error::Error;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::{Instant, Sleep};

use crate::error::{ApiError, Code};
use crate::routes::{Patience, route_table};
use crate::state::AppState;

/// What must arrive of a body in the time that a pause may take. A body that only trickles is as bad as one that stands.
const LEAST_BYTES: usize = 1024;

/// A layer: cuts slow bodies everywhere, and late answers where an answer is due soon.
pub(crate) async fn layer(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let http = &state.config.http;
    let complete = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let unhurried = is_unhurried(&request);
    let request =
        request.map(|body| Body::new(TimedBody::new(body, http.read_timeout, Arc::clone(&complete))));
    if unhurried {
        return next.run(request).await;
    }
    match tokio::time::timeout(http.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) if complete.load(Ordering::Relaxed) => {
            ApiError::new(Code::TimedOut, "the answer took too long").into_response()
        }
        Err(_) => ApiError::new(Code::RequestTimeout, "the request's body took too long").into_response(),
    }
}

fn is_unhurried(request: &Request) -> bool {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let found = route_table().iter().find(|route| route.path == path && route.method == *request.method());
    found.is_some_and(|route| route.patience == Patience::Own)
}

/// A body that is cut when it comes too slowly, for requests that do not pass the layer.
pub(crate) fn flowing(body: Body, pause: Duration) -> Body {
    Body::new(TimedBody::new(body, pause, Arc::default()))
}

/// Reads a body that must fit into memory.
pub(crate) async fn read_body(body: Body, most: usize) -> Result<Bytes, ApiError> {
    let collected = Limited::new(body, most).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return ApiError::new(Code::PayloadTooLarge, format!("the body may have up to {most} bytes"));
        }
        broken_body(&*error)
    })?;
    Ok(collected.to_bytes())
}

/// What to answer when a body that is read piece by piece broke off.
pub(crate) fn broken_body(error: &(dyn Error + 'static)) -> ApiError {
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
struct TimedBody {
    body: Body,
    pause: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Bytes since the deadline was set.
    arrived: usize,
    complete: Arc<AtomicBool>,
}

impl TimedBody {
    fn new(body: Body, pause: Duration, complete: Arc<AtomicBool>) -> Self {
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
