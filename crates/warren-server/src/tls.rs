//! TLS for clients from outside: with a certificate from the configuration, or with those of a
//! local authority that this machine trusts.
//!
//! ```text
//! <data>/tls/ca.pem      the local authority, to be trusted by browsers; made by `warren tls init`
//! <data>/tls/ca-key.pem  its key, for root alone
//! ```
//!
//! The local authority signs a certificate for each name when somebody asks for it: clients do not
//! take one for `*.localhost`. It may sign for names below its domain and `localhost` only, and
//! says so itself, so that trusting it endangers no other site.

mod authority;
mod files;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::ResolvesServerCert;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use warren_core::HostName;

use self::authority::Authority;
use self::files::Files;
use crate::config::Config;

/// Speaks TLS. A clone is the same.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why it cannot.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "there is neither a certificate in the settings nor a local authority: run `warren tls init`, or set ports.cert and ports.key"
    )]
    Nothing,
    #[error("read `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` holds no certificate or key that can be used", path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("write `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("make a local authority")]
    Make(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("set up TLS")]
    Setup(#[source] rustls::Error),
}

/// Where `warren tls init` put what it made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// To be trusted.
    pub authority: PathBuf,
    /// It had been there before.
    pub kept: bool,
}

impl Tls {
    /// Reads what the settings name, or the local authority.
    pub fn open(config: &Config) -> Result<Self, TlsError> {
        let ports = &config.ports;
        let resolver: Arc<dyn ResolvesServerCert> = match (&ports.cert, &ports.key) {
            (Some(cert), Some(key)) => Arc::new(Files::open(cert, key)?),
            _ => Arc::new(Authority::open(&directory(&config.server.data_dir), &ports.domain)?),
        };
        let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Arc::new(server).into()))
    }

    /// Agrees on keys with the other end.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Makes a local authority for names below a domain, unless there is one. `anew` replaces it.
pub fn init_tls(data_dir: &Path, domain: &HostName, anew: bool) -> Result<TlsFiles, TlsError> {
    authority::init(&directory(data_dir), domain, anew)
}

/// The local authority's certificate, to be trusted.
pub(crate) fn authority_file(data_dir: &Path) -> PathBuf {
    authority::certificate(&directory(data_dir))
}

fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("tls")
}
