//! Connections, from accept to close, each within its limits.
//!
//! `axum::serve` lets nobody set those limits, so the loop is ours. A connection holds one of a
//! fixed number of places until its last byte, an upgraded one too; whose it is that goes when
//! there is none left is `room`'s to say. A client that sends nothing, or too slowly, is cut off: a
//! head must arrive within its time, a body must flow, an answer must be taken, and a connection
//! without a request is closed after a while. A request under way may be as quiet as it likes.

mod connection;
mod room;
mod slot;
mod usage;

use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use warren_face::arrival::{Arrival, Door, OwnerNotice, Peer};

use crate::config::Http;
use crate::tls::Tls;
use room::Room;
use slot::Slot;
use usage::Usage;

/// How long the loop rests when the process is out of descriptors or memory: nothing else helps.
const REST: Duration = Duration::from_millis(100);

/// Resets that a peer may have waiting on one HTTP/2 connection before it is cut (CVE-2023-44487).
const MOST_RESETS: usize = 32;

/// A peer that does not even acknowledge is gone.
const DEAD_PEER: Duration = Duration::from_secs(60);

/// Bytes of an answer that the kernel takes before its peer wants them. It would take megabytes, of
/// each who never reads.
const UNSENT: u32 = 256 << 10;

/// Where connections come in.
#[derive(Debug)]
pub struct Sockets {
    pub main: TcpListener,
    /// Where TLS is spoken. What is answered is the same.
    pub tls: Option<(TcpListener, Tls)>,
    /// Where the E2B protocol is at the root.
    pub e2b: Option<TcpListener>,
}

/// Answers every request, whomever it is for.
pub(crate) trait Answers: Clone + Send + Sync + 'static {
    fn answer(self, request: Request) -> impl Future<Output = Response> + Send;
}

/// Accepts and serves connections.
pub(crate) struct Listener<F> {
    pub(crate) front: F,
    pub(crate) http: Http,
    /// No connection is accepted once it is cancelled.
    pub(crate) shutdown: CancellationToken,
    /// How long requests may take to end after that.
    pub(crate) grace: Duration,
}

impl<F: Answers> Listener<F> {
    /// Serves until told to shut down, then until every request is answered or the grace is over.
    pub(crate) async fn run(self, sockets: Sockets) {
        let grace = self.grace;
        let room = Room::new(&self.http);
        let shared =
            Arc::new(ServeParts { builder: builder(&self.http), front: self.front, http: self.http });
        let (connections, over) = (TaskTracker::new(), CancellationToken::new());
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => break,
                accepted = sockets.accept() => accepted,
            };
            let Some(Accepted { stream, peer, arrival, tls }) = accepted else { continue };
            let usage = Usage::new();
            let ticket = room.enter(peer, usage.clone());
            let (cut, acquaintance) = (ticket.cut(), ticket.acquaintance());
            let slot = Slot::new(stream, ticket, usage.clone(), shared.http.write_timeout);
            let (shared, shutdown, over) = (Arc::clone(&shared), self.shutdown.clone(), over.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = serve(&shared, (slot, usage), (arrival, acquaintance), (tls, shutdown)) => {}
                    () = over.cancelled() => {}
                    () = cut.cancelled() => {}
                }
            });
        }
        drop(sockets);
        connections.close();
        if tokio::time::timeout(grace, connections.wait()).await.is_err() {
            tracing::warn!(connections = connections.len(), "cut what did not end in time");
            over.cancel();
            connections.wait().await;
        }
    }
}

/// The parts that all connections share.
struct ServeParts<F> {
    builder: Builder<TokioExecutor>,
    front: F,
    http: Http,
}

fn builder(http: &Http) -> Builder<TokioExecutor> {
    let header_bytes = usize::try_from(http.max_header_bytes.0).unwrap_or(usize::MAX);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // It also runs while nothing at all comes; how long a head may take once it has begun is
        // `Usage`'s to say.
        .header_read_timeout(http.idle_timeout + http.header_timeout)
        .max_headers(usize::try_from(http.max_headers).unwrap_or(usize::MAX))
        // Applications behind ports see names as they were written, and so do their clients.
        .preserve_header_case(true)
        .title_case_headers(true)
        .max_buf_size(header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(http.read_timeout)
        .keep_alive_timeout(http.header_timeout)
        .max_concurrent_streams(http.max_streams)
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MOST_RESETS)
        .max_local_error_reset_streams(MOST_RESETS)
        .max_send_buf_size(header_bytes.max(64 << 10));
    builder
}

/// A connection that was let in.
struct Accepted {
    stream: TcpStream,
    peer: Peer,
    arrival: Arrival,
    tls: Option<Tls>,
}

impl Sockets {
    /// Accepts everybody. Nobody is left waiting in the kernel's queue, where all look the same.
    async fn accept(&self) -> Option<Accepted> {
        let (accepted, tls, door) = tokio::select! {
            accepted = self.main.accept() => (accepted, None, Door::Main),
            (accepted, tls) = self.accept_tls() => (accepted, Some(tls), Door::Main),
            accepted = self.accept_e2b() => (accepted, None, Door::E2b),
        };
        let (stream, address) = settle(accepted).await?;
        let arrival = Arrival { address: Some(address.ip()), secure: tls.is_some(), door };
        Some(Accepted { stream, peer: Peer::new(address.ip()), arrival, tls })
    }

    async fn accept_tls(&self) -> (io::Result<(TcpStream, SocketAddr)>, Tls) {
        match &self.tls {
            Some((socket, tls)) => (socket.accept().await, tls.clone()),
            None => pending().await,
        }
    }

    async fn accept_e2b(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.e2b {
            Some(socket) => socket.accept().await,
            None => pending().await,
        }
    }
}

/// Serves a connection to its end, of which the beginning may be an agreement on keys.
async fn serve<F: Answers>(
    shared: &ServeParts<F>,
    (slot, usage): (Slot, Usage),
    from: (Arrival, OwnerNotice),
    (tls, shutdown): (Option<Tls>, CancellationToken),
) {
    let Some(tls) = tls else { return connection::serve(shared, (slot, usage), from, shutdown).await };
    match tokio::time::timeout(shared.http.header_timeout, tls.accept(slot)).await {
        Ok(Ok(stream)) => connection::serve(shared, (stream, usage), from, shutdown).await,
        Ok(Err(error)) => tracing::debug!(%error, "no agreement on TLS"),
        Err(_) => tracing::debug!("no agreement on TLS in time"),
    }
}

async fn settle(accepted: io::Result<(TcpStream, SocketAddr)>) -> Option<(TcpStream, SocketAddr)> {
    match accepted {
        Ok((stream, peer)) => {
            if let Err(error) = prepare(&stream) {
                tracing::debug!(%error, "the connection ended before it began");
            }
            Some((stream, peer))
        }
        Err(error) => {
            if !is_of_the_peer(&error) {
                tracing::error!(%error, "accept a connection");
                tokio::time::sleep(REST).await;
            }
            None
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT)?;
    rustix::net::sockopt::set_tcp_user_timeout(
        stream,
        u32::try_from(DEAD_PEER.as_millis()).unwrap_or(60_000),
    )?;
    Ok(rustix::net::sockopt::set_socket_keepalive(stream, true)?)
}

fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}
