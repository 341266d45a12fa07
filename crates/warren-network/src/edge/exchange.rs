//! One connection of a sandbox's with a host that a secret is for: request by request.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::timeout;
use warren_core::HostName;
use warren_core::network::{NetworkEntry, NetworkVerdict, Protocol};

use super::inject::{InjectError, Injections};
use super::scrub::{PATIENCE, Scrubbed, Scrubber};
use super::tasks::Tasks;
use super::upstream::{H2, Upstream, UpstreamError};
use super::{Edge, EdgeError, answers, authority};
use crate::book::Guest;
use crate::heads::Strict;

/// How long a client may be idle, or take over the head of a request.
const IDLE: Duration = Duration::from_secs(90);

type Outgoing = UnsyncBoxBody<Bytes, hyper::Error>;

pub(super) struct Exchange {
    pub(super) edge: Arc<Edge>,
    pub(super) guest: Arc<Guest>,
    pub(super) host: HostName,
    pub(super) port: u16,
    pub(super) upstream: Upstream<Incoming>,
    /// Why the host could not be reached at first, told once.
    pub(super) failure: Mutex<Option<UpstreamError>>,
    pub(super) tasks: Tasks,
    /// Tells the end of what follows an upgrade.
    pub(super) relay: Mutex<Option<oneshot::Receiver<()>>>,
}

