//! The connection to the host: dialled by us, and believed only with a certificate that the machine
//! trusts.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use warren_core::HostName;

use super::Dial;
use super::tasks::Tasks;

pub(super) const H1: &[u8] = b"http/1.1";
pub(super) const H2: &[u8] = b"h2";

/// How long a host may take over its part of the greeting.
const GREETING: Duration = Duration::from_secs(10);

/// Trusted authorities: the machine's own and the operator's.
pub(super) struct Roots {
    extra: Vec<CertificateDer<'static>>,
    all: OnceLock<Arc<RootCertStore>>,
}

/// The operator's file of certificates is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RootsError {
    #[error("read the certificates in `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` holds no certificate, or a damaged one", path.display())]
    Malformed { path: PathBuf },
}

/// Why nothing was sent to the host.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("the host cannot be reached")]
    Dial(#[source] io::Error),
    #[error("the host does not finish the greeting")]
    Slow,
    #[error("the host's certificate is not to be believed, or its greeting is broken")]
    Tls(#[source] io::Error),
    #[error("the host speaks another protocol than before")]
    Protocol,
    #[error("the host does not speak HTTP")]
    Http(#[source] hyper::Error),
    #[error("the machine's certificates cannot be used")]
    Config(#[source] rustls::Error),
}

/// One connection at a time, made again when the host has closed it.
pub(super) struct Upstream<B> {
    roots: Arc<Roots>,
    host: HostName,
    dial: Dial,
    tasks: Tasks,
    /// The protocol that was agreed on, once and for all.
    protocol: OnceLock<&'static [u8]>,
    line: Mutex<Option<Line<B>>>,
}

enum Line<B> {
    One(http1::SendRequest<B>),
    Two(http2::SendRequest<B>),
}

impl Roots {
    pub(super) fn new(extra: Option<&Path>) -> Result<Self, RootsError> {
        let extra = extra.map(certificates).transpose()?.unwrap_or_default();
        Ok(Self { extra, all: OnceLock::new() })
    }

    fn all(&self) -> Arc<RootCertStore> {
        let load = || {
            let mut roots = RootCertStore::empty();
            // Certificates that cannot be read are not believed, and that is all there is to it.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots.add_parsable_certificates(self.extra.iter().cloned());
            Arc::new(roots)
        };
        Arc::clone(self.all.get_or_init(load))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, RootsError> {
    let text = fs::read(path).map_err(|source| RootsError::Read { path: path.to_owned(), source })?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = read.ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| RootsError::Malformed { path: path.to_owned() })
}

impl<B> Upstream<B>
where
    B: hyper::body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub(super) fn new(roots: Arc<Roots>, host: HostName, dial: Dial, tasks: Tasks) -> Self {
        Self { roots, host, dial, tasks, protocol: OnceLock::new(), line: Mutex::new(None) }
    }

    /// The protocol that was agreed on at the first connection.
    pub(super) fn protocol(&self) -> Option<&'static [u8]> {
        self.protocol.get().copied()
    }

    /// Makes the first connection, with whichever of the protocols the host likes best.
    pub(super) async fn connect(&self, protocols: &[&'static [u8]]) -> Result<(), UpstreamError> {
        let line = self.open(protocols).await?;
        *self.line.lock().await = Some(line);
        Ok(())
    }

    /// Sends a request, over a new connection if the host has closed the one there was before
    /// anything was sent on it.
    pub(super) async fn send(&self, request: Request<B>) -> Result<Response<Incoming>, UpstreamError> {
        let unsent = match self.send_once(request).await {
            Ok(answer) => return Ok(answer),
            Err((error, None)) => return Err(error),
            Err((_, Some(unsent))) => *unsent,
        };
        *self.line.lock().await = None;
        self.send_once(unsent).await.map_err(|(error, _)| error)
    }

    /// On failure the request is given back if nothing of it was sent.
    async fn send_once(
        &self,
        request: Request<B>,
    ) -> Result<Response<Incoming>, (UpstreamError, Option<Box<Request<B>>>)> {
        let mut line = self.line.lock().await;
        let mut open = match line.take().filter(Line::is_open) {
            Some(open) => open,
            None => match self.open(&[self.protocol().unwrap_or(H1)]).await {
                Ok(opened) => opened,
                Err(error) => return Err((error, None)),
            },
        };
        let sent = match &mut open {
            // The lock is held until the answer begins: on such a connection there is one request
            // at a time.
            Line::One(sender) => {
                let ready = sender.ready().await;
                let sent = match ready {
                    Ok(()) => sender.try_send_request(request).await,
                    Err(error) => return Err((UpstreamError::Http(error), Some(Box::new(request)))),
                };
                *line = Some(open);
                sent
            }
            Line::Two(sender) => {
                let mut sender = sender.clone();
                *line = Some(open);
                drop(line);
                sender.try_send_request(request).await
            }
        };
        sent.map_err(|mut error| {
            let unsent = error.take_message().map(Box::new);
            (UpstreamError::Http(error.into_error()), unsent)
        })
    }

    async fn open(&self, protocols: &[&'static [u8]]) -> Result<Line<B>, UpstreamError> {
        let stream = (self.dial)().await.map_err(UpstreamError::Dial)?;
        // Small requests must not wait for more; without it they are only slower.
        drop(stream.set_nodelay(true));
        let connector = TlsConnector::from(Arc::new(self.config(protocols)?));
        let name = ServerName::try_from(self.host.to_string())
            .map_err(|error| UpstreamError::Tls(io::Error::other(error)))?;
        let greeted = timeout(GREETING, connector.connect(name, stream)).await;
        let stream = greeted.map_err(|_| UpstreamError::Slow)?.map_err(UpstreamError::Tls)?;
        let agreed = if stream.get_ref().1.alpn_protocol() == Some(H2) { H2 } else { H1 };
        if !protocols.contains(&agreed) || *self.protocol.get_or_init(|| agreed) != agreed {
            return Err(UpstreamError::Protocol);
        }
        if agreed == H2 { self.greet_two(stream).await } else { self.greet_one(stream).await }
    }

    async fn greet_one<S>(&self, stream: S) -> Result<Line<B>, UpstreamError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.preserve_header_case(true).title_case_headers(true);
        let shaken = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(UpstreamError::Http)?;
        // Every request on a connection learns how it ends.
        self.tasks.spawn(async move { drop(connection.with_upgrades().await) });
        Ok(Line::One(sender))
    }

    async fn greet_two<S>(&self, stream: S) -> Result<Line<B>, UpstreamError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let shaken = http2::Builder::new(self.tasks.clone()).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(UpstreamError::Http)?;
        self.tasks.spawn(async move { drop(connection.await) });
        Ok(Line::Two(sender))
    }

    fn config(&self, protocols: &[&'static [u8]]) -> Result<ClientConfig, UpstreamError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(UpstreamError::Config)?;
        let mut config = builder.with_root_certificates(self.roots.all()).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

impl<B> Line<B> {
    fn is_open(&self) -> bool {
        match self {
            Self::One(sender) => !sender.is_closed(),
            Self::Two(sender) => !sender.is_closed(),
        }
    }
}

impl<B> fmt::Debug for Upstream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("host", &self.host).finish_non_exhaustive()
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roots").finish_non_exhaustive()
    }
}
