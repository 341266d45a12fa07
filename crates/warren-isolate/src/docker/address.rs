//! Where an engine is, and how it is reached: by a socket of this machine, or over TLS on another
//! one, where each side proves who it is.

use std::fmt;
use std::io;
use std::net::{IpAddr, TcpStream as Knock, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use http::header::{HOST, HeaderValue};
use http::uri::{PathAndQuery, Uri};
use hyper::Response;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long another machine may take to answer at all.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// A machine that says nothing for so long although it is asked is gone.
const SILENCE: Duration = Duration::from_secs(20);
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Where engines listen that ask for certificates.
const USUAL_PORT: u16 = 2376;

/// Where an engine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAddress {
    /// The socket of one on this machine.
    Socket(PathBuf),
    Far(FarEngine),
}

/// An engine on another machine, or one that is reached as if it were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarEngine {
    pub at: FarAddress,
    /// A directory with `ca.pem`, `cert.pem` and `key.pem`. Without one the engine has to be behind
    /// a loopback address, such as the end of a tunnel.
    pub certificates: Option<PathBuf>,
}

/// A host and a port, written `tcp://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarAddress {
    host: String,
    port: u16,
}

/// A text that is no address of an engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address of a Docker engine: write `tcp://HOST:PORT`")]
pub struct WrongAddress(String);

impl FromStr for FarAddress {
    type Err = WrongAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || WrongAddress(text.to_owned());
        let rest = text.strip_prefix("tcp://").ok_or_else(wrong)?;
        let known = rest.parse::<http::uri::Authority>().map_err(|_| wrong())?;
        let host = known.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = Self { host, port: known.port_u16().unwrap_or(USUAL_PORT) };
        // No user, no colon without a port, and no port that is none.
        let shown = address.to_string();
        let whole = shown == text || shown == format!("{text}:{USUAL_PORT}");
        let named = ServerName::try_from(address.host.as_str()).is_ok();
        if whole && named { Ok(address) } else { Err(wrong()) }
    }
}

impl fmt::Display for FarAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "tcp://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "tcp://{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Far(engine) => engine.at.fmt(f),
        }
    }
}

/// A way to an engine.
#[derive(Clone)]
pub(super) enum Way {
    Socket(PathBuf),
    Far(Arc<Far>),
}

pub(super) struct Far {
    address: FarAddress,
    /// Absent on a way that does not leave this machine.
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Way({self})")
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Far(far) => far.address.fmt(f),
        }
    }
}

impl Way {
    /// Reads the certificates, if there are any. The engine need not be there.
    pub(super) fn to(address: &EngineAddress) -> Result<Self, String> {
        let engine = match address {
            EngineAddress::Socket(path) => return Ok(Self::Socket(path.clone())),
            EngineAddress::Far(engine) => engine,
        };
        let FarAddress { host, .. } = &engine.at;
        let tls = match &engine.certificates {
            Some(directory) => {
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                Some((TlsConnector::from(Arc::new(settings(directory)?)), name))
            }
            None if is_loopback(host) => None,
            None => {
                return Err(format!(
                    "`{}` can be listened to and changed on its way: name a directory with `ca.pem`, `cert.pem` \
                     and `key.pem` in `backends.docker_certificates`",
                    engine.at
                ));
            }
        };
        Ok(Self::Far(Arc::new(Far { address: engine.at.clone(), tls })))
    }

    pub(super) fn is_far(&self) -> bool {
        matches!(self, Self::Far(_))
    }

