//! The HTTP client: who is believed, how long is waited, and which addresses are not dialled.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, config::Config};
use warren_core::network::closed;

const CONNECT: Duration = Duration::from_secs(15);
/// How long a registry may take to begin its answer.
const ANSWER: Duration = Duration::from_secs(60);
/// How long it may send nothing in the middle of one.
const SILENCE: Duration = Duration::from_secs(60);

/// The authorities that the settings name cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("read the certificates of `images.extra_ca`")]
    Pem(#[source] rustls::pki_types::pem::Error),
}

/// A name that nobody vouched for leads into this machine's own networks.
#[derive(Debug, thiserror::Error)]
#[error("`{host}` has no public address: name it in `images.plain_http` or `images.mirrors` if you trust it")]
pub(crate) struct ClosedAddress {
    host: String,
}

/// Resolves names, and leaves out what is closed to strangers.
#[derive(Debug)]
struct Gate {
    machine: DefaultResolver,
    /// Hosts that may be anywhere.
    named: HashSet<String>,
}

impl Resolver for Gate {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.machine.resolve(uri, config, timeout)?;
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        if self.named.contains(&host) {
            return Ok(found);
        }
        let mut open = self.empty();
        for address in found.iter().filter(|address| closed(address.ip(), address.port(), &[]).is_none()) {
            open.push(*address);
        }
        if open.is_empty() { Err(ureq::Error::Other(Box::new(ClosedAddress { host }))) } else { Ok(open) }
    }
}

/// A client that follows no redirects by itself. `named` are hosts that may be anywhere.
pub(crate) fn make(extra_ca: Option<&[u8]>, named: HashSet<String>) -> Result<Agent, TrustError> {
    let mut believed = rustls_native_certs::load_native_certs().certs;
    for certificate in extra_ca.into_iter().flat_map(CertificateDer::pem_slice_iter) {
        believed.push(certificate.map_err(TrustError::Pem)?);
    }
    let roots: Vec<_> = believed.iter().map(|found| Certificate::from_der(found).to_owned()).collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .timeout_per_read(Some(SILENCE))
        .user_agent(concat!("warren/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build();
    let gate = Gate { machine: DefaultResolver::default(), named };
    Ok(Agent::with_parts(config, DefaultConnector::default(), gate))
}

/// The host of `HOST` or `HOST:PORT`, as addresses have it.
pub(crate) fn host_of(authority: &str) -> String {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    host.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_port() {
        assert_eq!(host_of("LOCALHOST:5000"), "localhost");
        assert_eq!(host_of("[::1]:5000"), "[::1]");
        assert_eq!(host_of("[::1]"), "[::1]");
        assert_eq!(host_of("a.b"), "a.b");
    }

    #[test]
    fn a_stranger_is_not_led_inside() {
        let agent = make(None, HashSet::from(["localhost".to_owned()])).unwrap();
        let refused = agent.get("http://127.0.0.1:1/").call().unwrap_err();
        assert!(matches!(&refused, ureq::Error::Other(error) if error.is::<ClosedAddress>()), "{refused:?}");
        let dialled = agent.get("http://localhost:1/").call().unwrap_err();
        assert!(matches!(dialled, ureq::Error::Io(_) | ureq::Error::ConnectionFailed), "{dialled:?}");
    }
}
