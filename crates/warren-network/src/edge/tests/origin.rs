use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::ca::Authority;

/// The server that a secret is for. It repeats what it is sent, in every way that servers do.
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) line: String,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

#[derive(Debug)]
struct Resolver(Authority, &'static str);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        self.0.leaf(&self.1.parse().unwrap()).ok()
    }
}

impl Origin {
    /// With a certificate of an authority that is made in this directory.
    pub(super) async fn start(authority: &Path) -> Self {
        Self::start_as(authority, super::HOST, &[b"h2", b"http/1.1"]).await
    }

    pub(super) async fn start_as(authority: &Path, host: &'static str, protocols: &[&[u8]]) -> Self {
        Self::listen(authority, host, protocols, false).await
    }

    /// One that keeps the very bytes of a head as the body of what it has seen, and answers one
    /// request of a connection.
    pub(super) async fn start_raw(authority: &Path) -> Self {
        Self::listen(authority, super::HOST, &[b"http/1.1"], true).await
    }

    async fn listen(authority: &Path, host: &'static str, protocols: &[&[u8]], raw: bool) -> Self {
        let resolver = Resolver(Authority::open(authority).unwrap(), host);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.unwrap().with_no_client_auth().with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::default();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let serving = tokio::spawn(serve(listener, acceptor, Arc::clone(&seen), raw));
        Self { address, seen, serving }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub(super) fn last(&self) -> Seen {
        self.seen().pop().expect("a request arrived")
    }
}

impl Seen {
    /// All values of a header.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, seen: Arc<Mutex<Vec<Seen>>>, raw: bool) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        connections.spawn(async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            if raw {
                return spelled(&mut stream, &seen).await;
            }
            let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
            let server = auto::Builder::new(TokioExecutor::new());
            drop(server.serve_connection_with_upgrades(TokioIo::new(stream), service).await);
        });
    }
}

/// Answers with names that nobody would write so.
async fn spelled(stream: &mut TlsStream<TcpStream>, seen: &Mutex<Vec<Seen>>) {
    let mut head = BytesMut::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap() == 0 {
            return;
        }
    }
    let (version, headers) = (Version::HTTP_11, HeaderMap::new());
    seen.lock().push(Seen { line: String::new(), version, headers, body: head.freeze() });
    let answer = b"HTTP/1.1 200 OK\r\nx-told: 1\r\nX-ToLd-Too: 2\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(answer).await.unwrap();
    stream.shutdown().await.unwrap();
}

type Answer = Response<BoxBody<Bytes, std::io::Error>>;

async fn answer(mut request: Request<Incoming>, seen: Arc<Mutex<Vec<Seen>>>) -> Result<Answer, hyper::Error> {
    let upgrade = request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let line = format!("{} {}", parts.method, parts.uri);
    let headers = parts.headers;
    seen.lock().push(Seen { line, version: parts.version, headers: headers.clone(), body });
    let path = parts.uri.path();
    if let Some(upgrade) = upgrade.filter(|_| path == "/socket") {
        return Ok(socket(upgrade, &headers));
    }
    let told: String = headers.iter().map(|(name, value)| format!("{name}: {}\n", text(value))).collect();
    let (status, pieces) = match path {
        // One byte at a time, so that every header is in pieces.
        "/error" => (StatusCode::UNAUTHORIZED, told.bytes().map(|byte| Bytes::from(vec![byte])).collect()),
        "/redirect" => (StatusCode::FOUND, vec![Bytes::from(told)]),
        "/large" => (StatusCode::OK, vec![Bytes::from(vec![b'x'; 64 << 10]); 256]),
        "/events" => return Ok(events()),
        _ => (StatusCode::OK, vec![Bytes::from(told)]),
    };
    let mut response = Response::new(body_of(pieces));
    *response.status_mut() = status;
    let answer = response.headers_mut();
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        answer.insert("x-echo", HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    if path == "/close" {
        answer.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer.insert(header::LOCATION, HeaderValue::from_static("https://elsewhere.example/"));
    answer.insert(header::ALT_SVC, HeaderValue::from_static("h3=\":443\""));
    Ok(response)
}

fn body_of(pieces: Vec<Bytes>) -> BoxBody<Bytes, std::io::Error> {
    BodyExt::boxed(StreamBody::new(stream::iter(pieces).map(|piece| Ok(Frame::data(piece)))))
}

/// Three events with time in between, the last without an end.
fn events() -> Answer {
    let events = stream::unfold(0, |number| async move {
        if number == 3 {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        Some((Ok(Frame::data(Bytes::from(format!("data: {number}\n\n")))), number + 1))
    });
    Response::new(BodyExt::boxed(StreamBody::new(events)))
}

/// Says which credential it got, then repeats what it is sent.
fn socket(upgrade: hyper::upgrade::OnUpgrade, headers: &HeaderMap) -> Answer {
    let greeting = headers.get(header::AUTHORIZATION).map(text).unwrap_or_default();
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        stream.write_all(format!("hello {greeting}\n").as_bytes()).await.unwrap();
        let mut bytes = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut bytes).await {
            stream.write_all(&bytes[..count]).await.unwrap();
        }
    });
    let mut response = Response::new(body_of(Vec::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response
}

fn text(value: &HeaderValue) -> String {
    value.to_str().unwrap().to_owned()
}
