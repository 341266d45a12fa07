use rustls::ServerConfig;
use rustls::sign::SingleCertAndKey;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use warren_core::catalog::SecretCatalog;
use warren_core::network::{Injection, Secret, SecretRecord};
use warren_testkit::MemoryCatalog;

use super::super::hello::tests as greetings;
use super::*;
use crate::ca::Authority;
use crate::edge::EdgeParts;

const VALUE: &str = "real-secret-4f9d2c61";

#[tokio::test]
async fn where_nobody_can_read_secrets_nothing_that_may_need_one_passes() {
    let (stage, server) = (Stage::new(), servers::http().await);
    let guest = stage.guest(1, r#"{"mode": "public", "secrets": ["key"]}"#);
    let mut web = stage.connect(&guest, server.address).await;
    let answer = exchange(&mut web, b"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n", 12).await;
    assert_eq!(answer, b"HTTP/1.1 502");
    let mut tls = stage.connect(&guest, server.address).await;
    tls.write_all(&greetings::to(b"api.example")).await.unwrap();
    assert!(is_reset(&mut tls).await);
}

/// A stage where `key` is for `api.example`, whose server is trusted by a certificate in `data`.
fn stage(data: &TempDir) -> Stage {
    let (own, origin) = (data.path().join("ca"), data.path().join("origin/ca.pem"));
    let make = move |book: &Arc<Book>| {
        let catalog = MemoryCatalog::new();
        let record = SecretRecord {
            name: "key".parse().unwrap(),
            hosts: vec!["api.example".parse().unwrap()],
            injection: Injection::Header {
                header: "Authorization".to_owned(),
                template: "Bearer {}".to_owned(),
            },
            created_unix_ms: 1,
            changed_unix_ms: 1,
        };
        catalog.put_secret(&Owner::first(), &Secret { record, value: VALUE.to_owned() }).unwrap();
        let parts = EdgeParts {
            secrets: Arc::new(catalog),
            book: Arc::clone(book),
            authority: Arc::new(Authority::open(&own).unwrap()),
            extra_ca: Some(origin),
        };
        Arc::new(Edge::new(parts).unwrap())
    };
    Stage::set(Setting { edge: Some(Box::new(make)), ..Setting::default() })
}

/// The host that the secret is for: says whether it was given the secret.
async fn origin(data: &TempDir) -> servers::Server {
    let authority = Authority::open(&data.path().join("origin")).unwrap();
    let leaf = authority.leaf(&"api.example".parse().unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from((*leaf).clone())));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    servers::serve(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return };
                head.push(byte);
            }
            let is_given = String::from_utf8(head).unwrap().contains(&format!("Bearer {VALUE}"));
            let word = if is_given { "given" } else { "empty" };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{word}");
            drop(stream.write_all(answer.as_bytes()).await);
        }
    })
    .await
}

const POLICY: &str = r#"{"mode": "public", "secrets": ["key"]}"#;

#[tokio::test]
async fn a_host_that_a_secret_is_for_gets_it_and_others_are_passed_on() {
    let data = tempfile::tempdir().unwrap();
    let (server, other) = (origin(&data).await, servers::tls(&["other.example"]).await);
    let stage = stage(&data);
    let guest = stage.guest(1, POLICY);
    let mut client = tls::greet(stage.connect(&guest, server.address).await, "api.example").await.unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: api.example\r\nAuthorization: mine\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, client.read_to_end(&mut answer)).await.unwrap().ok();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("given"), "{answer}");
    let mut passed = tls::greet(stage.connect(&guest, other.address).await, "other.example").await.unwrap();
    passed.write_all(b"hello").await.unwrap();
    assert_eq!(passed.read_u8().await.unwrap(), b'h', "not ours to look into");
    drop((client, passed));
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn what_could_be_read_on_the_way_gets_no_secret() {
    let data = tempfile::tempdir().unwrap();
    let server = origin(&data).await;
    let stage = stage(&data);
    let guest = stage.guest(1, POLICY);
    let mut plain = stage.connect(&guest, server.address).await;
    let answer = exchange(&mut plain, b"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n", 12).await;
    assert_eq!(answer, b"HTTP/1.1 403");
}

#[tokio::test]
async fn a_connection_with_a_secret_is_cut_like_any_other() {
    let data = tempfile::tempdir().unwrap();
    let server = origin(&data).await;
    let stage = stage(&data);
    let guest = stage.guest(1, POLICY);
    let mut client = tls::greet(stage.connect(&guest, server.address).await, "api.example").await.unwrap();
    set(&guest, r#"{"mode": "public", "deny": ["api.example"], "secrets": ["key"]}"#);
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, client.read_to_end(&mut rest)).await.expect("cut at once").ok();
    stage.assert_idle(&guest).await;
    let denied = tls::greet(stage.connect(&guest, server.address).await, "api.example").await.unwrap_err();
    assert!(denied.to_string().contains("AccessDenied"), "{denied}");
}
