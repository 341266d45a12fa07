//! The authority that only sandboxes trust: the edge shows certificates of its making where it puts
//! secrets into requests.
//!
//! ```text
//! <data>/ca/ca.key    its key, readable by its owner alone
//! <data>/ca/ca.pem    its certificate, which sandboxes are given
//! ```
//!
//! Both appear at once, by the rename of their directory, so several processes may open one data
//! directory at the same time.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use warren_core::HostName;

use crate::book::unix_ms;

const KEY: &str = "ca.key";
const CERTIFICATE: &str = "ca.pem";

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long the authority's certificate is valid.
const YEARS: u32 = 10;
/// How long a host's certificate is valid, and for how much of that it is used.
const LEAF_VALID: Duration = Duration::from_secs(30 * 24 * 3600);
const LEAF_USED: Duration = Duration::from_secs(7 * 24 * 3600);
/// Certificates of hosts that are kept; the oldest go first.
const MOST_LEAVES: usize = 512;

/// Where a sandbox finds the authority's certificate, and all that the machine trusts together with
/// it.
const BUNDLE_INSIDE: &str = "/etc/warren/ca-bundle.pem";
const CERTIFICATE_INSIDE: &str = "/etc/warren/ca.pem";

/// A certificate authority of this data directory's own. May be used by any number of threads at
/// once.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    /// One key for all hosts' certificates, for as long as this process lives.
    leaf_key: KeyPair,
    leaves: Mutex<HashMap<HostName, Leaf>>,
}

#[derive(Clone)]
struct Leaf {
    certified: Arc<CertifiedKey>,
    made: Instant,
}

/// The authority could not be opened, made or used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` is not what Warren wrote there: remove the directory to have a new authority made", path.display())]
    Malformed { path: PathBuf, source: rcgen::Error },
    #[error("`{}` is not the key of the certificate beside it", path.display())]
    OtherKey { path: PathBuf },
    #[error("make a certificate for `{what}`")]
    Make { what: String, source: rcgen::Error },
    #[error("use a certificate for `{what}`")]
    Use { what: String, source: rustls::Error },
    #[error("ask the kernel for randomness")]
    Random(#[source] getrandom::Error),
}

/// Variables that have programs in a sandbox trust the authority, for programs that do not look
/// where the system keeps its certificates.
pub fn environment() -> Vec<String> {
    let bundle = [
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "PIP_CERT",
        "GIT_SSL_CAINFO",
        "CARGO_HTTP_CAINFO",
        "AWS_CA_BUNDLE",
    ];
    let bundle = bundle.iter().map(|name| format!("{name}={BUNDLE_INSIDE}"));
    bundle.chain([format!("NODE_EXTRA_CA_CERTS={CERTIFICATE_INSIDE}")]).collect()
}

impl Authority {
    /// Reads the authority of a directory, and makes one where there is none.
    pub fn open(directory: &Path) -> Result<Self, AuthorityError> {
        if !directory.exists() {
            make(directory)?;
        }
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).map_err(|source| AuthorityError::Read { path, source })
        };
        let (key, pem) = (read(KEY)?, read(CERTIFICATE)?);
        let malformed = |name: &str| {
            let path = directory.join(name);
            move |source| AuthorityError::Malformed { path, source }
        };
        let key = KeyPair::from_pem(&key).map_err(malformed(KEY))?;
        let not_pem = |_| malformed(CERTIFICATE)(rcgen::Error::CouldNotParseCertificate);
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(not_pem)?;
        if !holds(&certificate, key.public_key_raw()) {
            return Err(AuthorityError::OtherKey { path: directory.join(KEY) });
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(malformed(CERTIFICATE))?;
        let leaf_key = KeyPair::generate()
            .map_err(|source| AuthorityError::Make { what: "every host".to_owned(), source })?;
        Ok(Self { issuer, certificate, pem, leaf_key, leaves: Mutex::default() })
    }

    /// The certificate that sandboxes have to trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a host, with its key.
    pub(crate) fn leaf(&self, host: &HostName) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let fresh = |leaf: &Leaf| leaf.made.elapsed() < LEAF_USED;
        let known = self.leaves.lock().get(host).cloned();
        if let Some(leaf) = known.filter(fresh) {
            return Ok(leaf.certified);
        }
        let leaf = Leaf { certified: Arc::new(self.mint(host)?), made: Instant::now() };
        let mut leaves = self.leaves.lock();
        if leaves.len() >= MOST_LEAVES {
            let oldest = leaves.iter().min_by_key(|(_, leaf)| leaf.made).map(|(host, _)| host.clone());
            oldest.map(|host| leaves.remove(&host));
        }
        leaves.insert(host.clone(), leaf.clone());
        Ok(leaf.certified)
    }

    fn mint(&self, host: &HostName) -> Result<CertifiedKey, AuthorityError> {
        let failed = |source| AuthorityError::Make { what: host.to_string(), source };
        let mut params = CertificateParams::new([host.to_string()]).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        // Longer names than a common name may be are in the alternative names all the same.
        if host.as_str().len() <= 64 {
            params.distinguished_name.push(DnType::CommonName, host.as_str());
        }
        params.serial_number = Some(serial()?);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let now = Duration::from_millis(unix_ms());
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + now.saturating_sub(DAY);
        params.not_after = epoch + now + LEAF_VALID;
        let leaf = params.signed_by(&self.leaf_key, &self.issuer).map_err(failed)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())
            .map_err(|source| AuthorityError::Use { what: host.to_string(), source })
    }
}

/// True if the certificate is for this public key.
fn holds(certificate: &CertificateDer<'_>, public_key: &[u8]) -> bool {
    certificate.windows(public_key.len()).any(|window| window == public_key)
}

fn make(directory: &Path) -> Result<(), AuthorityError> {
    let failed = |source| AuthorityError::Make { what: "the authority".to_owned(), source };
    let key = KeyPair::generate().map_err(failed)?;
    let serial = serial()?;
    let bytes = serial.to_bytes();
    let number = HEXLOWER.encode(bytes.get(..4).unwrap_or(&bytes));
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Warren sandboxes {number}"));
    params.serial_number = Some(serial);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let now = Duration::from_millis(unix_ms());
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + DAY * (YEARS * 365 + YEARS / 4);
    let certificate = params.self_signed(&key).map_err(failed)?;
    let write = |source| AuthorityError::Write { path: directory.to_owned(), source };
    publish(directory, &number, &key.serialize_pem(), &certificate.pem()).map_err(write)
}

/// Another process may have made one meanwhile; then that one stays.
fn publish(directory: &Path, number: &str, key: &str, certificate: &str) -> io::Result<()> {
    let parent = directory.parent().unwrap_or_else(|| Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let draft = directory.with_extension(format!("new-{number}"));
    DirBuilder::new().mode(0o700).create(&draft)?;
    let filled = fill(&draft, key, certificate).and_then(|()| fs::rename(&draft, directory));
    if let Err(error) = filled {
        fs::remove_dir_all(&draft)?;
        return if directory.exists() { Ok(()) } else { Err(error) };
    }
    File::open(parent)?.sync_all()
}

fn fill(draft: &Path, key: &str, certificate: &str) -> io::Result<()> {
    for (name, text, mode) in [(KEY, key, 0o600), (CERTIFICATE, certificate, 0o644)] {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(draft.join(name))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    File::open(draft)?.sync_all()
}

fn serial() -> Result<SerialNumber, AuthorityError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(AuthorityError::Random)?;
    // A serial number is positive, and of a fixed length it has no zero in front.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "ca_tests.rs"]
mod tests;
