use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Why something open must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    Revoked,
    Shutdown,
}

/// Says when what a caller has open must end.
#[derive(Debug, Clone)]
pub struct StreamGuard {
    revoked: CancellationToken,
    shutdown: CancellationToken,
}

impl StreamGuard {
    pub(super) fn new(revoked: CancellationToken, shutdown: CancellationToken) -> Self {
        Self { revoked, shutdown }
    }

    pub async fn until_cut(&self) -> Cut {
        tokio::select! {
            biased;
            () = self.revoked.cancelled() => Cut::Revoked,
            () = self.shutdown.cancelled() => Cut::Shutdown,
        }
    }

    pub(crate) async fn until_revoked(&self) {
        self.revoked.cancelled().await;
    }
}

/// The time that a body may go on once its reader's key is revoked.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A body that breaks off when its reader's key is revoked. That a server shuts down is no reason:
/// a file is sent to its end, and endless streams look after themselves.
pub struct CutBody {
    body: Body,
    revoked: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Present once it is revoked.
    last_words: Option<Pin<Box<Sleep>>>,
}

impl CutBody {
    pub fn new(body: Body, guard: StreamGuard) -> Self {
        Self { body, revoked: Box::pin(guard.revoked.cancelled_owned()), last_words: None }
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        if self.last_words.is_none() && self.revoked.as_mut().poll(context).is_ready() {
            self.last_words = Some(Box::pin(tokio::time::sleep(LAST_WORDS)));
        }
        self.last_words.as_mut().is_some_and(|words| words.as_mut().poll(context).is_ready())
    }
}

impl http_body::Body for CutBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over(context) {
            let error = io::Error::new(io::ErrorKind::PermissionDenied, "the key was revoked");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for CutBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CutBody").finish_non_exhaustive()
    }
}
