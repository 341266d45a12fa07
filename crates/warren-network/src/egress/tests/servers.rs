//! The world's side.

use std::sync::atomic::{AtomicU8, AtomicUsize};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::*;

/// A server that counts who comes.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) visitors: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) fn visitors(&self) -> usize {
        self.visitors.load(Ordering::SeqCst)
    }

    /// Waits until so many have come.
    pub(super) async fn visited_by(&self, count: usize) {
        let coming = async {
            while self.visitors() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, coming).await.expect("they come");
    }
}

/// Every server has an address of its own.
fn next_address() -> IpAddr {
    static LAST: AtomicU8 = AtomicU8::new(1);
    [127, 0, 1, 1 + LAST.fetch_add(1, Ordering::Relaxed) % 120].into()
}

pub(super) async fn serve<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Server
where
    F: Future<Output = ()> + Send + 'static,
{
    serve_at(SocketAddr::new(next_address(), 0), serve).await
}

pub(super) async fn serve_at<F>(
    address: SocketAddr,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> Server
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let visitors = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visitors);
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            stream.set_nodelay(true).unwrap();
            tokio::spawn(serve(stream));
        }
    });
    Server { address, visitors, task }
}

/// Says everything back, and ends when the other side does.
pub(super) async fn echo() -> Server {
    serve(|mut stream| async move {
        let (mut read, mut write) = stream.split();
        drop(tokio::io::copy(&mut read, &mut write).await);
        drop(write.shutdown().await);
    })
    .await
}

/// Speaks first.
pub(super) async fn banner(text: &'static [u8]) -> Server {
    serve(move |mut stream| async move {
        drop(stream.write_all(text).await);
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
    })
    .await
}

/// Speaks TLS for these names and says everything back.
pub(super) async fn tls(names: &[&str]) -> Server {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    serve(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let (mut read, mut write) = tokio::io::split(stream);
            drop(tokio::io::copy(&mut read, &mut write).await);
            drop(write.shutdown().await);
        }
    })
    .await
}

/// Answers every request with what it asked: method, target and host, and with the request's body.
pub(super) async fn http() -> Server {
    http_by(|request| async move {
        let (parts, body) = request.into_parts();
        let host = parts.headers.get("host").map_or("-", |host| host.to_str().unwrap_or("?"));
        let host = parts.uri.authority().map_or(host, |authority| authority.as_str());
        let head = format!("{} {} for {host}; ", parts.method, parts.uri.path());
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        ::http::Response::new(http_body_util::Full::from([head.as_bytes(), &body].concat()))
    })
    .await
}

/// Answers requests, of either HTTP, as it is told to.
pub(super) async fn http_by<F, B>(
    answer: impl Fn(::http::Request<hyper::body::Incoming>) -> F + Clone + Send + 'static,
) -> Server
where
    F: Future<Output = ::http::Response<B>> + Send + 'static,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    use hyper_util::rt::{TokioExecutor, TokioIo};
    serve(move |stream| {
        let answer = answer.clone();
        async move {
            let service = hyper::service::service_fn(move |request| {
                let answering = answer(request);
                async move { Ok::<_, std::convert::Infallible>(answering.await) }
            });
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            drop(builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await);
        }
    })
    .await
}
