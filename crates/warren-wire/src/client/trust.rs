//! The authorities that vouch for servers that speak TLS.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::ClientError;

/// The authorities that are believed.
#[derive(Debug, Clone)]
pub struct Trust {
    authorities: Arc<Vec<CertificateDer<'static>>>,
    /// For connections that are not calls.
    config: Arc<ClientConfig>,
}

impl Trust {
    /// The authorities that this machine trusts.
    pub fn of_machine() -> Result<Self, ClientError> {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            let text = "this machine trusts no authority, so no https server can be believed";
            return Err(ClientError::Trust(text.to_owned()));
        }
        Self::new(found.certs)
    }

    /// The authorities of a text in the form PEM, and no others.
    pub fn only(pem: &[u8]) -> Result<Self, ClientError> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let found = found.map_err(|error| ClientError::Trust(format!("read certificates: {error}")))?;
        if found.is_empty() {
            return Err(ClientError::Trust("there is no certificate in it".to_owned()));
        }
        let trust = Self::new(found)?;
        Ok(trust)
    }

    fn new(authorities: Vec<CertificateDer<'static>>) -> Result<Self, ClientError> {
        let mut roots = RootCertStore::empty();
        let (used, _) = roots.add_parsable_certificates(authorities.iter().cloned());
        if used == 0 {
            return Err(ClientError::Trust("no certificate in it can be used".to_owned()));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Trust(format!("set up TLS: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { authorities: Arc::new(authorities), config: Arc::new(config) })
    }

    pub(super) fn of_connections(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The same for requests of `ureq`.
    pub fn of_calls(&self) -> TlsConfig {
        let roots: Vec<_> =
            self.authorities.iter().map(|found| Certificate::from_der(found).to_owned()).collect();
        TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vouches_for_nobody_is_refused() {
        let broken = b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n";
        let nonsense = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in [b"".as_slice(), b"text", broken, nonsense] {
            assert!(matches!(Trust::only(text), Err(ClientError::Trust(_))), "{text:?}");
        }
    }
}
