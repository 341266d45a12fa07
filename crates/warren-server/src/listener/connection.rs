use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use warren_face::Held;
use warren_face::arrival::{Arrival, OwnerNotice, Peer};
use warren_network::heads::Strict;

use super::usage::Usage;
use super::{Answers, ServeParts};

/// The time that a connection may go on after it is told to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves one connection to its end.
pub(super) async fn serve<F, S>(
    shared: &ServeParts<F>,
    (stream, usage): (S, Usage),
    (arrival, acquaintance): (Arrival, OwnerNotice),
    shutdown: CancellationToken,
) where
    F: Answers,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Strict::new(stream);
    let switch = stream.switch();
    let service = service_fn(|request: Request<Incoming>| {
        let (front, under_way) = (shared.front.clone(), usage.begin(request.version()));
        let (switch, usage, acquaintance) = (switch.clone(), usage.clone(), acquaintance.clone());
        async move {
            let mut request = request.map(Body::new);
            arrival.address.map(|address| request.extensions_mut().insert(Peer::new(address)));
            request.extensions_mut().insert(arrival);
            request.extensions_mut().insert(acquaintance);
            let response = front.answer(request).await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                switch.throw();
                usage.upgrade();
            }
            Ok::<_, Infallible>(response.map(|body| Held::new(body, under_way)))
        }
    });
    let mut connection = pin!(shared.builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
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
        tracing::debug!(error = %warren_face::error::chain(&*error), "a connection ended early");
    }
}
