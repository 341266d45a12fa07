//! Requests over plain HTTP: each is judged by its own host, whatever the ones before it on the
//! same connection were for.

mod body;
mod headers;
mod tunnel;
mod upstreams;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use warren_core::HostName;
use warren_core::network::Why;

use self::body::Outgoing;
use self::upstreams::Upstreams;
use super::addressee::{self, Addressee};
use super::connection::Early;
use super::judge::{Judge, Verdict};
use super::refusal::{Reason, Refusal};
use super::rewound::Rewound;
use super::visit::{Admission, Asked, Visit};
use crate::edge::Edge;
use crate::heads::{Strict, Switch};

/// The head of a request may be this large.
const MOST_HEAD: usize = 64 << 10;
/// How long a client may take over a head, and be silent between two requests.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);
/// Requests at a time on one connection of HTTP/2.
const MOST_STREAMS: u32 = 128;
/// The most bytes under way to the client on each stream, and on all of them.
const WINDOW: u32 = 256 << 10;
/// Of a refused request's body so much is read and thrown away: a client that still sends does not
/// hear the answer.
const MOST_DRAINED: usize = 256 << 10;
const DRAIN_PATIENCE: Duration = Duration::from_millis(500);

/// Which HTTP is spoken, with the client and with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    One,
    Two,
}

/// Serves the requests of one connection.
struct Requests {
    visit: Arc<Visit>,
    upstreams: Upstreams,
    /// Thrown when the connection becomes a tunnel.
    switch: Switch,
}

/// Serves a connection to its end. Its first bytes are HTTP, or an attempt at it.
pub(super) async fn serve(visit: &Arc<Visit>, client: Rewound, early: Early, kind: Kind) {
    let client = Strict::leaving_hosts(client);
    let requests = Arc::new(Requests {
        visit: Arc::clone(visit),
        upstreams: Upstreams::new(Arc::clone(visit), kind, early),
        switch: client.switch(),
    });
    let served = Arc::clone(&requests);
    let service = service_fn(move |request| {
        let requests = Arc::clone(&served);
        async move { Ok::<_, Infallible>(requests.answer(request).await) }
    });
    let client = TokioIo::new(client);
    // A client that breaks off or breaks rules has been answered by hyper as far as it can be.
    match kind {
        Kind::One => {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
            builder
                .max_buf_size(MOST_HEAD)
                .preserve_header_case(true)
                .title_case_headers(true)
                .auto_date_header(false);
            let serving = builder.serve_connection(client, service).with_upgrades();
            tokio::select! {
                ended = serving => drop(ended),
                () = requests.until_detached() => {}
            }
        }
        Kind::Two => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).auto_date_header(false);
            builder.max_concurrent_streams(MOST_STREAMS).max_send_buf_size(MOST_HEAD);
            builder.initial_stream_window_size(WINDOW).initial_connection_window_size(4 * WINDOW);
            builder.max_header_list_size(64 << 10);
            let serving = builder.serve_connection(client, service);
            tokio::select! {
                ended = serving => drop(ended),
                () = requests.until_detached() => {}
            }
        }
    }
}

