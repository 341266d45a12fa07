use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use warren_core::{Host, HostName};

use super::{TlsError, TlsFiles, files};
use crate::private_file;

const CERT: &str = "ca.pem";
const KEY: &str = "ca-key.pem";

const LOCALHOST: &str = "localhost";

/// Where in its directory the certificate is.
pub(super) fn certificate(directory: &Path) -> PathBuf {
    directory.join(CERT)
}

/// Certificates that are kept. A client with more names than that waits a little for each.
const MOST_NAMES: usize = 1024;

const DAY: Duration = Duration::from_secs(86_400);
/// As long as browsers take one for.
const LEAF_DAYS: u32 = 90;
const AUTHORITY_DAYS: u32 = 3650;
/// A certificate is replaced so long before its end.
const RENEWED_DAYS: u32 = 30;

/// The local authority. It signs for a name when somebody asks for it.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    domain: HostName,
    /// One key for all of them: they are all ours.
    key: KeyPair,
    leaves: Mutex<HashMap<String, Leaf>>,
}

struct Leaf {
    certified: Arc<CertifiedKey>,
    made: SystemTime,
}

impl Authority {
    pub(super) fn open(directory: &Path, domain: &HostName) -> Result<Self, TlsError> {
        let (cert, key) = (directory.join(CERT), directory.join(KEY));
        if !cert.exists() {
            return Err(TlsError::Nothing);
        }
        let unusable = |path: &Path, error: rcgen::Error| TlsError::Unusable {
            path: path.to_owned(),
            source: error.into(),
        };
        let text = |path: &Path| files::bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let signing = KeyPair::from_pem(&text(&key)?).map_err(|error| unusable(&key, error))?;
        let issuer =
            Issuer::from_ca_cert_pem(&text(&cert)?, signing).map_err(|error| unusable(&cert, error))?;
        let key = KeyPair::generate().map_err(|error| TlsError::Make(error.into()))?;
        let authority = Self { issuer, domain: domain.clone(), key, leaves: Mutex::default() };
        // What it cannot sign now it never can.
        authority.sign(LOCALHOST).map_err(TlsError::Make)?;
        Ok(authority)
    }

    fn leaf(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let mut leaves = self.leaves.lock();
        let age = DAY * (LEAF_DAYS - RENEWED_DAYS);
        let fresh = |leaf: &&Leaf| leaf.made.elapsed().is_ok_and(|elapsed| elapsed < age);
        if let Some(leaf) = leaves.get(name).filter(fresh) {
            return Some(Arc::clone(&leaf.certified));
        }
        let certified = Arc::new(self.sign(name).ok()?);
        if leaves.len() >= MOST_NAMES {
            leaves.clear();
        }
        leaves.insert(name.to_owned(), Leaf { certified: Arc::clone(&certified), made: SystemTime::now() });
        Some(certified)
    }

    fn sign(&self, name: &str) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
        let mut names = vec![name.to_owned()];
        if name == LOCALHOST {
            names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
        }
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named(name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        last(&mut params, LEAF_DAYS);
        let cert = params.signed_by(&self.key, &self.issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let chain: Vec<CertificateDer<'static>> = vec![cert.der().clone()];
        Ok(CertifiedKey::new(chain, ring::sign::any_supported_type(&key)?))
    }

    /// The name to sign for: one of ours, or `localhost` for a client that names none.
    fn name(&self, asked: Option<&str>) -> Option<String> {
        let Some(asked) = asked else { return Some(LOCALHOST.to_owned()) };
        let Ok(Host::Name(name)) = asked.parse() else { return None };
        let local: HostName = LOCALHOST.parse().ok()?;
        let ours = [&self.domain, &local].into_iter().any(|domain| name == *domain || name.is_below(domain));
        ours.then(|| name.as_str().to_owned())
    }
}

impl ResolvesServerCert for Authority {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.leaf(&self.name(hello.server_name())?)
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("domain", &self.domain).finish_non_exhaustive()
    }
}

