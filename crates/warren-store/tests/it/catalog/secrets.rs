use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rusqlite::Connection;
use warren_core::catalog::{CatalogErrorKind, SecretCatalog as _};
use warren_core::network::Secret;
use warren_core::{Owner, SecretName};
use warren_store::SqliteCatalog;
use warren_testkit::sample_secret;

const VALUE: &str = "k9-do-not-find-me-anywhere";

fn secret(name: &str) -> Secret {
    Secret { value: VALUE.to_owned(), ..sample_secret(name, 1) }
}

fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

/// A data directory with one secret, whose catalog was closed.
fn closed() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    catalog.put_secret(&Owner::first(), &secret("token")).unwrap();
    data
}

fn read(data: &Path) -> Result<Option<Secret>, CatalogErrorKind> {
    let catalog = SqliteCatalog::open(data).unwrap();
    catalog.secret(&Owner::first(), &name("token")).map_err(|error| error.kind)
}

fn put(data: &Path, name: &str) -> Result<(), CatalogErrorKind> {
    let catalog = SqliteCatalog::open(data).unwrap();
    catalog.put_secret(&Owner::first(), &secret(name)).map_err(|error| error.kind)
}

#[test]
fn no_file_holds_a_value_and_the_key_is_its_owners_alone() {
    let data = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    assert!(!data.path().join("secrets.key").exists(), "it is made when it is first needed");
    for number in 0..20 {
        catalog.put_secret(&Owner::first(), &secret(&format!("token-{number}"))).unwrap();
    }
    assert!(!format!("{:?}", secret("token")).contains(VALUE));
    let mut seen = 0;
    for entry in fs::read_dir(data.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        seen += bytes.len();
        assert!(!bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()));
    }
    assert!(seen > 4096, "the log was looked at too");
    let mode = fs::metadata(data.path().join("secrets.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn a_lost_key_is_an_error_and_never_replaced_while_secrets_exist() {
    let data = closed();
    let (key, aside) = (data.path().join("secrets.key"), data.path().join("aside"));
    fs::rename(&key, &aside).unwrap();
    assert_eq!(read(data.path()), Err(CatalogErrorKind::WrongKey));
    assert_eq!(put(data.path(), "token"), Err(CatalogErrorKind::WrongKey));
    assert_eq!(put(data.path(), "another"), Err(CatalogErrorKind::WrongKey));
    assert!(!key.exists(), "no new key");
    fs::rename(&aside, &key).unwrap();
    assert_eq!(read(data.path()), Ok(Some(secret("token"))));
}

#[test]
fn another_key_opens_nothing_and_seals_nothing() {
    let data = closed();
    let key = data.path().join("secrets.key");
    let right = fs::read(&key).unwrap();
    for wrong in [vec![7; 32], vec![7; 31], Vec::new()] {
        fs::write(&key, &wrong).unwrap();
        assert_eq!(read(data.path()), Err(CatalogErrorKind::WrongKey), "{} bytes", wrong.len());
        assert_eq!(put(data.path(), "another"), Err(CatalogErrorKind::WrongKey), "{} bytes", wrong.len());
    }
    fs::write(&key, &right).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(read(data.path()), Err(CatalogErrorKind::WrongKey), "others can read it");
}

#[test]
fn with_no_secret_left_a_new_key_may_come() {
    let data = closed();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    fs::remove_file(data.path().join("secrets.key")).unwrap();
    assert!(catalog.remove_secret(&Owner::first(), &name("token")).unwrap(), "removing needs no key");
    catalog.put_secret(&Owner::first(), &secret("token")).unwrap();
    assert_eq!(catalog.secret(&Owner::first(), &name("token")).unwrap(), Some(secret("token")));
}

/// An attacker who can write to the database but has no key must not be able to have a secret sent
/// elsewhere, or to somebody else's sandboxes.
#[test]
fn a_value_opens_only_with_its_owner_name_and_hosts() {
    let changes = [
        "UPDATE secrets SET record = replace(record, 'api.example', 'evil.example')",
        "UPDATE secrets SET owner = 'mallory'",
        "UPDATE secrets SET name = 'other', record = replace(record, '\"token\"', '\"other\"')",
        "UPDATE secrets SET sealed = zeroblob(length(sealed))",
    ];
    for change in changes {
        let data = closed();
        let changed = Connection::open(data.path().join("catalog.db")).unwrap().execute(change, []).unwrap();
        assert_eq!(changed, 1, "{change}");
        let catalog = SqliteCatalog::open(data.path()).unwrap();
        let owners = [Owner::first(), "mallory".parse().unwrap()];
        for (owner, name) in owners.iter().flat_map(|owner| [(owner, name("token")), (owner, name("other"))])
        {
            let opened = catalog.secret(owner, &name);
            assert!(!matches!(opened, Ok(Some(_))), "{change}");
        }
    }
}
