//! The connections to servers of one client's connection. None is ever used for another client, or
//! another host.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;
use warren_core::network::Why;

use super::super::connection::Early;
use super::super::judge::Basis;
use super::super::refusal::Reason;
use super::super::visit::{Admission, Visit};
use super::{Kind, MOST_HEAD, WINDOW};

/// Hosts of one client's connection whose connections are kept.
const MOST_KEPT: usize = 16;

/// Keeps the task alive that drives a connection.
pub(super) type Held = Arc<AbortOnDropHandle<()>>;

pub(super) struct Upstreams {
    visit: Arc<Visit>,
    kind: Kind,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Made before the first request was read. It goes to the first host.
    early: Early,
    kept: HashMap<String, Upstream>,
}

/// A connection to the server of one host.
struct Upstream {
    sender: Sender,
    address: IpAddr,
    basis: Basis,
    held: Held,
}

enum Sender {
    One(http1::SendRequest<Incoming>),
    Two(http2::SendRequest<Incoming>),
}

/// An answer, and what it came by.
pub(super) struct Sent {
    pub(super) response: Response<Incoming>,
    pub(super) basis: Basis,
    pub(super) upstream: Held,
}

impl Upstreams {
    pub(super) fn new(visit: Arc<Visit>, kind: Kind, early: Early) -> Self {
        Self { visit, kind, state: Mutex::new(State { early, kept: HashMap::new() }) }
    }

    /// Sends a request to a host, over a connection that is there or a new one. What is no longer
    /// allowed meanwhile is given up.
    pub(super) async fn send(
        &self,
        host: &str,
        admission: &Admission,
        mut request: Request<Incoming>,
    ) -> Result<Sent, Reason> {
        *request.version_mut() = match self.kind {
            Kind::One => Version::HTTP_11,
            Kind::Two => Version::HTTP_2,
        };
        if let Some(kept) = self.take(host, admission).await {
            match self.try_send(host, kept, request).await {
                Ok(sent) => return Ok(sent),
                // The server had hung up, and has not seen the request.
                Err(Unsent::Back(back)) => request = *back,
                Err(Unsent::Lost(reason)) => return Err(reason),
            }
        }
        let fresh = self.connect(admission).await?;
        match self.try_send(host, fresh, request).await {
            Ok(sent) => Ok(sent),
            Err(Unsent::Back(_)) => Err(Reason::Broken),
            Err(Unsent::Lost(reason)) => Err(reason),
        }
    }

    /// Hangs up where a request would not be allowed now.
    pub(super) async fn prune(&self) {
        let judge = self.visit.judge();
        self.state.lock().await.kept.retain(|_, upstream| judge.still_allows(&upstream.basis));
    }

    async fn take(&self, host: &str, admission: &Admission) -> Option<Upstream> {
        let mut state = self.state.lock().await;
        let mut found = match self.kind {
            Kind::One => state.kept.remove(host)?,
            Kind::Two => state.kept.get(host)?.shared()?,
        };
        drop(state);
        let is_right = admission.addresses.iter().any(|address| address.to_canonical() == found.address);
        (is_right && found.sender.is_ready().await).then_some(found)
    }

    async fn connect(&self, admission: &Admission) -> Result<Upstream, Reason> {
        let early = std::mem::take(&mut self.state.lock().await.early);
        let stream = early.connect(&self.visit, admission).await?;
        let address = stream.peer_addr().map_err(|_| Reason::Broken)?.ip().to_canonical();
        let (sender, held) = self.greet(stream).await.map_err(|_| Reason::Broken)?;
        Ok(Upstream { sender, address, basis: admission.basis(address), held: Arc::new(held) })
    }

    async fn greet(&self, stream: TcpStream) -> hyper::Result<(Sender, AbortOnDropHandle<()>)> {
        let stream = TokioIo::new(stream);
        Ok(match self.kind {
            Kind::One => {
                let mut builder = http1::Builder::new();
                builder.max_buf_size(MOST_HEAD).preserve_header_case(true).title_case_headers(true);
                let (sender, connection) = builder.handshake(stream).await?;
                let driving = tokio::spawn(async move { drop(connection.with_upgrades().await) });
                (Sender::One(sender), AbortOnDropHandle::new(driving))
            }
            Kind::Two => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.timer(TokioTimer::new()).max_send_buf_size(MOST_HEAD);
                builder.initial_stream_window_size(WINDOW).initial_connection_window_size(4 * WINDOW);
                let (sender, connection) = builder.handshake(stream).await?;
                let driving = tokio::spawn(async move { drop(connection.await) });
                (Sender::Two(sender), AbortOnDropHandle::new(driving))
            }
        })
    }

    async fn try_send(
        &self,
        host: &str,
        mut upstream: Upstream,
        request: Request<Incoming>,
    ) -> Result<Sent, Unsent> {
        if let Some(shared) = upstream.shared() {
            self.keep(host, shared).await;
        }
        let basis = upstream.basis.clone();
        let response = tokio::select! {
            response = upstream.sender.send(request) => response?,
            () = self.visit.until_cut(basis.clone()) => return Err(Unsent::Lost(Reason::Denied(Why::NotListed))),
        };
        let held = Arc::clone(&upstream.held);
        if self.kind == Kind::One && response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
            self.keep(host, upstream).await;
        }
        Ok(Sent { response, basis, upstream: held })
    }

    async fn keep(&self, host: &str, upstream: Upstream) {
        let mut state = self.state.lock().await;
        // One request at a time needs one connection, which is the last host's.
        if self.kind == Kind::One || state.kept.len() >= MOST_KEPT {
            state.kept.clear();
        }
        state.kept.insert(host.to_owned(), upstream);
    }
}

/// A request that was not answered.
enum Unsent {
    Back(Box<Request<Incoming>>),
    Lost(Reason),
}

impl Upstream {
    /// Another handle of the same connection, where several requests may be under way.
    fn shared(&self) -> Option<Self> {
        let Sender::Two(sender) = &self.sender else { return None };
        let sender = Sender::Two(sender.clone());
        Some(Self { sender, address: self.address, basis: self.basis.clone(), held: Arc::clone(&self.held) })
    }
}

impl Sender {
    async fn is_ready(&mut self) -> bool {
        match self {
            Self::One(sender) => sender.ready().await.is_ok(),
            Self::Two(sender) => sender.ready().await.is_ok(),
        }
    }

    async fn send(&mut self, request: Request<Incoming>) -> Result<Response<Incoming>, Unsent> {
        let sent = match self {
            Self::One(sender) => sender.try_send_request(request).await,
            Self::Two(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(|mut error| match error.take_message() {
            Some(request) => Unsent::Back(Box::new(request)),
            None => Unsent::Lost(Reason::Broken),
        })
    }
}
