//! A body that keeps something until it has been passed on to the end, or dropped.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// See the module's documentation.
pub struct Held<B, H> {
    body: B,
    _held: H,
}

impl<B, H> Held<B, H> {
    pub fn new(body: B, held: H) -> Self {
        Self { body, _held: held }
    }
}

impl<B: Body<Data = Bytes> + Unpin, H: Unpin> Body for Held<B, H> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B, H> fmt::Debug for Held<B, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}