/// Makes the authority.
pub(super) fn init(directory: &Path, domain: &HostName, anew: bool) -> Result<TlsFiles, TlsError> {
    let (cert, key) = (directory.join(CERT), directory.join(KEY));
    if cert.exists() && !anew {
        return Ok(TlsFiles { authority: cert, kept: true });
    }
    let (signed, signing) = make(domain).map_err(|error| TlsError::Make(error.into()))?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Write { path, source }
    };
    private_file::make_directory(directory).map_err(failed(directory))?;
    // An authority without its key would look like one that can sign.
    drop(fs::remove_file(&cert));
    private_file::write(&key, &signing).map_err(failed(&key))?;
    private_file::write(&cert, &signed).map_err(failed(&cert))?;
    Ok(TlsFiles { authority: cert, kept: false })
}

fn make(domain: &HostName) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named("Warren local authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let names = [LOCALHOST, domain.as_str()].map(|name| GeneralSubtree::DnsName(name.to_owned()));
    let loopback = [("127.0.0.0", 8), ("::1", 128)].into_iter().filter_map(|(address, prefix)| {
        address
            .parse()
            .ok()
            .map(|address| GeneralSubtree::IpAddress(rcgen::CidrSubnet::from_addr_prefix(address, prefix)))
    });
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: names.into_iter().chain(loopback).collect(),
        excluded_subtrees: Vec::new(),
    });
    last(&mut params, AUTHORITY_DAYS);
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    // No longer text fits there; the alternative names are what counts.
    distinguished.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    distinguished
}

/// From yesterday, for those whose clocks are late.
fn last(params: &mut CertificateParams, days: u32) {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = rcgen::date_time_ymd(1970, 1, 1) + since_epoch;
    (params.not_before, params.not_after) = (now - DAY, now + DAY * days);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> (tempfile::TempDir, Authority) {
        let directory = tempfile::tempdir().unwrap();
        let domain: HostName = "preview.example".parse().unwrap();
        assert!(matches!(Authority::open(directory.path(), &domain), Err(TlsError::Nothing)));
        assert!(!init(directory.path(), &domain, false).unwrap().kept);
        let authority = Authority::open(directory.path(), &domain).unwrap();
        (directory, authority)
    }

    #[test]
    fn it_signs_for_names_of_ours_and_remembers_a_bounded_number() {
        let (_directory, authority) = made();
        for (asked, name) in [
            (None, Some("localhost")),
            (Some("LOCALHOST"), Some("localhost")),
            (Some("80-x.localhost"), Some("80-x.localhost")),
            (Some("80-x.preview.example"), Some("80-x.preview.example")),
            (Some("preview.example"), Some("preview.example")),
            (Some("example"), None),
            (Some("notpreview.example"), None),
            (Some("203.0.113.1"), None),
        ] {
            assert_eq!(authority.name(asked).as_deref(), name, "{asked:?}");
        }
        let first = authority.leaf("a.localhost").unwrap();
        assert!(Arc::ptr_eq(&first, &authority.leaf("a.localhost").unwrap()));
        for number in 0..MOST_NAMES + 10 {
            authority.leaf(&format!("{number}.localhost")).unwrap();
        }
        assert!(authority.leaves.lock().len() <= MOST_NAMES);
    }

    #[test]
    fn it_is_made_once_for_root_alone_and_anew_if_asked() {
        use std::os::unix::fs::PermissionsExt as _;
        let (directory, _) = made();
        let domain: HostName = "preview.example".parse().unwrap();
        let key = directory.path().join(KEY);
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        let before = fs::read(&key).unwrap();
        assert!(init(directory.path(), &domain, false).unwrap().kept);
        assert_eq!(fs::read(&key).unwrap(), before);
        assert!(!init(directory.path(), &domain, true).unwrap().kept);
        assert_ne!(fs::read(&key).unwrap(), before);
    }
}
