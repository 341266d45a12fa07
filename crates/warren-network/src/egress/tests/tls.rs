use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::hello::tests as greetings;
use super::*;

/// Accepts every certificate: these tests are about who is let through.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

pub(super) async fn greet(stream: TcpStream, server: &str) -> io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(ServerName::try_from(server.to_owned()).unwrap(), stream).await
}

async fn is_denied(stage: &Stage, guest: &Guest, goal: SocketAddr, greeting: &[u8]) -> bool {
    let mut client = stage.connect(guest, goal).await;
    client.write_all(greeting).await.unwrap();
    read_all(&mut client).await == (refusal::ACCESS_DENIED.to_vec(), true)
}

const LIST: &str = r#"{"mode": "allow", "allow": ["a.example", "*.b.example"]}"#;

#[tokio::test]
async fn a_name_that_is_allowed_reaches_its_own_address() {
    let (stage, server) = (Stage::new(), servers::tls(&["a.example"]).await);
    let guest = stage.guest(1, LIST);
    pin(&guest, "a.example", server.address.ip());
    let client = stage.connect(&guest, server.address).await;
    let mut client = greet(client, "a.example").await.unwrap();
    client.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    client.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"hello");
    stage.assert_told(NetworkVerdict::Allowed, Some("a.example"), "allow a.example").await;
    drop(client);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn a_denied_client_is_told_so_in_its_own_language() {
    let (stage, server) = (Stage::new(), servers::tls(&["evil.example"]).await);
    let guest = stage.guest(1, LIST);
    let error = greet(stage.connect(&guest, server.address).await, "evil.example").await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    assert_eq!(server.visitors(), 0);
    stage.assert_told(NetworkVerdict::Denied, Some("evil.example"), "not in the allow list").await;
}

#[tokio::test]
async fn names_that_only_look_like_allowed_ones_are_denied() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, LIST);
    pin(&guest, "a.example", server.address.ip());
    for name in [
        &b"b.example"[..],
        b"evil-b.example",
        b"x.b.example.evil",
        b"xa.example",
        b"a.example\0.evil",
        b"a.example%00",
        b"a.example\r\n",
        b"a.example ",
        b"127.0.1.1",
    ] {
        assert!(
            is_denied(&stage, &guest, server.address, &greetings::to(name)).await,
            "{:?}",
            name.escape_ascii().to_string()
        );
    }
    assert!(is_denied(&stage, &guest, server.address, &greetings::to(&[b'a'; 300])).await);
    stage.assert_idle(&guest).await;
}

#[tokio::test]
async fn an_allowed_name_does_not_open_a_foreign_address() {
    let (stage, real, foreign) = (Stage::new(), servers::echo().await, servers::echo().await);
    let guest = stage.guest(1, LIST);
    stage.resolves("a.example", &[real.address.ip()]);
    pin(&guest, "a.example", real.address.ip());
    assert!(is_denied(&stage, &guest, foreign.address, &greetings::to(b"a.example")).await);
    assert_eq!(foreign.visitors(), 0);
    stage
        .assert_told(NetworkVerdict::Denied, Some("a.example"), "not one that this name was answered with")
        .await;
}

#[tokio::test]
async fn an_address_that_was_forgotten_is_found_out_again() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, LIST);
    stage.resolves("a.example", &[server.address.ip()]);
    let greeting = greetings::to(b"a.example");
    let mut client = stage.connect(&guest, server.address).await;
    assert_eq!(exchange(&mut client, &greeting, greeting.len()).await, greeting);
}

#[tokio::test]
async fn hidden_and_missing_names_are_no_names() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, LIST);
    pin(&guest, "a.example", server.address.ip());
    assert!(is_denied(&stage, &guest, server.address, &greetings::nameless()).await);
    assert!(is_denied(&stage, &guest, server.address, &greetings::encrypted("a.example")).await);
    stage.assert_told(NetworkVerdict::Denied, Some("a.example"), "Encrypted Client Hello").await;
    assert!(is_denied(&stage, &guest, server.address, &[22, 3, 1, 0, 1, 9]).await, "no greeting");
    stage.assert_told(NetworkVerdict::Denied, None, "does not say which host").await;
    let by_address = stage.guest(2, r#"{"mode": "allow", "allow": ["127.0.1.0/24"]}"#);
    let greeting = greetings::nameless();
    let mut client = stage.connect(&by_address, server.address).await;
    assert_eq!(exchange(&mut client, &greeting, greeting.len()).await, greeting);
}

#[tokio::test]
async fn a_name_sent_to_the_gateway_is_explained_or_dialled() {
    let (stage, server) = (Stage::new(), servers::tls(&["a.example"]).await);
    let guest = stage.guest(1, LIST);
    stage.resolves("a.example", &["10.0.0.1".parse().unwrap(), server.address.ip()]);
    let client = stage.connect(&guest, gateway(server.address.port())).await;
    assert!(greet(client, "a.example").await.is_ok(), "the closed one of its addresses is left out");
    assert!(is_denied(&stage, &guest, gateway(443), &greetings::to(b"evil.example")).await);
    stage.resolves("a.example", &["10.0.0.1".parse().unwrap(), "::ffff:127.0.0.1".parse().unwrap()]);
    assert!(
        is_denied(&stage, &guest, gateway(443), &greetings::to(b"a.example")).await,
        "all of them closed"
    );
    stage.assert_told(NetworkVerdict::Denied, Some("a.example"), "closed to every sandbox").await;
}

#[tokio::test]
async fn a_name_that_moves_inside_is_refused() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, LIST);
    pin(&guest, "a.example", server.address.ip());
    let greeting = greetings::to(b"a.example");
    exchange(&mut stage.connect(&guest, server.address).await, &greeting, 1).await;
    pin(&guest, "a.example", "10.0.0.1".parse().unwrap());
    let inside = "10.0.0.1:443".parse().unwrap();
    assert!(is_denied(&stage, &guest, inside, &greeting).await, "even if it was answered with it");
}

#[tokio::test]
async fn names_are_denied_where_all_else_is_open() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, r#"{"mode": "public", "deny": ["*.evil.example"]}"#);
    assert!(is_denied(&stage, &guest, server.address, &greetings::to(b"x.evil.example")).await);
    let greeting = greetings::to(b"good.example");
    exchange(&mut stage.connect(&guest, server.address).await, &greeting, greeting.len()).await;
    let told = stage.told().await;
    assert!(told.iter().all(|(verdict, ..)| *verdict == NetworkVerdict::Denied), "only denials: {told:?}");
}

#[tokio::test]
async fn a_greeting_that_comes_slowly_is_still_heard_and_one_that_stops_is_not_waited_for() {
    let (stage, server) = (Stage::new(), servers::echo().await);
    let guest = stage.guest(1, LIST);
    pin(&guest, "a.example", server.address.ip());
    let greeting = greetings::to(b"a.example");
    let mut client = stage.connect(&guest, server.address).await;
    for byte in &greeting {
        client.write_all(&[*byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(exchange(&mut client, b"", greeting.len()).await, greeting);
    let mut stopped = stage.connect(&guest, server.address).await;
    stopped.write_all(&greeting[..20]).await.unwrap();
    let before = std::time::Instant::now();
    let mut bytes = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stopped.read_to_end(&mut bytes)).await.expect("in time");
    assert!(ended.is_err() && before.elapsed() > Duration::from_secs(4));
    drop(client);
    stage.assert_idle(&guest).await;
}
