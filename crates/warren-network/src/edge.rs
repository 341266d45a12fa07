//! Secrets at the edge: a sandbox's requests get here what the sandbox itself must not have.
//!
//! A connection to a host that a secret is for, from a sandbox whose policy names that secret, is
//! not passed on but answered here, with a certificate of our own. Each request on it is looked at,
//! gets its secrets and goes on over a connection that we make ourselves, to a server that showed
//! the host's own certificate. What comes back is passed on as data, with what a secret says
//! blotted out.
//!
//! ```text
//!   sandbox ══ TLS, our certificate ══ intercept → exchange → inject ══ TLS, verified ══ host
//!                                                     ▲ secrets, read for every request
//! ```
//!
//! One connection from the sandbox has one to the host at a time, and both speak the same protocol.
//! If the name, the secret or the server's certificate is in doubt, the answer is 403 or 502, and
//! nothing of the request is sent.

mod answers;
mod authority;
mod bindings;
mod exchange;
mod inject;
mod scrub;
mod tasks;
mod upstream;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::server::{Acceptor, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use warren_core::HostName;
use warren_core::catalog::{CatalogError, SecretCatalog};
use warren_core::network::{Secret, SecretName};

use crate::book::{Book, Guest};
use crate::ca::{Authority, AuthorityError};
use bindings::Bindings;
use exchange::Exchange;
use tasks::Tasks;
use upstream::{H1, H2, Roots, RootsError, Upstream};

/// How long a client may take over its part of the greeting.
const GREETING: Duration = Duration::from_secs(10);

/// Dials the host. It checks each time that the policy allows the address.
pub(crate) type Dial =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> + Send + Sync>;

/// The parts of an edge.
pub(crate) struct EdgeParts {
    pub(crate) secrets: Arc<dyn SecretCatalog>,
    pub(crate) book: Arc<Book>,
    pub(crate) authority: Arc<Authority>,
    /// Trusted in servers besides what the machine trusts: a file of certificates.
    pub(crate) extra_ca: Option<PathBuf>,
}

/// Puts secrets into requests. One for all sandboxes.
pub(crate) struct Edge {
    secrets: Arc<dyn SecretCatalog>,
    book: Arc<Book>,
    authority: Arc<Authority>,
    roots: Arc<Roots>,
    bindings: Arc<Bindings>,
}

/// Why the edge cannot go on with a connection. It never tells a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EdgeError {
    #[error("read the sandbox's secrets")]
    Catalog(#[source] CatalogError),
    #[error("read the sandbox's secrets: the reader was stopped")]
    Stopped,
    #[error(
        "secret `{0}`, which the sandbox's policy names, is gone: set it again, or take it out of the policy"
    )]
    Gone(SecretName),
    #[error("secret `{0}` is no longer, or not yet, the sandbox's")]
    Changing(SecretName),
    #[error("no secret of the sandbox's is for this host any more")]
    Unbound,
    #[error("the connection does not name the host `{0}`")]
    OtherName(HostName),
    #[error("the client does not finish the greeting")]
    Slow,
    #[error("greet the client")]
    Greeting(#[source] io::Error),
    #[error("speak with the client")]
    Client(#[source] hyper::Error),
    #[error(transparent)]
    Authority(AuthorityError),
}

impl Edge {
    /// The machine's own certificates are read when the first server has to show one.
    pub(crate) fn new(parts: EdgeParts) -> Result<Self, RootsError> {
        let EdgeParts { secrets, book, authority, extra_ca } = parts;
        let roots = Arc::new(Roots::new(extra_ca.as_deref())?);
        Ok(Self { secrets, book, authority, roots, bindings: Arc::default() })
    }

    /// True if a secret that one of the guest's policies names is for this host and port. An error
    /// means that this is not known, and that the connection is to be refused.
    pub(crate) async fn binds(&self, guest: &Guest, host: &HostName, port: u16) -> Result<bool, EdgeError> {
        let names = named(guest);
        if names.is_empty() {
            return Ok(false);
        }
        let (owner, secrets) = (guest.owner.clone(), Arc::clone(&self.secrets));
        let records = blocking(move || secrets.secrets(&owner)).await?;
        Ok(!self.bindings.of(&guest.owner, &records, &names, (host, port))?.is_empty())
    }

    /// Serves a connection whose greeting names `host`, to its end; the greeting has not been read
    /// yet. To cut it, drop the future.
    pub(crate) async fn intercept<C>(
        self: &Arc<Self>,
        guest: &Arc<Guest>,
        host: &HostName,
        port: u16,
        client: C,
        dial: Dial,
    ) -> Result<(), EdgeError>
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let greeting = LazyConfigAcceptor::new(Acceptor::default(), client);
        let start = timeout(GREETING, greeting).await.map_err(|_| EdgeError::Slow)?;
        let start = start.map_err(EdgeError::Greeting)?;
        let hello = start.client_hello();
        if hello.server_name().and_then(|name| name.parse().ok()).as_ref() != Some(host) {
            return Err(EdgeError::OtherName(host.clone()));
        }
        let offered = offered(hello.alpn());
        let tasks = Tasks::default();
        let _cut = tasks.cut_on_drop();
        let upstream = Upstream::new(Arc::clone(&self.roots), host.clone(), dial, tasks.clone());
        // The host is asked first, so that both sides speak the same protocol. A failure is told in
        // answer to the requests.
        let failure = upstream.connect(&offered).await.err();
        let protocol = upstream.protocol().unwrap_or(offered[0]);
        let leaf = self.authority.leaf(host).map_err(EdgeError::Authority)?;
        let config = server_config(leaf, protocol)?;
        let stream = timeout(GREETING, start.into_stream(config)).await.map_err(|_| EdgeError::Slow)?;
        let stream = stream.map_err(EdgeError::Greeting)?;
        let exchange = Arc::new(Exchange {
            edge: Arc::clone(self),
            guest: Arc::clone(guest),
            host: host.clone(),
            port,
            upstream,
            failure: Mutex::new(failure),
            tasks,
            relay: Mutex::new(None),
        });
        exchange.serve(stream, protocol).await
    }

    /// The answer to a request over plain HTTP to a host that a secret is for.
    pub(crate) fn refuse_plain(host: &HostName, as_json: bool) -> http::Response<Full<Bytes>> {
        answers::plain(host, as_json)
    }

    /// The secrets for a host, with their values, all of them the guest's without doubt.
    async fn secrets_for(&self, guest: &Guest, host: &HostName, port: u16) -> Result<Vec<Secret>, EdgeError> {
        let policies = Arc::clone(&guest.policies.borrow());
        let (names, bindings) = (named(guest), Arc::clone(&self.bindings));
        let (owner, secrets, host) = (guest.owner.clone(), Arc::clone(&self.secrets), host.clone());
        let close_to = host.clone();
        let found = blocking(move || {
            let records = secrets.secrets(&owner)?;
            let meant = match bindings.of(&owner, &records, &names, (&host, port)) {
                Ok(meant) => meant,
                Err(error) => return Ok(Err(error)),
            };
            let whole = meant.into_iter().map(|name| Ok((secrets.secret(&owner, &name)?, name)));
            whole.collect::<Result<Vec<_>, CatalogError>>().map(Ok)
        });
        let mut whole = Vec::new();
        for (secret, name) in found.await?? {
            if !policies.iter().all(|policy| policy.secrets.contains(&name)) {
                return Err(EdgeError::Changing(name));
            }
            whole.push(secret.ok_or(EdgeError::Gone(name))?);
        }
        inject::keep_closest(&mut whole, &close_to);
        if whole.is_empty() { Err(EdgeError::Unbound) } else { Ok(whole) }
    }
}

