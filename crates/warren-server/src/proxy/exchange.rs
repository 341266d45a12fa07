use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Method, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use warren_core::{Owner, Traffic};
use warren_engine::{EngineError, PortStream, Visit};
use warren_face::Held;
use warren_face::arrival::Arrival;
use warren_face::auth::{CutBody, StreamGuard};
use warren_face::code;
use warren_face::code::CODE_PORT;
use warren_face::port::is_closed;

use super::body::{Progress, Upload};
use super::head::{self, RequestFacts};
use super::pool::Permit;
use super::refusal::{Refusal, Wrong};
use super::{Lingering, Proxy, Target, VISITOR, carry, tls};

/// The leases that a visitor holds while it uses a port of a sandbox.
pub(super) struct PortLease {
    pub(super) visit: Visit,
    /// One of the sandbox's places.
    pub(super) permit: Permit,
    /// Says when it must end, if that depends on a key.
    pub(super) guard: Option<StreamGuard>,
}

/// One request and its answer.
pub(super) struct Exchange<'a> {
    pub(super) proxy: &'a Proxy,
    pub(super) target: &'a Target,
    /// The sandbox's owner.
    pub(super) owner: Owner,
    /// How the sandbox's ports are used.
    pub(super) traffic: Traffic,
}

type Asked = http::Request<Body>;
type Answered = http::Response<Incoming>;

