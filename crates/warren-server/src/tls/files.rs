use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::TlsError;

/// How often it is looked whether somebody renewed the files.
const LOOK: Duration = Duration::from_secs(5);

/// A certificate and its key in two files, which are read again when they have changed.
#[derive(Debug)]
pub(super) struct Files {
    cert: PathBuf,
    key: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    certified: Arc<CertifiedKey>,
    looked: Instant,
    changed: Changed,
}

/// When the two files were last written.
type Changed = [Option<SystemTime>; 2];

impl Files {
    pub(super) fn open(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let changed = changed(cert, key);
        let held = Held { certified: Arc::new(read(cert, key)?), looked: Instant::now(), changed };
        Ok(Self { cert: cert.to_owned(), key: key.to_owned(), held: Mutex::new(held) })
    }

    fn current(&self) -> Arc<CertifiedKey> {
        let mut held = self.held.lock();
        if held.looked.elapsed() >= LOOK {
            held.looked = Instant::now();
            self.renew(&mut held);
        }
        Arc::clone(&held.certified)
    }

    /// Reads the files again. A file that is half written or wrong does not replace what works.
    fn renew(&self, held: &mut Held) {
        let changed = changed(&self.cert, &self.key);
        if changed == held.changed {
            return;
        }
        match read(&self.cert, &self.key) {
            Ok(certified) => {
                (held.certified, held.changed) = (Arc::new(certified), changed);
                tracing::info!("the certificate was renewed");
            }
            Err(error) => {
                let error = warren_face::error::chain(&error);
                tracing::warn!(error, "the certificate has changed and cannot be used; the last one is");
            }
        }
    }
}

impl ResolvesServerCert for Files {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

fn changed(cert: &Path, key: &Path) -> Changed {
    [cert, key].map(|path| fs::metadata(path).and_then(|data| data.modified()).ok())
}

fn read(cert: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let unusable = |path: &Path| {
        let path = path.to_owned();
        move |source: Box<dyn std::error::Error + Send + Sync>| TlsError::Unusable { path, source }
    };
    let chain = CertificateDer::pem_slice_iter(&bytes(cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(cert)(error.into()))?;
    let private = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|error| unusable(key)(error.into()))?;
    let signing = ring::sign::any_supported_type(&private).map_err(|error| unusable(key)(error.into()))?;
    let certified = CertifiedKey::new(chain, signing);
    certified.keys_match().map_err(|error| unusable(cert)(error.into()))?;
    Ok(certified)
}

/// A file's content.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, name: &str) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    }

    #[test]
    fn a_certificate_that_was_renewed_is_used_and_a_broken_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
        assert!(matches!(Files::open(&cert, &key), Err(TlsError::Read { .. })));
        let first = write(directory.path(), "a.example");
        let files = Files::open(&cert, &key).unwrap();
        assert_eq!(files.current().cert, std::slice::from_ref(&first));
        let look = || {
            let mut held = files.held.lock();
            held.changed = [None, None];
            files.renew(&mut held);
            held.certified.cert.clone()
        };
        let second = write(directory.path(), "b.example");
        assert_ne!(first, second);
        assert_eq!(look(), std::slice::from_ref(&second));
        fs::write(&key, "nothing").unwrap();
        assert_eq!(look(), [second]);
        assert!(matches!(Files::open(&cert, &key), Err(TlsError::Unusable { .. })));
    }
}