/// Every secret that some policy of the guest names.
fn named(guest: &Guest) -> BTreeSet<SecretName> {
    let policies = Arc::clone(&guest.policies.borrow());
    policies.iter().flat_map(|policy| policy.secrets.iter().cloned()).collect()
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, CatalogError> + Send + 'static,
) -> Result<T, EdgeError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(answer) => answer.map_err(EdgeError::Catalog),
        Err(_) => Err(EdgeError::Stopped),
    }
}

/// The protocols that both the client and we speak, best first. A client that names none speaks
/// HTTP/1.1.
fn offered<'a>(alpn: Option<impl Iterator<Item = &'a [u8]>>) -> Vec<&'static [u8]> {
    let wanted: Vec<&[u8]> = alpn.map(Iterator::collect).unwrap_or_default();
    let both: Vec<&'static [u8]> =
        [H2, H1].into_iter().filter(|protocol| wanted.contains(protocol)).collect();
    if both.is_empty() { vec![H1] } else { both }
}

fn server_config(leaf: Arc<CertifiedKey>, protocol: &[u8]) -> Result<Arc<ServerConfig>, EdgeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| EdgeError::Greeting(io::Error::other(source)))?;
    let resolver = Arc::new(SingleCertAndKey::from((*leaf).clone()));
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![protocol.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

impl EdgeError {
    /// With all its causes, in one line.
    pub(crate) fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge").finish_non_exhaustive()
    }
}

impl fmt::Debug for EdgeParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeParts").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