    /// Fails unless somebody takes calls there.
    pub(super) fn knock(&self) -> io::Result<()> {
        match self {
            Self::Socket(path) => UnixStream::connect(path).map(drop),
            Self::Far(far) => {
                let FarAddress { host, port } = &far.address;
                let mut last = io::Error::from(io::ErrorKind::NotFound);
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match Knock::connect_timeout(&address, CONNECT_PATIENCE) {
                        Ok(_) => return Ok(()),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    pub(super) fn docker(&self, patience_s: u64) -> Result<Docker, Error> {
        match self {
            Self::Socket(path) => {
                Docker::connect_with_unix(&path.to_string_lossy(), patience_s, API_DEFAULT_VERSION)
            }
            Self::Far(far) => {
                let (host, far) = (format!("http://{}", far.authority()), Arc::clone(far));
                let send = move |request| Arc::clone(&far).send(request);
                Docker::connect_with_custom_transport(send, Some(host), patience_s, API_DEFAULT_VERSION)
            }
        }
    }
}

impl Far {
    fn authority(&self) -> String {
        self.address.to_string().trim_start_matches("tcp://").to_owned()
    }

    /// Sends a request on a connection of its own.
    async fn send(self: Arc<Self>, mut request: BollardRequest) -> Result<Response<Incoming>, Error> {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        if let Ok(host) = HeaderValue::from_str(&self.authority()) {
            request.headers_mut().insert(HOST, host);
        }
        let late = || failed(io::ErrorKind::TimedOut.into());
        let connected = tokio::time::timeout(CONNECT_PATIENCE, self.connect()).await;
        let stream = connected.map_err(|_| late())?.map_err(failed)?;
        match &self.tls {
            None => exchange(stream, request).await,
            Some((tls, name)) => {
                let secured = tokio::time::timeout(CONNECT_PATIENCE, tls.connect(name.clone(), stream)).await;
                exchange(secured.map_err(|_| late())?.map_err(failed)?, request).await
            }
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
        stream.set_nodelay(true)?;
        // What waits for an answer for days finds out that a machine is gone.
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE)?;
        sockopt::set_tcp_user_timeout(&stream, u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX))?;
        Ok(stream)
    }
}

async fn exchange<S>(stream: S, request: BollardRequest) -> Result<Response<Incoming>, Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let lost = |error: hyper::Error| failed(io::Error::other(error));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // It ends with the answer, and says what is wrong there.
    drop(tokio::spawn(connection.with_upgrades()));
    sender.send_request(request).await.map_err(lost)
}

fn failed(err: io::Error) -> Error {
    Error::IOError { err }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Only who has a certificate of this authority is the engine, whatever else the machine trusts.
fn settings(directory: &Path) -> Result<ClientConfig, String> {
    let of = |name: &str, why: &dyn fmt::Display| format!("read `{}`: {why}", directory.join(name).display());
    let certificates = |name: &str| -> Result<Vec<CertificateDer<'static>>, String> {
        let read = CertificateDer::pem_file_iter(directory.join(name)).and_then(Iterator::collect);
        let read: Vec<_> = read.map_err(|error| of(name, &error))?;
        if read.is_empty() { Err(of(name, &"there is no certificate in it")) } else { Ok(read) }
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates("ca.pem")? {
        roots.add(authority).map_err(|error| of("ca.pem", &error))?;
    }
    let chain = certificates("cert.pem")?;
    let key =
        PrivateKeyDer::from_pem_file(directory.join("key.pem")).map_err(|error| of("key.pem", &error))?;
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| of("cert.pem", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_and_nothing_else() {
        let shown = |text: &str| text.parse::<FarAddress>().map(|address| address.to_string());
        assert_eq!(shown("tcp://build.example:2377").as_deref(), Ok("tcp://build.example:2377"));
        assert_eq!(shown("tcp://build.example").as_deref(), Ok("tcp://build.example:2376"));
        assert_eq!(shown("tcp://[::1]:2376").as_deref(), Ok("tcp://[::1]:2376"));
        for wrong in [
            "",
            "build.example:2376",
            "tcp://",
            "tcp://h:",
            "tcp://h:70000",
            "tcp://me@h:1",
            "tcp://h:1/x",
            "ssh://h",
        ] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_certificates_nothing_leaves_the_machine() {
        let engine =
            |text: &str| EngineAddress::Far(FarEngine { at: text.parse().unwrap(), certificates: None });
        assert!(Way::to(&engine("tcp://127.0.0.1:2375")).is_ok());
        let refused = Way::to(&engine("tcp://build.example:2375")).unwrap_err();
        assert!(refused.contains("backends.docker_certificates"), "{refused}");
    }
}
