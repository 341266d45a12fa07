use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;

use super::upstreams::Held;

/// The body of an answer to a client.
pub(crate) struct Outgoing(Content);

enum Content {
    Told(Full<Bytes>),
    Passed {
        body: Incoming,
        /// Ends when the rest may not be passed on.
        cut: Pin<Box<dyn Future<Output = ()> + Send>>,
        /// The connection that the body comes from lives as long.
        _upstream: Held,
    },
}

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the connection is no longer allowed")]
    Cut,
    #[error("read the server's answer")]
    Upstream(#[source] hyper::Error),
}

impl Outgoing {
    pub(super) fn empty() -> Self {
        Self::told(Full::default())
    }

    pub(super) fn told(body: impl Into<Full<Bytes>>) -> Self {
        Self(Content::Told(body.into()))
    }

    pub(super) fn passed(
        body: Incoming,
        cut: Pin<Box<dyn Future<Output = ()> + Send>>,
        upstream: Held,
    ) -> Self {
        Self(Content::Passed { body, cut, _upstream: upstream })
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Content::Told(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Content::Passed { body, cut, .. } => {
                if cut.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Some(Err(BodyError::Cut)));
                }
                Pin::new(body).poll_frame(cx).map_err(BodyError::Upstream)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Told(body) => body.is_end_stream(),
            Content::Passed { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Told(body) => body.size_hint(),
            Content::Passed { body, .. } => body.size_hint(),
        }
    }
}