impl Requests {
    /// Lets go of connections that are no longer allowed, and ends when nothing is.
    async fn until_detached(&self) {
        let mut changes = self.visit.changes();
        loop {
            if self.visit.judge().is_shut() {
                return;
            }
            self.visit.change(&mut changes).await;
            self.upstreams.prune().await;
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Outgoing> {
        let (parts, body) = request.into_parts();
        let accepted = parts.headers.clone();
        let refusal = match self.admit(&parts).await {
            Ok((asked, admission)) => {
                let asked_for = asked.clone();
                match self.forward(parts, body, asked, &admission).await {
                    Ok(response) => return response,
                    Err(reason) => self.visit.refuse(&asked_for, reason).await,
                }
            }
            Err(Stop::Secret(response)) => {
                drain(body).await;
                return *response;
            }
            Err(Stop::Refusal(refusal)) => {
                drain(body).await;
                refusal
            }
        };
        self.told(&refusal, &accepted)
    }

    /// Decides if the request may go on.
    async fn admit(&self, parts: &Parts) -> Result<(Asked, Admission), Stop> {
        let Addressee { asked, port } = match addressee::of(parts) {
            Ok(addressee) => addressee,
            Err(unclear) => {
                let asked = Asked::Unnamed(unclear.shown);
                return Err(self.visit.refuse(&asked, Reason::Malformed(unclear.what)).await.into());
            }
        };
        if parts.method == Method::CONNECT
            && let Some(why) = self.closes_tunnel(&asked, port)
        {
            return Err(self.visit.refuse(&asked, Reason::Denied(why)).await.into());
        }
        let admission = self.visit.admit(&asked).await?;
        match (self.visit.is_secret(&asked).await, &asked) {
            (Ok(true), Asked::Name(name)) => Err(keep_secret(name, &parts.headers)),
            (Ok(_), _) => Ok((asked, admission)),
            (Err(reason), _) => Err(self.visit.refuse(&asked, reason).await.into()),
        }
    }

    /// The reason to refuse a tunnel through another proxy: its target is denied.
    fn closes_tunnel(&self, asked: &Asked, port: Option<u16>) -> Option<Why> {
        let judge = Judge { port: port.unwrap_or(self.visit.port), ..self.visit.judge() };
        let verdict = match asked {
            Asked::Name(name) => judge.named(self.visit.goal, name),
            Asked::Literal(address) => judge.literal(self.visit.goal, *address),
            Asked::Unnamed(_) | Asked::Hidden(_) | Asked::Raw => Verdict::Denied(Why::NoName),
        };
        match verdict {
            Verdict::Denied(why @ (Why::Deny(_) | Why::Closed(_) | Why::NoName)) => Some(why),
            Verdict::Denied(_) | Verdict::Allowed(_) | Verdict::Unproven(_) | Verdict::Ask => None,
        }
    }

    /// Sends a request on and takes the answer back.
    async fn forward(
        &self,
        mut parts: Parts,
        body: Incoming,
        asked: Asked,
        admission: &Admission,
    ) -> Result<Response<Outgoing>, Reason> {
        let is_connect = parts.method == Method::CONNECT;
        let upgrade = pass_on(&mut parts.headers);
        let wants_tunnel = is_connect || upgrade.is_some();
        let mut request = Request::from_parts(parts, body);
        let ours = wants_tunnel.then(|| hyper::upgrade::on(&mut request));
        let host = asked.shown().unwrap_or_default();
        let sent = self.upstreams.send(&host, admission, request).await?;
        let (mut response, basis) = (sent.response, sent.basis);
        let is_tunnel = response.status() == StatusCode::SWITCHING_PROTOCOLS
            || is_connect && response.status().is_success();
        if is_tunnel {
            let ours = ours.ok_or(Reason::Broken)?;
            let theirs = hyper::upgrade::on(&mut response);
            self.switch.throw();
            tokio::spawn(tunnel::run(Arc::clone(&self.visit), ours, theirs, basis));
            return Ok(response.map(|_| Outgoing::empty()));
        }
        headers::strip(response.headers_mut(), None);
        let visit = Arc::clone(&self.visit);
        let cut = Box::pin(async move { visit.until_cut(basis).await });
        Ok(response.map(|body| Outgoing::passed(body, cut, sent.upstream)))
    }

    fn told(&self, refusal: &Refusal, headers: &http::HeaderMap) -> Response<Outgoing> {
        let words = refusal.words(&self.visit.guest.id, headers);
        let mut response = Response::new(Outgoing::told(words.text));
        *response.status_mut() = words.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(words.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Takes out of a request what is not for the other side. Answers what it wants to speak from now
/// on, if it may.
pub(super) fn pass_on(headers: &mut http::HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers::upgrade(headers);
    headers::strip(headers, upgrade.as_ref());
    upgrade
}

/// Why a request is not sent on.
enum Stop {
    Refusal(Refusal),
    /// It is for a host that a secret is for.
    Secret(Box<Response<Outgoing>>),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

/// A host that a secret is for gets nothing that could be read on the way.
fn keep_secret(name: &HostName, headers: &http::HeaderMap) -> Stop {
    let as_json = super::refusal::wants_json(headers);
    Stop::Secret(Box::new(Edge::refuse_plain(name, as_json).map(Outgoing::told)))
}

/// Reads what a refused client still sends, within reason.
async fn drain(mut body: Incoming) {
    let draining = async {
        let mut left = MOST_DRAINED;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, bytes::Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    drop(tokio::time::timeout(DRAIN_PATIENCE, draining).await);
}
