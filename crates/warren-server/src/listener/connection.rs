use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Request;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{Shared, Slot};
use crate::auth::Peer;
use crate::config::Http;

/// What is still to be said may be said within this long after the connection is told to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves one connection to its end.
pub(super) async fn serve(shared: &Shared, slot: Slot, address: SocketAddr, shutdown: CancellationToken) {
    let usage = Usage::new();
    let service = service_fn(|request: Request<Incoming>| {
        let (app, under_way) = (shared.app.clone(), usage.begin());
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer::new(address.ip()));
            let answered = app.oneshot(request).await;
            answered.map(|response| response.map(|body| Counted { body, _under_way: under_way }))
        }
    });
    let mut connection = pin!(shared.builder.serve_connection_with_upgrades(TokioIo::new(slot), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = usage.until_unused(&shared.http) => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
        }
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Peers come and go, and send what they like.
        tracing::debug!(error = %crate::error::chain(&*error), "a connection ended early");
    }
}

/// What a connection is used for. A clone is the same connection's.
#[derive(Clone)]
struct Usage(Arc<Mutex<Requests>>);

struct Requests {
    under_way: usize,
    /// When the last one ended.
    unused_since: Instant,
    /// Whether there was one at all.
    used: bool,
}

impl Usage {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Requests { under_way: 0, unused_since: Instant::now(), used: false })))
    }

    fn begin(&self) -> UnderWay {
        self.change(|requests| {
            requests.under_way += 1;
            requests.used = true;
        });
        UnderWay(self.clone())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Requests) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until there was no request for too long: for the first one there is less patience.
    async fn until_unused(&self, http: &Http) {
        loop {
            let deadline = self.change(|requests| {
                let patience = if requests.used { http.idle_timeout } else { http.header_timeout };
                (requests.under_way == 0).then(|| requests.unused_since + patience)
            });
            match deadline {
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => tokio::time::sleep(http.idle_timeout).await,
            }
        }
    }
}

/// A request that has not been answered to the end.
struct UnderWay(Usage);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.change(|requests| {
            requests.under_way -= 1;
            requests.unused_since = Instant::now();
        });
    }
}

/// A body that counts as a request under way.
struct Counted {
    body: Body,
    _under_way: UnderWay,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