/// Why a request was not passed on.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the request is for another host than the connection, or does not say for which")]
    OtherHost,
    #[error("tunnels are not passed on")]
    Tunnel,
    #[error("the sandbox's secrets cannot be used now")]
    Secrets(#[source] EdgeError),
    #[error("the request cannot have the sandbox's secrets in it")]
    Inject(#[source] InjectError),
    #[error("the host gives no answer")]
    Upstream(#[source] UpstreamError),
    #[error("the host changes the protocol unasked")]
    Unasked,
}

impl Exchange {
    /// To the connection's end.
    pub(super) async fn serve<S>(self: Arc<Self>, stream: S, protocol: &[u8]) -> Result<(), EdgeError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let this = Arc::clone(&self);
        let stream = Strict::leaving_hosts(stream);
        let switch = stream.switch();
        let service = service_fn(move |request| {
            let (exchange, switch) = (Arc::clone(&this), switch.clone());
            async move {
                let response = exchange.answer(request).await;
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    switch.throw();
                }
                Ok::<_, Infallible>(response)
            }
        });
        let stream = TokioIo::new(stream);
        if protocol == H2 {
            let mut server = http2::Builder::new(self.tasks.clone());
            return server
                .timer(TokioTimer::new())
                .max_concurrent_streams(100)
                .keep_alive_interval(IDLE)
                .serve_connection(stream, service)
                .await
                .map_err(EdgeError::Client);
        }
        let mut server = http1::Builder::new();
        server.preserve_header_case(true).title_case_headers(true);
        let connection = server.timer(TokioTimer::new()).header_read_timeout(IDLE);
        let served = connection.serve_connection(stream, service).with_upgrades().await;
        served.map_err(EdgeError::Client)?;
        let relay = self.relay.lock().take();
        if let Some(relay) = relay {
            // It ends by being dropped.
            drop(relay.await);
        }
        Ok(())
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Outgoing> {
        let as_json = answers::wants_json(request.headers());
        match self.forward(request).await {
            Ok(response) => response,
            Err(refusal) => self.refuse(&refusal, as_json),
        }
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<Outgoing>, Refusal> {
        if request.method() == Method::CONNECT {
            return Err(Refusal::Tunnel);
        }
        let (uri, headers) = (request.uri(), request.headers());
        if !authority::names_only(uri, headers, request.version(), &self.host, self.port) {
            return Err(Refusal::OtherHost);
        }
        let first_failure = self.failure.lock().take();
        if let Some(error) = first_failure {
            return Err(Refusal::Upstream(error));
        }
        let secrets = self.edge.secrets_for(&self.guest, &self.host, self.port).await;
        let injections = Injections::new(secrets.map_err(Refusal::Secrets)?);
        let upgrade = is_websocket(&request).then(|| hyper::upgrade::on(&mut request));
        let request = self.prepare(request, &injections, upgrade.is_some())?;
        let mut response = self.upstream.send(request).await.map_err(Refusal::Upstream)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let ours = upgrade.ok_or(Refusal::Unasked)?;
            self.relay(ours, hyper::upgrade::on(&mut response), Scrubber::new(&injections));
            clear(response.headers_mut());
            mark_websocket(response.headers_mut());
        } else {
            clear(response.headers_mut());
        }
        response.headers_mut().remove(header::TRANSFER_ENCODING);
        response.headers_mut().remove(header::ALT_SVC);
        injections.scrub(response.headers_mut());
        Ok(response.map(|body| Scrubbed::new(body, injections).boxed_unsync()))
    }

    /// The request as the host gets it.
    fn prepare(
        &self,
        mut request: Request<Incoming>,
        injections: &Injections,
        is_websocket: bool,
    ) -> Result<Request<Incoming>, Refusal> {
        let named = authority::written(&self.host, self.port).ok_or(Refusal::OtherHost)?;
        let is_two = request.version() == Version::HTTP_2;
        let mut uri = Uri::builder();
        if is_two {
            // Of HTTP/1 it says how the client wrote the names of its headers, which the host is to
            // see.
            request.extensions_mut().clear();
            uri = uri.scheme("https").authority(named.clone());
        } else {
            *request.version_mut() = Version::HTTP_11;
        }
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        *request.uri_mut() = uri.path_and_query(path).build().map_err(|_| Refusal::OtherHost)?;
        let headers = request.headers_mut();
        // Of the two ways to say how long a body is, one is passed on.
        if headers.remove(header::TRANSFER_ENCODING).is_some() && !is_two {
            headers.remove(header::CONTENT_LENGTH);
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        clear(headers);
        headers.remove(header::EXPECT);
        headers.remove(header::HOST);
        injections.apply(headers).map_err(Refusal::Inject)?;
        if !is_two {
            let host = HeaderValue::from_str(named.as_str()).map_err(|_| Refusal::OtherHost)?;
            headers.insert(header::HOST, host);
        }
        // In what is compressed, nobody finds a secret that is sent back.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if is_websocket {
            headers.remove(header::SEC_WEBSOCKET_EXTENSIONS);
            mark_websocket(headers);
        }
        Ok(request)
    }

    /// Passes bytes both ways from now on.
    fn relay(&self, ours: OnUpgrade, theirs: OnUpgrade, scrubber: Scrubber) {
        let (ended, end) = oneshot::channel();
        *self.relay.lock() = Some(end);
        self.tasks.spawn(async move {
            if let Ok((client, host)) = tokio::try_join!(ours, theirs) {
                pass(client, host, scrubber).await;
            }
            drop(ended);
        });
    }

    fn refuse(&self, refusal: &Refusal, as_json: bool) -> Response<Outgoing> {
        let (status, code) = match refusal {
            Refusal::OtherHost | Refusal::Tunnel => (StatusCode::FORBIDDEN, "other_host"),
            Refusal::Inject(_) => (StatusCode::FORBIDDEN, "secret_does_not_fit"),
            Refusal::Secrets(_) => (StatusCode::BAD_GATEWAY, "secret_unavailable"),
            Refusal::Upstream(_) | Refusal::Unasked => (StatusCode::BAD_GATEWAY, "host_unavailable"),
        };
        if status == StatusCode::FORBIDDEN {
            self.report(refusal);
        }
        let mut message = format!("{refusal}; nothing was sent to {}", self.host);
        match refusal {
            // What went wrong with the catalog is the operator's to know.
            Refusal::Secrets(error) => {
                let error = error.in_full();
                tracing::warn!(sandbox.id = %self.guest.id, host = %self.host, %error, "a secret is not usable");
            }
            Refusal::Upstream(error) => {
                let cause = error.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
                message = format!("{}: {error}{cause}", self.host);
            }
            Refusal::OtherHost | Refusal::Tunnel | Refusal::Inject(_) | Refusal::Unasked => {}
        }
        let response = answers::refusal(status, code, &message, &self.host, as_json);
        response.map(|body| body.map_err(|never| match never {}).boxed_unsync())
    }

    fn report(&self, refusal: &Refusal) {
        let entry = NetworkEntry {
            verdict: NetworkVerdict::Denied,
            protocol: Protocol::Tcp,
            host: Some(self.host.to_string()),
            address: None,
            port: self.port,
            rule: refusal.to_string(),
            process: None,
            count: 1,
        };
        self.edge.book.report(&self.guest, entry);
    }
}

/// Both ways until either end closes, with secrets blotted out of what comes from the host.
async fn pass(client: Upgraded, host: Upgraded, mut scrubber: Scrubber) {
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
    let (mut from_host, mut to_host) = tokio::io::split(TokioIo::new(host));
    let out = async {
        tokio::io::copy(&mut from_client, &mut to_host).await?;
        to_host.shutdown().await
    };
    let back = async {
        let mut piece = BytesMut::with_capacity(16 << 10);
        loop {
            let read = from_host.read_buf(&mut piece);
            let read = if scrubber.may_show() { timeout(PATIENCE, read).await } else { Ok(read.await) };
            let going = match read {
                Ok(Ok(0)) => break,
                Ok(Ok(_)) => scrubber.feed(piece.split().freeze()),
                Ok(Err(error)) => return Err(error),
                Err(_) => scrubber.show(),
            };
            to_client.write_all(&going).await?;
        }
        to_client.write_all(&scrubber.rest()).await?;
        to_client.shutdown().await
    };
    // Either end may say no more and still listen; an error is the end of both.
    drop(tokio::try_join!(out, back));
}

fn is_websocket(request: &Request<Incoming>) -> bool {
    let upgrade = request.headers().get(header::UPGRADE);
    request.version() == Version::HTTP_11
        && request.method() == Method::GET
        && upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn mark_websocket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Takes out what is meant for this hop alone, and what the message says is.
fn clear(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let trailers = headers.get(header::TE).is_some_and(|value| value == "trailers");
    for name in listed {
        headers.remove(name);
    }
    for name in [header::CONNECTION, header::UPGRADE, header::TE, header::PROXY_AUTHENTICATE] {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection", "http2-settings"] {
        headers.remove(name);
    }
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}
