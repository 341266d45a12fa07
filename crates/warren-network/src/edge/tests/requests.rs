//! Requests as only an attacker or an accident makes them, byte by byte.

use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use warren_core::catalog::CatalogErrorKind;

use super::*;

pub(super) async fn connect_as(world: &World, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(world.trusted()).unwrap();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(world.address).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Sends bytes and reads until the edge closes or says no more.
async fn exchange(world: &World, request: &str) -> String {
    let mut stream = connect_as(world, HOST).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is kept open has said all in a while.
    let patience = |heard: bool| if heard { Duration::from_secs(1) } else { Duration::from_secs(60) };
    while let Ok(Ok(1..)) =
        tokio::time::timeout(patience(!answer.is_empty()), stream.read_buf(&mut answer)).await
    {}
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(!text.contains(VALUE), "{text}");
    text
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test]
async fn a_request_for_another_host_is_refused_and_told() {
    let world = World::new().await;
    let port = world.address.port();
    let requests = [
        "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: api.example\r\nHost: evil.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: api.example\r\nhost: api.example\r\n\r\n".to_owned(),
        "GET https://evil.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n".to_owned(),
        "GET http://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: api.example@evil.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: api.example:1\r\n\r\n".to_owned(),
        format!("CONNECT api.example:{port} HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n"),
    ];
    for (index, request) in requests.iter().enumerate() {
        let answer = exchange(&world, request).await;
        assert_eq!(status(&answer), "403", "{request}: {answer}");
        assert_eq!(world.refused(), index as u64 + 1);
    }
    assert_eq!(world.origin.seen().len(), 0, "nothing was sent");
    let answer = exchange(&world, "GET / HTTP/1.1\r\nHost: e\r\nAccept: application/json\r\n\r\n").await;
    assert!(answer.contains("\"code\":\"other_host\""), "{answer}");
}

#[tokio::test]
async fn a_connection_that_names_another_host_gets_no_certificate() {
    let world = World::new().await;
    assert!(connect_as(&world, "evil.example").await.is_err());
    assert!(connect_as(&world, "192.0.2.1").await.is_err(), "no name");
    assert_eq!(world.origin.seen().len(), 0);
}

#[tokio::test]
async fn names_of_headers_reach_the_host_and_come_back_as_they_were_written() {
    let data = tempfile::tempdir().unwrap();
    let origin = Origin::start_raw(&data.path().join("origin-ca")).await;
    let extra = data.path().join("origin-ca/ca.pem");
    let injection = Injection::Header { header: "X-Key".to_owned(), template: "{}".to_owned() };
    let world = World::between(data, origin, Some(extra), injection).await;
    let request =
        "GET / HTTP/1.1\r\nhost: api.example\r\nx-lower: 1\r\nX-MiXed: 2\r\nConnection: close\r\n\r\n";
    let answer = exchange(&world, request).await;
    assert!(answer.contains("\r\nx-told: 1\r\n") && answer.contains("\r\nX-ToLd-Too: 2\r\n"), "{answer}");
    let head = String::from_utf8(world.origin.last().body.to_vec()).unwrap();
    for line in ["x-lower: 1", "X-MiXed: 2", &format!("X-Key: {VALUE}"), "Accept-Encoding: identity"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
}

/// Two requests where one was checked would be one too many.
#[tokio::test]
async fn nothing_is_smuggled_past() {
    let world = World::new().await;
    let hidden = "GET /hidden HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let both = format!(
        "POST /a HTTP/1.1\r\nHost: api.example\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        hidden.len() + 5
    );
    let requests = [
        both,
        format!(
            "POST /a HTTP/1.1\r\nHost: api.example\r\nContent-Length: 0\r\nContent-Length: 50\r\n\r\n{hidden}"
        ),
        format!("POST /a HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: xchunked\r\n\r\n{hidden}"),
        format!(
            "POST /a HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked, identity\r\n\r\n{hidden}"
        ),
        format!("GET /a HTTP/1.1\r\nHost : api.example\r\n\r\n{hidden}"),
        format!("GET /a HTTP/1.1\r\nHost: api.example\r\nX-A: b\r\n continued: c\r\n\r\n{hidden}"),
        format!("GET /a HTTP/1.1\r\nHost: api.example\r\nX-A: b\nAuthorization: own\r\n\r\n{hidden}"),
        format!("GET /a HTTP/1.1\r\nHost: api.example\r\nContent-Length: +5\r\n\r\n{hidden}"),
        "GET /a HTTP/1.1\r\nHost: api.example\r\nX-A: \0\r\n\r\n".to_owned(),
    ];
    for request in requests {
        let answer = exchange(&world, &request).await;
        let seen = world.origin.seen();
        assert!(seen.iter().all(|seen| !seen.line.contains("hidden")), "{request}: {answer}: {seen:?}");
        for seen in seen {
            assert_eq!(seen.all("host"), ["api.example".to_owned() + &port_suffix(&world)]);
            assert_eq!(seen.all("authorization"), [format!("Bearer {VALUE}")]);
            let ways = seen.headers.contains_key("content-length") as u8
                + seen.headers.contains_key("transfer-encoding") as u8;
            assert!(ways <= 1, "{seen:?}");
        }
    }
}

fn port_suffix(world: &World) -> String {
    format!(":{}", world.address.port())
}

#[tokio::test]
async fn a_header_for_this_hop_alone_does_not_take_the_secret_with_it() {
    let world = World::new().await;
    let request = "GET / HTTP/1.1\r\nHost: api.example\r\nConnection: close, authorization, x-own\r\n\
                   X-Own: 1\r\nAuthorization: own\r\nKeep-Alive: 5\r\nAccept-Encoding: gzip\r\n\r\n";
    assert_eq!(status(&exchange(&world, request).await), "200");
    let seen = world.origin.last();
    assert_eq!(seen.all("authorization"), [format!("Bearer {VALUE}")]);
    for gone in ["connection", "x-own", "keep-alive"] {
        assert_eq!(seen.all(gone), [""; 0], "{gone}");
    }
    assert_eq!(seen.all("accept-encoding"), ["identity"]);
}

#[tokio::test]
async fn half_a_request_sends_nothing() {
    let world = World::new().await;
    let mut stream = connect_as(&world, HOST).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: api.example\r\nX-Half").await.unwrap();
    stream.shutdown().await.unwrap();
    drop(stream);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.origin.seen().len(), 0);
}

