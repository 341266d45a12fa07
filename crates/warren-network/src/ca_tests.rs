use std::os::unix::fs::PermissionsExt as _;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{ServerName, UnixTime};

use super::*;

fn host(text: &str) -> HostName {
    text.parse().unwrap()
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("ca");
    (data, path)
}

/// True if a client that trusts the authority alone believes its certificate for a host, at a time.
fn believes(authority: &Authority, certified: &CertifiedKey, host: &str, after: Duration) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_millis(unix_ms()) + after);
    let name = ServerName::try_from(host.to_owned()).unwrap();
    verifier.verify_server_cert(&certified.cert[0], &certified.cert[1..], &name, &[], now).is_ok()
}

#[test]
fn whoever_trusts_the_authority_believes_its_certificates_for_their_host_alone() {
    let (_data, path) = directory();
    let authority = Authority::open(&path).unwrap();
    let certified = authority.leaf(&host("api.example")).unwrap();
    assert!(believes(&authority, &certified, "api.example", Duration::ZERO));
    assert!(!believes(&authority, &certified, "other.example", Duration::ZERO));
    assert!(!believes(&authority, &certified, "www.api.example", Duration::ZERO));
    assert!(!believes(&authority, &certified, "api.example", DAY * 31));
    let other = Authority::open(&path.with_extension("other")).unwrap();
    assert!(!believes(&other, &certified, "api.example", Duration::ZERO));
    let long = format!("{}.example", ["a".repeat(60), "b".repeat(60), "c".repeat(60)].join("."));
    let certified = authority.leaf(&host(&long)).unwrap();
    assert!(believes(&authority, &certified, &long, Duration::ZERO));
}

#[test]
fn an_authority_is_made_once_and_its_key_is_its_owners_alone() {
    let (_data, path) = directory();
    let authority = Authority::open(&path).unwrap();
    let again = Authority::open(&path).unwrap();
    assert_eq!(authority.pem(), again.pem());
    let certified = again.leaf(&host("api.example")).unwrap();
    assert!(believes(&authority, &certified, "api.example", Duration::ZERO));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join(KEY)), 0o600);
    assert!(!authority.pem().contains("PRIVATE"));
}

#[test]
fn many_who_open_at_once_have_the_same_authority() {
    let (data, path) = directory();
    let pems: Vec<String> = std::thread::scope(|scope| {
        let open = || Authority::open(&path).unwrap().pem().to_owned();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(pems.iter().all(|pem| *pem == pems[0]));
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1, "no draft is left");
}

#[test]
fn what_is_damaged_is_refused_and_not_replaced() {
    let (data, path) = directory();
    drop(Authority::open(&path).unwrap());
    let other = data.path().join("other");
    drop(Authority::open(&other).unwrap());
    fs::copy(other.join(KEY), path.join(KEY)).unwrap();
    assert!(matches!(Authority::open(&path), Err(AuthorityError::OtherKey { .. })));
    fs::write(path.join(KEY), "").unwrap();
    assert!(matches!(Authority::open(&path), Err(AuthorityError::Malformed { .. })));
    fs::remove_file(path.join(KEY)).unwrap();
    assert!(matches!(Authority::open(&path), Err(AuthorityError::Read { .. })));
    assert!(!path.join(KEY).exists());
}

#[test]
fn certificates_are_kept_up_to_a_number_of_hosts() {
    let (_data, path) = directory();
    let authority = Authority::open(&path).unwrap();
    let first = authority.leaf(&host("api.example")).unwrap();
    assert!(Arc::ptr_eq(&first, &authority.leaf(&host("api.example")).unwrap()));
    let second = authority.leaf(&host("b.example")).unwrap();
    assert_ne!(first.cert[0], second.cert[0]);
    for number in 0..MOST_LEAVES {
        authority.leaf(&host(&format!("h{number}.example"))).unwrap();
    }
    assert_eq!(authority.leaves.lock().len(), MOST_LEAVES);
    assert!(!Arc::ptr_eq(&first, &authority.leaf(&host("api.example")).unwrap()));
}

#[test]
fn the_environment_names_files_that_every_sandbox_has() {
    let environment = environment();
    assert_eq!(environment.len(), 8);
    assert!(environment.iter().all(|entry| entry.split_once('=').unwrap().1.starts_with("/etc/warren/")));
}