impl Exchange<'_> {
    /// Passes the request on and the answer back. Nothing is followed, and nothing is kept of
    /// either.
    pub(super) async fn run(&self, mut request: Request, lease: PortLease) -> Result<Response, Refusal> {
        if self.target.port == CODE_PORT && code::is_cell(&request) {
            request = self.note_cell(request, &lease.visit).await?;
        }
        let client = head::can_upgrade(&request).then(|| hyper::upgrade::on(&mut request));
        let progress = Progress::new();
        let request = self.outgoing(request, &progress, client.is_some());
        let answered = async {
            match &client {
                Some(_) => self.ask_to_upgrade(request, &lease.visit).await,
                None => self.ask(request, &lease.visit).await,
            }
        };
        let answered = tokio::select! {
            answered = answered => answered.map_err(|wrong| Refusal::of(self.target, wrong))?,
            () = progress.until_none_for(self.proxy.state.config.ports.timeout) => {
                return Err(Refusal::of(self.target, Wrong::Silent));
            }
        };
        if head::has_two_lengths(answered.headers()) {
            return Err(Refusal::of(self.target, Wrong::Garbled));
        }
        if answered.status() == StatusCode::SWITCHING_PROTOCOLS {
            let client = client.ok_or_else(|| Refusal::of(self.target, Wrong::Garbled))?;
            return Ok(self.switch(answered, client, lease));
        }
        let (mut parts, body) = answered.into_parts();
        head::returning(&mut parts);
        let guard = lease.guard.clone();
        // The sandbox counts as used until the answer has been passed on to the end.
        let body = Body::new(Held::new(body, lease));
        let body = match guard {
            Some(guard) => Body::new(CutBody::new(body, guard)),
            None => body,
        };
        Ok(Response::from_parts(parts, body))
    }

    /// Code that is run over E2B's port is in the journal as it is otherwise.
    async fn note_cell(&self, request: Request, visit: &Visit) -> Result<Request, Refusal> {
        let patience = self.proxy.state.config.ports.timeout;
        let (request, code) = tokio::time::timeout(patience, code::cell_of(request))
            .await
            .map_err(|_| Refusal::of(self.target, Wrong::Silent))?
            .map_err(|_| Refusal::of(self.target, Wrong::Garbled))?;
        visit.begin(code::CELL, &code).await;
        Ok(request)
    }

    fn outgoing(&self, request: Request, progress: &Progress, upgrades: bool) -> Asked {
        let (config, target) = (&self.proxy.state.config.ports, self.target);
        let arrival = Arrival::of(&request);
        let host = self.proxy.settings(&target.sandbox, target.port).host;
        let host = host.or_else(|| self.traffic.host_of(target.port));
        let facts = RequestFacts {
            target,
            secure: arrival.secure || config.behind_tls,
            arrival,
            host: host.and_then(|host| HeaderValue::try_from(host).ok()),
            upgrades,
        };
        let (parts, body) = request.into_parts();
        let body =
            if body.is_end_stream() { Body::empty() } else { Body::new(Upload::new(body, progress.clone())) };
        http::Request::from_parts(head::outgoing(parts, &facts), body)
    }

    /// Asks over a connection that waits, or a new one.
    async fn ask(&self, mut request: Asked, visit: &Visit) -> Result<Answered, Wrong> {
        let life = visit.life();
        while let Some(mut connection) = self.proxy.pool.take(self.target, &life) {
            let again = copy_of(&request);
            match connection.try_send_request(request).await {
                Ok(answered) => {
                    self.keep(connection, &answered, visit);
                    return Ok(answered);
                }
                // An application may hang up while a connection waits. What it has not seen, or may
                // see twice, is sent once more.
                Err(mut error) => request = error.take_message().or(again).ok_or(Wrong::Garbled)?,
            }
        }
        let mut connection = self.open(visit, Waiting::Usual).await?;
        let answered = connection.send_request(request).await.map_err(garbled)?;
        self.keep(connection, &answered, visit);
        Ok(answered)
    }

    /// Asks over a connection of its own, which may become something else.
    async fn ask_to_upgrade(&self, request: Asked, visit: &Visit) -> Result<Answered, Wrong> {
        let mut connection = self.open(visit, Waiting::MayUpgrade).await?;
        connection.send_request(request).await.map_err(garbled)
    }

    async fn open(&self, visit: &Visit, waiting: Waiting) -> Result<SendRequest<Body>, Wrong> {
        let stream = self.dial(visit).await.map_err(Wrong::from_engine)?;
        if self.traffic.https_ports.contains(&self.target.port) {
            return self.greet(tls::speak(stream).await.map_err(silenced)?, waiting).await;
        }
        self.greet(stream, waiting).await
    }

    /// Connects to the port. Where code is run, the service is started by the first request.
    async fn dial(&self, visit: &Visit) -> Result<PortStream, EngineError> {
        let Target { sandbox, port, .. } = self.target;
        let state = &self.proxy.state;
        let dialled = match *port {
            CODE_PORT => visit.connect_now(*port).await,
            port => visit.connect(port).await,
        };
        match dialled {
            Err(closed) if *port == CODE_PORT && is_closed(&closed) => {
                let visited = state.engine_as(VISITOR, &self.owner).sandbox(sandbox);
                if let Err(error) = code::ensure(state, &visited).await {
                    let error = warren_face::error::chain(&error);
                    tracing::debug!(sandbox.id = %sandbox, error, "the code service does not start");
                    return Err(closed);
                }
                visit.connect_now(*port).await
            }
            dialled => dialled,
        }
    }

    /// Begins to speak HTTP on a new connection.
    async fn greet<S>(&self, stream: S, waiting: Waiting) -> Result<SendRequest<Body>, Wrong>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let http = &self.proxy.state.config.http;
        let header_bytes = usize::try_from(http.max_header_bytes.0).unwrap_or(usize::MAX);
        let handshake = http1::Builder::new()
            .max_headers(usize::try_from(http.max_headers).unwrap_or(usize::MAX))
            .max_header_size(header_bytes)
            .preserve_header_case(true)
            .title_case_headers(true)
            .max_buf_size(header_bytes.max(MOST_BUFFER))
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(garbled)?;
        match waiting {
            // Its end is seen by the request that uses it.
            Waiting::Usual => drop(tokio::spawn(async { drop(connection.await) })),
            Waiting::MayUpgrade => drop(tokio::spawn(async { drop(connection.with_upgrades().await) })),
        }
        Ok(sender)
    }

    /// Lets the connection wait for another request once it has given its whole answer.
    fn keep(&self, mut connection: SendRequest<Body>, answered: &Answered, visit: &Visit) {
        let (pool, target, life) = (&self.proxy.pool, self.target, visit.life());
        // A code service that was killed is started again by the request that finds nobody there,
        // and not for who finds an old connection.
        if target.port == CODE_PORT {
            return;
        }
        if answered.body().is_end_stream() && connection.is_ready() {
            return pool.put(target, &life, connection);
        }
        let (pool, target) = (std::sync::Arc::clone(pool), target.clone());
        tokio::spawn(async move {
            if connection.ready().await.is_ok() {
                pool.put(&target, &life, connection);
            }
        });
    }

    /// Both sides have agreed on another protocol, of which nothing is known here but its bytes.
    fn switch(&self, mut answered: Answered, client: OnUpgrade, lease: PortLease) -> Response {
        let protocol = answered.headers().get(UPGRADE).cloned();
        let service = hyper::upgrade::on(&mut answered);
        let (mut parts, _) = answered.into_parts();
        head::returning(&mut parts);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        protocol.into_iter().for_each(|protocol| drop(parts.headers.insert(UPGRADE, protocol)));
        let open = self.proxy.state.metrics.ports.opened();
        let shutdown = self.proxy.state.shutdown.clone();
        tokio::spawn(async move {
            let Ok((client, service)) = tokio::try_join!(client, service) else { return };
            let PortLease { visit, permit, guard } = lease;
            let (client, service) = (TokioIo::new(client), TokioIo::new(service));
            // Peers come and go.
            drop(carry(client, service, Lingering::Briefly, until_cut(guard, shutdown)).await);
            drop((open, visit, permit));
        });
        Response::from_parts(parts, Body::empty())
    }
}

/// Bytes of an answer that are held for a client who does not take them.
const MOST_BUFFER: usize = 128 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Usual,
    MayUpgrade,
}

async fn until_cut(guard: Option<StreamGuard>, shutdown: CancellationToken) {
    match guard {
        Some(guard) => {
            guard.until_cut().await;
        }
        None => shutdown.cancelled().await,
    }
}

/// The same request again, if it does no harm to send it twice.
fn copy_of(request: &Asked) -> Option<Asked> {
    let harmless = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !harmless || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = http::Request::new(Body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

fn silenced(error: std::io::Error) -> Wrong {
    tracing::debug!(%error, "an application does not speak TLS");
    Wrong::Garbled
}

fn garbled(error: hyper::Error) -> Wrong {
    tracing::debug!(error = %warren_face::error::chain(&error), "an application's answer could not be passed on");
    Wrong::Garbled
}