const PLAIN: &str = "GET / HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn any_doubt_about_the_secret_sends_nothing() {
    let world = World::new().await;
    assert_eq!(status(&exchange(&world, PLAIN).await), "200");
    for method in ["secrets", "secret"] {
        world.catalog.fail_next_call(method, CatalogErrorKind::WrongKey);
        let answer = exchange(&world, PLAIN).await;
        assert_eq!(status(&answer), "502", "{method}");
        assert!(answer.contains("nothing was sent"), "{answer}");
    }
    let with = NetworkPolicy { secrets: vec!["token".parse().unwrap()], ..NetworkPolicy::public() };
    world.set_policies(&[with.clone(), NetworkPolicy::public()]);
    assert_eq!(status(&exchange(&world, PLAIN).await), "502", "one of two policies does not name it");
    world.set_policies(&[with]);
    world.catalog.remove_secret(&Owner::first(), &"token".parse().unwrap()).unwrap();
    assert_eq!(status(&exchange(&world, PLAIN).await), "502", "it is gone");
    assert_eq!(world.origin.seen().len(), 1);
}

#[tokio::test]
async fn a_secret_that_is_taken_away_is_not_sent_on_a_connection_that_goes_on() {
    let world = World::new().await;
    let mut stream = connect_as(&world, HOST).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n";
    let mut answer = [0; 4096];
    stream.write_all(request).await.unwrap();
    assert!(stream.read(&mut answer).await.unwrap() > 0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.set_policies(&[NetworkPolicy::public()]);
    stream.write_all(request).await.unwrap();
    let mut all = Vec::new();
    let refused = async {
        while !String::from_utf8_lossy(&all).contains(" 502 ") && stream.read_buf(&mut all).await.unwrap() > 0
        {
        }
    };
    tokio::time::timeout(Duration::from_secs(60), refused).await.expect("it answers");
    assert!(String::from_utf8_lossy(&all).contains(" 502 "), "{}", String::from_utf8_lossy(&all));
    assert_eq!(world.origin.seen().len(), 1);
}

#[tokio::test]
async fn a_server_without_the_hosts_own_certificate_gets_nothing() {
    let header = Injection::Header { header: "Authorization".to_owned(), template: "Bearer {}".to_owned() };
    // No authority that the machine trusts has made it.
    let data = tempfile::tempdir().unwrap();
    let origin = Origin::start(&data.path().join("origin-ca")).await;
    let world = World::between(data, origin, None, header.clone()).await;
    let answer = exchange(&world, PLAIN).await;
    assert_eq!(status(&answer), "502", "{answer}");
    assert!(answer.contains("certificate"), "{answer}");
    assert_eq!(world.origin.seen().len(), 0);
    // It is another host's.
    let data = tempfile::tempdir().unwrap();
    let authority = data.path().join("origin-ca");
    let origin = Origin::start_as(&authority, "evil.example", &[b"http/1.1"]).await;
    let world = World::between(data, origin, Some(authority.join("ca.pem")), header.clone()).await;
    assert_eq!(status(&exchange(&world, PLAIN).await), "502");
    assert_eq!(world.origin.seen().len(), 0);
    // Nobody is there.
    let data = tempfile::tempdir().unwrap();
    let mut origin = Origin::start(&data.path().join("origin-ca")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    origin.address = listener.local_addr().unwrap();
    drop(listener);
    let world = World::between(data, origin, None, header).await;
    assert_eq!(status(&exchange(&world, PLAIN).await), "502");
}

#[tokio::test]
async fn a_server_that_closes_between_requests_is_dialled_again() {
    let world = World::new().await;
    let mut stream = connect_as(&world, HOST).await.unwrap();
    for round in 1..=3 {
        stream.write_all(b"GET /close HTTP/1.1\r\nHost: api.example\r\n\r\n").await.unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n0\r\n\r\n") {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "round {round}");
        }
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(text.contains("200 ok") && !text.contains("connection: close"), "round {round}: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(world.origin.seen().len(), 3);
}

#[tokio::test]
async fn cutting_the_connection_ends_all_that_belongs_to_it() {
    let world = World::new().await;
    let mut stream = connect_as(&world, HOST).await.unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: api.example\r\n\r\n").await.unwrap();
    let mut bytes = [0; 1024];
    assert!(stream.read(&mut bytes).await.unwrap() > 0);
    world.serving.abort();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection goes on");
    for _ in 0..3000 {
        if Arc::strong_count(&world.edge) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("somebody still holds the edge");
}
